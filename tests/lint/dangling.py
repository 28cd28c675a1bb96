#!/usr/bin/python3
"""Finds references into what a shared pointer holds that nobody holds any more.

The map of a cluster is replaced while others read it, so who reads holds its pointer. In
"for (x : map.Get()->nodes)" and "const auto& name = map.Get()->name" the pointer is a temporary:
it ends before the first use (up to C++20 also in a for), and neither g++ 12 nor clang++ 14 warns.
"""

import re
import sys

import tree

MEMBER = r"[\w.>()-]*\b(?:Get|NewestMap|Map)\(\)->[\w.]+(?:\([^()]*\)->\w+)?"
REFERENCE = re.compile(r"&&?\s*\w+\s*=\s*" + MEMBER + r"\s*;")
LOOP = re.compile(r"\bfor\s*\([^;()]*[^:]:(?!:)\s*" + MEMBER + r"\s*\)")


def problems_of(path, text):
    code = tree.code_only(text)
    return [f"{path}:{code.count(chr(10), 0, match.start()) + 1}: the pointer ends before its content is used;"
            " keep it in a variable" for pattern in (REFERENCE, LOOP) for match in pattern.finditer(code)]


def check():
    return [problem for path in tree.files(endings=(".cc", ".h")) for problem in problems_of(path, tree.read(path))]


def self_test():
    refused = ["const std::string& uuid = state_.map.Get()->uuid;", "for (const placement::Node& each : holder.Get()->nodes) {",
               "for (const auto& [id, space] : node_.NewestMap()->namespaces)", "auto& all = map()->Map()->nodes;",
               'const auto& after = cluster.Map()->Find("data")->partitions;']
    for text in refused:
        assert len(problems_of("a.cc", text)) == 1, text
    accepted = ["const std::string uuid = map.Get()->uuid;", "const auto map = holder.Get();\nfor (auto& each : map->nodes) {",
                "const auto space = map.Get()->Find(name);", "const bool is_new = map.Get()->epoch > known;",
                "for (const Operation& each : call.get()->operations())"]
    for text in accepted:
        assert not problems_of("a.cc", text), text


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
