#!/usr/bin/python3
"""One word, one meaning: names avoid the words that the project replaced by others.

Only names are checked, by words that have no other honest use in them; comments, texts, and test
variables are left to the reader's judgement.
"""

import re
import sys

import tree

# Word -> what to say instead. In no identifier of the product.
INSTEAD = {
    "reactor": "core", "master": "coordinator", "packet": "frame or group", "packets": "frame or group",
    "wish": "wait condition or request", "wishes": "wait conditions or requests",
    "duty": "maintenance", "duties": "maintenance", "heir": "successor", "heirs": "successors",
    "leavings": "moved-out records", "stray": "misrouted", "strays": "misrouted operations",
}
# Phrases that the field has a word for, also in comments.
PHRASES = {
    r"kept answers?": "reply cache", r"held answers?": "replies awaiting commit",
    r"suspended operations?": "event waiters", r"pending operations?": "I/O waiters",
    r"finished_below": "ack_watermark", r"log sinks?": "log observer",
}
# In no name of a file, and of no type of the product. (A test may have its own small Server.)
INSTEAD_IN_TYPES = {
    **INSTEAD,
    "server": "node or daemon", "manager": "coordinator, or what it does",
    "timestamp": "LSN, version, or a time with its unit", "hint": "promise", "hints": "promise",
}
# Identifiers of other libraries.
FOREIGN = {"ServerUnaryReactor", "ServerWriteReactor", "ServerReadReactor", "ServerBidiReactor", "DefaultReactor"}

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPE = re.compile(r"\b(?:class|struct|enum(?:\s+class)?|namespace|using)\s+(?:\[\[\w+\]\]\s+)?(\w+)(?=[^;<>()]*[{=])")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")


def words(identifier):
    return [part.lower() for part in WORD.findall(identifier)]


def problems_of(path, text):
    found = []
    for word in words(path.rsplit(".", 1)[0].replace("/", "_")):
        if word in INSTEAD_IN_TYPES:
            found.append(f"{path}: the file's name says '{word}'; say {INSTEAD_IN_TYPES[word]}")
    if not path.endswith(tree.CXX):
        return found
    for number, line in enumerate(text.splitlines(), 1):
        for phrase, better in PHRASES.items():
            if re.search(rf"\b{phrase}\b", line, re.IGNORECASE):
                found.append(f"{path}:{number}: '{phrase}'; say {better}")
    code = re.sub(r"^[ \t]*#[ \t]*include.*$", "", tree.code_only(text), flags=re.MULTILINE)
    for number, line in enumerate(code.splitlines(), 1):
        types = set(TYPE.findall(line))
        for identifier in IDENTIFIER.findall(line):
            if identifier in FOREIGN or (path.startswith("tests/") and identifier not in types):
                continue
            of_product = identifier in types and not path.startswith("tests/")
            instead = INSTEAD_IN_TYPES if of_product else INSTEAD
            for word in words(identifier):
                if word in instead:
                    found.append(f"{path}:{number}: {identifier} says '{word}'; say {instead[word]}")
    return found


def check():
    return [problem for path in tree.files(endings=tree.CXX + (".proto", ".py"))
            for problem in problems_of(path, tree.read(path))]


def self_test():
    refused = ["class CoreManager {};", "int heirs;", "void RunDuty();", "auto masterNode = 1;",
               "struct WishState {};", "int packets;", "enum class ServerKind : int { kA };",
               "using Timestamp = long;", "// drops the kept answers", "// Held answers leave first."]
    for text in refused:
        assert len(problems_of("daemon/x.cc", text)) == 1, text
    accepted = ["// a manager would\n", 'Log("server");', "grpc::ServerBuilder builder;",
                "std::unique_ptr<grpc::Server> services;", "int remastered;", "class Server;",
                "int shard_count;", "void EvictRecord();"]
    for text in accepted:
        assert not problems_of("daemon/x.cc", text), (text, problems_of("daemon/x.cc", text))
    assert len(problems_of("daemon/core_manager.cc", "")) == 1
    assert len(problems_of("tests/x.cc", "struct Packet { int wish; };")) == 1
    assert not problems_of("tests/x.cc", "struct Server {};")
    assert words("HTTPServer_x2") == ["http", "server", "x2"], words("HTTPServer_x2")


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
