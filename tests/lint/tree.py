"""The project's own files, for the lints. Standard library only."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("daemon", "client", "proto", "storage", "cli", "deploy", "tests", ".ci")
CXX = (".h", ".cc")


def files(root=ROOT, endings=None):
    """Relative paths of all files below the project's folders and at its top, sorted."""
    found = [name for name in os.listdir(root) if os.path.isfile(os.path.join(root, name))]
    for folder in FOLDERS:
        for directory, subdirectories, names in os.walk(os.path.join(root, folder)):
            subdirectories[:] = [d for d in subdirectories if d != "__pycache__"]
            relative = os.path.relpath(directory, root)
            found += [os.path.join(relative, name) for name in names]
    return sorted(f for f in found if endings is None or f.endswith(endings))


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


def code_only(text):
    """C++ text with comments and literals blanked out; line numbers stay."""
    return _COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def main(check, self_test):
    """Runs a lint: prints one line per violation; --self-test proves that the lint can fail."""
    if "--self-test" in sys.argv[1:]:
        self_test()
        print("self-test passed")
        return 0
    problems = check()
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    return 1 if problems else 0
