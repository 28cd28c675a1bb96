"""HCL's figures."""

from figures_lib import plot, tools
from figures_lib.report import Row, Section

OWN_TCP = ("Both sides use UCX over TCP on loopback. Imperative ranks are client and target at once, and poll; our "
           "ranks are clients of a daemon, a third process on two CPUs, that sleeps when it has nothing to do.")
MEMORY_OF_RANKS = "The imperative table is the ranks' own memory: it has a fixed size of value and ends with them."
POLLING = "The imperative ranks poll: with a CPU for each of them no process is ever woken."


def inserts_remote(context, pictures):
    operations = context.size(8_192, 1_024)
    arguments = ["--operations", operations, "--value-bytes", 4_096, "--runs", 1, "--insert-only"]
    with tools.Service(context) as service:
        found = tools.interleaved(context.rounds, {
            "own": lambda: service.own("--test", "table", "--way", "tcp", *arguments),
            "ucx": lambda: tools.imperative(context, "ucx", "--test", "table", "--others", *arguments),
        })
    own, ucx, bare = found["own"]["insert"], found["ucx"]["insert"], found["ucx"]["bare insert"]
    own_cpu = own["cpu_us"] + own["daemon_cpu_us"]
    picture = pictures("hcl_1_4")
    plot.draw(picture, [("2 x %d inserts of 4 KB, remote" % operations, "us", {
        "Tidepool": {"time": own["us"], "CPU of all": own_cpu},
        "imperative": {"time": ucx["us"], "CPU of all": ucx["cpu_us"]},
        "bare UCX calls": {"time": bare["us"], "CPU of all": bare["cpu_us"]}})])
    more = "three processes on two CPUs take turns, where the imperative ranks have one each"
    return Section(
        "HCL 1, 4: inserts from another node",
        "an insert by remote procedure call is one call and a local change (F + L + W), where a client without help "
        "needs two remote atomics and a write (2A + W); HCL's programs are 2 to 12 times as fast as BCL's.",
        f"2 clients insert {operations:,} values of 4 KB each into a table of another machine. Goal: 2.5 times the "
        "imperative client.",
        "imperative client (UCX)",
        [Row("time per insert and client", own["us"], ucx["us"], "us", why=more),
         Row("CPU per insert, of all processes", own_cpu, ucx["cpu_us"], "us", why=more),
         Row("messages or one-sided calls per insert", own["calls"], ucx["calls"], ""),
         Row("time against the bare calls of the imperative insert", own["us"], bare["us"], "us", why=more)],
        notes=[f"Of our CPU time the daemon's is {own['daemon_cpu_us']:.3g} us per insert. A one-sided call over "
               "TCP keeps the target's processor as busy as a message: UCX executes it there."],
        advantages=[OWN_TCP, MEMORY_OF_RANKS], picture=picture)


SIZES = [("4 KB", 4 << 10), ("64 KB", 64 << 10), ("512 KB", 512 << 10), ("1 MB", 1 << 20), ("8 MB", 8 << 20)]


def sizes(context, pictures):
    """Bandwidths of inserts and finds by size."""
    budget = context.size(256 << 20, 64 << 20)
    rows, lines = [], {"insert": {}, "find": {}}

    def add(phase, name, place, bandwidth):
        lines[phase].setdefault(name, {})[place] = bandwidth

    for place, value_bytes in SIZES:
        operations = max(4, min(4_096, budget // value_bytes // 2))
        arguments = ["--operations", operations, "--value-bytes", value_bytes, "--runs", 1]
        # Both have one client: two of them and a daemon would share two CPUs.
        with tools.Service(context, memory="2GiB") as service:
            found = tools.interleaved(context.rounds, {
                "direct": lambda: service.own("--test", "table", "--way", "direct", *arguments, processes=1),
                "tcp": lambda: service.own("--test", "table", "--way", "tcp", *arguments, processes=1),
                "memcpy": lambda: service.own("--test", "memcpy", *arguments, processes=1),
                "mpi": lambda: tools.imperative(context, "mpi", "--test", "table", *arguments, ranks=1),
                "ucx": lambda: tools.imperative(context, "ucx", "--test", "table", "--others", "--clients", 1,
                                                *arguments),
            })

        def gigabytes(who, phase):
            return value_bytes / found[who][phase]["us"] / 1e3

        memcpy = gigabytes("memcpy", "memcpy")
        for phase, theirs in (("insert", "insert"), ("find", "find only")):
            same, remote = gigabytes("direct", phase), gigabytes("tcp", phase)
            peer_same, peer_remote = gigabytes("mpi", theirs), gigabytes("ucx", theirs)
            rows.append(Row(f"{place}, same node, {phase}", same, peer_same, "GB/s", True,
                            why="the value goes through a ring to the daemon and is copied there; the imperative "
                                "client copies it once, itself" if phase == "insert" else
                                "a find looks the key up in an index that others may change, and checks all that it has read"))
            rows.append(Row(f"{place}, TCP, {phase}", remote, peer_remote, "GB/s", True,
                            why="values above 32 KB travel in parts of 56 KB, which are copied twice; UCX sends from "
                                "where they are" if value_bytes > 32_768 else
                                "the daemon has to be woken; the imperative target polls"))
            rows.append(Row(f"{place}, same node, {phase}, against memcpy", same, memcpy, "GB/s", True,
                            why="memcpy is the floor"))
            add(phase, "Tidepool, same node", place, same)
            add(phase, "Tidepool, TCP", place, remote)
            add(phase, "imperative, same node", place, peer_same)
            add(phase, "imperative, TCP", place, peer_remote)
            add(phase, "memcpy", place, memcpy)
    picture = pictures("hcl_5")
    plot.draw(picture, [(f"{phase}: bandwidth by size of the value", "GB/s", lines[phase]) for phase in lines])
    return Section(
        "HCL 5: bandwidth by size, same node and TCP",
        "accesses to the own node go around the RPC, through shared memory, and are many times faster than accesses "
        "to another node, which grow with the size of the value.",
        "values of 4 KB to 8 MB. Same node: one client, reads in the daemon's memory, inserts by its ring. TCP: "
        "a client of a daemon; an imperative rank that uses another rank's memory. Goal: finds at least equal, "
        "inserts as they are.",
        "imperative client (MPI-3, UCX)", rows,
        advantages=[MEMORY_OF_RANKS + " It is allocated and touched before the clock starts.", POLLING,
                    "The imperative find over TCP assumes that no client writes: a get alone."],
        picture=picture)


KINDS = [("hash", "hash map"), ("ordered", "ordered map"), ("hash-set", "hash set"), ("ordered-set", "ordered set"),
         ("queue", "queue"), ("priority", "priority queue")]


def kinds(context, pictures):
    """Each kind by number of partitions, against the imperative table and queue."""
    rows, panels = [], []
    for value_bytes, label in ((64, "64 B"), (64 << 10, "64 KB")):
        operations = context.size(20_000, 4_000) if value_bytes == 64 else context.size(1_000, 200)
        lines = {}
        own, peers = {}, {}
        for partitions in (1, 2, 4, 8):
            with tools.Service(context, memory="2GiB") as service:
                contenders = {
                    name: (lambda kind=kind: service.own(
                        "--test", "kinds", "--kind", kind, "--partitions", partitions, "--operations", operations,
                        "--value-bytes", value_bytes, "--runs", 1))
                    for kind, name in KINDS if value_bytes == 64 or not kind.endswith("-set")}
                contenders["table"] = lambda: tools.imperative(
                    context, "mpi", "--test", "table", "--operations", operations, "--value-bytes", value_bytes,
                    "--runs", 1)
                contenders["ring"] = lambda: tools.imperative(
                    context, "mpi", "--test", "queues", "--operations", operations, "--value-bytes", value_bytes,
                    "--runs", 1)
                found = tools.interleaved(context.rounds, contenders)
            peers[partitions] = {"insert": found["table"]["insert"]["us"], "find": found["table"]["find"]["us"],
                                 "push": found["ring"]["push, one queue"]["us"],
                                 "pop": found["ring"]["pop, one queue"]["us"]}
            for _, name in KINDS:
                if name in found:
                    own[name, partitions] = found[name]
                    lines.setdefault(name, {})[partitions] = 2 / found[name]["insert"]["us"] * 1e6
        change = ("each change is a message to a daemon, which shares two CPUs with both clients; the imperative client "
                  "changes shared memory itself")
        read = {"hash": "a find looks the key up in an index that others may change, and checks all that it has read",
                "ordered": "a find in an ordered kind is a message to a daemon; the imperative table has no order"}
        for (name, partitions), phases in own.items():
            if partitions not in (1, 8):
                continue
            pushes = "queue" in name
            for phase, theirs in (("insert", "push" if pushes else "insert"), ("find", "pop" if pushes else "find")):
                rows.append(Row(f"{name}, {label}, {partitions} partition{'s' if partitions > 1 else ''}, {theirs}",
                                phases[phase]["us"], peers[partitions][theirs], "us",
                                why=read[name.split()[0]] if theirs == "find" else change))
        panels.append((f"inserts and pushes of {label} by partitions, both clients", "operations/s", lines))
    picture = pictures("hcl_6")
    plot.draw(picture, panels)
    return Section(
        "HCL 6: kinds and partitions",
        "hash structures are the fastest, ordered ones pay log N for each change, and all scale with partitions.",
        "2 clients of one node with one core, each operation by itself; 1, 2, 4 and 8 partitions. The other side is "
        "the imperative table (for maps and sets) and ring (for queues) in shared memory, which have no order.",
        "imperative client (MPI-3)", rows,
        notes=["Partitions are units of ownership: with one core they can only show that they cost nothing. A priority "
               "queue has one; a queue's are lanes.", "Keys have at most 16 KB, hence sets have no row of 64 KB."],
        advantages=[MEMORY_OF_RANKS, POLLING,
                    "The imperative side has neither order nor priorities: its rows stand beside them for scale."],
        picture=picture)


FIGURES = {"hcl-1-4": inserts_remote, "hcl-5": sizes, "hcl-6": kinds}
TITLES = {"hcl-1-4": "HCL 1, 4: inserts from another node", "hcl-5": "HCL 5: bandwidth by size, same node and TCP",
          "hcl-6": "HCL 6: kinds and partitions"}
