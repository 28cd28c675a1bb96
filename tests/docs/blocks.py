#!/usr/bin/python3
"""Each command block of each page is run by a test, and shows itself as one.

  blocks.py
  blocks.py --self-test

A block of code is in a page that tests/docs/tour.py executes, or in a section that another test executes (SECTIONS), or
has a line `<!-- run by: TEST -->` before it, and TEST has each of its commands. A block of language `text` shows output or
a picture, and has no commands. A page that the tour executes must be given to it by tests/docs/CMakeLists.txt.
"""

import os
import re
import sys

import tour
from pages import ROOT, all_pages, text_of

# Page and heading -> the test, which must name both.
SECTIONS = {("deploy/README.md", "Slurm"): "tests/slurm/readme_test.py"}
# Page and language -> the test that reads the page, and runs or compiles all of its blocks of that language.
READERS = {("client/python/NATIVE.md", "python"): "tests/python/native_test.py",
           ("client/c/README.md", "c"): "tests/client/c/abi_test.py",
           ("client/fortran/README.md", "fortran"): "tests/client/fortran/fortran_test.py"}
COMMAND = re.compile(r"^\s*(?:\$ |sudo |kvctl |kvd |cmake |ctest |ninja |\.?\.?/|tests/|deploy/|export |pip |python3 |srun |sbatch |mpirun )")
FENCE = re.compile(r"^```", re.MULTILINE)


def commands_of(text):
    """Returns the lines of a block without comments."""
    lines = [re.sub(r"\s+# .*$", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def problems_of_block(page, block, read):
    marker, language, text = block["marker"], block["language"], block["text"]
    first = text.split("\n", 1)[0]
    reader = READERS.get((page, language))
    if reader is not None:
        return [] if page in (read(reader) or "") else [f"{page}: {reader} does not read it"]
    if language in ("", "text"):
        return [f"{page}: '{line}' is a command in a block that no test runs"
                for line in text.splitlines() if COMMAND.match(line)][:1]
    if marker == "run by":
        name = block["name"] or ""
        content = read(name)
        if content is None:
            return [f"{page}: '{first}' names the test {name}, which is not there"]
        bare = [command.removeprefix("./") for command in commands_of(text)]
        return [f"{page}: {name} does not run '{command}'" for command in bare if command not in content]
    return [f"{page}: the block '{first}' is run by no test: see tests/docs/blocks.py"] if page not in tour.PAGES else []


def problems_of(page, text, read):
    found = []
    for (of, title), test in SECTIONS.items():
        if of != page:
            continue
        section = tour.section_of(text, title)
        tour.script_of(section)  # Raises what a test could not run.
        if of not in (read(test) or "") or f'"{title}"' not in read(test):
            found.append(f"{page}: {test} does not run the section '{title}'")
        text = text.replace(section, "\n")
    if page in tour.PAGES:
        tour.script_of(text)
        if page != tour.FIRST and page not in (read("tests/docs/CMakeLists.txt") or ""):
            found.append(f"{page}: tests/docs/CMakeLists.txt does not give it to tour.py")
    blocks = [block for block in tour.BLOCK.finditer(text) if not block["program"]]
    if 2 * len(blocks) != len(FENCE.findall(text)):
        found.append(f"{page}: a block of code that cannot be read: its language is one word")
    for block in blocks:
        found += problems_of_block(page, block, read)
    return found


def read_file(name):
    path = os.path.join(ROOT, name)
    if not name or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def self_test():
    files = {"tests/x": "run kvctl status here"}
    for accepted in ("```text\na -> b\n```\n", "```\na -> b\n```\n",
                     "<!-- run by: tests/x -->\n```sh\n# A comment.\nkvctl status   # shows\n```\n"):
        assert not problems_of("x.md", accepted, files.get), problems_of("x.md", accepted, files.get)
    page = "client/c/README.md"
    assert not problems_of(page, "```c\nint x;\n```\n", {"tests/client/c/abi_test.py": page}.get)
    assert problems_of(page, "```c\nint x;\n```\n", {"tests/client/c/abi_test.py": "nothing"}.get)
    for refused in ("```\nkvctl status\n```\n", "```text\n./run\n```\n", "```sh\nkvctl status\n```\n",
                    "<!-- run by: tests/none -->\n```sh\nkvctl status\n```\n", "```sh now\nkvctl status\n```\n",
                    "<!-- run by: tests/x -->\n```sh\nkvctl stop\n```\n"):
        assert len(problems_of("x.md", refused, files.get)) == 1, refused
    print("self-test passed")


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    problems = [problem for page in all_pages() for problem in problems_of(page, text_of(page), read_file)]
    print("\n".join(problems + [f"{len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
