#!/usr/bin/python3
"""Finds threads that are started without StartThread (proto/base/thread.h).

std::thread throws when the process is at its limit of threads or of memory, and ends a daemon. StartThread
returns a Status. The SDK, kvctl and all that runs in a daemon start threads with it.
"""

import re
import sys

import tree

FOLDERS = ("cli/", "client/", "daemon/", "proto/", "storage/")
# Programs to read, with threads of their own.
LEFT_OUT = ("client/examples/", "proto/base/thread.h")
START = re.compile(r"std::j?thread\s*[({](?!\s*[)}])|std::j?thread\s+\w+\s*[({]\s*[\[&\w]|"
                   r"\bthreads?_?\s*\(\s*\[|\bthreads?_?\.emplace_back\(|\b\w+er_\s*\(\s*\[this\]|"
                   r"std::async\b|\bpthread_create\s*\(|\bstd::jthread\b")


def problems_of(path, text):
    code = tree.code_only(text)
    return [f"{path}:{code.count(chr(10), 0, match.start()) + 1}: starts a thread that may throw; use StartThread"
            for match in START.finditer(code)]


def check():
    return [problem for path in tree.files(endings=(".cc", ".h"))
            if path.startswith(FOLDERS) and not path.startswith(LEFT_OUT)
            for problem in problems_of(path, tree.read(path))]


def self_test():
    refused = ["t_ = std::thread([this] { Run(); });", "std::thread work([&] { f(); });",
               "threads.emplace_back([&] { f(); });", "A() : thread_([this] { Run(); }) {}",
               "A() : reader_([this] { Run(); }) {}", "t_ = std::thread(&A::Run, this);",
               "auto f = std::async([] {});", "pthread_create(&t, nullptr, &f, nullptr);"]
    for text in refused:
        assert len(problems_of("a.cc", text)) == 1, text
    accepted = ["std::thread thread_;", "std::vector<std::thread> threads;", "id_ = std::thread::id();",
                'StartThread("x", &thread_, [this] { Run(); });', "// std::thread([] {});",
                "for (std::thread& thread : threads) thread.join();"]
    for text in accepted:
        assert not problems_of("a.cc", text), text


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
