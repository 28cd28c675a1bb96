#!/usr/bin/python3
"""Every header has `#pragma once`. That a header compiles by itself is looked at by tests/each_file.

  headers.py [--self-test]
"""

import re
import sys

import tree

FIRST_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def proven_by_sources(sources):
    """Headers that come first in one of `sources` (path -> text), as the include names them."""
    firsts = (FIRST_INCLUDE.search(text) for text in sources.values())
    return {match.group(1) or match.group(2) for match in firsts if match}


def to_compile(headers, sources):
    """The headers of which no source proves that they compile by themselves."""
    proven = proven_by_sources(sources)
    return [header for header in headers
            if header not in proven and header.removeprefix("client/include/") not in proven]


def problems_of(headers):
    """One line for each of `headers` (path -> text) that may be included twice."""
    return [f"{path}: has no #pragma once" for path, text in headers.items() if "#pragma once" not in text]


def self_test():
    assert problems_of({"good.h": "#pragma once\nstruct X;\n", "twice.h": "struct X;\n"}) == [
        "twice.h: has no #pragma once"]
    sources = {"x.cc": '#include "good.h"\n#include "bad.h"\n', "y.cc": "#include <tidepool/z.h>\n"}
    assert to_compile(["bad.h", "good.h", "client/include/tidepool/z.h"], sources) == ["bad.h"]


def check():
    return problems_of({path: tree.read(path) for path in tree.files(endings=(".h",))})


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
