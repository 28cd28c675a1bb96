#!/usr/bin/python3
"""tests/bench/picture draws rows that there are, leaves out those that there are not, and refuses
what is none."""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import tree

POINT = "{http://www.w3.org/2000/svg}circle"
LEGEND = 6  # Points that stand for the colors.


def row(name, **more):
    return {"row": name, "p50_us": 1.5, "operations_per_s": 2e6, "bytes_per_s": 3e9, **more}


def draw(content):
    """Exit code, and the number of points beside the legend's."""
    with tempfile.TemporaryDirectory() as folder:
        rows, svg = os.path.join(folder, "rows.json"), os.path.join(folder, "out.svg")
        with open(rows, "w", encoding="utf-8") as file:
            file.write(content)
        done = subprocess.run([sys.executable, "-B", os.path.join(tree.ROOT, "tests/bench/picture"), rows, svg],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.returncode, None
        return 0, len(list(xml.etree.ElementTree.parse(svg).getroot().iter(POINT))) - LEGEND


def main():
    peers = {"redis": {"p50_us": 20.0, "operations_per_s": 1e5}, "memcpy": {"bytes_per_s": 1e10}}
    cases = [
        ("single operations", [row("fast.get.ring", peers=peers), row("fast.get.direct")], (0, 3)),
        ("a batch of gets", [row("fast.batch64.get.ring", peers=peers)], (0, 2)),
        ("a batch of puts", [row("fast.batch64.put.ring"), row("fast.batch64.get.tcp")], (0, 1)),
        ("values", [row("fast.value.64k.get.direct", peers=peers), row("fast.value.4m.get.tcp")], (0, 3)),
        ("numbers of keys", [row("fast.keys.10000000.get.direct")], (0, 1)),
        ("rows of other benches", [row("store.find")], (1, None)),
    ]
    found = [f"{what}: {draw(json.dumps(rows))}, not {wanted}"
             for what, rows, wanted in cases if draw(json.dumps(rows)) != wanted]
    if draw("{") != (1, None) or draw("[1]") != (1, None):
        found.append("what is no list of rows is taken")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
