#!/usr/bin/python3
"""What the documents name is there: files and folders in `backquotes`, and links, as seen from the
document or from the root.

A name counts as a path if its first part is a folder or a file of the checkout. It may leave the
ending out (`daemon/ops/hash_ops` is the .h and the .cc), and {a,b} and * work as in a shell.

So are the files that a header's first comment puts beside it on the request path: in its lines with
arrows every word with a slash is one, below the checkout, `proto`, `client/include` or a folder that
the header is in.
"""

import glob
import itertools
import os
import re
import sys

from pages import ROOT, all_pages, text_of

QUOTED = re.compile(r"`([A-Za-z0-9_.][A-Za-z0-9_./{},*-]*)`")
ARROW = re.compile(r"[-=]>|<-")
ON_THE_WAY = re.compile(r"(?<![\w/<|.\"'])[a-z][a-z0-9_]*(?:/[a-z0-9_.]+)+(?![\w|(*])")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def expanded(name):
    """a/{b,c} -> a/b, a/c"""
    parts = [part[1:-1].split(",") if part.startswith("{") else [part]
             for part in re.split(r"(\{[^}]*\})", name)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def is_path(name, root):
    """`build/...` is made, not kept; `tests/X` stands for any; a name without a slash must have a known ending."""
    first = name.split("/")[0]
    if first in ("build", ".") or re.search(r"/[A-Z]$", name):
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
    named += [os.path.normpath(os.path.join(os.path.dirname(document), link))
              for link in LINK.findall(text) if "://" not in link]
    folder = os.path.dirname(document)
    return [f"{document}: names {path}, which is not there"
            for name in named for path in expanded(name)
            if not exists(path, root) and not exists(os.path.join(folder, path), root)]


def first_comment(text):
    lines = itertools.takewhile(lambda line: line.startswith(("//", "/*", " *")), text.splitlines())
    return list(lines)


def problems_of_header(header, text, root=ROOT):
    folders = ["", "proto", "client/include"]
    folder = os.path.dirname(header)
    while folder:
        folders.append(folder)
        folder = os.path.dirname(folder)
    return [f"{header}: names {name}, which is not there"
            for line in first_comment(text) if ARROW.search(line) for name in ON_THE_WAY.findall(line)
            if not any(exists(os.path.join(folder, name.rstrip(".")), root) for folder in folders)]


def headers():
    found = [glob.glob(f"{folder}/**/*.h", root_dir=ROOT, recursive=True)
             for folder in ("cli", "client", "daemon", "proto", "storage")]
    return sorted(itertools.chain(*found))


def self_test():
    accepted = "`proto/base`, `proto/base/status`, `proto/{base,wire}/`, `proto/*/*.h`, `a/b`, [x](CMakeLists.txt), " \
               "`--flag`, `std::map`, [y](https://x.org/y)"
    assert not problems_of("x.md", accepted), problems_of("x.md", accepted)
    for refused in ("`proto/nothing`", "`proto/{base,nothing}`", "[x](missing.md)", "`Missing.md`"):
        assert len(problems_of("x.md", refused)) == 1, refused
    for line in ("daemon/core/dispatcher -> [wire/frame]", "services/auth => a, b", "a -> <tidepool/none.h>", "daemon/none"):
        assert not problems_of_header("daemon/moving/x.h", f"// X.\n//   {line}\n"), line
    for line in ("daemon/none -> [wire/frame]", "a => daemon/core/dispatcher, services/none."):
        assert len(problems_of_header("daemon/moving/x.h", f"// X.\n//   {line}\n")) == 1, line


def main():
    if "--self-test" in sys.argv:
        self_test()
        print("self-test passed")
        return 0
    problems = []
    for page in all_pages():
        problems += problems_of(page, text_of(page))
    for header in headers():
        with open(os.path.join(ROOT, header), encoding="utf-8") as file:
            problems += problems_of_header(header, file.read())
    print("\n".join(problems + [f"{len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
