"""The applications of BCL's and HCL's figures."""

import os

from figures_lib import plot, reads, tools
from figures_lib.hcl import MEMORY_OF_RANKS, POLLING
from figures_lib.report import Row, Section

ENTRIES = {"lambda": 500_000, "velvet": 1_500_000}  # Distinct k-mers, which the imperative table must be told.
COUNTS = ("a counter of ours is a record of a daemon, which takes it from a message; the imperative ranks fold what they "
          "got into their own memory")
START = ("Whole programs of the imperative side include mpirun's start, most of their time on few reads: the rows "
         "of the steps alone compare the work.")


ALONE = ("the work is small enough for one process, which needs no messages and shares nothing; what it costs to be "
         "able to use many nodes")


class Same:
    """All contenders must have found the same."""

    def __init__(self):
        self.found = None

    def check(self, found):
        if self.found not in (None, found):
            raise RuntimeError("the results differ")
        self.found = found


def own_program(context, service, *command):
    daemon = service.cpu()
    cpu, seconds, out, error = tools.cpu_of([context.program(command[0]), "--cluster", service.file, *command[1:]])
    return cpu + service.cpu() - daemon, seconds, out, error


def mpi_program(context, *command):
    return tools.cpu_of([*tools.MPIRUN, "-n", "2", *command])


def isx(context, pictures):
    keys = str(context.size(1 << 24, 1 << 22))
    context.tool("mpirun")
    same = Same()

    def parsed(out, seconds=None):
        same.check([tools.said(rf"^bucket {rank} +(\w+)", out) for rank in (0, 1)])
        return {"in all": {"s": tools.seconds_said("^in all", out) if seconds is None else seconds}}

    def alone():
        seconds, out = tools.plain(context, "isx", "--operations", keys)
        return parsed(out, seconds)

    def own(via):
        return parsed(own_program(context, service, "isx", "--processes", "2", "--keys", keys, "--via", via)[2])

    def over(how):
        return parsed(mpi_program(context, context.program("imperative"), "--over", how, "--test", "isx",
                                  "--operations", keys)[2])

    with tools.Service(context, cores=2) as service:
        found = tools.interleaved(context.rounds, {
            "queue": lambda: own("queue"), "priority": lambda: own("priority"),
            "all-to-all": lambda: parsed(mpi_program(context, context.program("isx_mpi"), keys)[2]),
            "mpi": lambda: over("mpi"), "ucx": lambda: over("ucx"), "one process": alone})
    seconds = {name: numbers["in all"]["s"] for name, numbers in found.items()}
    why = ("each key is copied once more and kept by a daemon on the way, whose threads share the two CPUs with both "
           "sorting processes")
    picture = pictures("bcl_5_hcl_7a")
    plot.draw(picture, [(f"ISx, 2 x {int(keys):,} keys", "s", {"in all": seconds})])
    return Section(
        "", "BCL's ISx by queues is as fast as the reference's all-to-all exchange; HCL's, whose priority queue delivers "
        "keys in order, is 2 to 12 times as fast as BCL's.",
        f"2 processes make {int(keys):,} keys each, exchange and sort them; all contenders have the same keys and the "
        "same sort, and the same digest. Goals: at most 1.5 times the all-to-all (ratio 0.67); the queue faster "
        "than the imperative queue.",
        "named in the row",
        [Row("queue against MPI all-to-all", seconds["queue"], seconds["all-to-all"], "s", why=why),
         Row("queue against the imperative client, MPI-3 window", seconds["queue"], seconds["mpi"], "s", why=why),
         Row("queue against the imperative client, UCX over TCP", seconds["queue"], seconds["ucx"], "s", why=why),
         Row("queue, 2 processes, against one process with all keys", seconds["queue"], seconds["one process"], "s",
             why=ALONE),
         Row("priority queue against MPI all-to-all", seconds["priority"], seconds["all-to-all"], "s", why=why),
         Row("priority queue against the imperative client, MPI-3 window", seconds["priority"], seconds["mpi"], "s",
             why=why)],
        advantages=[MEMORY_OF_RANKS + " It is allocated and touched before the clock starts, unlike all other memory.",
                    POLLING, "The all-to-all makes its keys twice and needs room for all of them twice.",
                    "Keys that a process has made for itself stay at home in both programs."],
        picture=picture)


def contigs(context, pictures):
    context.tool("mpirun")
    rows, lines = [], {}
    for name in ("lambda",) if context.quick else ("lambda", "velvet"):
        path, same = reads.write(context.folder, name), Same()
        out = os.path.join(context.folder, "unitigs")

        def own():
            cpu, seconds, _, error = own_program(context, service, "contigs", "-k", "31", "--min", "2", "--processes",
                                                 "2", "--out", out, path)
            same.check(reads.digest_of([out]))
            counted, made, walked = (tools.seconds_said(step, error) for step in
                                     ("counted in", "graph made in", "walked in"))
            return {"all": {"cpu": cpu, "s": seconds, "kmers": counted, "unitigs": made + walked}}

        def over_mpi():
            cpu, seconds, text, _ = mpi_program(context, context.program("imperative"), "--over", "mpi", "--test",
                                                "contigs", "-k", "31", "--min", "2", "--entries", str(ENTRIES[name]),
                                                "--out", out, path)
            same.check(reads.digest_of([out + ".0", out + ".1"]))
            steps = {step: numbers["seconds"] for step, numbers in tools.phases(text).items()}
            return {"all": {"cpu": cpu, "s": seconds, **steps}}

        def by_bcalm():
            cpu, seconds, found = reads.unitigs(context.tool("bcalm"), path, context.folder, out)
            same.check(found)
            return {"all": {"cpu": cpu, "s": seconds}}

        def alone():
            seconds, _ = tools.plain(context, "contigs", "-k", "31", "--min", "2", "--out", out, path)
            same.check(reads.digest_of([out]))
            return {"all": {"s": seconds}}

        with tools.Service(context) as service:
            found = tools.interleaved(context.rounds,
                                      {"own": own, "mpi": over_mpi, "bcalm": by_bcalm, "one process": alone})
        own, mpi, bcalm = (found[who]["all"] for who in ("own", "mpi", "bcalm"))
        why = ("the graph's nodes and claims are records of a daemon: each claim is a message, and two processes share "
               "two CPUs with it; the imperative walk reads shared memory, 0.1 us a node")
        rows += [Row(f"{name}: counting alone, against the imperative client", own["kmers"], mpi["kmers"], "s", why=COUNTS),
                 Row(f"{name}: graph and walks alone, against the imperative client", own["unitigs"], mpi["unitigs"],
                     "s", why=why),
                 Row(f"{name}: counting, graph and walks, against one process", own["kmers"] + own["unitigs"],
                     found["one process"]["all"]["s"], "s", why=ALONE),
                 Row(f"{name}: whole program, against the imperative client", own["s"], mpi["s"], "s", why=why),
                 Row(f"{name}: CPU of whole programs, against the imperative client", own["cpu"], mpi["cpu"], "s",
                     why=why),
                 Row(f"{name}: CPU, against bcalm on one thread", own["cpu"], bcalm["cpu"], "s"),
                 Row(f"{name}: time of 2 processes and a daemon, against bcalm on one thread", own["s"], bcalm["s"], "s")]
        lines |= {f"Tidepool, {name}": {"steps": own["kmers"] + own["unitigs"], "whole": own["s"], "CPU": own["cpu"]},
                  f"imperative, {name}": {"steps": mpi["kmers"] + mpi["unitigs"], "whole": mpi["s"], "CPU": mpi["cpu"]},
                  f"bcalm, {name}": {"whole": bcalm["s"], "CPU": bcalm["cpu"]}}
    picture = pictures("bcl_6_7")
    plot.draw(picture, [("Unitigs, k = 31, MIN 2, 2 processes", "s", lines)])
    return Section(
        "", "contigs by BCL's hash table are made as fast as by hand-written UPC, and many times faster than by a "
        "key-value store.",
        "unitigs of Debian's reads, from counting to the written file, 2 processes; all contenders write the same "
        "unitigs. Goals: faster than the imperative client; at most twice bcalm's CPU (ratio 0.5).",
        "named in the row", rows,
        notes=[START],
        advantages=[MEMORY_OF_RANKS + " It knows the number of k-mers.", POLLING], picture=picture)


def kmers(context, pictures):
    context.tool("mpirun")
    rows, lines, held = [], {}, {}
    path = reads.write(context.folder, "lambda")
    out = os.path.join(context.folder, "table")
    for filtered in (False, True):
        same = Same()

        def own():
            more = ["--admit"] if filtered else []
            cpu, seconds, _, error = own_program(context, service, "kmers", "-k", "31", "--processes", "2", *more, "--out",
                                                 out, path)
            same.check(reads.digest_of([out]))
            return {"all": {"cpu": cpu, "s": seconds,
                            "kmers": tools.seconds_said("counted in", error),
                            "MB": float(tools.said(r"hold ([0-9.]+) MB", error))}}

        def over_mpi():
            more = ["--filter"] if filtered else []
            cpu, seconds, text, _ = mpi_program(context, context.program("imperative"), "--over", "mpi", "--test",
                                                "kmers", "-k", "31", "--entries", str(ENTRIES["lambda"]), *more,
                                                "--out", out, path)
            same.check(reads.digest_of([out + ".0", out + ".1"]))
            return {"all": {"cpu": cpu, "s": seconds, "kmers": tools.phases(text)["kmers"]["seconds"]}}

        def alone():
            seconds, _ = tools.plain(context, "kmers", "-k", "31", "--min", "2" if filtered else "1", "--out", out, path)
            same.check(reads.digest_of([out]))
            return {"all": {"s": seconds}}

        with tools.Service(context) as service:
            found = tools.interleaved(context.rounds, {"own": own, "mpi": over_mpi, "one process": alone})
        name = "with the filter" if filtered else "without a filter"
        own, mpi = found["own"]["all"], found["mpi"]["all"]
        held[filtered] = own["MB"]
        rows += [Row(f"{name}: counting alone", own["kmers"], mpi["kmers"], "s", why=COUNTS),
                 Row(f"{name}: counting alone, against one process", own["kmers"], found["one process"]["all"]["s"], "s",
                     why=ALONE),
                 Row(f"{name}: whole program", own["s"], mpi["s"], "s", why=COUNTS),
                 Row(f"{name}: CPU of whole programs", own["cpu"], mpi["cpu"], "s", why=COUNTS)]
        lines |= {f"Tidepool, {name}": {"counting": own["kmers"], "whole": own["s"], "CPU": own["cpu"]},
                  f"imperative, {name}": {"counting": mpi["kmers"], "whole": mpi["s"], "CPU": mpi["cpu"]}}
    rows.append(Row("memory with the filter (left) against without (right), both ours", held[True], held[False], "MB"))
    picture = pictures("bcl_8")
    plot.draw(picture, [("k-mers of lambda, k = 31, 2 processes", "s", lines)])
    return Section(
        "", "a Bloom filter in front of the table keeps out k-mers that come once, errors for the most part, and with "
        "them most of the memory.",
        "k-mers of Debian's lambda reads, 2 processes, from the file to the written table; with the filter the "
        "k-mers that come twice and more, exactly. Both sides write the same tables. Goal: faster than the "
        "imperative client.",
        "imperative client (MPI-3)", rows,
        notes=[START,
               "Both use the same reader and the same combiner before they send."],
        advantages=[MEMORY_OF_RANKS + " It knows the number of k-mers.", POLLING], picture=picture)


FIGURES = {"bcl-5": isx, "bcl-6-7": contigs, "bcl-8": kmers}
TITLES = {"bcl-5": "BCL 5, HCL 7a: ISx", "bcl-6-7": "BCL 6, 7: contigs", "bcl-8": "BCL 8: k-mers"}
