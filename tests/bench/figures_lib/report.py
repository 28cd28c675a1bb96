"""A page for each figure: each row has our number, the other one and their ratio."""

import datetime
import os
import textwrap

COLUMNS = 118  # Of prose.


def wrapped(text, indent=""):
    """Prose as lines; a continuation line begins with `indent`."""
    return textwrap.wrap(text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Row:
    """`ours` and `theirs` were measured; the ratio is how many times as good ours is."""

    def __init__(self, what, ours, theirs, unit, more_is_better=False, why=""):
        self.what, self.ours, self.theirs, self.unit = what, ours, theirs, unit
        if ours <= 0 or theirs <= 0:
            raise RuntimeError(f"{what}: nothing was measured ({ours} and {theirs} {unit})")
        self.ratio = ours / theirs if more_is_better else theirs / ours
        self.why = why  # Ours loses, if it does.

    def line(self):
        why = self.why if self.ratio < 1 else ""
        return (f"| {self.what} | {number(self.ours)} {self.unit} | {number(self.theirs)} {self.unit} | "
                f"{number(self.ratio)} | {why} |")


# As much of a CPU, used by others meanwhile, is other work; the kernel's own threads need some.
CPUS_OF_OTHERS = 0.2


def caution(quick, others):
    """Why the numbers are an order of magnitude only; empty: they are more."""
    reasons = (["small sizes (--quick)"] if quick else []) + (
        ["other work on the machine"] if others >= CPUS_OF_OTHERS else [])
    return f"Preliminary, of use as an order of magnitude only: {', '.join(reasons)}" if reasons else ""


class Section:
    """One figure."""

    def __init__(self, title, claim, how, peer, rows, notes=(), advantages=(), picture=None, command=""):
        self.title, self.claim, self.how, self.peer, self.rows = title, claim, how, peer, rows
        self.notes, self.advantages, self.picture, self.command = notes, advantages, picture, command

    def text(self, context, others):
        lines = [f"# {self.title}", "", *wrapped(f"**The paper:** {self.claim}"), "", *wrapped(f"**Here:** {self.how}"), "",
                 *wrapped(f"`{self.command}`; {datetime.date.today()}, medians of {context.rounds} interleaved rounds, "
                          f"{os.cpu_count()} CPUs, {others:.2f} CPUs used by other programs."), ""]
        if caution(context.quick, others):
            lines += [f"**{caution(context.quick, others)}.**", ""]
        lines += [f"| what | Tidepool | {self.peer} | ratio | where ours loses: why |", "|---|---|---|---|---|"]
        lines += [row.line() for row in self.rows]
        if self.picture:
            lines += ["", f"![{self.title}]({self.picture})"]
        if self.notes:
            lines += ["", *(line for note in self.notes for line in wrapped(f"- {note}", "  "))]
        if self.advantages:
            lines += ["", "Unfair advantages:", ""]
            lines += [line for advantage in self.advantages for line in wrapped(f"- {advantage}", "  ")]
        return "\n".join(lines) + "\n"


def write(folder, name, text):
    """Writes the page of one figure anew."""
    with open(os.path.join(folder, f"{name}.md"), "w", encoding="utf-8") as file:
        file.write(text)
