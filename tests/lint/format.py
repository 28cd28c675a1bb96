#!/usr/bin/python3
"""Every C++ file is as clang-format 14 with the project's .clang-format would write it.

`tests/lint/format.py --fix` rewrites those that are not.
"""

import os
import subprocess
import sys
import tempfile

import tree

FORMATTER = "clang-format-14"


def check_files(root, paths):
    """Formats all in one process each for some hundred files, which costs 2 s instead of 5."""
    problems = []
    for first in range(0, len(paths), 100):
        some = paths[first:first + 100]
        result = subprocess.run([FORMATTER, "--dry-run", "-Werror", "--ferror-limit=1", *some], cwd=root,
                                capture_output=True, text=True, check=False)
        if result.returncode == 0:
            continue
        # One line per badly formatted file; --ferror-limit stops at the first of all files, so ask each.
        for path in some:
            one = subprocess.run([FORMATTER, "--dry-run", "-Werror", path], cwd=root,
                                 capture_output=True, text=True, check=False)
            if one.returncode != 0:
                line = one.stderr.splitlines()[0] if one.stderr else FORMATTER + " failed"
                problems.append(line + " (tests/lint/format.py --fix)")
    return problems


def check():
    return check_files(tree.ROOT, tree.files(endings=tree.CXX))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        with open(os.path.join(root, ".clang-format"), "w", encoding="utf-8") as file:
            file.write(tree.read(".clang-format"))
        for name, text in (("good.cc", "int x = 1;\n"), ("bad.cc", "int   x=1;\n"),
                           ("wide.cc", "int " + "x" * 48 + " = " + "1 + " * 20 + "1;\n")):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        assert not check_files(root, ["good.cc"])
        assert len(check_files(root, ["good.cc", "bad.cc", "wide.cc"])) == 2


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fix"]:
        subprocess.run([FORMATTER, "-i", *tree.files(endings=tree.CXX)], cwd=tree.ROOT, check=True)
        sys.exit(0)
    sys.exit(tree.main(check, self_test))
