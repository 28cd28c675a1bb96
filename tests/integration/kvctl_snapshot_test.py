#!/usr/bin/python3
"""kvctl snapshot: made beside writers, restored on clusters of other sizes, and what goes wrong with it.

  kvctl_snapshot_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import signal
import subprocess
import tempfile
import threading

import kvctl_support
from kvctl_support import wait_until

KEYS = 3000


class Snapshot(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.snapshot = os.path.join(self.folder, "snapshot")

    def manifest(self):
        with open(os.path.join(self.snapshot, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def dump(self, name):
        """The records by key, without what passes with time."""
        records = {}
        for line in self.good("dump", name).splitlines():
            record = json.loads(line)
            record.pop("version", None)
            record["has_ttl"] = record.pop("ttl_ms", None) is not None
            records[record["key"]] = record
        return records

    def check_same(self, one, other):
        """As assertEqual, which takes minutes to say how large values differ."""
        differing = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
        self.assertEqual(differing, [])

    def fill(self, name, keys=KEYS):
        lines = b"".join(b"k%d\tv%d\n" % (i, i) for i in range(keys))
        self.good("load", name, "-", stdin=lines)
        self.good("incr", name, "count", "42")
        self.good("put", name, "fleeting", "x", "--ttl", "1h")
        self.large = os.urandom(5_000_000)
        self.good("put", name, "large", "-", stdin=self.large)

    def image(self, index=0):
        return os.path.join(self.snapshot, self.manifest()["files"][index]["name"])

    def namespaces(self):
        return [space["name"] for space in
                json.loads(self.good("namespace", "list", "--json"))["result"]["namespaces"]]

    def test_it_comes_back_on_a_cluster_of_another_size(self):
        for kind in "hash", "ordered":
            for before, after in (1, 3), (3, 1):
                with self.subTest(kind=kind, before=before, after=after):
                    self.snapshot = os.path.join(self.folder, f"{kind}{before}")
                    self.cluster.start(before)
                    options = ["--split-keys", "k2,k5"] if kind == "ordered" else []
                    self.good("namespace", "create", "a", "--kind", kind, "--ttl", "2h", *options)
                    self.good("put", "a", "kept", "for ever", "--ttl", "0")
                    self.fill("a")
                    held = self.dump("a")
                    self.good("snapshot", "create", "a", self.snapshot)
                    self.check_same(self.dump("a"), held)
                    self.assertFalse([name for name in os.listdir(self.snapshot)
                                      if not name.startswith(("part-", "manifest.json"))])
                    self.good("snapshot", "check", self.snapshot)
                    self.cluster.start(after)
                    self.good("snapshot", "restore", self.snapshot)
                    self.check_same(self.dump("a"), held)
                    self.assertTrue(self.good("get", "a", "large") == self.large)
                    self.assertEqual(self.good("incr", "a", "count").strip(), b"43")
                    self.assertIn(b"59m", self.good("ttl", "a", "fleeting"))
                    described = json.loads(self.good("namespace", "describe", "a", "--json"))["result"]
                    self.assertEqual(described["kind"], kind)
                    self.assertEqual(described["ttl_ms"], 7_200_000)
                    if kind == "ordered":
                        self.assertEqual(described["partitions"], 3)

    def test_staged_files_come_back_with_their_modes_and_times(self):
        source, target = (os.path.join(self.folder, name) for name in ("source", "target"))
        os.mkdir(source)
        files = {"small": 100, "large": 5_000_000, "in_parts": (64 << 20) + 1}
        for name, size in files.items():
            path = os.path.join(source, name)
            with open(path, "wb") as file:
                file.write(os.urandom(100))
                file.truncate(size)
            os.chmod(path, 0o640)
            os.utime(path, ns=(10**18, 10**18 + 5))
        self.cluster.start(2)
        self.good("namespace", "create", "a")
        self.good("stage", "in", source, "a")
        self.good("snapshot", "create", "a", self.snapshot)
        self.good("namespace", "drop", "a")
        self.good("snapshot", "restore", self.snapshot, "b")
        self.good("put", "b", "small", "changed since")
        self.good("stage", "out", "b", target)
        subprocess.run(["cmp", f"{source}/large", f"{target}/large"], check=True)
        subprocess.run(["cmp", f"{source}/in_parts", f"{target}/in_parts"], check=True)
        for name in "large", "in_parts":
            status = os.stat(os.path.join(target, name))
            self.assertEqual((status.st_mode & 0o7777, status.st_mtime_ns), (0o640, 10**18 + 5), name)
        with open(os.path.join(target, "small"), "rb") as file:
            self.assertEqual(file.read(), b"changed since")

    def test_each_image_is_its_partition_at_one_moment(self):
        self.cluster.start(1)
        self.good("namespace", "create", "a", "--partitions", "1")
        # Round by round, each in the order of the keys: at any moment some first keys are of the present
        # round, and all others of the one before.
        first = b"".join(b"k%d\t0\n" % i for i in range(KEYS))
        self.good("load", "a", "-", "--int", stdin=first)
        stop = threading.Event()
        loader = subprocess.Popen(
            [self.cluster.kvctl_path, "load", "a", "-", "--int", "--format", "tsv"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=self.cluster.environment)
        rounds = [0]

        def write():
            while not stop.is_set():
                rounds[0] += 1
                loader.stdin.write(b"".join(b"k%d\t%d\n" % (i, rounds[0]) for i in range(KEYS)))
            loader.stdin.close()

        writer = threading.Thread(target=write)
        writer.start()
        names = []
        try:
            for number in range(4):
                wait_until(lambda at=number: rounds[0] > 20 * (at + 1))
                names.append(f"s{number}")
                self.good("snapshot", "create", "a", os.path.join(self.folder, names[-1]))
        finally:
            stop.set()
            writer.join()
            loader.wait(timeout=kvctl_support.PATIENCE_SECONDS)
        for name in names:
            self.good("snapshot", "restore", os.path.join(self.folder, name), name)
            held = self.dump(name)
            values = [int(held[f"k{i}"]["value"]) for i in range(KEYS)]
            self.assertGreater(values[0], 0)
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLessEqual(values[0] - values[-1], 1)

    def items(self, name):
        """All of a queue, in the order of delivery."""
        found = self.kvctl("pop", name, "--all", "--json").json()
        items = found["result"]["items"] if found["ok"] else []
        return [(item.get("priority", 0), item["deliveries"], item["value"]) for item in items]

    def test_queues_come_back_in_their_order(self):
        for kind in "queue", "priority":
            for before, after in (1, 3), (3, 1):
                with self.subTest(kind=kind, before=before, after=after):
                    self.snapshot = os.path.join(self.folder, f"{kind}{before}")
                    self.cluster.start(before)
                    self.good("namespace", "create", "a", "--kind", kind, "--capacity", "5000")
                    expected = []

                    def push(values, priority=0):
                        options = ["-p", str(priority)] if kind == "priority" else []
                        self.good("push", "a", "-", *options, stdin="\n".join(values).encode())
                        expected.extend((priority if options else 0, 0, value) for value in values)

                    push([f"i{i}" for i in range(1000)], 5)
                    push([f"j{i}" for i in range(1000)], 3)
                    large = os.urandom(2_500_000).hex()
                    self.good("push", "a", "--file", "-", *(["-p", "5"] if kind == "priority" else []),
                              stdin=large.encode())
                    expected.append((5 if kind == "priority" else 0, 0, large))
                    push([f"k{i}" for i in range(1000)], 5)
                    self.good("push", "a", "fleeting", "--ttl", "1s")
                    leased = json.loads(self.good("pop", "a", "-n", "10", "--lease", "1h", "--json"))
                    self.good("nack", "a", leased["result"]["items"][3]["lease"])
                    self.good("snapshot", "create", "a", self.snapshot)
                    # Those who have leases have them still.
                    self.good("ack", "a", leased["result"]["items"][0]["lease"])
                    self.good("snapshot", "check", self.snapshot)
                    self.cluster.start(after)
                    self.good("snapshot", "restore", self.snapshot)
                    described = json.loads(self.good("namespace", "describe", "a", "--json"))["result"]
                    self.assertEqual((described["kind"], described["capacity"]), (kind, 5000))
                    wait_until(lambda: self.good("peek", "a") != b"fleeting")
                    held = [item for item in self.items("a") if item[2] != "fleeting"]
                    expected.sort(key=lambda item: item[0])
                    self.assertEqual(len(held), len(expected))
                    self.assertTrue(held == expected)

    def test_lanes_come_back(self):
        self.cluster.start(2)
        self.good("namespace", "create", "a", "--kind", "queue", "--lanes", "3")
        values = [f"v{i}" for i in range(300)]
        for at in range(0, 300, 20):
            self.good("push", "a", *values[at:at + 20])
        self.good("snapshot", "create", "a", self.snapshot)
        self.cluster.start(1)
        self.good("snapshot", "restore", self.snapshot)
        described = json.loads(self.good("namespace", "describe", "a", "--json"))["result"]
        self.assertEqual(described["lanes"], 3)
        self.assertEqual(sorted(item[2] for item in self.items("a")), sorted(values))

    def test_what_is_durable_comes_back_so(self):
        def start():
            self.cluster.start(1, more=("--nvm-dir", device.name, "--nvm-size", "128MiB"))

        # On the build's disk: /tmp may be memory without direct I/O.
        device = tempfile.TemporaryDirectory(prefix="kvctl_snapshot.", dir=os.getcwd())
        self.addCleanup(device.cleanup)
        start()
        self.good("namespace", "create", "a", "--kind", "queue", "--durability", "sync")
        values = [f"v{i}" for i in range(2000)]
        self.good("push", "a", "-", stdin="\n".join(values).encode())
        self.good("pop", "a", "-n", "100")
        self.good("pop", "a", "-n", "50", "--lease", "1h")
        self.good("snapshot", "create", "a", self.snapshot)
        self.good("snapshot", "restore", self.snapshot, "b")
        described = json.loads(self.good("namespace", "describe", "b", "--json"))["result"]
        self.assertEqual(described["durability"], "sync")
        self.assertEqual([item[2] for item in self.items("b")], values[100:])
        self.good("namespace", "create", "seen", "--kind", "bloom", "--expected-items", "5000",
                  "--durability", "async")
        inserted = "".join(f"{value}\n" for value in values).encode()
        self.good("bloom", "add", "seen", values[0], "x")
        self.kvctl("bloom", "add", "seen", "-", stdin=inserted)
        self.good("snapshot", "create", "seen", self.snapshot + "2")
        self.good("snapshot", "restore", self.snapshot + "2", "again")
        self.good("persist", "again")
        self.cluster.kill()
        start()
        described = json.loads(self.good("namespace", "describe", "again", "--json"))["result"]
        self.assertEqual(described["durability"], "async")
        self.assertNotIn(b"false", self.answers("again", inserted))

    def test_each_image_of_a_queue_is_the_queue_at_one_moment(self):
        self.cluster.start(1)
        for kind in "queue", "priority":
            self.good("namespace", "create", kind, "--kind", kind)
        stop = threading.Event()
        ends = {"queue": 0, "priority": 0}

        def work(kind):
            """Numbers in their order, of which the first ones leave."""
            while not stop.is_set():
                begin = ends[kind]
                self.good("push", kind, "-",
                          stdin="\n".join(str(i) for i in range(begin, begin + 3000)).encode())
                ends[kind] += 3000
                if ends[kind] > 20_000:
                    self.good("pop", kind, "-n", "2990")

        workers = [threading.Thread(target=work, args=(kind,)) for kind in ends]
        for worker in workers:
            worker.start()
        names = []
        try:
            for number in range(4):
                wait_until(lambda at=number: min(ends.values()) > 15_000 * (at + 1))
                for kind in ends:
                    names.append(f"{kind}{number}")
                    self.good("snapshot", "create", kind, os.path.join(self.folder, names[-1]))
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        for name in names:
            self.good("snapshot", "restore", os.path.join(self.folder, name), name)
            numbers = [int(item[2]) for item in self.items(name)]
            self.assertGreater(len(numbers), 1000)
            self.assertTrue(numbers == list(range(numbers[0], numbers[0] + len(numbers))), name)

    def answers(self, name, values):
        return self.kvctl("bloom", "has", name, "-", stdin=values).out

    def test_filters_come_back_with_the_same_answers(self):
        inserted = "".join(f"in {i}\n" for i in range(40_000)).encode()
        others = "".join(f"out {i}\n" for i in range(20_000)).encode()

        def described():
            found = json.loads(self.good("namespace", "describe", "a", "--json"))["result"]
            return {key: found[key] for key in
                    ("kind", "expected_items", "records", "filter_bytes", "filter_false_positive_rate",
                     "partitions")}

        for before, after in (1, 3), (3, 1):
            with self.subTest(before=before, after=after):
                self.snapshot = os.path.join(self.folder, f"bloom{before}")
                self.cluster.start(before)
                self.good("namespace", "create", "a", "--kind", "bloom", "--expected-items", "40000",
                          "--false-positive-rate", "0.05")
                self.kvctl("bloom", "add", "a", "-", stdin=inserted)
                false_positives = self.answers("a", others)
                self.assertIn(b"true", false_positives)
                held = described()
                self.good("snapshot", "create", "a", self.snapshot)
                self.good("snapshot", "check", self.snapshot)
                self.cluster.start(after)
                self.good("snapshot", "restore", self.snapshot)
                self.assertEqual(described(), held)
                self.assertNotIn(b"false", self.answers("a", inserted))
                self.assertEqual(self.answers("a", others), false_positives)

    def test_what_a_filter_held_before_its_image_is_in_it(self):
        self.cluster.start(1)
        self.good("namespace", "create", "a", "--kind", "bloom", "--expected-items", "3000000")
        stop = threading.Event()
        ends = [0]

        def insert():
            while not stop.is_set():
                begin = ends[0]
                values = "".join(f"{i}\n" for i in range(begin, begin + 5000)).encode()
                self.kvctl("bloom", "add", "a", "-", stdin=values)
                ends[0] += 5000

        inserter = threading.Thread(target=insert)
        inserter.start()
        taken = {}
        try:
            for number in range(4):
                wait_until(lambda at=number: ends[0] >= 20_000 * (at + 1))
                taken[f"s{number}"] = ends[0]
                self.good("snapshot", "create", "a", os.path.join(self.folder, f"s{number}"))
        finally:
            stop.set()
            inserter.join()
        for name, end in taken.items():
            self.good("snapshot", "restore", os.path.join(self.folder, name), name)
            values = "".join(f"{i}\n" for i in range(end)).encode()
            self.assertNotIn(b"false", self.answers(name, values))

    def refuse_other_items(self):
        """Images of other kinds of namespaces, by manifests that say otherwise."""
        for kind, options in (("queue", []), ("bloom", ["--expected-items", "100", "--partitions", "1"])):
            path = os.path.join(self.folder, kind)
            self.good("namespace", "create", kind, "--kind", kind, *options)
            self.good(*(("push", kind, "x") if kind == "queue" else ("bloom", "add", kind, "x")))
            self.good("snapshot", "create", kind, path)
        other_options = {"queue": {"partitions": 1}, "bloom": {"partitions": 1, "expected_items": "100"}}
        for kind, other in ("queue", "bloom"), ("bloom", "queue"):
            path = os.path.join(self.folder, kind, "manifest.json")
            with open(path, encoding="utf-8") as file:
                manifest = json.load(file)
            manifest["kind"], manifest["options"] = other, other_options[other]
            with open(path, "w", encoding="utf-8") as file:
                json.dump(manifest, file)
            self.bad(1, "snapshot", "restore", os.path.dirname(path), "b", says="an item of it")
        self.assertNotIn("b", self.namespaces())

    def test_what_is_no_snapshot_is_refused(self):
        self.cluster.start(1)
        self.good("namespace", "create", "a")
        self.fill("a", 100)
        self.good("snapshot", "create", "a", self.snapshot)
        self.bad(1, "snapshot", "create", "a", self.snapshot, says="is not empty")
        self.bad(1, "snapshot", "restore", self.snapshot, says="'a' exists already")
        self.bad(3, "snapshot", "create", "none", os.path.join(self.folder, "x"), says="none")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x")))
        self.refuse_other_items()

        path = self.image()
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read()
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        self.assertIn("checksum", self.bad(1, "snapshot", "check", self.snapshot, says=path))
        self.bad(1, "snapshot", "restore", self.snapshot, "b", says=os.path.basename(path))
        self.assertNotIn("b", self.namespaces())
        os.truncate(path, os.path.getsize(path) - 1)
        self.bad(1, "snapshot", "restore", self.snapshot, "b", says="size")
        os.unlink(path)
        self.bad(3, "snapshot", "restore", self.snapshot, "b", says=path)
        manifest = self.manifest()
        name = os.path.join(self.snapshot, "manifest.json")
        for code, broken, says in ((1, "{", "damaged"),
                                   (2, json.dumps({**manifest, "tidepool_snapshot": 3}), "format 3"),
                                   (1, json.dumps({**manifest, "tidepool_snapshot": 2}), "damaged"),
                                   (1, json.dumps({**manifest, "files": [{}]}), "damaged"),
                                   (1, json.dumps({**manifest, "files": manifest["files"][1:]}), "damaged")):
            with open(name, "w", encoding="utf-8") as file:
                file.write(broken)
            self.bad(code, "snapshot", "restore", self.snapshot, "b", says=says)
        os.unlink(name)
        self.bad(3, "snapshot", "restore", self.snapshot, "b", says="is no snapshot")
        self.assertNotIn("b", self.namespaces())

    def test_full_disks_and_folders_of_one_machine_leave_nothing_behind(self):
        probe = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
        if probe.returncode != 0:
            self.skipTest("unshare -m is not permitted here: " + probe.stderr.decode())
        small = os.path.join(self.folder, "small")
        os.mkdir(small)
        self.cluster.start(1, within=["unshare", "-m", "sh", "-c",
                                      'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"', small])
        self.good("namespace", "create", "a")
        self.fill("a", 100)
        self.bad(1, "snapshot", "create", "a", os.path.join(small, "s"), says="node 0: it does not see")
        self.assertEqual(os.listdir(small), [])
        beside = ["nsenter", "-m", "-t", str(self.cluster.pids[0])]
        says = self.bad(1, "snapshot", "create", "a", os.path.join(small, "s"), says="node 0: partition ",
                        within=beside)
        self.assertIn("No space left", says)
        left = subprocess.run([*beside, "ls", "-A", small], check=True, capture_output=True)
        self.assertEqual(left.stdout, b"")
        self.assertTrue(self.good("get", "a", "large") == self.large)

    def start_large(self, nodes):
        self.cluster.start(nodes, node_mib=256)
        self.good("namespace", "create", "a")
        for i in range(12):
            self.good("put", "a", f"large{i}", "-", stdin=os.urandom(10_000_000))

    def begin(self, *arguments):
        process = subprocess.Popen([self.cluster.kvctl_path, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.cluster.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def images(self):
        try:
            return os.listdir(self.snapshot)
        except FileNotFoundError:
            return []

    def test_a_killed_kvctl_leaves_no_snapshot_and_no_namespace(self):
        self.start_large(2)
        with kvctl_support.Slowed(self.cluster.pids):
            process = self.begin("snapshot", "create", "a", self.snapshot)
            wait_until(lambda: any(name.endswith(".tmp") for name in self.images()))
            process.kill()
            process.wait()
        # Those that are whole stay, without a manifest.
        wait_until(lambda: not any(name.endswith(".tmp") for name in self.images()))
        self.assertNotIn("manifest.json", self.images())
        self.bad(3, "snapshot", "restore", self.snapshot, "b", says="is no snapshot")
        self.snapshot += "2"
        self.good("snapshot", "create", "a", self.snapshot)

        def some_restored():
            result = self.kvctl("namespace", "describe", "b", "--json")
            return result.code == 0 and result.json()["result"]["records"] > 0

        with kvctl_support.Slowed(self.cluster.pids):
            process = self.begin("snapshot", "restore", self.snapshot, "b")
            wait_until(some_restored)
            process.kill()
            process.wait()
        if process.returncode == -signal.SIGKILL:
            wait_until(lambda: "b" not in self.namespaces())
        self.good("snapshot", "restore", self.snapshot, "c")
        self.assertEqual(len(self.good("keys", "c").split()), 12)

    def test_what_a_daemon_has_that_dies_is_missing_in_it(self):
        self.start_large(2)
        with kvctl_support.Slowed(self.cluster.pids) as slowed:
            process = self.begin("snapshot", "create", "a", self.snapshot)
            wait_until(lambda: any(name.endswith(".tmp") for name in self.images()))
            slowed.freeze()
            os.kill(self.cluster.pids[1], signal.SIGKILL)
        out, err = process.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(process.returncode, 6, err)
        self.assertIn(b"missing: node ", err)
        self.assertFalse([name for name in self.images() if name.endswith(".tmp")])
        self.good("snapshot", "check", self.snapshot)
        self.bad(1, "snapshot", "restore", self.snapshot, "again", says="lacks")

    def test_a_daemon_leaves_no_image_in_a_folder_that_is_given_up(self):
        """The call of a kvctl that fails may reach its end in a daemon after the images are removed."""
        self.start_large(1)
        with kvctl_support.Slowed(self.cluster.pids):
            process = self.begin("snapshot", "create", "a", self.snapshot)
            wait_until(lambda: any(name.endswith(".tmp") for name in self.images()))
            for name in self.images():
                if name.startswith(".tidepool-snapshot-"):
                    os.unlink(os.path.join(self.snapshot, name))
        out, err = process.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn(b"the caller went away", err)
        self.assertFalse(os.path.exists(self.snapshot))


if __name__ == "__main__":
    kvctl_support.main()
