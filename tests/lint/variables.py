#!/usr/bin/python3
"""Each environment variable of the project that the tree reads stands in the one table, proto/base/variables.cc, and
the table names no variable that nothing reads: else kvd and kvctl warn of a name that counts, or are silent about one
that does not."""

import re
import sys

import tree

TABLE = "proto/base/variables.cc"
OPTIONS = "daemon/config/option_table.cc"
NAME = r"TIDEPOOL_[A-Z0-9_]*[A-Z0-9]"
# How C++, Python, Lua, shell and C read one, or set one for another program.
READS = [
    re.compile(rf'(?:getenv|environment|environ(?:\.get|\.pop)?|Variable|VariableOf|option)\s*[(\[]\s*"({NAME})"'),
    re.compile(rf'"({NAME})="?'),
    re.compile(rf'[$]\{{?({NAME})\b'),
    re.compile(rf'k\w*(?:Variable|Name) = "({NAME})"'),
    re.compile(rf'^INSIDE = "({NAME})"', re.MULTILINE),
    re.compile(rf'environment\["({NAME})"\]'),
]
# Names of the build, of macros and of what tests make up.
FOREIGN = re.compile(r"tests/(lint/variables\.py|.*_test\.(cc|py))$|CMakeLists\.txt$|\.cmake$|CMakePresets\.json$")
ENDINGS = (".cc", ".h", ".py", ".sh", ".lua", ".def", ".service", ".conf", "run", "quickstart", "prolog", "epilog")


def options_of(text):
    """The variables of kvd's options."""
    names = re.findall(r'^    \{"([a-z-]+)", "', text.split("struct LaterOption")[0], re.MULTILINE)
    return {"TIDEPOOL_" + name.upper().replace("-", "_") for name in names}


def reads_of(path, text):
    if FOREIGN.search(path) or path == TABLE:
        return set()
    return {name for pattern in READS for name in pattern.findall(text)}


def problems_of(known, options, sources):
    """`sources`: path -> text."""
    problems = []
    read = set(options)
    for path, text in sorted(sources.items()):
        for name in sorted(reads_of(path, text)):
            read.add(name)
            if name not in known:
                problems.append(f"{path}: reads {name}, which {TABLE} does not have")
    everything = "\n".join(text for path, text in sources.items() if path not in (TABLE, "tests/lint/variables.py"))
    for name in sorted(options - known):
        problems.append(f"{OPTIONS}: an option has {name}, which {TABLE} does not have")
    for name in sorted(known - read):
        if not re.search(rf"\b{name}\b", everything):
            problems.append(f"{TABLE}: nothing reads {name}")
    return problems


def check():
    sources = {path: tree.read(path) for path in tree.files() if path.endswith(ENDINGS) or path.startswith("deploy/")}
    known = set(re.findall(rf'"({NAME})"', tree.read(TABLE)))
    assert len(known) > 50, known
    return problems_of(known, options_of(tree.read(OPTIONS)), sources)


def self_test():
    def problems(text, path="daemon/x.cc", known=("TIDEPOOL_CLUSTER",)):
        return problems_of(set(known), set(), {path: text, "a.cc": 'getenv("TIDEPOOL_CLUSTER")'})

    refused = ['getenv("TIDEPOOL_NEW")', 'environment("TIDEPOOL_NEW")', 'os.environ.get("TIDEPOOL_NEW")',
               'os.environ["TIDEPOOL_NEW"]', '"TIDEPOOL_NEW=" + x', 'constexpr char kGuardVariable = "TIDEPOOL_NEW"',
               'echo $TIDEPOOL_NEW', 'echo ${TIDEPOOL_NEW:-1}', 'INSIDE = "TIDEPOOL_NEW"']
    for text in refused:
        assert len(problems(text)) == 1, (text, problems(text))
    assert not problems('getenv("TIDEPOOL_CLUSTER")') and not problems("TIDEPOOL_STEP(x)")
    assert len(problems("", known=("TIDEPOOL_CLUSTER", "TIDEPOOL_OLD"))) == 1
    assert len(problems_of(set(), {"TIDEPOOL_X"}, {})) == 1
    assert options_of('    {"nvm-dir", "LIST", "",\n    {"pin", "", "false"') == {"TIDEPOOL_NVM_DIR", "TIDEPOOL_PIN"}


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
