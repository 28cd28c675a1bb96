"""BCL's figures."""

from figures_lib import plot, tools
from figures_lib.hcl import MEMORY_OF_RANKS, OWN_TCP, POLLING
from figures_lib.report import Row, Section, number


def table(context, pictures):
    operations = {"direct": context.size(200_000, 20_000), "tcp": context.size(10_000, 2_000)}
    over = {"direct": "mpi", "tcp": "ucx"}
    rows, panels, notes = [], [], []
    for way, where in (("direct", "same node"), ("tcp", "TCP")):
        arguments = ["--test", "table", "--operations", operations[way], "--value-bytes", 8, "--runs", 1]
        # Between machines a rank reaches the other's memory only, as our clients have nothing of their own.
        others = ["--others"] if way == "tcp" else []
        with tools.Service(context) as service:
            contenders = {
                "own": lambda: service.own("--way", way, *arguments),
                "peer": lambda: tools.imperative(context, over[way], *arguments, *others),
            }
            if way == "tcp":
                contenders["own alone"] = lambda: service.own("--way", way, *arguments, processes=1)
                contenders["peer alone"] = lambda: tools.imperative(context, over[way], *arguments, *others, "--clients", 1)
                # Over TCP a get is an active message and its answer. Not ucp_get itself: in UCX 1.13 that test's
                # target makes progress once a millisecond (openucx/ucx#11418 mends it): 954 us.
                contenders["perftest"] = lambda: tools.ucx_perftest(context, "ucp_am_lat", 8, operations[way])
            found = tools.interleaved(context.rounds, contenders)
        own, peer = found["own"], found["peer"]

        def both(phase, field="cpu_us"):
            return own[phase][field] + own[phase]["daemon_cpu_us"]

        message = ("one message to a daemon and back, whose process shares two CPUs with both clients; the imperative "
                   "client changes shared memory itself" if way == "direct" else
                   "three processes on two CPUs take turns and are woken, where the imperative ranks have one each and poll")
        read = "a find looks the key up in an index that others may change, and checks all that it has read" if way == "direct" else message
        buffered = ("the daemon keeps keys and values of any length, versions and lives; the imperative insert is a "
                    "copy of 16 bytes")
        pairs = [("insert", "insert", "insert", message), ("find", "find, others may write", "find", read),
                 ("find", "find, nobody writes", "find only", read),
                 ("batched find", "find, 64 at a time", "find only", read),
                 ("buffered insert", "buffered insert", "buffered insert", buffered)]
        for mine, name, theirs, why in pairs:
            rows.append(Row(f"{name}, {where}: time", own[mine]["us"], peer[theirs]["us"], "us", why=why))
            rows.append(Row(f"{name}, {where}: CPU", both(mine), peer[theirs]["cpu_us"], "us", why=why))
        mixed_own = own["insert"]["us"] + own["find"]["us"]
        rows.append(Row(f"insert and then find (sum of both), {where}: time", mixed_own,
                        peer["insert"]["us"] + peer["find"]["us"], "us",
                        why=message))
        for mine, bare, name in (("insert", "bare insert", "insert"), ("find only", "bare find", "find")):
            times = peer[mine]["us"] / peer[bare]["us"]
            notes.append(f"The imperative {name}, {where}, takes {times:.2f} times as long as its bare calls: "
                         f"{number(peer[mine]['us'])} us and {number(peer[bare]['us'])} us. A good baseline takes at "
                         f"most 1.2 times as long{'' if times <= 1.2 else ': missed'}.")
        if way == "tcp":
            bare, floor = found["peer alone"]["bare find"]["us"], 2 * found["perftest"]["ucp_am_lat"]["us"]
            times = bare / floor
            notes.append(f"The baseline's bare get over UCX, one client, takes {times:.2f} times as long as an active "
                         f"message of ucx_perftest and its answer (ucp_am_lat): {number(bare)} us and {number(floor)} "
                         f"us. A good baseline takes at most 1.2 times as long{'' if times <= 1.2 else ': missed'}.")
            for mine, theirs, name in (("insert", "insert", "insert"), ("find", "find", "find, others may write"),
                                       ("find", "find only", "find, nobody writes")):
                rows.append(Row(f"{name}, TCP, one client: time", found["own alone"][mine]["us"],
                                found["peer alone"][theirs]["us"], "us",
                                why="both are one round trip; the imperative rank that is asked polls, our daemon has "
                                    "to be woken when it sleeps"))
        panels.append((f"Table of 8 B values, 2 clients, {where}", "us", {
            "Tidepool": {name: own[mine]["us"] for mine, name in
                         (("insert", "insert"), ("find", "find"), ("batched find", "batched"),
                          ("buffered insert", "buffered"))},
            "imperative": {name: peer[theirs]["us"] for theirs, name in
                           (("insert", "insert"), ("find", "find"), ("find only", "find only"),
                            ("buffered insert", "buffered"))}}))
    picture = pictures("bcl_9")
    plot.draw(picture, panels)
    return Section(
        "BCL 9: hash table",
        "an insert costs 2A + W and a find 2A + R; without writers a find costs R; buffered inserts are far faster "
        "than single ones.",
        "2 clients; keys and values of 8 bytes; each operation by itself but where the row says so. Goal: finds at "
        "least as fast over TCP.",
        "imperative client (MPI-3; TCP: UCX)", rows, notes=notes,
        advantages=[MEMORY_OF_RANKS, POLLING, OWN_TCP,
                    "Our buffered inserts are answered for by Flush; imperative inserts reach the table only when all "
                    "ranks flush together.",
                    "In shared memory half of the imperative keys are a rank's own. Over TCP none is."],
        picture=picture)


def queues(context, pictures):
    operations = context.size(100_000, 10_000)
    arguments = ["--test", "queues", "--operations", operations, "--value-bytes", 8, "--runs", 1]
    with tools.Service(context) as service:
        found = tools.interleaved(context.rounds, {
            "own": lambda: service.own("--way", "ring", *arguments),
            "peer": lambda: tools.imperative(context, "mpi", *arguments),
        })
    own, peer = found["own"], found["peer"]
    single = ("one message per item to a daemon that shares two CPUs with both clients; the imperative ranks change "
              "shared memory themselves")
    many = "the daemon parses, keeps and answers for each item; the imperative ranks copy 8 bytes"
    rows = []
    for where in ("one queue", "a queue each"):
        for mine, theirs, name, why in (
                ("push", "push only", "push, nothing else happens", single),
                ("pop", "pop only", "pop, nothing else happens", single),
                ("push", "push", "push, others may pop", single), ("pop", "pop", "pop, others may push", single),
                ("push and pop", "push and pop", "push and pop in turns", single),
                ("buffered push", "push only", "buffered push against single ones", many),
                ("pop many", "pop only", "1,024 pops at a time against single ones", many)):
            rows.append(Row(f"{name}, {where}", own[f"{mine}, {where}"]["us"], peer[f"{theirs}, {where}"]["us"], "us",
                            why=why))
    picture = pictures("bcl_10_11")
    plot.draw(picture, [(f"Items of 8 B, 2 clients, {where}", "us", {
        "Tidepool": {"push": own[f"push, {where}"]["us"], "pop": own[f"pop, {where}"]["us"],
                     "both": own[f"push and pop, {where}"]["us"], "buffered": own[f"buffered push, {where}"]["us"]},
        "imperative": {"push": peer[f"push, {where}"]["us"], "pop": peer[f"pop, {where}"]["us"],
                       "both": peer[f"push and pop, {where}"]["us"], "push only": peer[f"push only, {where}"]["us"]}})
        for where in ("one queue", "a queue each")])
    return Section(
        "BCL 10, 11: queues",
        "a queue that is pushed to and popped from at the same time costs two atomics more than a queue with a "
        "promise of pushes or pops alone; many clients of a queue contend.",
        "2 clients of one node; a queue for both, or each pushes to its neighbour's; items of 8 bytes.",
        "imperative client (MPI-3)", rows,
        advantages=[MEMORY_OF_RANKS, POLLING,
                    "Our queues grow, and can lease items, wait and tell each push's number; the imperative ring has a "
                    "fixed number of items of one size."],
        picture=picture)


FIGURES = {"bcl-9": table, "bcl-10-11": queues}
TITLES = {"bcl-9": "BCL 9: hash table", "bcl-10-11": "BCL 10, 11: queues"}
