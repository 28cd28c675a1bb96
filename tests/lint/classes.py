#!/usr/bin/python3
"""No class of the product has more than 50 methods or 25 fields.

Classes that were larger when this lint came stand in classes.txt with their counts. A count there only goes
down: a larger count fails, and a smaller count fails until the file says it. `classes.py --lower` writes smaller
counts and removes rows that are not needed any more; it never adds a row or raises a count.

Methods: all functions of the class body but those with `= default` or `= delete`. Fields: members with state of
their own, so neither static members nor types. Structs without a method are records, and are not counted.
"""

import os
import re
import sys

import tree

METHODS_MAX = 50
FIELDS_MAX = 25
ROWS = "tests/lint/classes.txt"
PRODUCT = ("daemon/", "client/", "storage/", "proto/", "cli/")

SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b(?P<head>[^;{}()]*(?:\([^()]*\)[^;{}()]*)*)\{")
# Behind attributes and a macro that exports the class.
NAME = re.compile(r"(?:\[\[[^\]]*\]\]\s*|alignas\([^()]*\)\s*|[A-Z_]{3,}\s+(?=\w))*(?P<name>[\w:]*)")
NO_MEMBER = re.compile(r"(using|typedef|friend|static_assert|enum|namespace)\b")


def closing(code, at):
    """The place of the brace that closes the brace at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return len(code)


def plain(statement):
    """Without template arguments, attributes, and what stands in parentheses."""
    text = re.sub(r"\[\[[^\]]*\]\]", " ", statement)
    text = re.sub(r"\b(alignas|decltype|noexcept|explicit)\s*\([^()]*\)", " ", text)
    while re.search(r"\([^()]+\)", text):
        text = re.sub(r"\((?P<pointer>\s*\*)?[^()]+\)", lambda m: "(*)" if m.group("pointer") else "()", text)
        if not re.search(r"\((?!\*\))[^()]+\)", text):
            break
    before = None
    while before != text:
        before = text
        text = re.sub(r"<[^<>]*>", " ", text)
    return text.strip()


def kind_of(statement):
    """(methods, fields) of one member declaration whose braces are blanked to {}."""
    text = re.sub(r"^(\s*(public|protected|private)\s*:)+", "", statement).strip()
    if re.search(r"\boperator\b", text) and not NO_MEMBER.match(text):
        return (0, 0) if re.search(r"=\s*(default|delete)\s*$", text) else (1, 0)
    text = plain(text)
    text = re.sub(r"^template\b\s*", "", text).strip()
    text = re.sub(r"^requires\b[^;]*?\(\)\s*", "", text)
    if not text or NO_MEMBER.match(text):
        return 0, 0
    nested = re.match(r"(class|struct|union)\b[^(={]*", text)
    if nested and (text[nested.end():].startswith("{}") or nested.end() == len(text)):
        rest = text[nested.end() + 2:].strip()
        if not rest and (nested.end() != len(text) or len(text.split()) <= 2):
            return 0, 0  # A nested type, defined or declared.
        return 0, 1
    if re.search(r"=\s*(default|delete)$", text):
        return 0, 0
    first = re.search(r"[({=]", text)
    if first and first.group() == "(" and not text[first.start():].startswith("(*)"):
        return 1, 0
    if re.match(r"(inline\s+|constexpr\s+)*static\b|constexpr\b", text):
        return 0, 0
    return 0, 1 + re.sub(r"\{[^{}]*\}|\([^()]*\)", "", text).count(",")


def members(body):
    """The declarations of a class body, with all that stands in braces blanked to {}."""
    statement, at, parens = "", 0, 0
    while at < len(body):
        character = body[at]
        parens += {"(": 1, ")": -1}.get(character, 0)
        if character == "{":
            end = closing(body, at)
            if parens > 0:
                at = end + 1
                continue
            statement += "{}"
            at = end + 1
            following = body[at:].lstrip()[:1]
            is_type = re.match(r"(\s*(public|protected|private)\s*:)*\s*(template\s*<.*?>\s*)?(class|struct|union|enum)\b",
                               statement, re.DOTALL)
            if not is_type and kind_of(statement)[0] and following not in (",", "{"):
                yield statement
                statement = ""
            continue
        if character == ";" and parens == 0:
            yield statement
            statement = ""
        else:
            statement += character
        at += 1


def classes_of(code, prefix=""):
    """{qualified name: (methods, fields)} of the classes in a text without comments and literals."""
    found = {}
    at = 0
    while True:
        match = SCOPE.search(code, at)
        if not match:
            return found
        opening = match.end() - 1
        end = closing(code, opening)
        keyword, head = match.group(1), match.group("head")
        # `template <class T>` and the like are no scopes, neither is `class X;` before a brace.
        if keyword == "enum" or re.match(r"\s*\w*\s*[>,=)&*]", head):
            at = end if keyword == "enum" else match.start() + len(keyword)
            continue
        name = NAME.match(head.strip()).group("name") or "(anonymous)"
        qualified = f"{prefix}::{name}" if prefix else name
        body = code[opening + 1:end]
        if keyword != "namespace":
            counts = [kind_of(statement) for statement in members(body)]
            methods, fields = sum(m for m, _ in counts), sum(f for _, f in counts)
            if keyword == "class" or methods:
                before = found.get(qualified, (0, 0))
                found[qualified] = (max(before[0], methods), max(before[1], fields))
        for inner, counts in classes_of(body, qualified).items():
            found[inner] = counts
        at = end
    return found


def counts_of(sources):
    """{(path, qualified name): (methods, fields)} of what is above a limit, and of all."""
    counted = {}
    for path, text in sources.items():
        code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", tree.code_only(text), flags=re.MULTILINE)
        for name, counts in classes_of(code).items():
            counted[path, name] = counts
    return counted


def rows_of(text):
    """{(path, qualified name): (methods, fields)}"""
    rows = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            path, name, methods, fields = line.split()
            rows[path, name] = int(methods), int(fields)
    return rows


def is_large(counts):
    return counts[0] > METHODS_MAX or counts[1] > FIELDS_MAX


def problems_of(sources, text):
    counted, rows, found = counts_of(sources), rows_of(text), []
    for key, counts in sorted(counted.items()):
        where = f"{key[0]}: {key[1]} has {counts[0]} methods and {counts[1]} fields"
        if key not in rows:
            if is_large(counts):
                found.append(f"{where}; at most {METHODS_MAX} and {FIELDS_MAX}: split it by state")
        elif counts[0] > rows[key][0] or counts[1] > rows[key][1]:
            found.append(f"{where}, more than the {rows[key][0]} and {rows[key][1]} of {ROWS}: split it by state")
        elif counts != rows[key] or not is_large(counts):
            found.append(f"{where}, {ROWS} says {rows[key][0]} and {rows[key][1]}: run tests/lint/classes.py --lower")
    found += [f"{ROWS}: {path}: there is no class {name}: run tests/lint/classes.py --lower"
              for path, name in sorted(set(rows) - set(counted))]
    return found


def product():
    return {path: tree.read(path) for path in tree.files(endings=tree.CXX) if path.startswith(PRODUCT)}


def check():
    return problems_of(product(), tree.read(ROWS))


def lowered(sources, text):
    counted, lines = counts_of(sources), []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            path, name, methods, fields = line.split()
            counts = counted.get((path, name))
            if counts is None or not is_large(counts):
                continue
            line = f"{path} {name} {min(int(methods), counts[0])} {min(int(fields), counts[1])}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def self_test():
    text = """namespace a { namespace b::c {
      template <class T, typename U> class X final : public Y<int> {
       public:
        X() : one_{1}, two_(2) {}  // Counts.
        X(const X&) = delete;
        ~X() override = default;
        bool operator<(const X&) const;
        std::function<void(int)> get() const { if (a) { return b; } return {}; }
        template <typename V> void Set(V v = {1, 2});
        static int Of(int);
        auto all() -> std::vector<int>;
        using Z = int; friend class W; struct Forward; static constexpr int kOne = 1;
        enum class E { kA, kB };
        struct Record { int a; int b = 0; };
        struct Inner { void Run(); int i; };
       private:
        int one_, two_ = 2;
        std::function<void(bool durable)> run_;
        std::map<int, std::pair<int, int>> map_{};
        void (*pointer_)(int) = nullptr;
        const std::array<int, Of(3)> array_ = {1, 2};
        alignas(64) std::atomic<bool> flag_{false};
      };
    } }"""
    counted = counts_of({"daemon/a.h": text})
    assert counted == {("daemon/a.h", "a::b::c::X"): (6, 7), ("daemon/a.h", "a::b::c::X::Inner"): (1, 1)}, counted

    def large(methods, fields, name="L"):
        return (f"class {name} {{" + "".join(f"void f{i}();" for i in range(methods)) +
                "".join(f"int x{i}_;" for i in range(fields)) + "};")

    exported = {"daemon/a.h": "class TIDEPOOL_API A { void f(); };"}
    assert counts_of(exported) == {("daemon/a.h", "A"): (1, 0)}, counts_of(exported)
    row = "# A line.\ndaemon/a.h L 60 3\n"
    for methods, fields in ((50, 25), (0, 0)):
        assert not problems_of({"daemon/a.h": large(methods, fields)}, "")
    for methods, fields in ((51, 0), (0, 26)):
        assert len(problems_of({"daemon/a.h": large(methods, fields)}, "")) == 1
    assert not problems_of({"daemon/a.h": large(60, 3)}, row)
    # More, fewer, within the limits, gone; and in another file or scope of the same name.
    for source in (large(61, 3), large(60, 4), large(59, 3), large(60, 2), large(50, 3), "int x;"):
        assert len(problems_of({"daemon/a.h": source}, row)) == 1, source
    assert len(problems_of({"daemon/a.h": large(60, 3), "daemon/b.h": large(60, 3)}, row)) == 1
    assert len(problems_of({"daemon/a.h": "namespace n {" + large(60, 3) + "}"}, row)) == 2
    assert lowered({"daemon/a.h": large(59, 9)}, row) == "# A line.\ndaemon/a.h L 59 3\n"
    assert lowered({"daemon/a.h": large(9, 3)}, row) == "# A line.\n"


if __name__ == "__main__":
    if "--lower" in sys.argv[1:]:
        LOWER = lowered(product(), tree.read(ROWS))
        with open(os.path.join(tree.ROOT, ROWS), "w", encoding="utf-8") as rows_file:
            rows_file.write(LOWER)
    sys.exit(tree.main(check, self_test))
