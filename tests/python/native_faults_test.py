#!/usr/bin/python3 -B
"""The native client of the Python package when something goes wrong: no memory, no room, Ctrl-C, no compiler.

  native_faults_test.py BUILD_FOLDER [unittest's arguments]
"""

import asyncio
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest.mock

import python_support
from python_support import ROOT, Case

build = folder = cluster = tidepool = numpy = None  # Set by main.

PATIENCE_S = 30
ROOM_S = 120


def daemons():
    """Process ids of the cluster's daemons."""
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and is_daemon(entry)]


def is_daemon(process):
    try:
        arguments = (process / "cmdline").read_bytes()
    except OSError:
        return False
    return b"kvd\0" in arguments and os.fsencode(folder) in arguments


class Stopped:
    """Stops all daemons, until `resume`."""

    def __enter__(self):
        self.pids = daemons()
        assert self.pids
        self.signal(signal.SIGSTOP)
        return self

    def signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def resume(self):
        self.signal(signal.SIGCONT)

    def __exit__(self, *_):
        self.resume()


class MemoryTest(Case):
    # Each call needs C++ memory that its limit does not give, with arguments that Python has already.
    PROGRAM = """
import resource, sys
import numpy, tidepool
t = tidepool.connect(sys.argv[1], timeout=60)
m, q, f = t[sys.argv[2]], t[sys.argv[3]], t[sys.argv[4]]
m["k"], m["large"] = b"v", bytes(40 << 20)
m["k"], m["large"]
count = 6_000_000
keys, names = numpy.arange(count), [b"k"] * count
rows, large = numpy.zeros(count), numpy.zeros(8 << 20)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (24 << 20)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
calls = {
    "get_many": lambda: m._get_many(keys, None), "get_rows": lambda: m._get_rows(keys, rows, rows, None),
    "put_rows": lambda: m._put_rows(keys, rows, None, None), "delete_many": lambda: m._delete_many(keys, None),
    "put_many": lambda: m._put_many(names, names, None, None), "ask_many": lambda: f._ask_many(names, True, None),
    "push_many": lambda: q._push_many(names, 0, None), "array": lambda: m.put("array", large),
    "assign": lambda: m.__setitem__("array", large)}
for name, call in calls.items():
    try:
        call()
    except MemoryError:
        continue
    except tidepool.Error as error:
        print(name, error)
        continue
    sys.exit(name + " had memory")
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
assert m["k"] == b"v" and len(m["large"]) == 40 << 20
"""

    def test_a_call_without_memory_raises_and_the_client_goes_on(self):
        m = self.make()
        q, f = self.t.create("memory_queue", "queue"), self.t.create("memory_filter", "bloom", expected_items=1000)
        self.addCleanup(self.t.drop, q.name)
        self.addCleanup(self.t.drop, f.name)
        done = subprocess.run([sys.executable, "-c", self.PROGRAM, cluster, m.name, q.name, f.name], capture_output=True,
                              text=True, check=False, timeout=280,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(tidepool.__file__).parent.parent)})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_tables_have_no_unguarded_function(self):
        for source in (ROOT / "client/python/native").glob("*.cc"):
            text = source.read_text(encoding="utf-8")
            found = re.findall(r'\{"\w+",[^{}]*METH_|\{Py_(?!tp_(?:dealloc|new|methods)\b)\w+', text)
            self.assertEqual(found, [], source)


class AsyncTest(Case):
    def test_other_threads_run_while_a_start_waits_for_room(self):
        m = self.make()
        value = bytes(54 << 20)  # Five of them are more than the library keeps under way.

        async def run(stopped):
            await m.aput("k", b"v")  # Connects.
            stopped.signal(signal.SIGSTOP)
            puts = [asyncio.create_task(m.aput(f"k{i}", value, timeout=ROOM_S)) for i in range(5)]
            # This thread needs the GIL, while the next start waits for the daemons.
            asyncio.get_running_loop().call_soon(threading.Timer(0.3, stopped.resume).start)
            puts.append(asyncio.create_task(m.aput("last", b"v", timeout=ROOM_S)))
            return await asyncio.gather(*puts)

        with Stopped() as stopped:
            stopped.resume()
            self.assertEqual(len(asyncio.run(run(stopped))), 6)

    def test_a_late_value_that_cannot_be_given_back_stops_no_other_call(self):
        m, q = self.make(), self.t.create("late_values", "queue")
        self.addCleanup(self.t.drop, q.name)
        reported = []

        async def run():
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
            await asyncio.gather(m.aput("k", b"v"), q.apush(b"first"), q.apush(b"second"))
            with Stopped() as stopped:
                pop = asyncio.create_task(q.apop(wait=PATIENCE_S, lease=60))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                pop.cancel()
                others = [asyncio.create_task(m.aget("k")) for _ in range(10)]
                await asyncio.sleep(0)
                stopped.resume()
                values = await asyncio.gather(*others)
            with self.assertRaises(asyncio.CancelledError):
                await pop
            while not reported:
                await asyncio.sleep(0.01)
            return values

        with unittest.mock.patch.object(type(q), "_give_back", side_effect=RuntimeError("not given back")):
            self.assertEqual(asyncio.run(asyncio.wait_for(run(), PATIENCE_S)), [b"v"] * 10)
        self.assertEqual(reported, ["not given back"])


class BufferedTest(Case):
    def test_a_flush_that_ctrl_c_ends_forgets_no_failure(self):
        q = self.make("queue", capacity=10)
        b = q.buffered()
        for i in range(12):
            b.push(str(i))
        with Stopped() as stopped:
            threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
            threading.Timer(0.6, stopped.resume).start()
            with self.assertRaises(KeyboardInterrupt):
                b.flush()
        with self.assertRaisesRegex(tidepool.BatchError, "2 of 12") as raised:
            b.flush()
        self.assertEqual(sorted(raised.exception.failures), [b"10", b"11"])
        b.flush()


class KindTest(Case):
    def test_each_kind_is_opened_by_its_name_alone(self):
        options = {"bloom": {"expected_items": 1000}, "queue": {"capacity": 7}}
        for kind in ("hash", "ordered", "queue", "priority", "bloom"):
            name = "opened_" + kind
            made = self.t.create(name, kind, **options.get(kind, {}))
            self.addCleanup(self.t.drop, name)
            self.assertEqual((type(self.t[name]), repr(self.t[name])), (type(made), repr(made)))


class InstallTest(unittest.TestCase):
    def test_an_old_compiler_gives_a_package_that_uses_grpc_and_one_line_that_says_so(self):
        source = python_support.copy_source(folder / "old_compiler")
        tools = source / "tools"
        tools.mkdir()
        (tools / "tidepool.pc").write_text("Name: tidepool\nDescription: of this test\nVersion: 1\n"
                                           f"Cflags: -I{ROOT}/client/include\nLibs: -ltidepool\n")
        (tools / "old-cc").write_text('#!/bin/sh\necho "old-cc: error: unrecognized option -std=c++20" >&2\nexit 1\n')
        (tools / "old-cc").chmod(0o755)
        done = subprocess.run([sys.executable, "setup.py", "-q", "bdist_wheel", "-d", str(source)],
                              cwd=source / "client/python", capture_output=True, text=True, check=False,
                              env={**os.environ, "CC": str(tools / "old-cc"), "PKG_CONFIG_PATH": str(tools)})
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tidepool: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], "no native client, it will use gRPC: .*old-cc cannot compile it: .*c\\+\\+20")
        self.assertRegex([path.name for path in source.glob("*.whl")][0], "-py3-none-any.whl$")


if __name__ == "__main__":
    sys.exit(python_support.main(sys.modules[__name__]))
