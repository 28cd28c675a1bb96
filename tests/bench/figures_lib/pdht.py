"""PDHT's figures."""

from figures_lib import plot, tools
from figures_lib.report import Row, Section

ONE_SIZE = "PDHT's elements, and the companions', have a fixed size, numbers as keys, and end with the program."
POLLING = "Companions and their clients poll without end; our daemon sleeps without requests."


def look_ups(context, pictures):
    sizes = context.size([100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000], [100, 10_000, 1_000_000])
    operations = {"local": context.size(100_000, 20_000), "remote": context.size(10_000, 2_000)}
    rows, lines = [], {}
    for where, way, over in (("local", "direct", "vader"), ("remote", "tcp", "tcp")):
        for entries in sizes:
            arguments = ["--test", "look-ups", "--operations", operations[where], "--entries", entries, "--runs", 1]
            with tools.Service(context, memory="6GiB") as service:
                found = tools.interleaved(context.rounds, {
                    "own": lambda: service.own("--way", way, *arguments, processes=1),
                    "peer": lambda: tools.companion(context, over, *arguments),
                })
            for phase in ("hit", "miss"):
                own, peer = found["own"][phase]["us"], found["peer"][phase]["us"]
                rows.append(Row(f"{phase}, {where}, {entries:,} entries", own, peer, "us",
                                why="the records are read where they lie, so two lines of memory have to come; a message "
                                    "to a process that polls costs less than that" if where == "local" else
                                    "a round trip each; the companion polls, the daemon has to be woken when it sleeps"))
                lines.setdefault(f"Tidepool, {phase}, {where}", {})[plot.number(entries)] = own
                lines.setdefault(f"companion, {phase}, {where}", {})[plot.number(entries)] = peer
    picture = pictures("pdht_3_5")
    plot.draw(picture, [("Look-ups by number of entries", "us", lines)])
    return Section(
        "", "a look-up costs the same whatever the number of entries, hit or miss, and far less than by a companion "
        "process.",
        "one client; random keys of tables of 100 to 10 million entries of 8 bytes; local: the daemon's memory, or "
        "messages through shared memory; remote: TCP.",
        "companion process (MPI)", rows, advantages=[ONE_SIZE, POLLING], picture=picture)


def neighbours(context, pictures):
    rows, lines = [], {}
    operations = context.size(50_000, 5_000)
    for clients in (1, 2, 4):
        arguments = ["--operations", operations, "--runs", 1]
        with tools.Service(context) as service:
            found = tools.interleaved(context.rounds, {
                "own": lambda: service.own("--test", "table", *arguments, processes=clients),
                "peer": lambda: tools.companion(context, "vader", "--test", "neighbours", *arguments, clients=clients),
            })
        phase = "neighbour find" if clients > 1 else "find"
        own, peer = found["own"][phase], found["peer"][phase]
        what = f"read of a neighbour's, {clients} processes" if clients > 1 else "read of one's own, 1 process"
        rows.append(Row(f"{what}: time", own["us"], peer["us"], "us"))
        rows.append(Row(f"{what}: the reader's CPU", own["cpu_us"], peer["cpu_us"], "us"))
        rows.append(Row(f"put, {clients} process{'es' if clients > 1 else ''}: time", found["own"]["insert"]["us"],
                        found["peer"]["insert"]["us"], "us",
                        why="our put returns when the value is there, theirs when the message is on its way"))
        lines.setdefault("Tidepool, read", {})[clients] = own["us"]
        lines.setdefault("companion, read", {})[clients] = peer["us"]
    picture = pictures("pdht_6")
    plot.draw(picture, [("Reads of a neighbour's elements by processes", "us", lines)])
    return Section(
        "", "the time of a read of a neighbour's element hardly grows with the number of processes.",
        "each process puts its elements of 8 bytes and reads those of the next one, one at a time; same node.",
        "companion process (MPI)", rows,
        notes=["4 processes and a fifth that serves them take turns on two CPUs: from there on the companion's rows are "
               "what the kernel's scheduler makes of processes that poll."],
        advantages=[ONE_SIZE, POLLING], picture=picture)


STEPS = [("project", "projected"), ("compress", "compressed"), ("reconstruct", "reconstructed"),
         ("differentiate", "differentiated")]


def own_tree(context, service, arguments, processes):
    daemon = service.cpu()
    cpu, _, out, _ = tools.cpu_of([context.program("tree"), "--cluster", service.file, "--processes", str(processes),
                                   *arguments])
    numbers = {step: {"seconds": tools.seconds_said(f"^{word}", out)} for step, word in STEPS}
    numbers["all"] = {"seconds": sum(numbers[step]["seconds"] for step, _ in STEPS),
                      "cpu_s": cpu + service.cpu() - daemon,
                      "messages": int(tools.said(r"^messages +([0-9]+)", out)),
                      "look_ups": int(tools.said(r"^look-ups +([0-9]+)", out))}
    return numbers


def companion_tree(context, over, arguments, clients):
    found = tools.companion(context, over, "--test", "tree", *arguments, clients=clients)
    numbers = {step: {"seconds": found[step]["seconds"]} for step, _ in STEPS}
    numbers["all"] = {"seconds": sum(found[step]["seconds"] for step, _ in STEPS),
                      # Until their own end; what the companion takes is the whole time of one CPU.
                      "cpu_s": sum(found[step]["cpu_us"] * found[step]["operations"] for step, _ in STEPS) / 1e6 +
                      sum(found[step]["seconds"] for step, _ in STEPS),
                      "messages": sum(found[step]["calls"] * found[step]["operations"] for step, _ in STEPS),
                      "look_ups": found["look-ups"]["operations"]}
    return numbers


def tree(context, pictures):
    tiny, small, large = (["--m", m, "--nmax", n] for m, n in (("4", "5"), ("12", "8"), ("1000", "10")))
    sizes = {"4": "M = 4, NMAX = 5", "12": "M = 12, NMAX = 8", "1000": "M = 1000, NMAX = 10"}
    cases = [("same node", "vader", small, 1), ("same node", "vader", tiny, 2), ("TCP", "tcp", tiny, 1)]
    if not context.quick:
        cases += [("same node", "vader", large, 1), ("TCP", "tcp", small, 1)]
    rows, lines = [], {}
    for where, over, arguments, processes in cases:
        size = sizes[arguments[1]]
        extra = ["--transport", "ucx"] if over == "tcp" else []
        with tools.Service(context, extra=extra) as service:
            own_tree(context, service, [*arguments, "--verify"], processes)  # Its bits are right, and it is warm.
            companion_tree(context, over, [*arguments, "--verify"], processes)
            found = tools.interleaved(context.rounds, {
                "own": lambda: own_tree(context, service, arguments, processes),
                "peer": lambda: companion_tree(context, over, arguments, processes),
                "one process": lambda: {"all": {"s": tools.plain(context, "tree", *arguments)[0]}},
            })
        label = f"{size}, {where}, {processes} process{'es' if processes > 1 else ''}"
        for step, _ in STEPS:
            rows.append(Row(f"{step}, {label}", found["own"][step]["seconds"], found["peer"][step]["seconds"], "s",
                            why="our processes meet at each level, which a small tree makes felt; the companion's puts have "
                                "no answers, and one process compresses a subtree as a whole"))
        for field, what, unit in (("seconds", "all", "s"), ("cpu_s", "all: CPU of all processes", "s"),
                                  ("messages", "all: messages", "")):
            rows.append(Row(f"{what}, {label}", found["own"]["all"][field], found["peer"]["all"][field], unit,
                            why="ours includes starting the program and checking in" if field == "cpu_s" else ""))
        rows.append(Row(f"all, {label}, against one process alone", found["own"]["all"]["seconds"],
                        found["one process"]["all"]["s"], "s",
                        why="one process walks its own memory, without a message; ours asks a daemon, and may use others'"))
        lines[f"Tidepool, {label}"] = {step: found["own"][step]["seconds"] for step, _ in STEPS}
        lines[f"companion, {label}"] = {step: found["peer"][step]["seconds"] for step, _ in STEPS}
    picture = pictures("pdht_8_10")
    plot.draw(picture, [("The adaptive tree", "s", lines)])
    return Section(
        "", "the MADNESS tree runs faster on PDHT's table than on a table of companion processes, since look-ups need "
        "no process at the other side.",
        "the tree of client/examples/tree and the same four steps by a companion process, both with the bits of a run "
        "in one process's memory (--verify, before the clock starts). Goal: 3 times.",
        "companion process (MPI)", rows,
        notes=["Ours looks thousands of nodes up at a time, because its program is written level by level. The "
               "companion's is written as PDHT's, recursively, and looks them up singly: that is most of the ratio "
               "over TCP.",
               "The companion's CPU is that of its clients and all of the time of one CPU for the companion, which polls."],
        advantages=[ONE_SIZE, POLLING,
                    "In the companion's program one process compresses a subtree as a whole, so no sums are looked up: "
                    "it needs fewer look-ups than ours."], picture=picture)


FIGURES = {"pdht-3-5": look_ups, "pdht-6": neighbours, "pdht-8-10": tree}
TITLES = {"pdht-3-5": "PDHT 3-5: look-ups by number of entries", "pdht-6": "PDHT 6: reads of a neighbour's elements",
          "pdht-8-10": "PDHT 8-10: the tree"}
