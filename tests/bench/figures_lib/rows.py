"""A table for each program of tests/bench/run, of what it has measured last, in a page."""

import datetime
import os
import re

from figures_lib import report

# Between these lines of the page; what stands before and behind them stays as it is.
BEGIN = "<!-- tests/bench/run --table writes what follows -->\n"
END = "<!-- until here -->\n"
# Units of which there are thousands and millions.
RATES = ("op/s", "B/s", "ops/s")


def amount(value, unit):
    if unit in RATES:
        for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
            if abs(value) >= factor:
                return f"{report.number(value / factor)} {letter}{unit.removeprefix('ops').removeprefix('op')}"
    return f"{report.number(value)} {unit}".strip()


def peers(row):
    """Each peer with its value, where that has the row's unit, and the ratio."""
    if not row.get("peer"):
        return ""
    texts = [f"{row['peer']} {amount(row['peer_value'], row['unit'])}: {report.number(row['ratio'])}"]
    texts += [f"{name}: {report.number(peer['ratio'])}" for name, peer in row.get("peers", {}).items()
              if name != row["peer"]]
    return "; ".join(texts)


def line(row):
    spread = f"{amount(row['low'], row['unit'])} to {amount(row['high'], row['unit'])}" if "low" in row else ""
    goal = f"{'met' if row['met'] else '**missed**'} ({row['goal']})" if row.get("goal") else ""
    return f"| `{row['row']}` | {amount(row['value'], row['unit'])} | {spread} | {peers(row)} | {goal} |"


def title(pattern):
    return pattern.removesuffix(".*")


def section(pattern, rows, others):
    """The text for the rows of one program, while which others used so many CPUs."""
    lines = [f"### {title(pattern)}", "",
             f"`tests/bench/run --rows '{pattern}'`; {datetime.date.today()}, {os.cpu_count()} CPUs, of which others used "
             f"{others:.2f} meanwhile.", ""]
    if report.caution(False, others):
        lines += [f"**{report.caution(False, others)}.**", ""]
    lines += ["| row | value | spread | against | goal |", "|---|---|---|---|---|"]
    return "\n".join(lines + [line(row) for row in rows]) + "\n"


def write(path, pattern, rows, others, patterns):
    """Puts the section into the page; `patterns` are all, in their order."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if (BEGIN in text) != (END in text):
        raise RuntimeError(f"{path} has one of these lines without the other: {BEGIN}{END}")
    before, _, rest = text.partition(BEGIN)
    body, _, after = rest.partition(END)
    sections = {part.split("\n", 1)[0][4:]: part.strip("\n") + "\n"
                for part in re.split(r"^(?=### )", body, flags=re.MULTILINE)[1:]}
    sections[title(pattern)] = section(pattern, rows, others)
    known = [title(each) for each in patterns if title(each) in sections]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + "\n".join(sections[each] for each in known) + END + after)
