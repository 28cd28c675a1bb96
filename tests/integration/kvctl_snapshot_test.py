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

    def test_what_is_no_snapshot_is_refused(self):
        self.cluster.start(1)
        self.good("namespace", "create", "a")
        self.fill("a", 100)
        self.good("snapshot", "create", "a", self.snapshot)
        self.bad(1, "snapshot", "create", "a", self.snapshot, says="is not empty")
        self.bad(1, "snapshot", "restore", self.snapshot, says="'a' exists already")
        self.bad(3, "snapshot", "create", "none", os.path.join(self.folder, "x"), says="none")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x")))
        self.good("namespace", "create", "jobs", "--kind", "queue")
        self.bad(2, "snapshot", "create", "jobs", os.path.join(self.folder, "x"), says="kind queue")

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
                                   (2, json.dumps({**manifest, "tidepool_snapshot": 2}), "format 2"),
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

    def test_a_daemon_that_dies_ends_it(self):
        self.start_large(2)
        with kvctl_support.Slowed(self.cluster.pids) as slowed:
            process = self.begin("snapshot", "create", "a", self.snapshot)
            wait_until(lambda: any(name.endswith(".tmp") for name in self.images()))
            slowed.freeze()
            os.kill(self.cluster.pids[1], signal.SIGKILL)
        out, err = process.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn(b"node ", err)
        self.assertFalse(os.path.exists(self.snapshot))


if __name__ == "__main__":
    kvctl_support.main()
