#!/usr/bin/python3
"""tests/bench/results/figures has a page for each figure that tests/bench/figures knows; each row has two numbers and
their ratio, and, where ours loses, a reason; what was measured with small sizes says that it is preliminary."""

import os
import re
import subprocess
import sys

import tree

RESULTS = "tests/bench/results/figures"


def titles():
    program = os.path.join(tree.ROOT, "tests/bench/figures")
    done = subprocess.run([sys.executable, "-B", program, "--list"], capture_output=True, text=True, check=True)
    return dict(line.split(None, 1) for line in done.stdout.splitlines())


def row_problem(line):
    cells = [cell.strip() for cell in line.strip("|\n").split("|")]
    if len(cells) != 5:
        return "does not have five cells"
    numbers = [re.match(r"[0-9][0-9,]*(\.[0-9]+)?", cell) for cell in cells[1:4]]
    if not all(numbers):
        return "has a cell without a number"
    ours, theirs, ratio = (float(number.group().replace(",", "")) for number in numbers)
    # Of three digits each; which of both is the better one depends on the unit.
    if ours == 0 or theirs == 0 or all(abs(ratio / each - 1) > 0.02 for each in (ours / theirs, theirs / ours)):
        return "has a ratio that is not that of its numbers"
    return "" if ratio >= 1 or cells[4] else "says not why ours loses"


def problems_of(name, title, page):
    """`page` is the text of the figure's page, empty if there is none."""
    rows = re.findall(r"^\|(?! what |-).*", page, re.MULTILINE)
    found = []
    if not rows or not page.startswith(f"# {title}\n"):
        found.append(f"{RESULTS}: no row of {name}")
    if "--quick`" in page and "**Preliminary" not in page:
        found.append(f"{RESULTS}: {title}: measured with --quick, and does not say in bold that it is preliminary")
    return found + [f"{RESULTS}: {title}: {row} {row_problem(row)}" for row in rows if row_problem(row)]


def check():
    found = []
    for name, title in titles().items():
        path = f"{RESULTS}/{name}.md"
        found += problems_of(name, title, tree.read(path) if os.path.exists(os.path.join(tree.ROOT, path)) else "")
    return found


def self_test():
    row = "| put | 2 us | 4 us | 2 |  |\n"
    head = "# One\n\n`tests/bench/figures one`\n\n| what | ours |\n|---|---|\n"
    for good in (row, "| put | 2 GB/s | 4 GB/s | 0.5 | because |\n", "| sent | 137  | 17,999  | 131 |  |\n"):
        assert not problems_of("one", "One", head + good), good
    for bad in ("", "| put | 2 us |  | 2 |  |\n", "| put | 2 us | 4 us | 3 |  |\n", "| put | 4 us | 2 us | 0.5 |  |\n",
                "| put | 2 us | 4 us |\n", "| put | 0 us | 4 us | 2 |  |\n"):
        assert len(problems_of("one", "One", head + bad)) == 1, bad
    assert len(problems_of("one", "One", head.replace("one`", "one --quick`") + row)) == 1
    assert len(problems_of("two", "Two", "")) == len(problems_of("two", "Two", head + row)) == 1


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
