#!/usr/bin/python3
"""What the documents name is there: files and folders in `backquotes`, and links.

A name counts as a path if its first part is a folder or a file of the checkout. It may leave the
ending out (`daemon/hash_ops` is the .h and the .cc), and {a,b} and * work as in a shell.
"""

import glob
import itertools
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
QUOTED = re.compile(r"`([A-Za-z0-9_.][A-Za-z0-9_./{},*-]*)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def expanded(name):
    """a/{b,c} -> a/b, a/c"""
    parts = [part[1:-1].split(",") if part.startswith("{") else [part]
             for part in re.split(r"(\{[^}]*\})", name)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def is_path(name, root):
    """`build/...` is made, not kept; a name without a slash must have a known ending."""
    first = name.split("/")[0]
    if first in ("build", "."):
        return False
    if "/" in name:
        return os.path.isdir(os.path.join(root, first))
    return name.endswith((".md", ".txt", ".json", ".cmake")) and name[0].isupper()


def exists(name, root):
    path = os.path.join(root, name.rstrip("/"))
    return bool(glob.glob(path) or glob.glob(path + ".*"))


def problems_of(document, text, root=ROOT):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    named = [name for name in QUOTED.findall(text) if is_path(name, root)]
    named += [link for link in LINK.findall(text) if "://" not in link]
    return [f"{document}: names {path}, which is not there"
            for name in named for path in expanded(name) if not exists(path, root)]


def self_test():
    accepted = "`proto/base`, `proto/base/status`, `proto/{base,wire}/`, `proto/*/*.h`, `a/b`, [x](CMakeLists.txt), " \
               "`--flag`, `std::map`, [y](https://x.org/y)"
    assert not problems_of("x.md", accepted), problems_of("x.md", accepted)
    for refused in ("`proto/nothing`", "`proto/{base,nothing}`", "[x](missing.md)", "`Missing.md`"):
        assert len(problems_of("x.md", refused)) == 1, refused


def main():
    if "--self-test" in sys.argv:
        self_test()
        print("self-test passed")
        return 0
    problems = []
    for document in DOCUMENTS:
        with open(os.path.join(ROOT, document), encoding="utf-8") as file:
            problems += problems_of(document, file.read())
    print("\n".join(problems + [f"{len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
