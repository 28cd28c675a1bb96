#!/usr/bin/python3
"""Measures the English of comments and pages, by group of files (HOUSE: six rules of English).

A group must reach the goals unless prose_ratchet.json names it. A group of the ratchet may not get worse than
its figures there. The lint fails when such a group has become better: --update writes the new figures, and
drops the groups that reach all goals. Public headers, .proto files and pages reach the goals whatever the
ratchet says.
"""

import json
import os
import re
import sys

import tree

RATCHET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prose_ratchet.json")

VAGUE = re.compile(r"\b(who|whom|whose|what|one|ones|none|so|such|told|tell|tells|those|nobody|somebody|others)\b",
                   re.IGNORECASE)
OPENING = re.compile(r"^(Of|What|Who|Whose|The same|As|Else|So|Such|None|One)\b")

# Vague pronouns per 1,000 words, forbidden openings in percent of the sentences, words per sentence.
GOALS = {"vague": 20.0, "openings": 8.0, "length": 18.0}
ALWAYS_AT_GOAL = ("headers", "C headers", "proto", "pages")
SOURCES = tree.CXX + (".c",)
# A measure may move by so much before the ratchet is called stale: a single sentence must not fail the lint.
SLACK = {"vague": 1.5, "openings": 1.5, "length": 1.0}


def group_of(path):
    """'headers', 'C headers', 'proto' and 'pages' are groups; the rest is grouped by its top two folders."""
    if path.endswith(".md"):
        return "pages"
    if path.endswith(".proto"):
        return "proto" if path.startswith("proto/") else None
    if path.startswith("client/include/tidepool/c/"):
        return "C headers"
    if path.startswith("client/include/"):
        return "headers"
    if not path.endswith(SOURCES):
        return None
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 and parts[0] != "tests" else parts[0]


def comments_of(text):
    """(number, text) of each line of a comment. A /* */ within a line of code names an argument: no prose."""
    in_block = False
    for number, line in enumerate(text.splitlines()):
        if in_block:
            comment = re.match(r"\s*(?:\*(?!/) ?)?(.*?)(\*/|$)", line)
            in_block = not comment.group(2)
        elif block := re.search(r"^\s*/\*+ ?(.*?)(\*/|$)|\s/\*+ ?((?:(?!\*/).)*)(\*/\s*$|$)", line):
            comment = re.match(r"(.*)", block.group(1) or block.group(3) or "")
            in_block = not (block.group(2) or block.group(4))
        else:
            comment = re.search(r"(?:^|\s)//+ ?(.*)", line)
        if comment is not None:
            yield number, comment.group(1)


def prose_of(path, text):
    """The comments of a source, or the paragraphs and list items of a page, as one string."""
    if not path.endswith(".md"):
        blocks, last = [], -2
        for number, comment in comments_of(text):
            if "->" in comment or "=>" in comment:
                continue
            # Comments that do not touch are sentences of their own.
            blocks.append(("" if number == last + 1 else "\n") + comment)
            last = number
        return " ".join(blocks)
    lines, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "    ", "#", "![")):
            lines.append("\n" + line if not line.strip() or re.match(r"\s*([-*]|\d+\.) ", line) else line)
    return " ".join(lines)


def sentences_of(prose):
    for sentence in re.split(r"(?<=[.:!?])\s+|\n", prose):
        sentence = re.sub(r"^\s*([-*]|\d+\.)\s+", "", sentence).strip()
        if len(re.findall(r"[A-Za-z']+", sentence)) >= 3:
            yield sentence


def measure(proses):
    words = vague = sentences = openings = 0
    for prose in proses:
        for sentence in sentences_of(prose):
            words += len(re.findall(r"[A-Za-z']+", sentence))
            vague += len(VAGUE.findall(sentence))
            openings += bool(OPENING.match(sentence))
            sentences += 1
    if sentences == 0:
        return None
    return {"vague": round(1000 * vague / words, 1), "openings": round(100 * openings / sentences, 1),
            "length": round(words / sentences, 1)}


def measured():
    proses = {}
    for path in tree.files(endings=SOURCES + (".proto", ".md")):
        group = group_of(path)
        if group is not None:
            proses.setdefault(group, []).append(prose_of(path, tree.read(path)))
    return {group: result for group, result in sorted((g, measure(p)) for g, p in proses.items()) if result}


def compare(now, ratchet):
    problems = []
    for group, values in now.items():
        in_ratchet = group in ratchet and group not in ALWAYS_AT_GOAL
        for name, value in values.items():
            bound = max(GOALS[name], ratchet[group].get(name, 0.0)) + SLACK[name] if in_ratchet else GOALS[name]
            if value > bound:
                problems.append(f"{group}: {name} is {value}, allowed {bound} (tests/lint/prose.py --worst {group})")
            elif in_ratchet and max(value, GOALS[name]) < ratchet[group].get(name, 0.0) - 2 * SLACK[name]:
                problems.append(f"{group}: {name} is {value}, the ratchet says {ratchet[group][name]}: "
                                "run tests/lint/prose.py --update")
    problems += [f"{group}: is in the ratchet, and has no file" for group in ratchet if group not in now]
    return problems


def check():
    with open(RATCHET, encoding="utf-8") as file:
        return compare(measured(), json.load(file))


def update():
    with open(RATCHET, "w", encoding="utf-8") as file:
        over = {g: {n: v for n, v in values.items() if v > GOALS[n]} for g, values in measured().items()}
        json.dump({g: values for g, values in over.items() if values}, file, indent=1, sort_keys=True)
        file.write("\n")


def worst(group):
    """Prints the 30 sentences of a group that are furthest from the rules."""
    found = []
    for path in tree.files(endings=SOURCES + (".proto", ".md")):
        if group_of(path) == group:
            for sentence in sentences_of(prose_of(path, tree.read(path))):
                score = (2 * len(VAGUE.findall(sentence)) + 3 * bool(OPENING.match(sentence)) +
                         max(0, len(sentence.split()) - 20) / 8)
                found.append((score, path, sentence))
    for score, path, sentence in sorted(found, reverse=True)[:30]:
        print(f"{score:4.1f} {path}: {sentence}")


def self_test():
    bad = measure([prose_of("a.h", "// What is told of those who have none.\n\n// Of one such thing nobody tells.\n")])
    assert bad["vague"] > 300 and bad["openings"] == 100.0, bad
    good = measure([prose_of("a.h", "// Returns the value of the key.\nint Get();  // The caller owns the result.\n")])
    assert good == {"vague": 0.0, "openings": 0.0, "length": 5.5}, good
    block = "/* Returns a value.\n * Of what is told. */\nint Get(int /*key*/ k); /* For who. */\nint x = f(/*none=*/1);\n"
    assert prose_of("a.h", block).split() == "Returns a value. Of what is told. For who.".split(), prose_of("a.h", block)
    assert group_of("client/include/tidepool/c/map.h") == "C headers" and group_of("tests/client/c/maps.c") == "tests"
    page = prose_of("a.md", "# What\n\nThe daemon starts.\n\n```\nwhat who\n```\n| what |\n- One item is listed here\n")
    assert measure([page])["vague"] > 0 and "who" not in page, page
    assert compare({"x": {"vague": 40.0}}, {"x": {"vague": 30.0}})
    assert compare({"x": {"vague": 20.0}}, {"x": {"vague": 30.0}})
    assert not compare({"x": {"vague": 30.5}}, {"x": {"vague": 30.0}})
    assert compare({"headers": {"length": 18.1}}, {})
    assert compare({"x": {"vague": 20.1}}, {}) and not compare({"x": {"vague": 20.0}}, {})
    assert not compare({"headers": {"length": 17.9}}, {})
    assert compare({"headers": {"length": 18.1}}, {"headers": {"length": 19.0}})
    assert compare({}, {"gone": {"vague": 30.0}})


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        update()
    elif len(sys.argv) == 3 and sys.argv[1] == "--worst":
        worst(sys.argv[2])
    else:
        sys.exit(tree.main(check, self_test))
