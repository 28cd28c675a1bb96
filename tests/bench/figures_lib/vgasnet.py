"""vGASNet's figures."""

import concurrent.futures
import mmap
import os
import random
import shutil
import time

from figures_lib import plot, tools
from figures_lib.report import Row, Section

SIZES = [("64 KB", 64 << 10), ("1 MB", 1 << 20), ("16 MB", 16 << 20)]


AHEAD = 4  # Reads under way at a time, on both sides (own_values.cc).


class Raw:
    """The device's own bandwidth with O_DIRECT, in a file that has been written before: as the daemon's file is from
    the second round on."""

    def __init__(self, folder, value_bytes, count):
        self.value_bytes, self.count = value_bytes, count
        # Aligned, as O_DIRECT wants it; one for each call under way.
        self.buffers = [mmap.mmap(-1, value_bytes) for _ in range(AHEAD)]
        for buffer in self.buffers:
            buffer[:] = os.urandom(value_bytes)
        self.order = list(range(count))
        random.Random(count).shuffle(self.order)
        self.handle = os.open(os.path.join(folder, "raw"), os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        self.timed(os.pwritev, range(count), 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)

    def each(self, call, places, buffer):
        for place in places:
            if call(self.handle, [buffer], place * self.value_bytes) != self.value_bytes:
                raise RuntimeError("the device did less than it was told")

    def timed(self, call, places, ahead):
        """`ahead` threads take every so manieth place each."""
        with concurrent.futures.ThreadPoolExecutor(ahead) as pool:
            begin = time.monotonic()
            for done in [pool.submit(self.each, call, places[i::ahead], self.buffers[i]) for i in range(ahead)]:
                done.result()
            return {"us": (time.monotonic() - begin) * 1e6 / self.count}

    def run(self):
        found = {"write": self.timed(os.pwritev, range(self.count), 1)}
        os.fsync(self.handle)  # Not timed: our values are not durable either.
        return found | {"sequential read": self.timed(os.preadv, range(self.count), AHEAD),
                        "random read": self.timed(os.preadv, self.order, AHEAD)}


def values(context, pictures):
    memory = context.size(256, 128)  # MiB
    rows, lines = [], {phase: {} for phase in ("write", "sequential read", "random read")}
    for place, value_bytes in SIZES:
        count = 4 * (memory << 20) // value_bytes
        folder = context.new_folder(disk=True)
        extra = ["--nvm-dir", folder, "--nvm-size", f"{memory * 8}MiB"]
        try:
            with tools.Service(context, memory=f"{memory}MiB", extra=extra) as service, \
                    Raw(folder, value_bytes, count) as raw:
                found = tools.interleaved(context.rounds, {
                    "own": lambda: service.own("--test", "values", "--operations", count, "--value-bytes", value_bytes,
                                               "--runs", 1, processes=1),
                    "raw": raw.run})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for phase, of_phase in lines.items():
            own, peer = (value_bytes / found[who][phase]["us"] for who in ("own", "raw"))
            rows.append(Row(f"{phase}, {place}", own, peer, "MB/s", True,
                            why="four threads read on their own; ours wait for one core, which also checks and sends each value"
                            if "read" in phase else "each value is copied through a ring and the daemon's memory"))
            of_phase.setdefault("Tidepool", {})[place] = own
            of_phase.setdefault("raw O_DIRECT", {})[place] = peer
    picture = pictures("vgasnet_7_9")
    plot.draw(picture, [(f"{phase}, 4 times the memory", "MB/s", lines[phase]) for phase in lines])
    return Section(
        "", "an address space larger than memory is used at the speed of the device, and faster where the cache in "
            "DRAM has the value.",
        f"a client of a node with {memory} MiB of memory; 4 times as much is written, and read in order and at "
        "random, 4 values ahead.",
        "the same file system, raw O_DIRECT", rows,
        notes=["A quarter of all values never meets the device, on our side: it fits into memory. Our writes "
               "end when the daemon has the values, theirs when the call returns: no fsync is timed."],
        advantages=["Both sides use their memory again: the client's malloc keeps freed memory (mallopt).",
                    "The raw loop has no keys, checksums or copies. It writes one value at a time, where our daemon writes "
                    "several, and has no DRAM."], picture=picture)


def summa(context, pictures):
    n, processes = context.size(8_192, 4_096), "2"
    blocks_mib = 3 * 8 * n ** 2 >> 20
    cases = {"in memory": (blocks_mib * 5 // 4 + 64, False), "out of core": (blocks_mib // 2, True)}
    seen = set()

    def multiply(memory, spills):
        folder = context.new_folder(disk=True)
        extra = ["--nvm-dir", folder, "--nvm-size", f"{blocks_mib * 3 // 2 + 256}MiB"] if spills else []
        try:
            with tools.Service(context, memory=f"{memory}MiB", extra=extra) as service:
                cpu, _, out, _ = tools.cpu_of([context.program("summa"), "--cluster", service.file, "--n", str(n),
                                               "--processes", processes])
                cpu += service.cpu()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seen.add(tools.said(r"^digest +(\S+)", out))
        if len(seen) > 1:
            raise RuntimeError("the products differ")
        return {"all": {"s": tools.seconds_said("^multiplied", out), "cpu": cpu}}

    found = tools.interleaved(context.rounds, {
        name: (lambda memory=memory, spills=spills: multiply(memory, spills))
        for name, (memory, spills) in cases.items()})
    out_of_core, in_memory = found["out of core"]["all"], found["in memory"]["all"]
    picture = pictures("vgasnet_11")
    plot.draw(picture, [(f"SUMMA, N = {n}", "s", {name: {"time": found[name]["all"]["s"]} for name in cases})])
    why = "blocks come from the device, and are written there"
    return Section(
        "", "SUMMA on matrices that do not fit into memory takes little longer than on matrices that do.",
        f"matrices of {n:,} x {n:,} in blocks, {blocks_mib:,} MiB; once all in memory, once with memory for half; both "
        "products have the same bits. Goal: within 25 % (ratio 0.8).",
        "the same, all in memory",
        [Row("multiplication out of core", out_of_core["s"], in_memory["s"], "s", why=why),
         Row("CPU of all processes, with filling and checking", out_of_core["cpu"], in_memory["cpu"], "s", why=why)],
        picture=picture)


FIGURES = {"vgasnet-7-9": values, "vgasnet-11": summa}
TITLES = {"vgasnet-7-9": "vGASNet 7-9: values larger than memory", "vgasnet-11": "vGASNet 11: SUMMA"}
