"""Tables of figures.md: each row has our number, the other one and their ratio."""

import datetime
import os
import re


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
        lines = [f"## {self.title}", "", f"**The paper:** {self.claim}", "", f"**Here:** {self.how}", "",
                 f"`{self.command}`; {datetime.date.today()}, medians of {context.rounds} interleaved rounds, "
                 f"{os.cpu_count()} CPUs, of which others used {others:.2f} meanwhile.", ""]
        if caution(context.quick, others):
            lines += [f"**{caution(context.quick, others)}.**", ""]
        lines += [f"| what | Tidepool | {self.peer} | ratio | where ours loses: why |", "|---|---|---|---|---|"]
        lines += [row.line() for row in self.rows]
        if self.picture:
            lines += ["", f"![{self.title}]({self.picture})"]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        if self.advantages:
            lines += ["", "Unfair advantages:", "", *(f"- {advantage}" for advantage in self.advantages)]
        return "\n".join(lines) + "\n"


HEAD = """# The papers' figures, on one machine

Written by `tests/bench/figures`; do not edit. What BCL (Brock, Buluc, Yelick, ICPP 2019), HCL (Devarajan and others,
CLUSTER 2020), PDHT (Larkins and others) and vGASNet (Matsumiya, Endo) show in figures, done by Tidepool and, beside
it in the same minutes, by programs of our own that follow the papers' algorithms (`tests/bench/baselines`). A machine
of two CPUs shows what an operation costs, not how it scales; ratios are what counts, and above 1 ours is better. The
papers' machines had RDMA: "TCP" is UCX over loopback on both sides. A figure that was measured with small sizes, or
beside other work, says so in bold.

The other side is an *imperative client*: ranks that execute BCL's algorithm themselves by one-sided calls, over an
MPI-3 window that they share or over UCX; a *companion*: a process that serves puts and gets by MPI's messages, PDHT's
rival; or *plain*: the application's work in the memory of one process. More of them, what became of the goals, and what is
behind each miss: [README.md](README.md#the-papers-figures).

"""


def merged(path, sections):
    """title -> text: the file's sections, with `sections` in place of those of the same titles."""
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for part in re.split(r"^(?=## )", file.read(), flags=re.MULTILINE)[1:]:
                kept[part.split("\n", 1)[0][3:]] = part.rstrip("\n") + "\n"
    return kept | sections


def write(path, sections, order):
    """Writes the file anew, its sections in this order of titles."""
    texts = merged(path, sections)
    known = [title for title in order if title in texts]
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n".join(texts[title] for title in known))
