#!/usr/bin/python3 -B
"""The Python package: numbers, errors, pickled handles and the version, against real daemons.

  python_values_test.py BUILD_FOLDER [unittest's arguments]
"""

import copy
import math
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import python_support
from python_support import Case

build = folder = cluster = tidepool = numpy = None  # Set by main.


# Functions that other processes run: they import this file, and get handles by pickle.

def put_and_add(m, key):
    m[key] = b"from " + key
    return os.getpid(), m.fetch_add("calls")


def open_connections(handles):
    return len({id(handle._calls) for handle in handles})  # pylint: disable=protected-access


def serve_one(q, f, t):
    with q.pop(wait=20, lease=60) as item:
        f.add(item.value)
        t[item.value.decode()]["served"] = item.value


def fail(m, how):
    if how == "batch":
        m.put_many({"k" * 10: bytes(900_000), "l": bytes(900_000)} | {f"k{i}": bytes(900_000) for i in range(40)})
    m[how]  # pylint: disable=pointless-statement


class NumbersTest(Case):
    def test_numbers_of_numpy_are_numbers(self):
        m = self.make()
        for number in (numpy.int8(-5), numpy.uint16(5), numpy.int64(-(1 << 63)), numpy.uint64((1 << 63) - 1)):
            m["n"] = number
            self.assertEqual((m["n"], type(m["n"])), (int(number), int))
        for number in (numpy.float16(0.5), numpy.float32(0.25), numpy.float64(-1e300), numpy.longdouble(2)):
            m["x"] = number
            self.assertEqual((m["x"], type(m["x"])), (float(number), float))
        m["n"] = 1
        self.assertEqual(m.fetch_add("n", numpy.int32(4)), 1)
        self.assertEqual(m.fetch_add("n", numpy.uint8(5)), 5)
        self.assertEqual(m["n"], 10)
        m["x"] = 1.0
        self.assertEqual(m.fetch_add("x", numpy.float32(0.5)), 1.0)
        self.assertEqual(m["x"], 1.5)
        self.assertTrue(m.compare_and_swap("n", numpy.int16(10), numpy.int16(11)))
        version = m.put("t", b"v", ttl=numpy.float32(100.5), timeout=numpy.int64(20))
        self.assertTrue(90 < m.ttl("t") <= 100.5)
        m.expire("t", numpy.int32(50))
        self.assertTrue(40 < m.ttl("t", timeout=numpy.float64(20)) <= 50)
        self.assertGreater(m.put("t", b"w", if_version=numpy.uint64(m.record("t").version)), version)
        m.put_many({"many": numpy.int64(7)}, ttl=numpy.int8(100))
        self.assertEqual(len(list(m.scan(limit=numpy.int64(2)))), 2)
        for value in (numpy.bool_(True), numpy.array([1, 2])[0] == 1):
            with self.assertRaises(TypeError):
                m["bool"] = value
        made = self.t.create("of_numpy", ttl_ms=numpy.int64(5000), partitions=numpy.uint8(3))
        self.addCleanup(self.t.drop, made.name)
        made["k"] = b"v"
        self.assertTrue(0 < made.ttl("k") <= 5)

    def test_numbers_out_of_range_are_refused_before_a_call(self):
        m = self.make()
        other = tidepool.connect(cluster)
        closed = other[m.name]
        other.close()  # Each call of its handles fails with CANCELLED.
        with self.assertRaises(tidepool.Error) as raised:
            closed["k"] = 1
        self.assertEqual(raised.exception.code, "CANCELLED")
        huge = (1 << 63, -(1 << 63) - 1, 1 << 64, 10 ** 30, -10 ** 30, 1 << 100_000, numpy.uint64(1 << 63))
        for number in huge:
            for use in (lambda: closed.put("k", number), lambda: closed.put_many({"k": number}),
                        lambda: closed.fetch_add("k", number), lambda: closed.compare_and_swap("k", number, 1),
                        lambda: closed.compare_and_swap("k", 1, number), lambda: closed.setdefault("k", number)):
                with self.assertRaisesRegex(ValueError, "out of range.*-9223372036854775808 to 9223372036854775807"):
                    use()
        for wrong in (-1, -0.001, -1e300, math.nan, math.inf, 1e300, 10 ** 30, 1 << 100_000, numpy.float32(-1),
                      numpy.float64("nan"), numpy.int8(-1)):
            for use in (lambda: closed.put("k", b"v", ttl=wrong), lambda: closed.put_many([], ttl=wrong),
                        lambda: closed.expire("k", wrong), lambda: closed.put("k", b"v", timeout=wrong),
                        lambda: closed.record("k", timeout=wrong), lambda: tidepool.connect(cluster, timeout=wrong)):
                with self.assertRaisesRegex(ValueError, "(ttl|timeout) .* is out of range"):
                    use()
        for wrong in (-1, 1 << 64, numpy.int64(-1)):
            with self.assertRaisesRegex(ValueError, "if_version .* is out of range"):
                closed.put("k", b"v", if_version=wrong)
            with self.assertRaisesRegex(ValueError, "limit .* is out of range"):
                next(closed.scan(limit=wrong))
        for wrong in (True, "1", b"1", None, numpy.timedelta64(5, "s"), numpy.bool_(True)):
            with self.assertRaises(TypeError):
                closed.fetch_add("k", wrong)
            if wrong is not None:
                with self.assertRaises(TypeError):
                    closed.put("k", b"v", ttl=wrong)
        m.put("k", b"v", ttl=10 ** 9)
        self.assertGreater(m.ttl("k"), 10 ** 9 - 100)

    def test_numbers_of_a_queue(self):
        q = self.make("priority")
        q.push(b"low", priority=numpy.int64(7))
        q.push_many([b"high"], priority=numpy.uint8(1))
        q.push(b"last", priority=(1 << 64) - 1)
        self.assertEqual([item.priority for item in q.pop_many(numpy.int32(3), wait=numpy.float32(1), lease=numpy.int16(60))],
                         [1, 7, (1 << 64) - 1])
        for wrong in (-1, 1 << 64, numpy.int8(-1)):
            with self.assertRaisesRegex(ValueError, "priority .* is out of range"):
                q.push(b"v", priority=wrong)
            with self.assertRaisesRegex(ValueError, "priority .* is out of range"):
                q.push_many([b"v"], priority=wrong)
        for wrong in (-1, 0, 1 << 64):
            with self.assertRaisesRegex(ValueError, "most .* is out of range"):
                q.pop_many(wrong)
        for wrong in (-1, math.nan, 1e300):
            with self.assertRaisesRegex(ValueError, "lease .* is out of range"):
                q.pop(lease=wrong)
            with self.assertRaisesRegex(ValueError, "wait .* is out of range"):
                q.pop(wait=wrong)
        self.assertEqual(len(q), 0)


class ErrorsTest(Case):
    def test_errors_name_their_key(self):
        m = self.make()
        for key, text in (("none", "'none'"), (b"none", "'none'"), ("Gr\u00fc\u00dfe", "'Gr\u00fc\u00dfe'"),
                          (b"\x00\xff", r"b'\x00\xff'"), ("it's", '"it\'s"'), ("new\nline", r"'new\nline'"),
                          ("", "''"), (b"l" * 16_000, "'" + "l" * 199 + "...")):
            for use in (lambda: m[key], lambda: m.pop(key), lambda: m.ttl(key), lambda: m.record(key),
                        lambda: m.__delitem__(key), lambda: m.put(key, b"v", if_present=True),
                        lambda: m.compare_and_swap(key, b"a", b"b")):
                with self.assertRaises(KeyError) as raised:
                    use()
                self.assertIn(f"key {text} of namespace '{m.name}' does not exist", str(raised.exception))
                self.assertEqual(raised.exception.args, (raised.exception.what,))
        m["there"] = b"v"
        with self.assertRaisesRegex(tidepool.AlreadyExists, "key 'there' of namespace .* exists already"):
            m.put("there", b"w", if_absent=True)
        with self.assertRaisesRegex(tidepool.FailedPrecondition, "key 'there' of namespace"):
            m.put("there", b"w", if_version=1)
        with self.assertRaisesRegex(tidepool.Error, "key 'there' of namespace"):
            m.fetch_add("there")
        with self.assertRaisesRegex(KeyError, "'gone'"):
            m.put("gone", bytes(2_000_000), if_present=True)
        with self.assertRaisesRegex(KeyError, "no namespace 'none'"):
            self.t["none"]  # pylint: disable=pointless-statement

    def test_an_item_that_is_gone_is_named(self):
        q = self.make("queue")
        q.push(b"v")
        item = q.pop(lease=60)
        item.ack()
        with self.assertRaisesRegex(KeyError, f"item {item.id} of namespace '{q.name}' does not exist"):
            item.ack()


class PickleTest(Case):
    def test_handles_work_in_processes_of_their_own(self):
        m, q, f = self.make(), self.t.create("pickled_queue", "queue"), self.t.create("pickled_filter", "bloom",
                                                                                      expected_items=100)
        self.addCleanup(self.t.drop, q.name)
        self.addCleanup(self.t.drop, f.name)
        keys = [b"k%d" % i for i in range(12)]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            answers = pool.starmap(put_and_add, [(m, key) for key in keys])
            self.assertNotIn(os.getpid(), {pid for pid, _ in answers})
            self.assertEqual(sorted(before for _, before in answers), list(range(12)))
            self.assertEqual(m.get_many(keys), {key: b"from " + key for key in keys})
            q.push(m.name)
            pool.apply(serve_one, (q, f, self.t))
            self.assertEqual(m["served"], m.name.encode())
            self.assertIn(m.name, f)
            self.assertEqual(pool.apply(open_connections, ([m, q, f, m],)), 1)
            # A failure comes back as it was, from single calls and from batches.
            with self.assertRaisesRegex(tidepool.NotFound, "key 'gone' of namespace"):
                pool.apply(fail, (m, "gone"))
            small = self.t.create("pickled_small", memory_share_percent=1)
            self.addCleanup(self.t.drop, small.name)
            with self.assertRaises(tidepool.BatchError) as raised:
                pool.apply(fail, (small, "batch"))
            self.assertEqual({error.code for error in raised.exception.failures.values()}, {"RESOURCE_EXHAUSTED"})

    def test_a_pickle_has_the_name_of_the_file_and_no_token(self):
        m = self.make()
        token = next(cluster.parent.glob("*.token")).read_text().strip()
        for handle in (m, self.t, self.t["default"]):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                pickled = pickle.dumps(handle, protocol)
                self.assertNotIn(token.encode(), pickled)
                self.assertIn(str(cluster).encode(), pickled)
        again = pickle.loads(pickle.dumps(m))
        self.assertEqual((repr(again), again.kind), (repr(m), m.kind))

    def test_a_handle_of_a_file_in_the_working_folder_works_elsewhere(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(cluster.parent)
        with tidepool.connect(cluster.name) as t:
            pickled = pickle.dumps(t["default"])
        os.chdir("/")
        self.assertEqual(pickle.loads(pickled).name, "default")
        self.assertIsInstance(len(pickle.loads(pickled)), int)

    def test_clients_are_closed_each_by_itself(self):
        m = self.make()
        m["k"] = b"v"
        other = pickle.loads(pickle.dumps(self.t))
        handle, same = pickle.loads(pickle.dumps((m, m)))
        self.assertIs(handle, same)
        self.assertEqual(other._calls.settings(), self.t._calls.settings())  # pylint: disable=protected-access
        self.assertEqual(other[m.name]["k"], b"v")
        other.close()
        again = tidepool.connect(cluster)
        self.addCleanup(again.close)
        mine = again[m.name]
        self.assertEqual((m["k"], handle["k"], copy.copy(handle)["k"], copy.deepcopy(handle)["k"]), (b"v",) * 4)
        again.close()
        with self.assertRaises(tidepool.Error):
            mine["k"]  # pylint: disable=pointless-statement
        self.assertEqual(handle["k"], b"v")

    def test_leased_items_and_records_travel(self):
        q = self.make("queue")
        q.push(b"v")
        pickle.loads(pickle.dumps(q.pop(lease=60))).ack()
        self.assertEqual(len(q), 0)
        record = tidepool.Record(b"k", 5, 7, 1.5)
        self.assertEqual(pickle.loads(pickle.dumps(record)), record)

    def test_all_errors_travel(self):
        for kind in [each for each in vars(tidepool).values() if isinstance(each, type) and issubclass(each, tidepool.Error)]:
            error = kind({b"k": tidepool.NotFound("n")}, 3) if kind is tidepool.BatchError else kind("what", "remedy")
            back = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(back), str(back), back.code, back.remedy), (kind, str(error), error.code, error.remedy))

    def test_a_pickle_of_a_cluster_that_is_gone_says_so(self):
        gone = folder / "gone.json"
        shutil.copy(cluster, gone)
        gone.chmod(0o600)
        with tidepool.connect(gone) as t:
            pickled = pickle.dumps(t)
        gone.unlink()
        with self.assertRaisesRegex(tidepool.NotFound, re.escape(str(gone))):
            pickle.loads(pickled)


class VersionTest(Case):
    def test_it_has_the_version_of_the_project(self):
        self.assertRegex(tidepool.__version__, r"^[0-9]+\.[0-9]+\.[0-9]+$")
        said = subprocess.run([build / "bin/kvctl", "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(tidepool.__version__, said.split())
        packages = pathlib.Path(tidepool.__file__).parent.parent
        self.assertEqual([path.name for path in packages.glob("tidepool-*.dist-info")],
                         [f"tidepool-{tidepool.__version__}.dist-info"])


if __name__ == "__main__":
    sys.exit(python_support.main(sys.modules[__name__]))
