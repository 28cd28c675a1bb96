#!/usr/bin/python3
"""tests/bench/figures.md has a section for each figure that tests/bench/figures knows; each row has two numbers and
their ratio, and, where ours loses, a reason; what was measured with small sizes says that it is preliminary."""

import os
import re
import subprocess
import sys

import tree

RESULTS = "tests/bench/figures.md"


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


def problems_of(text, wanted):
    sections = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
    found = []
    for name, title in wanted.items():
        section = sections.get(title, "")
        rows = re.findall(r"^\|(?! what |-).*", section, re.MULTILINE)
        if not rows:
            found.append(f"{RESULTS}: no row of {name}")
        if "--quick`" in section and "**Preliminary" not in section:
            found.append(f"{RESULTS}: {title}: measured with --quick, and does not say in bold that it is preliminary")
        found += [f"{RESULTS}: {title}: {row} {row_problem(row)}" for row in rows if row_problem(row)]
    return found


def check():
    return problems_of(tree.read(RESULTS), titles())


def self_test():
    row = "| put | 2 us | 4 us | 2 |  |\n"
    head = "## One\n\n`tests/bench/figures one`\n\n| what | ours |\n|---|---|\n"
    for good in (row, "| put | 2 GB/s | 4 GB/s | 0.5 | because |\n", "| sent | 137  | 17,999  | 131 |  |\n"):
        assert not problems_of(head + good, {"one": "One"}), good
    for bad in ("", "| put | 2 us |  | 2 |  |\n", "| put | 2 us | 4 us | 3 |  |\n", "| put | 4 us | 2 us | 0.5 |  |\n",
                "| put | 2 us | 4 us |\n", "| put | 0 us | 4 us | 2 |  |\n"):
        assert len(problems_of(head + bad, {"one": "One"})) == 1, bad
    assert len(problems_of(head.replace("one`", "one --quick`") + row, {"one": "One"})) == 1
    assert len(problems_of(head + row, {"one": "One", "two": "Two"})) == 1


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
