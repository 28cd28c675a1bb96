#!/usr/bin/python3 -B
"""The native client of the Python package: what it has beyond the gRPC client, against real daemons.

  native_test.py BUILD_FOLDER [unittest's arguments]
"""

import asyncio
import gc
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import unittest.mock

import python_support
from python_support import ROOT, Case, kvctl

build = folder = cluster = tidepool = numpy = None  # Set by main.

PATIENCE_S = 30


def by_grpc():
    """A client of the other kind."""
    with unittest.mock.patch.dict(os.environ, TIDEPOOL_PYTHON_TRANSPORT="grpc"):
        return tidepool.connect(cluster)


class ChoiceTest(Case):
    def test_repr_says_which_client_it_is(self):
        m = self.make()
        self.assertIn("native", repr(m))
        self.assertIsInstance(m, tidepool.Map)
        with by_grpc() as other:
            self.assertIn("grpc", repr(other))
            self.assertIn("grpc", repr(other[m.name]))

    def test_the_native_client_is_chosen_by_itself_and_grpc_where_it_cannot_be(self):
        def chosen():
            with tidepool.connect(cluster) as t:
                return re.search("native|grpc", repr(t)).group()
        with unittest.mock.patch.dict(os.environ):
            del os.environ["TIDEPOOL_PYTHON_TRANSPORT"]
            self.assertEqual(chosen(), "native")
            loaded = {name: module for name, module in sys.modules.items() if name.startswith("tidepool.native")}
            with unittest.mock.patch.dict(sys.modules, {"tidepool.native": None}):
                with unittest.mock.patch.object(tidepool, "native", None):
                    del tidepool.native
                    self.assertEqual(chosen(), "grpc")
                    os.environ["TIDEPOOL_PYTHON_TRANSPORT"] = "native"
                    with self.assertRaisesRegex(tidepool.FailedPrecondition, "cannot be loaded"):
                        tidepool.connect(cluster)
                    tidepool.native = loaded["tidepool.native"]
            os.environ["TIDEPOOL_PYTHON_TRANSPORT"] = "both"
            with self.assertRaisesRegex(tidepool.InvalidArgument, "native or grpc"):
                tidepool.connect(cluster)

    def test_both_clients_read_what_the_other_wrote(self):
        m = self.make()
        with by_grpc() as t:
            other = t[m.name]
            array = numpy.arange(100_000.0).reshape(50, 2000)
            for writer, reader in ((m, other), (other, m)):
                writer.put_many({"b": b"bytes", "i": -5, "f": 0.25, "a": array, "t": array.T, "e": numpy.zeros((0, 3))})
                self.assertEqual((reader["b"], reader["i"], reader["f"]), (b"bytes", -5, 0.25))
                for name, expected in (("a", array), ("t", array.T), ("e", numpy.zeros((0, 3)))):
                    numpy.testing.assert_array_equal(reader.array(name), expected)
                writer.clear()

    def test_a_pickled_handle_uses_the_client_that_its_process_has(self):
        m = self.make()
        m["k"] = b"v"
        pickled = pickle.dumps(m)
        with unittest.mock.patch.dict(os.environ, TIDEPOOL_PYTHON_TRANSPORT="grpc"):
            with unittest.mock.patch.object(sys.modules["tidepool.client"], "_SHARED", {}):
                other = pickle.loads(pickled)
                self.assertIn("grpc", repr(other))
                self.assertEqual(other["k"], b"v")


class ArrayTest(Case):
    def test_a_value_is_read_into_memory_of_the_caller(self):
        m = self.make()
        for size in (1, 1000, 3_000_000):
            content = os.urandom(size)
            m["k"] = content
            out = bytearray(size + 5)
            self.assertEqual(m.get("k", out=out), size)
            self.assertEqual(bytes(out), content + bytes(5))
            with self.assertRaises(tidepool.Error) as raised:
                m.get("k", out=bytearray(size - 1))
            self.assertEqual(raised.exception.code, "OUT_OF_RANGE")
        self.assertIsNone(m.get("none", out=bytearray(1)))

    def test_memory_that_cannot_be_written_in_one_run_is_refused(self):
        m = self.make()
        m["k"] = bytes(80)
        fixed = numpy.zeros(10)
        fixed.flags.writeable = False
        for out in (bytes(80), fixed, numpy.zeros(20)[::2], memoryview(bytes(80))):
            with self.assertRaisesRegex(tidepool.InvalidArgument, "read-only, or not one run"):
                m.get("k", out=out)
        with self.assertRaises(TypeError):
            m.get("k", out=5)

    def test_arrays_of_all_layouts_come_back(self):
        m = self.make()
        base = numpy.arange(24.0).reshape(2, 3, 4)
        for array in (base, base[:, ::2], base.T, numpy.asfortranarray(base), base.astype(">f8"), base.astype("<i2"),
                      numpy.array(7), numpy.array([True, False]), numpy.array([b"ab", b"c"]), base[:, :0],
                      numpy.array(["text"]), numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])):
            m["a"] = array
            back = m.array("a")
            self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
            numpy.testing.assert_array_equal(back, array)
        m["a"] = base
        m.array("a")[...] = 0  # A copy of its own.
        numpy.testing.assert_array_equal(m.array("a"), base)
        out = numpy.empty_like(base)
        self.assertIs(m.array("a", out=out), out)
        numpy.testing.assert_array_equal(out, base)
        for wrong in (numpy.empty((2, 3)), numpy.empty(base.shape, numpy.float32)):
            with self.assertRaisesRegex(tidepool.InvalidArgument, "shape"):
                m.array("a", out=wrong)

    def test_damaged_headers_are_refused(self):
        m = self.make()
        m["a"] = numpy.arange(4.0)
        content = m["a"]
        for wrong in (b"", content[:5], content[:11], content[:40], content[:-1], b"\x93NUMPY\x01\x00\xff\xff" + content[10:],
                      content.replace(b"descr", b"other"), content.replace(b"<f8", b"|O8")):
            m["a"] = wrong
            with self.assertRaises(tidepool.InvalidArgument):
                m.array("a")
        m["a"] = 5
        with self.assertRaises(tidepool.InvalidArgument):
            m.array("a")

    def test_rows_of_arrays_travel_in_one_call(self):
        m = self.make()
        rows = numpy.random.default_rng(1).random((1000, 8))
        for keys in (numpy.arange(1000, dtype="u8"), numpy.arange(1000, dtype=">i4"), numpy.arange(2000, dtype="i8")[::2],
                     numpy.array([b"key%d" % i for i in range(1000)]), [f"k{i}" for i in range(1000)]):
            m.put_many(keys, rows)
            out = numpy.empty_like(rows)
            self.assertTrue(m.get_many(keys, out=out).all())
            numpy.testing.assert_array_equal(out, rows)
            m.put_many(keys, numpy.asfortranarray(rows[::-1]))
            m.get_many(keys, out=out)
            numpy.testing.assert_array_equal(out, rows[::-1])
        self.assertEqual(m["k3"], rows[-4].tobytes())
        self.assertEqual(m[b"key12"], rows[-13].tobytes())
        self.assertEqual(len(m), 5 * 1000 - 500)  # Two sets of integers of 8 bytes share 500 keys.
        m.put_many(["a", "b"], [b"1", 2])
        self.assertEqual(m.get_many(["a", "b"]), {b"a": b"1", b"b": 2})

    def test_rows_that_are_absent_or_of_another_size_are_told(self):
        m = self.make()
        m.put_many(numpy.arange(4, dtype="u8"), numpy.arange(4.0))
        out = numpy.full(6, -1.0)
        found = m.get_many(numpy.arange(6, dtype="u8"), out=out)
        self.assertEqual((found.tolist(), out.tolist()), ([True] * 4 + [False] * 2, [0.0, 1.0, 2.0, 3.0, -1.0, -1.0]))
        m[(2).to_bytes(8, "little")] = b"long value"
        with self.assertRaises(tidepool.BatchError) as raised:
            m.get_many(numpy.arange(6, dtype="u8"), out=out)
        self.assertEqual(list(raised.exception.failures), [(2).to_bytes(8, "little")])
        for keys, rows in ((numpy.arange(3), numpy.zeros(4)), (numpy.zeros((2, 2), int), numpy.zeros(2)),
                           (numpy.zeros(2), numpy.zeros(2)), (numpy.arange(2), numpy.array([None, 1]))):
            with self.assertRaises(tidepool.InvalidArgument):
                m.put_many(keys, rows)
        fixed = numpy.zeros(2)
        fixed.flags.writeable = False
        for out in (fixed, numpy.zeros(4)[::2], numpy.zeros(3), [0, 0]):
            with self.assertRaises(tidepool.InvalidArgument):
                m.get_many(numpy.arange(2), out=out)
        self.assertEqual(m.get_many([], out=numpy.zeros((0, 2))).tolist(), [])


class BatchTest(Case):
    def test_the_last_value_of_a_key_that_stands_twice_counts(self):
        m = self.make()
        m.put_many([(f"k{i % 7}", str(i)) for i in range(1000)])
        self.assertEqual(dict(m.items()), {f"k{i % 7}".encode(): str(i).encode() for i in range(993, 1000)})
        m.put_many([("k", b"bytes"), ("k", 1.5), ("k", 7)])
        self.assertEqual(m["k"], 7)
        m.put_many(numpy.array([5, 5, 5]), numpy.array([1.0, 2.0, 3.0]))
        self.assertEqual(m[(5).to_bytes(8, "little")], numpy.float64(3).tobytes())

    def test_an_absent_key_hides_no_failure(self):
        m = self.make()
        m["there"] = b"v"
        # Each key that is too long is refused before anything is sent, an absent one is none.
        with self.assertRaisesRegex(tidepool.InvalidArgument, "16384"):
            m.get_many(["absent", "there", "k" * 20_000])
        m.delete_many(["absent", "there"])
        self.assertEqual(len(m), 0)

    def test_buffered_changes_arrive_by_the_flush(self):
        m, q = self.make(), self.t.create("buffered_queue", "queue", capacity=10)
        self.addCleanup(self.t.drop, q.name)
        f = self.t.create("buffered_filter", "bloom", expected_items=1000)
        self.addCleanup(self.t.drop, f.name)
        with m.buffered() as b:
            for i in range(5000):
                b.put(f"k{i}", i)
                b.fetch_add("sum", i)
            b.put("k1", b"other", if_absent=True)
        self.assertEqual((len(m), m["sum"], m["k1"], len(b)), (5001, sum(range(5000)), 1, 0))
        b = q.buffered()
        for i in range(12):
            b.push(str(i))
        with self.assertRaises(tidepool.BatchError) as raised:
            b.flush()
        self.assertEqual({error.code for error in raised.exception.failures.values()}, {"RESOURCE_EXHAUSTED"})
        self.assertEqual([item.value for item in q.pop_many(20)], [str(i).encode() for i in range(10)])
        b.flush()  # Nothing is left.
        with f.buffered() as b:
            b.add("value")
            with self.assertRaises(tidepool.InvalidArgument):
                b.push(b"of a queue")
        self.assertIn("value", f)


class ScanTest(Case):
    def test_patterns_choose_the_same_keys_as_over_grpc(self):
        m, o = self.make(), self.t.create("scan_ordered", "ordered")
        self.addCleanup(self.t.drop, o.name)
        keys = [b"a", b"a/b", b"a/bc", b"ab", b"b*", b"b[x]", b"b\\", b"\xff\xff", b"\n", b"a]", b"a-", b"a^", b"z/1", b"z/12"]
        with by_grpc() as t:
            for space in (m, o):
                space.put_many((key, b"v") for key in keys)
                for glob in ("", "*", "a*", "a/?", "a[/b]*", "[!a]*", "b\\*", "b\\[x]", "z/*", "z/[0-9]", "a[]-]", "a[^b]", "b[", "?"):
                    self.assertEqual(sorted(record.key for record in space.scan(glob)),
                                     sorted(record.key for record in t[space.name].scan(glob)), glob)

    def test_a_range_of_an_ordered_namespace_is_read_both_ways(self):
        m = self.make("ordered", split_keys=[b"k300", b"k600"])
        names = [f"k{i:03}".encode() for i in range(1000)]
        m.put_many((name, name * 3) for name in names)
        self.assertEqual([record.key for record in m.scan(begin="k295", end="k305")], names[295:305])
        self.assertEqual([record.key for record in m.scan(begin="k295", end="k305", reverse=True, limit=7)],
                         names[304:297:-1])
        self.assertEqual([(record.key, record.value) for record in m.scan("k29*", reverse=True, keys_only=True, limit=3)],
                         [(name, b"") for name in names[299:296:-1]])
        with self.assertRaises(tidepool.InvalidArgument):
            self.make_hash().scan(reverse=True)

    def make_hash(self):
        space = self.t.create("scan_hash")
        self.addCleanup(self.t.drop, space.name)
        return space


class WaitTest(Case):
    def test_a_wait_ends_when_the_key_comes_and_when_it_changes(self):
        m = self.make()
        with self.assertRaises(tidepool.DeadlineExceeded):
            m.wait("late", timeout=0.05)
        putter = threading.Timer(0.1, m.put, ["late", b"v"])
        putter.start()
        self.assertEqual(m.wait("late", timeout=PATIENCE_S), b"v")
        putter.join()
        version = m.record("late").version
        with self.assertRaises(tidepool.DeadlineExceeded):
            m.wait_change("late", version, timeout=0.05)
        putter = threading.Timer(0.1, m.put, ["late", b"w"])
        putter.start()
        record = m.wait_change("late", version, timeout=PATIENCE_S)
        putter.join()
        self.assertEqual(record.value, b"w")
        self.assertNotEqual(record.version, version)

    def test_ctrl_c_ends_a_wait_and_loses_no_item(self):
        m, q = self.make(), self.t.create("interrupted", "queue")
        self.addCleanup(self.t.drop, q.name)
        for wait in (lambda: q.pop(wait=600), lambda: m.wait("never", timeout=600)):
            interrupt = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
            interrupt.start()
            with self.assertRaises(KeyboardInterrupt):
                wait()
            interrupt.join()
        q.push(b"item")  # The wait that was given up may get it, and hands it back.
        self.assertEqual(q.pop(wait=PATIENCE_S).value, b"item")

    def test_other_threads_run_while_one_waits(self):
        q = self.make("queue")
        got = []
        waiter = threading.Thread(target=lambda: got.append(q.pop(wait=PATIENCE_S).value))
        waiter.start()
        m = self.t["default"]
        for i in range(1000):
            m["turn"] = i
        self.assertEqual((m["turn"], got), (999, []))
        q.push(b"v")
        waiter.join()
        self.assertEqual(got, [b"v"])
        del m["turn"]

    def test_threads_share_a_client(self):
        m = self.make()

        def work(which):
            for i in range(300):
                m.fetch_add("sum")
                m[f"{which}/{i}"] = bytes([which]) * 100
                if m[f"{which}/{i}"] != bytes([which]) * 100:
                    failures.append(i)

        failures = []
        threads = [threading.Thread(target=work, args=(which,)) for which in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((m["sum"], len(m), failures), (2400, 2401, []))

    def test_a_program_ends_while_a_thread_waits(self):
        q = self.make("queue")
        program = ("import sys, threading\nimport tidepool\n"
                   f"q = tidepool.connect({str(cluster)!r})[{q.name!r}]\n"
                   "began = threading.Event()\n"
                   "def wait():\n    began.set()\n    q.pop(wait=600)\n"
                   "threading.Thread(target=wait, daemon=True).start()\nbegan.wait()\nq.push(b'') if 0 else None\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(tidepool.__file__).parent.parent)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_forked_child_is_refused(self):
        m = self.make()
        m["k"] = b"v"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                m["k"]  # pylint: disable=pointless-statement
            except tidepool.FailedPrecondition as error:
                code = 0 if "fork" in str(error) else 2
            try:
                tidepool.connect(cluster)
                code = 3
            except tidepool.FailedPrecondition as error:
                code = code if "fork" in str(error) else 4
            del m
            gc.collect()
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(m["k"], b"v")


class AsyncTest(Case):
    def test_calls_of_one_loop_run_beside_each_other(self):
        m = self.make()

        async def run():
            await asyncio.gather(*(m.aput(f"k{i}", i) for i in range(300)))
            values = await asyncio.gather(*(m.aget(f"k{i}") for i in range(300)))
            await m.adelete("k0")
            with self.assertRaisesRegex(tidepool.NotFound, "'k0'"):
                await m.adelete("k0")
            return values, await m.aget("k0", b"default")

        for _ in range(2):  # A loop of its own each time.
            self.assertEqual(asyncio.run(run()), (list(range(300)), b"default"))

    def test_a_wait_lets_the_loop_run(self):
        m, q = self.make(), self.t.create("awaited", "queue")
        self.addCleanup(self.t.drop, q.name)

        async def run():
            pop, key = asyncio.create_task(q.apop(wait=PATIENCE_S)), asyncio.create_task(m.await_key("k", timeout=PATIENCE_S))
            await asyncio.sleep(0)
            await m.aput("k", b"v")
            await q.apush(b"item")
            outcome = (await pop).value, await key
            with self.assertRaises(tidepool.Empty):
                await q.apop(wait=0.01)
            return outcome

        self.assertEqual(asyncio.run(run()), (b"item", b"v"))

    def test_a_cancelled_pop_loses_no_item(self):
        q = self.make("queue")

        async def run(lease):
            pop = asyncio.create_task(q.apop(wait=600, lease=lease))
            while q._moving is None:  # pylint: disable=protected-access
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            pop.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await pop
            q.push(b"item")
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                try:
                    return (await q.apop(wait=1)).value
                except tidepool.Empty:
                    pass
            return None

        for lease in (None, 600):
            self.assertEqual(asyncio.run(run(lease)), b"item")


class OtherTest(Case):
    def test_staged_files_are_opened(self):
        m = self.make()
        source = folder / "open_file"
        (source / "run").mkdir(parents=True)
        content = os.urandom(100_000)
        (source / "run" / "data").write_bytes(content)
        kvctl("stage", "in", str(source), m.name)
        with self.t.open_file(m.name, "run/data") as file:
            file.seek(50_000)
            self.assertEqual(file.read(), content[50_000:])
        with self.assertRaises(tidepool.NotFound):
            self.t.open_file(m.name, "run/none")

    def test_members_of_a_group_meet(self):
        answers = []

        def member(number):
            with tidepool.connect(cluster) as t, t.join("meeting", 3, rank=number) as group:
                group.barrier()
                total = group.all_reduce(numpy.array([number, 1.0]))
                answers.append((group.rank, group.size, group.all_reduce(number, "max"), group.broadcast(b"%d" % number, 2),
                                total.tolist()))

        threads = [threading.Thread(target=member, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answers), [(number, 3, 2, b"2", [3.0, 3.0]) for number in range(3)])
        with self.assertRaises(tidepool.DeadlineExceeded):
            self.t.join("alone", 2, timeout=0.1)

    def test_arguments_are_those_of_the_grpc_client(self):
        m = self.make()
        for use in (lambda: m.get(), lambda: m.get("k", 1, 2), lambda: m.get("k", no=1), lambda: m.get("k", key="k"),
                    lambda: m.put("k"), lambda: m.put("k", b"v", 5), lambda: m[5], lambda: m.get(None)):
            with self.assertRaises(TypeError):
                use()
        self.assertEqual(m.get(key="none", default=3), 3)
        self.assertGreater(m.put(key="k", value=b"v"), 0)

    def test_the_snippets_of_the_page_run(self):
        text = (ROOT / "client/python/NATIVE.md").read_text(encoding="utf-8")
        snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertGreater(len(snippets), 2)
        with unittest.mock.patch.dict(os.environ, TIDEPOOL_CLUSTER=str(cluster)):
            for snippet in snippets:
                exec(compile(snippet, "NATIVE.md", "exec"), {"__name__": "snippet"})  # pylint: disable=exec-used


if __name__ == "__main__":
    sys.exit(python_support.main(sys.modules[__name__]))
