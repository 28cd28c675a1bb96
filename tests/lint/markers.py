#!/usr/bin/python3
"""Finds what was left behind: markers of unfinished work, merge conflicts, and stray debug output.

A marker for later work names who and which issue: the word, then (owner, #12).
"""

import re
import sys

import tree

# Spelt in two halves, so that this file passes its own test.
LATER = "TO" + "DO"
PATTERNS = [
    (re.compile(r"\b(FIX" + r"ME|X" + r"XX|HA" + r"CK|NO" + r"COMMIT)\b|DO NOT SUB" + "MIT"),
     "unfinished work"),
    (re.compile(r"\b" + LATER + r"\b(?!\([a-z][a-z0-9-]*, #[0-9]+\))"), f"{LATER} without (owner, #issue)"),
    (re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$", re.MULTILINE), "merge conflict"),
]
CODE_PATTERNS = [
    (re.compile(r"\bdbg\(|\bstd::(cout|cerr)\b.*\bDEBUG\b|#[ \t]*if[ \t]+0\b"), "debug leftover"),
    (re.compile(r"\bassert[ \t]*\("), "assert() vanishes in release builds: use TP_CHECK or TP_DCHECK"),
]


def problems_of(path, text):
    found = []
    searches = [(text, PATTERNS)]
    if path.endswith(tree.CXX):
        searches.append((tree.code_only(text), CODE_PATTERNS))
    for searched, patterns in searches:
        for pattern, what in patterns:
            for match in pattern.finditer(searched):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: {what}: {match.group().strip()}")
    return found


def check():
    endings = tree.CXX + (".py", ".txt", ".cmake", ".proto", ".md", ".json", ".toml", "run", "quickstart")
    return [problem for path in tree.files(endings=endings)
            for problem in problems_of(path, tree.read(path))]


def self_test():
    refused = ["// FIX" + "ME: later", "// " + LATER + ": later", "// " + LATER + "(me) later", "int x;  // XX" + "X",
               "<" * 7 + " HEAD", "#if 0", "void f() { dbg(1); }", "assert(x);"]
    for text in refused:
        assert len(problems_of("a.cc", text)) == 1, text
    accepted = ["// " + LATER + "(anna, #12): later", "// xxx", 'Log("assert(x)");', "static_assert(true);",
                "// ====== a line", "TP_CHECK(x);"]
    for text in accepted:
        assert not problems_of("a.cc", text), text


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
