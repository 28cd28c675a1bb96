"""A page for each program of tests/bench/run, with what it has measured last."""

import datetime
import os

from figures_lib import report

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


def write(folder, pattern, rows, others):
    """Writes the page for the rows of one program, while which others used so many CPUs."""
    lines = [f"# Rows of {title(pattern)}", "",
             f"Written by `tests/bench/run --rows '{pattern}' --table DIR`; do not edit.", "",
             f"{datetime.date.today()}, {os.cpu_count()} CPUs, {others:.2f} CPUs used by other programs.", ""]
    if report.caution(False, others):
        lines += [f"**{report.caution(False, others)}.**", ""]
    lines += ["| row | value | spread | against | goal |", "|---|---|---|---|---|"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{title(pattern)}.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines + [line(row) for row in rows]) + "\n")
