#!/usr/bin/python3
"""Walks name functions where they are: in a numbered line that begins with a file of the checkout, each name in
backquotes that looks like a function or a type of ours stands in a file that the line names.

  walks.py
  walks.py --self-test

A walk: "3. `daemon/core/core.cc`: `PollOnce` calls `Dispatcher::OnFrame`." Of a qualified name the last part counts.
`daemon/ops/hash_ops` and `daemon/ops/hash_ops.cc` stand for the .h and the .cc.
"""

import glob
import os
import re
import sys

from pages import ROOT, all_pages, text_of

LINE = re.compile(r"^\d+\. (`[a-z_]+(?:/[a-z0-9_.]+)+`.*(?:\n {2,}\S.*)*)", re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"(?:[A-Z][A-Za-z0-9]*::)*([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*)")


def text_of_source(path, root=ROOT):
    """The text of all files of this stem."""
    stem = os.path.join(root, os.path.splitext(path)[0])
    texts = []
    for name in sorted(glob.glob(stem + ".*")):
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def problems_of(page, text, read=text_of_source):
    found = []
    for line in LINE.findall(text):
        quoted = QUOTED.findall(line)
        sources = "\n".join(read(name) for name in quoted if "/" in name)
        for name in quoted:
            match = NAME.fullmatch(name)
            if match and not re.search(rf"\b{match.group(1)}\b", sources):
                found.append(f"{page}: no file of this line has {name}: {' '.join(line.split())[:70]}")
    return found


def self_test():
    sources = {"a/b.cc": "void B::Run() {}", "c/d": "class Dee { void Go(); };"}

    def read(name):
        return sources.get(name, "")

    for accepted in ("1. `a/b.cc`: `Run` calls `B::Run`.\n", "2. `a/b.cc`: `Run` calls\n   `Dee::Go` of `c/d`.\n",
                     "3. `a/b.cc`: takes `kName`, `--flag` and `x.y`.\n", "* `a/b.cc`: `Gone`.\n", "4. A `Gone` in words.\n"):
        assert not problems_of("x.md", accepted, read), accepted
    for refused in ("1. `a/b.cc`: `Gone` runs.\n", "2. `a/b.cc`: `Run` calls\n   `Dee::Gone` of `c/d`.\n"):
        assert len(problems_of("x.md", refused, read)) == 1, refused
    print("self-test passed")


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    problems = [problem for page in all_pages() for problem in problems_of(page, text_of(page))]
    print("\n".join(problems + [f"{len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
