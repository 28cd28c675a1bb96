#!/usr/bin/python3
"""Pages are short: bytes per page and columns per line are bounded, and tables are whole.

  sizes.py
  sizes.py --self-test

A line of a table may be long: it cannot be broken. Each row of a table has as many cells as its head.
"""

import re
import sys

from pages import all_pages, text_of

COLUMNS_MAX = 120
BYTES_MAX = 20_480
BYTES_MAX_OF = {"README.md": 11_000, "CHANGELOG.md": 4_000, "ARCHITECTURE.md": 18_432}
RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")


def cells_of(row):
    """Counts the cells of a row. A bar separates cells in code, too, unless a backslash stands before it."""
    return len(re.findall(r"(?<!\\)\|", row.strip())) - 1


def problems_of_table(rows):
    """`rows`: numbered lines that follow each other and begin with a bar."""
    number, head = rows[0]
    if len(rows) < 2 or not RULE.fullmatch(rows[1][1]):
        return [(number, "a table needs a line of dashes behind its head")]
    wanted = cells_of(head)
    return [(line, f"a row of {cells_of(row)} cells in a table of {wanted}")
            for line, row in rows if not row.rstrip().endswith("|") or cells_of(row) != wanted]


def problems_of(page, text):
    size, most = len(text.encode()), BYTES_MAX_OF.get(page, BYTES_MAX)
    found = [(0, f"{size} bytes: at most {most}, so move details to the page of their folder")] if size > most else []
    in_code, table = False, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("```"):
            in_code = not in_code
        is_row = line.startswith("|") and not in_code
        if is_row:
            table.append((number, line))
            continue
        if table:
            found += problems_of_table(table)
            table = []
        if len(line) > COLUMNS_MAX:
            found.append((number, f"{len(line)} columns: at most {COLUMNS_MAX}"))
    if in_code:
        found.append((0, "the last block of code has no end"))
    return [f"{page}:{number}: {what}" if number else f"{page}: {what}" for number, what in found]


def self_test():
    accepted = "# x\n\n| a | b |\n|---|:--|\n| `x \\| y` | " + "z" * 200 + " |\n\n```text\n| no table\n```\n"
    assert not problems_of("x.md", accepted), problems_of("x.md", accepted)
    for refused in ("x" * 121, "| a | b |\n| 1 | 2 |\n", "| a | b |\n|---|---|\n| 1 |\n", "| a |\n|---|\n| 1\n", "```sh\n",
                    "```sh\n" + "x" * 121 + "\n```\n", "short\n" * 4000):
        assert len(problems_of("x.md", refused)) == 1, refused[:40]
    assert problems_of("CHANGELOG.md", "short\n" * 700) and not problems_of("x.md", "short\n" * 700)
    print("self-test passed")


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    problems = [problem for page in all_pages() for problem in problems_of(page, text_of(page))]
    print("\n".join(problems + [f"{len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
