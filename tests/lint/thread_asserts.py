#!/usr/bin/python3
"""Finds Catch2 assertions inside the body of a thread that a test starts.

Catch 2.13's assertions share one reporter without a lock: two threads that assert at once, even
with success, crash the test now and then. A thread hands its results out, and the case asserts
after join(); helpers that threads call throw instead (tests/client/sdk_fixture.h).
"""

import re
import sys

import tree

START = re.compile(r"(?:std::j?thread(?:\s+\w+)?\s*[({]|std::async\(|\w*[tT]hreads?_?\.emplace_back\()"
                   r"\s*(?:std::launch::async,\s*)?\[")
ASSERTION = re.compile(r"\b(?:CHECK|REQUIRE|FAIL|INFO|CAPTURE|WARN|SUCCEED)(?:_\w+)?\s*\(")


def body_of(code, start):
    """The text from the first brace behind start to the one that closes it."""
    first = code.find("{", start)
    depth = 0
    for at in range(first, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return first, code[first:at]
    return first, code[first:]


def problems_of(path, text):
    code = tree.code_only(text)
    found = []
    for start in START.finditer(code):
        first, body = body_of(code, start.end())
        for match in ASSERTION.finditer(body):
            line = code.count("\n", 0, first + match.start()) + 1
            found.append(f"{path}:{line}: {match.group()[:-1].strip()} in a thread: Catch2's assertions"
                         " are not thread-safe; assert after join()")
    return found


def check():
    return [problem for path in tree.files(endings=(".cc",)) if path.startswith("tests/")
            for problem in problems_of(path, tree.read(path))]


def self_test():
    refused = ["std::thread t([&] { CHECK(x); });", "threads.emplace_back([&, i] { if (a) { b(); } REQUIRE(x); });",
               "auto f = std::async(std::launch::async, [] { CHECK_FALSE(x); });"]
    for text in refused:
        assert len(problems_of("a.cc", text)) == 1, text
    accepted = ["std::thread t([&] { x = y; }); t.join(); CHECK(x);", 'std::thread t([] { Log("CHECK(x)"); });',
                "std::thread t([&] { TP_CHECK(x); });"]
    for text in accepted:
        assert not problems_of("a.cc", text), text


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
