#!/usr/bin/python3
"""Holds the tree against the include table: which folder may include which, and which libraries.

Floors, lowest first; an arrow may only point down, and only to what the row names. A library that is
in no row (command line, TOML, TLS, hwloc, ...) is allowed in daemon, cli, tests and client/examples.
"""

import collections
import os
import re
import sys

import tree

Row = collections.namedtuple("Row", "folder may_include libraries any_library")


def row(folder, may_include="", libraries="", any_library=False):
    return Row(folder, may_include.split(), libraries.split(), any_library)


# What every wing of the daemon, and of the client, may include.
DAEMON = ("storage proto/base proto/wire proto/placement proto/transport proto/cluster_file proto/convert "
          "proto/machine proto/manifest proto/file_tree proto/stage messages client/include/tidepool/function.h")
DAEMON_LIBRARIES = "protobuf grpc abseil nlohmann xxhash"
CLIENT = ("client/include proto/base proto/wire proto/placement proto/transport proto/cluster_file "
          "proto/convert proto/manifest messages storage/layout.h")

# The most specific folder that contains a file is its row. Every row may include itself. "messages"
# is the code generated from proto/tidepool/v1; "public" is client/include.
TABLE = [
    # Status and Result, which installed headers and all floors share: the standard library alone.
    row("client/include/tidepool/base"),
    row("proto/base", "client/include/tidepool/base", "xxhash"),
    row("proto/wire", "proto/base"),
    row("proto/placement", "proto/base"),
    row("proto/cluster_file", "proto/base", "nlohmann openssl munge"),
    row("proto/manifest", "proto/base", "xxhash"),
    row("proto/file_tree", "proto/base"),
    row("proto/convert", "proto/base proto/cluster_file proto/placement messages", "protobuf grpc"),
    row("proto/machine", "proto/base messages", "protobuf"),
    row("proto/stage", "proto/base proto/placement proto/convert proto/manifest proto/file_tree "
        "messages", "protobuf"),
    row("proto/transport", "proto/base proto/wire", "ucx"),
    # isa-l: the checksum of stored bytes at the speed of memory, whatever processor the package meets
    # (measured: 53 GB/s, byte by byte from a table 0.45 GB/s, which is less than a device writes).
    row("storage", "proto/base", "abseil pmdk liburing isa-l"),
    # The wings of the daemon, lowest first. Each may use what all of them share (DAEMON).
    row("daemon/etcd", DAEMON, DAEMON_LIBRARIES, True),
    row("daemon/ops", DAEMON, DAEMON_LIBRARIES, True),
    row("daemon/metrics", DAEMON, DAEMON_LIBRARIES, True),
    row("daemon/copies", DAEMON, DAEMON_LIBRARIES, True),
    row("daemon/core", DAEMON + " daemon/ops daemon/metrics daemon/copies", DAEMON_LIBRARIES, True),
    row("daemon/config", DAEMON + " daemon/core daemon/etcd", DAEMON_LIBRARIES, True),
    row("daemon/membership", DAEMON + " daemon/core daemon/config daemon/etcd", DAEMON_LIBRARIES, True),
    row("daemon/control", DAEMON + " daemon/core daemon/config daemon/membership", DAEMON_LIBRARIES, True),
    row("daemon/tools", DAEMON + " daemon/control daemon/membership", DAEMON_LIBRARIES, True),
    row("daemon/routing", DAEMON + " daemon/core", DAEMON_LIBRARIES, True),
    row("daemon/moving", DAEMON + " daemon/core daemon/copies daemon/membership daemon/control", DAEMON_LIBRARIES,
        True),
    row("daemon/snapshot", DAEMON + " daemon/core daemon/ops daemon/routing", DAEMON_LIBRARIES, True),
    row("daemon/staging", DAEMON + " daemon/core daemon/control daemon/routing", DAEMON_LIBRARIES, True),
    row("daemon/services", DAEMON + " daemon/core daemon/control daemon/membership daemon/routing "
        "daemon/moving daemon/snapshot daemon/staging", DAEMON_LIBRARIES, True),
    row("daemon/status_page", DAEMON + " daemon/metrics daemon/control daemon/services", DAEMON_LIBRARIES, True),
    row("daemon/node", DAEMON + " daemon/ops daemon/core daemon/config daemon/control daemon/membership "
        "daemon/routing daemon/moving daemon/services daemon/status_page", DAEMON_LIBRARIES, True),
    # The program.
    row("daemon", DAEMON + " daemon/config daemon/control daemon/node daemon/services daemon/tools",
        DAEMON_LIBRARIES, True),
    # The headers of a user's program: client/include is installed as it is, so nothing else is there.
    row("client/include", "client/include/tidepool/base"),
    # The wings of the client. calls, engine, link and cache include each other and share the row of "client".
    row("client/direct", CLIENT, "protobuf grpc"),
    row("client", CLIENT + " client/direct", "protobuf grpc"),
    row("client/buffers", CLIENT + " client", "protobuf grpc"),
    row("client/api", CLIENT + " client client/direct client/buffers", "protobuf grpc"),
    # Python's extension is a program on the installed headers.
    row("client/python/native", "client/include", "python"),
    # The C API is a program on the SDK: it knows the public headers alone.
    row("client/c", "client/include"),
    # Also what any program may do with the published messages.
    row("client/examples", "client/include messages", "grpc nlohmann openssl", True),
    row("cli", "client/include proto/base proto/cluster_file proto/placement proto/convert proto/machine "
        "proto/manifest proto/file_tree proto/stage messages",
        "protobuf grpc nlohmann", True),
    row("tests", "*", "*", True),
    row("deploy", "*", "*", True),
]

# Files that may do what their folder may not: the reason stands beside each.
EXCEPTIONS = {
    # spdlog costs 4 s of compile time per including file, so one file pays it for all.
    "proto/base/log.cc": {"spdlog"},
    # The daemon's program puts a client's engine into its node, which knows it by an interface only.
    "daemon/kvd.cc": {"client/link/node_aggregator.h"},
    # kvctl stop removes the sockets of daemons that were killed.
    "cli/commands/cluster/stop.cc": {"proto/transport/ring_socket.h"},
}

LIBRARIES = [
    ("xxhash", r"xxhash\.h|xxh3\.h"),
    ("spdlog", r"spdlog/.*|fmt/.*"),
    ("nlohmann", r"nlohmann/.*"),
    ("protobuf", r"google/protobuf/.*"),
    ("grpc", r"grpc/.*|grpcpp/.*"),
    ("abseil", r"absl/.*"),
    ("pmdk", r"libpmem.*\.h"),
    ("liburing", r"liburing.*"),
    ("isa-l", r"isa-l(/.*|\.h)"),
    ("openssl", r"openssl/.*"),
    ("munge", r"munge\.h"),
    ("ucx", r"uc[psmt]/.*"),
    # In no row of the table:
    ("cli11", r"CLI/.*"),
    ("toml++", r"toml\+\+/.*|toml\.hpp"),
    ("hwloc", r"hwloc(/.*|\.h)"),
    ("zlib", r"zlib\.h"),
    ("fuse", r"fuse_lowlevel\.h"),
    ("boost", r"boost/.*"),
    ("openblas", r"cblas\.h"),
    ("pcg", r"pcg_random\.hpp"),
    ("rocksdb", r"rocksdb/.*"),
    ("lmdb", r"lmdb\.h"),
    ("prometheus", r"prometheus/.*"),
    ("munge", r"munge\.h"),
    ("python", r"Python\.h"),
    ("lz4", r"lz4.*\.h"),
    ("zstd", r"zstd.*\.h"),
    ("catch2", r"catch2/.*"),
    ("benchmark", r"benchmark/.*"),
    ("mpi", r"mpi\.h"),
    ("redis", r"hiredis/.*"),
]
IN_A_ROW = {"xxhash", "spdlog", "nlohmann", "protobuf", "grpc", "abseil", "pmdk", "liburing", "isa-l",
            "openssl", "ucx"}

# C, POSIX and Linux, which every row may include. C++ headers have no ending.
SYSTEM = re.compile(
    r"[a-z_0-9]+|(sys|net|netinet|arpa|linux|asm|bits)/[a-z_0-9/]+\.h|"
    r"(aio|cpuid|cxxabi|dirent|dlfcn|elf|endian|errno|execinfo|fcntl|features|float|fnmatch|ftw|getopt|glob|"
    r"grp|ifaddrs|immintrin|inttypes|langinfo|limits|link|locale|malloc|math|netdb|nmmintrin|poll|"
    r"pthread|pty|pwd|sched|semaphore|setjmp|signal|spawn|stdarg|stdatomic|stddef|stdint|stdio|stdlib|"
    r"string|strings|syslog|termios|time|ucontext|unistd|utime|wait|wchar|x86intrin)\.h|sanitizer/.*")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def row_of(path):
    """The most specific row whose folder contains `path`, or None."""
    best = None
    for candidate in TABLE:
        if path.startswith(candidate.folder + "/"):
            if best is None or len(candidate.folder) > len(best.folder):
                best = candidate
    return best


def resolve(name, quoted, headers, folder=""):
    """('messages', None) | ('ours', path) | ('system', None) | ('library', its name) | ('unknown', None)"""
    if re.fullmatch(r"tidepool/v1/\w+\.(grpc\.)?pb\.h", name):
        return "messages", None
    # Generated from daemon/etcd/etcd.proto: somebody else's messages.
    if re.fullmatch(r"daemon/etcd/etcd\.(grpc\.)?pb\.h", name):
        return "library", "etcd"
    # A small example is installed without the tree around it, so its files include each other by their names.
    beside = [f"{folder}/{name}"] if quoted and folder.startswith("client/examples/") else []
    for path in (name, "client/include/" + name, *beside):
        if path in headers:
            return "ours", path
    if quoted:
        return "unknown", None
    for library, pattern in LIBRARIES:
        if re.fullmatch(pattern, name):
            return "library", library
    return ("system", None) if SYSTEM.fullmatch(name) else ("unknown", None)


def forbidden(path, rule, kind, target):
    """Why `path`, which `rule` governs, may not include what was resolved, or None."""
    if kind in ("system",) or "*" in rule.may_include:
        return None
    if kind == "messages":
        return None if "messages" in rule.may_include else "generated messages"
    if kind == "library":
        if target in rule.libraries or target in EXCEPTIONS.get(path, ()):
            return None
        return None if rule.any_library and target not in IN_A_ROW else f"library {target}"
    if target in EXCEPTIONS.get(path, ()):
        return None
    folder = row_of(target)
    if folder is None:
        return f"{target}, which is in no row"
    if folder == rule or folder.folder in rule.may_include or target in rule.may_include:
        return None
    return f"folder {folder.folder}"


def cycle_in(graph):
    """One cycle of `graph` (node -> set of nodes) as a list, or None."""
    state = {}

    def visit(node, trail):
        state[node] = "open"
        for successor in sorted(graph.get(node, ())):
            if state.get(successor) == "open":
                return trail[trail.index(successor):] + [successor]
            if successor not in state:
                found = visit(successor, trail + [successor])
                if found:
                    return found
        state[node] = "done"
        return None

    for node in sorted(graph):
        if node not in state:
            found = visit(node, [node])
            if found:
                return found
    return None


def check_sources(sources):
    """`sources`: path -> text. Returns the list of violations."""
    problems = []
    headers = {path for path in sources if path.endswith(".h")}
    file_graph = collections.defaultdict(set)
    folder_graph = collections.defaultdict(set)
    for path, text in sorted(sources.items()):
        rule = row_of(path)
        if rule is None:
            problems.append(f"{path}: in no row of the include table")
            continue
        for match in INCLUDE.finditer(text):
            quoted = match.group(1) is not None
            name = match.group(1) or match.group(2)
            line = text.count("\n", 0, match.start()) + 1
            kind, target = resolve(name, quoted, headers, os.path.dirname(path))
            if kind == "unknown":
                problems.append(f"{path}:{line}: '{name}' is neither a file of the project nor a known "
                                "library (new libraries go into tests/lint/include_table.py)")
                continue
            why = forbidden(path, rule, kind, target)
            if why:
                problems.append(f"{path}:{line}: {rule.folder} may not include {why}: {name}")
            if kind == "ours":
                file_graph[path].add(target)
                if row_of(target) not in (None, rule):
                    folder_graph[rule.folder].add(row_of(target).folder)
    for what, graph in (("files", file_graph), ("folders", folder_graph)):
        cycle = cycle_in(graph)
        if cycle:
            problems.append(f"cycle of {what}: {' -> '.join(cycle)}")
    return problems


def check():
    return check_sources({path: tree.read(path) for path in tree.files(endings=tree.CXX)})


def self_test():
    def problems_of(path, include, **more):
        sources = {path: f"#include {include}\n", "proto/base/status.h": "", "storage/layout.h": "",
                   "storage/log.h": "", "daemon/core/core.h": "", "proto/transport/transport.h": "",
                   "client/session.h": "", "client/include/tidepool/client.h": "",
                   "client/include/tidepool/base/status.h": "", "client/include/tidepool/function.h": "",
                   "client/examples/a/a.h": "", **more}
        return check_sources(sources)

    accepted = [
        ("proto/base/log.cc", "<spdlog/spdlog.h>"), ("proto/transport/x.cc", "<ucp/api/ucp.h>"),
        ("daemon/kvd.cc", "<CLI/CLI.hpp>"), ("client/x.cc", '"storage/layout.h"'),
        ("cli/x.cc", "<tidepool/client.h>"), ("daemon/x.cc", '"tidepool/v1/data.grpc.pb.h"'),
        ("storage/x.h", "<sys/mman.h>"), ("client/include/tidepool/x.h", "<vector>"),
        ("tests/x.cc", '"daemon/core/core.h"'), ("client/examples/x.cc", "<zlib.h>"),
        ("proto/base/x.h", '"tidepool/base/status.h"'), ("daemon/x.cc", '"tidepool/function.h"'),
        ("client/include/tidepool/x.h", '"tidepool/base/status.h"'), ("client/examples/a/a.cc", '"a.h"'),
    ]
    refused = [
        ("proto/base/x.h", "<spdlog/spdlog.h>"), ("daemon/x.cc", "<ucp/api/ucp.h>"),
        ("client/x.cc", "<ucs/type/status.h>"), ("storage/x.cc", '"proto/transport/transport.h"'),
        ("proto/base/x.h", '"storage/layout.h"'), ("client/x.cc", '"storage/log.h"'),
        ("client/x.cc", '"daemon/core/core.h"'), ("daemon/x.cc", '"client/session.h"'),
        ("cli/x.cc", '"client/session.h"'), ("storage/x.cc", '"tidepool/v1/data.pb.h"'),
        ("client/x.cc", "<CLI/CLI.hpp>"), ("storage/x.cc", "<nlohmann/json.hpp>"),
        ("client/include/tidepool/x.h", "<grpcpp/grpcpp.h>"), ("proto/wire/x.h", "<absl/types/span.h>"),
        ("cli/x.cc", "<unheard_of/library.h>"), ("daemon/x.cc", '"no/such/file.h"'),
        ("elsewhere/x.cc", "<vector>"), ("daemon/x.cc", "<libpmem2.h>"),
        ("daemon/x.cc", "<isa-l/crc.h>"), ("client/include/tidepool/x.h", '"proto/base/status.h"'),
        ("daemon/x.cc", '"tidepool/client.h"'), ("client/include/tidepool/base/x.h", '"tidepool/client.h"'),
        ("client/examples/b/b.cc", '"a.h"'), ("proto/base/x.h", '"tidepool/client.h"'),
    ]
    for path, include in accepted:
        assert not problems_of(path, include), (path, include, problems_of(path, include))
    for path, include in refused:
        assert len(problems_of(path, include)) == 1, (path, include, problems_of(path, include))
    cyclic = check_sources({"daemon/a.h": '#include "daemon/b.h"', "daemon/b.h": '#include "daemon/a.h"'})
    assert cyclic == ["cycle of files: daemon/a.h -> daemon/b.h -> daemon/a.h"], cyclic
    folders = check_sources({"tests/a.h": "", "tests/b.cc": '#include "deploy/a.h"',
                             "deploy/a.h": '#include "tests/a.h"'})
    assert folders == ["cycle of folders: deploy -> tests -> deploy"], folders
    # The table itself has no arrow upwards, whatever the tree does with it.
    allowed = {r.folder: {m for m in r.may_include if "/" in m or m == "storage"} for r in TABLE}
    assert cycle_in(allowed) is None
    assert os.path.isdir(os.path.join(tree.ROOT, "proto/base"))


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
