#!/usr/bin/python3
"""tests/bench/run --check tells a row that is missing from one that is skipped, and a goal that is
missed from one that is met: with programs that only pretend to measure."""

import json
import os
import stat
import subprocess
import sys
import tempfile

import tree

# Those of store_bench that this looks at.
ROWS = ["store.find", "store.find.batch16.portable", "store.find.batch16.avx512"]


def row(name, met=True):
    return {"row": name, "value": 1.0, "unit": "M/s", "peer": "", "goal": ">= 1", "met": met}


def check(rows, pattern="store.find*", code=0):
    """Exit code of the runner for a store_bench that prints these rows, its output and the page."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "store_bench")
        with open(program, "w", encoding="utf-8") as file:
            lines = "\n".join(json.dumps(one) for one in rows)
            file.write(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\nexit {code}\n")
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        runner = os.path.join(tree.ROOT, "tests/bench/run")
        page = os.path.join(folder, "store.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("before\n")
        done = subprocess.run([sys.executable, "-B", runner, "--check", "--rows", pattern, "--bin", folder,
                               "--table", folder], capture_output=True, text=True, check=False)
        with open(page, encoding="utf-8") as file:
            return done.returncode, done.stdout + done.stderr + file.read()


def table_problems():
    """A page is written anew with all rows of a program that has ended well, and with nothing less."""
    goals = ["store.insert", "store.index_bytes", "store.index_bytes.grown", *ROWS, "store.false_candidates",
             "store.insert.worst"]
    whole = [row(name) for name in goals] + [{**row("store.rate"), "value": 254000.0, "unit": "ops/s"}]
    found = []
    for what, rows, pattern, code, wanted in (("all", whole, "store.*", 0, True), ("some", whole, "store.find*", 0, False),
                                              ("one missing", whole[1:], "store.*", 0, False),
                                              ("a crash", whole, "store.*", 3, False)):
        _, output = check(rows, pattern, code)
        if (("before\n" in output) == wanted or ("| `store.find` | 1 M/s |" in output) != wanted or
                ("| `store.rate` | 254 K/s |" in output) != wanted):
            found.append(f"the table of {what}: {output!r}")
    return found


def problems():
    all_rows = [row(name) for name in ROWS]
    skipped = {"row": ROWS[2], "skipped": "this processor has none"}
    cases = [
        ("all goals are met", all_rows, 0, "met"),
        ("one is missed", [*all_rows[:2], row(ROWS[2], met=False)], 1, "missed: " + ROWS[2]),
        ("one is missing", all_rows[:2], 1, "missing: " + ROWS[2]),
        ("one is skipped", [*all_rows[:2], skipped], 0, "skipped: this processor has none"),
        ("one is not listed", [*all_rows, row("store.find.new")], 1, "store.find.new"),
    ]
    found = []
    for what, rows, wanted, says in cases:
        code, output = check(rows)
        if code != wanted or says not in output:
            found.append(f"when {what}: exit code {code}, {output!r}")
    found += table_problems()
    code, output = check(all_rows, code=3)
    if code != 1:
        found.append(f"when a program fails: exit code {code}, {output!r}")
    return found


def main():
    found = problems()
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
