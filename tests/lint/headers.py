#!/usr/bin/python3
"""Every header compiles on its own, so that nobody depends on the order of includes.

  headers.py BUILD_FOLDER COMPILER FLAG... [--self-test]

The build itself proves a header that is the first include of some .cc file, as most are; the others
are compiled here (all of them took 150 s of CPU, these take 30). That installed headers need nothing
else is proved by the README's tour, which builds against them.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

import tree

# Without a compiler cache each header costs about a second. Wrappers have stable names in the build
# folder, so a second run is answered by ccache.
CACHE = ["ccache"] if any(os.access(os.path.join(p, "ccache"), os.X_OK)
                          for p in os.environ.get("PATH", "").split(":")) else []


FIRST_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def proven_by_build(sources):
    """Headers that come first in one of `sources` (path -> text), as the include names them."""
    firsts = (FIRST_INCLUDE.search(text) for text in sources.values())
    return {match.group(1) or match.group(2) for match in firsts if match}


def to_compile(headers, sources):
    proven = proven_by_build(sources)
    return [header for header in headers
            if header not in proven and header.removeprefix("client/include/") not in proven]


def compile_alone(header, root, work, command):
    stem = os.path.join(work, header.replace("/", "__"))
    source = f'#include "{os.path.join(root, header)}"\n'
    if not os.path.exists(stem + ".cc") or tree.read(stem + ".cc") != source:
        with open(stem + ".cc", "w", encoding="utf-8") as file:
            file.write(source)
    result = subprocess.run([*CACHE, *command, "-c", stem + ".cc", "-o", stem + ".o"],
                            capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    first_error = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr[:300])
    return f"{header}: does not compile on its own: {first_error}"


def check_headers(headers, sources, root, work, command):
    os.makedirs(work, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda header: compile_alone(header, root, work, command),
                           to_compile(headers, sources))
        problems = [problem for problem in results if problem]
    for header in headers:
        if "#pragma once" not in tree.read(header, root):
            problems.append(f"{header}: has no #pragma once")
    return problems


def self_test(command):
    with tempfile.TemporaryDirectory() as root:
        for name, text in (("good.h", "#pragma once\n#include <vector>\nstd::vector<int> F();\n"),
                           ("bad.h", "#pragma once\nstd::vector<int> F();\n"), ("twice.h", "struct X;\n")):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        sources = {"x.cc": '#include "good.h"\n#include "bad.h"\n'}
        assert to_compile(["bad.h", "good.h"], sources) == ["bad.h"]
        work = os.path.join(root, "work")
        problems = check_headers(["bad.h", "good.h", "twice.h"], {}, root, work, command)
        assert len(problems) == 2, problems
        assert problems[0].startswith("bad.h") and problems[1].startswith("twice.h"), problems


def main():
    arguments = [a for a in sys.argv[1:] if a != "--self-test"]
    build, command = arguments[0], arguments[1:]
    base = [*command, "-std=c++20", "-O0", "-w"]
    ours = [*base, f"-I{tree.ROOT}", f"-I{tree.ROOT}/client/include", f"-I{build}/proto/generated",
            f"-I{build}/daemon/generated"]

    def check():
        work = os.path.join(build, "header_check")
        headers = tree.files(endings=(".h",))
        sources = {path: tree.read(path) for path in tree.files(endings=(".cc",))}
        return check_headers(headers, sources, tree.ROOT, work, ours)

    return tree.main(check, lambda: self_test(base))


if __name__ == "__main__":
    sys.exit(main())
