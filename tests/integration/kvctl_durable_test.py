#!/usr/bin/python3
"""Durable namespaces as a user meets them: made, persisted, stopped, killed, described.

  kvctl_durable_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import random
import shutil
import subprocess
import tempfile

import kvctl_support


class Durable(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        # On the build's disk: /tmp may be memory without direct I/O.
        self.device = tempfile.mkdtemp(prefix="kvctl_durable.", dir=os.getcwd())
        self.addCleanup(shutil.rmtree, self.device, ignore_errors=True)

    def start(self, nvm_size="128MiB"):
        self.cluster.start(1, more=("--nvm-dir", self.device, "--nvm-size", nvm_size))

    def describe(self, name):
        return json.loads(self.good("namespace", "describe", name, "--json"))["result"]

    def test_what_is_durable_survives_stop_and_kill(self):
        self.start()
        self.good("namespace", "create", "results", "--durability", "async")
        self.assertIn(b"async", self.good("namespace", "list"))
        self.good("put", "results", "k", "v")
        self.good("put", "default", "fleeting", "x")
        # Only what is volatile would be lost.
        self.assertNotIn("results", self.bad(1, "stop", says="default (1 record"))
        self.good("stop", "--discard")
        self.start()
        self.assertEqual(self.good("get", "results", "k"), b"v")
        self.bad(3, "get", "default", "fleeting")
        self.assertIn(b"has read back 1 records", self.good("status"))
        self.assertEqual(self.describe("results")["losses"], [])
        self.good("put", "results", "k", "w")
        self.assertIn(b"durable on 1 node", self.good("persist", "results"))
        self.bad(1, "persist", "default", says="volatile")
        self.assertGreater(self.describe("results")["last_durable_at_ms"], 0)
        self.start()  # Kills first.
        self.assertEqual(self.good("get", "results", "k"), b"w")
        losses = self.describe("results")["losses"]
        self.assertEqual(losses[0]["lost"], "changes after")
        target = os.path.join(self.device, "out")
        refused = self.kvctl("stage", "out", "results", target)
        self.assertEqual(refused.code, 1, refused)
        self.assertIn(b"--partial", refused.err)
        self.assertEqual(os.listdir(target), [])
        self.good("stage", "out", "results", target, "--partial")
        with open(os.path.join(target, "k"), "rb") as file:
            self.assertEqual(file.read(), b"w")
        self.good("namespace", "accept-loss", "results")
        self.assertEqual(self.describe("results")["losses"], [])
        self.good("stage", "out", "results", target)
        self.assertEqual(self.good("get", "results", "k"), b"w")
        self.good("stop")

    def test_what_a_sync_namespace_has_answered_survives_a_kill(self):
        self.start()
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.good("put", "ledger", "k", "v")
        self.good("incr", "ledger", "n")
        self.start()  # Kills first.
        self.assertEqual(self.good("get", "ledger", "k"), b"v")
        self.assertEqual(self.good("incr", "ledger", "n"), b"2\n")
        self.assertEqual(self.describe("ledger")["losses"], [])
        self.good("stop")

    def test_a_change_says_how_safe_it_is(self):
        self.start()
        large = os.path.join(self.device, "large")
        with open(large, "wb") as file:
            file.write(b"x" * (2 << 20))
        levels = {"volatile": ("memory", b"goes with its daemon"),
                  "async": ("next-checkpoint", b"from the next checkpoint on"),
                  "sync": ("device", b"on the device")}
        for durability, (level, text) in levels.items():
            self.good("namespace", "create", durability, "--durability", durability)
            put = self.kvctl("put", durability, "k", "v", "--receipt")
            self.assertEqual((put.code, put.out), (0, b""), put)
            self.assertIn(text, put.err)
            self.assertNotIn(text, self.kvctl("put", durability, "k", "v").err)
            self.good("namespace", "create", "q-" + durability, "--kind", "queue",
                      "--durability", durability)
            for change in (("put", durability, "large", "@" + large),
                           ("incr", durability, "n"),
                           ("append", durability, "k", "w"),
                           ("cas", durability, "k", "vw", "v"),
                           ("expire", durability, "k", "1h"),
                           ("apply", durability, "k", "exchange", "w"),
                           ("delete", durability, "k", "n"),
                           ("push", "q-" + durability, "a", "b"),
                           ("pop", "q-" + durability),
                           ("pop", "q-" + durability, "--lease", "1m")):
                result = json.loads(self.good(*change, "--receipt", "--json"))["result"]
                self.assertEqual(result["receipt"]["level"], level, change)
                self.assertGreater(result["receipt"]["answered_at_ms"], 0, change)
            lease = result["items"][0]["lease"]
            result = json.loads(self.good("ack", "q-" + durability, lease, "--receipt", "--json"))
            self.assertEqual(result["result"]["receipt"]["level"], level)
        self.good("stop", "--discard")

    def test_queues_and_ranges_survive_a_kill(self):
        self.start()
        self.good("namespace", "create", "jobs", "--kind", "queue", "--durability", "sync")
        self.good("namespace", "create", "steps", "--kind", "priority", "--durability", "sync")
        self.good("namespace", "create", "sorted", "--kind", "ordered", "--durability", "sync",
                  "--split-keys", "m")
        self.good("push", "jobs", "a", "b", "c")
        self.assertEqual(self.good("pop", "jobs", "--lease", "1h"), b"1:1\ta\n")
        self.good("push", "steps", "late", "--priority", "9")
        self.good("push", "steps", "early", "--priority", "1")
        for key in ("z", "a", "n", "l"):
            self.good("put", "sorted", key, "of " + key)
        self.start()  # Kills first.
        # Its consumer has it still, and only its lease is acked.
        self.assertEqual(self.good("peek", "jobs", "-n", "9"), b"b\nc\n")
        self.bad(1, "ack", "jobs", "1:2", says="this lease of the item has ended")
        self.good("ack", "jobs", "1:1")
        self.assertEqual(self.good("pop", "jobs", "--all"), b"b\nc\n")
        self.assertEqual(self.good("pop", "steps"), b"early")
        self.assertEqual(self.good("keys", "sorted"), b"a\nl\nn\nz\n")
        self.assertEqual(self.good("count", "sorted", "--prefix", "n"), b"1\n")
        self.good("put", "sorted", "k" * 400, "v")
        self.bad(2, "put", "sorted", "k" * 401, "v", says="at most 400 bytes")
        self.start()
        self.assertEqual(self.good("count", "jobs"), b"0\n")
        self.assertEqual(self.good("pop", "steps"), b"late")
        self.assertIn(b"k" * 400, self.good("keys", "sorted"))
        self.good("stop")

    def test_filters_survive_a_kill_as_they_were_persisted(self):
        self.start()
        self.good("namespace", "create", "seen", "--kind", "bloom", "--expected-items", "1000",
                  "--durability", "async")
        self.good("bloom", "add", "seen", "alice")
        self.good("persist", "seen")
        self.start()  # Kills first.
        self.assertEqual(self.good("bloom", "has", "seen", "alice"), b"true\n")
        self.assertEqual(self.kvctl("bloom", "has", "seen", "bob").code, 3)
        self.good("stop")

    def test_large_values_survive_a_kill(self):
        self.start("512MiB")
        tree = os.path.join(self.device, "tree")
        os.mkdir(tree)
        sizes = {"small": 1, "inline": 1 << 20, "large": (5 << 20) + 12345, "parts": (70 << 20) + 1}
        for name, size in sizes.items():
            with open(os.path.join(tree, name), "wb") as file:
                file.write(random.Random(size).randbytes(size))
        large = os.path.join(tree, "large")
        with open(large, "rb") as file:
            content = file.read()
        self.good("namespace", "create", "files", "--durability", "async")
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.good("namespace", "create", "jobs", "--kind", "queue", "--durability", "sync")
        self.good("namespace", "create", "sorted", "--kind", "ordered", "--durability", "sync")
        self.good("stage", "in", tree, "files")
        self.good("persist", "files")
        self.good("put", "ledger", "k", "@" + large)
        self.good("append", "ledger", "k", "tail")
        self.good("put", "sorted", "k", "@" + large)
        self.good("expire", "sorted", "k", "1h")
        self.good("push", "jobs", "--file", large)
        for _ in range(2):
            self.start("512MiB")  # Kills first.
            self.assertEqual(self.good("get", "ledger", "k"), content + b"tail")
            self.assertEqual(self.good("get", "sorted", "k"), content)
            self.assertEqual(self.good("peek", "jobs"), content)
            target = os.path.join(self.device, "target")
            self.good("stage", "out", "files", target, "--partial")  # As it may have been written since.
            subprocess.run(["diff", "-r", tree, target], check=True, timeout=60)
            shutil.rmtree(target)
        self.assertEqual(self.good("pop", "jobs"), content)
        self.good("delete", "ledger", "k")
        self.start("512MiB")
        self.bad(3, "get", "ledger", "k")
        self.assertEqual(self.good("count", "jobs"), b"0\n")
        self.good("stop")
        code, output, _ = self.kvd("check", self.device)
        self.assertEqual(code, 0, output)

    def start_in_folders(self, nodes=2, options=(), more=()):
        self.cluster.start(nodes, options=("--nvm-dir", self.device, *options), more=more)

    def test_a_second_start_goes_on_with_what_is_in_its_directory(self):
        self.start_in_folders(options=("--nvm-size", "160MiB"))
        self.good("namespace", "create", "results", "--durability", "async")
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.good("namespace", "create", "jobs", "--kind", "queue", "--durability", "sync")
        keys = [f"k{i}" for i in range(20)]
        for key in keys:
            self.good("put", "results", key, "of " + key)
        self.good("persist", "results")
        self.good("push", "jobs", "a", "b")
        for life in range(4):
            self.good("put", "ledger", f"life{life}", "v")
            if life % 2 == 0:
                self.good("stop")
            self.start_in_folders()  # Kills first what was not stopped.
            for key in keys:
                self.assertEqual(self.good("get", "results", key), b"of " + key.encode())
            self.assertEqual(self.good("count", "ledger"), f"{life + 1}\n".encode())
            self.assertEqual(self.good("peek", "jobs", "-n", "9"), b"a\nb\n")
        self.good("stop")

    def test_a_second_start_goes_on_where_nothing_was_durable(self):
        for _ in range(3):
            self.start_in_folders(3, options=("--nvm-size", "120MiB"))
            self.good("put", "default", "k", "v")
            self.good("stop", "--discard")
        states = [folder for folder in sorted(os.listdir(self.device))
                  if "cluster-state" in os.listdir(os.path.join(self.device, folder))]
        self.assertEqual(len(states), 1)

    def test_a_start_that_does_not_fit_its_directory_is_refused(self):
        self.start_in_folders(options=("--nvm-size", "160MiB"))
        self.good("namespace", "create", "results", "--durability", "async")
        self.good("put", "results", "k", "v")
        self.good("stop")
        start = ("start", "--timeout", "20s", "--memory", "256MiB", "--nvm-dir", self.device)
        # Whether the coordinator is among those that it starts or not.
        line = self.bad(1, *start, "--local", "1")
        self.assertRegex(line, r"has more daemons than 1 .*--local N|a cluster of 2 nodes, not of 1")
        self.bad(1, *start, "--local", "3", says="a cluster of 2 nodes, not of 3")
        self.bad(1, *start, "--local", "2", "--nvm-size", "120MiB", says="leave --nvm-size out")
        self.bad(1, *start, "--local", "2", "--nvm-size", "400MiB", says="leave --nvm-size out")
        self.bad(1, *start, "--local", "2", "--", "--cores", "2", says="give --cores 1")
        # None of these has hurt it.
        self.start_in_folders()
        self.assertEqual(self.good("get", "results", "k"), b"v")
        self.good("stop")
        states = [os.path.join(self.device, str(i), "cluster-state") for i in range(2)]
        [state] = [path for path in states if os.path.exists(path)]
        shutil.copy(state, [path for path in states if path != state][0])
        self.bad(1, *start, "--local", "2", says="are of two clusters")

    def kvd(self, *arguments):
        done = subprocess.run([os.path.join(self.build, "bin", "kvd"), *arguments], capture_output=True, timeout=60)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_what_a_node_has_left_can_be_checked(self):
        self.start()
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.good("namespace", "create", "results", "--durability", "async")
        for key in ("k1", "k2"):
            self.good("put", "ledger", key, "v")
        self.good("put", "results", "r", "w")
        self.good("persist", "results")
        code, _, errors = self.kvd("check", self.device)
        self.assertEqual(code, 1)
        self.assertIn("stop it first", errors)
        self.cluster.kill()
        code, output, _ = self.kvd("check", self.device)
        self.assertEqual(code, 0, output)
        self.assertIn("did not end in good order", output)
        self.assertIn("sound: a start brings all of this back", output)
        records = {}
        for line in output.splitlines():
            words = line.split()
            if len(words) > 3 and words[2] in ("sync", "async"):
                space = words[0].split("/")[0]
                records[space] = records.get(space, 0) + int(words[3])
        self.assertEqual(records, {"ledger": 2, "results": 1})
        code, output, _ = self.kvd("inspect", "--records", self.device)
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"put ledger/\d+ 'k1' version \d+, 1 bytes")
        # In the key of the first record of a segment.
        with open(os.path.join(self.device, "tidepool.nvm"), "r+b") as file:
            file.seek(file.read().index(b"1TPS") + 64 + 33)
            file.write(b"?")
        code, output, _ = self.kvd("check", self.device)
        self.assertEqual(code, 1, output)
        self.assertIn("it is damaged behind 0 records", output)
        self.assertIn("kvctl namespace accept-loss", output)
        code, _, errors = self.kvd("check", os.path.join(self.device, "missing"))
        self.assertEqual(code, 1)
        self.assertIn("is not there", errors)
        self.assertEqual(self.kvd("inspect")[0], 2)

    def test_refusals_say_what_is_missing(self):
        self.cluster.start(1)
        self.bad(1, "namespace", "create", "d", "--durability", "async", says="--nvm-dir")
        self.cluster.kill()
        self.start()
        self.bad(2, "namespace", "create", "d", "--durability", "forever", says="'sync'")
        self.bad(2, "namespace", "create", "d", "--durability", "async", "--prefilter", "admit", says="admit")
        self.bad(2, "namespace", "create", "d", "--kind", "bloom", "--expected-items", "9",
                 "--durability", "sync", says="bloom")
        self.bad(1, "namespace", "create", "d", "--medium", "dax", says="medium 'dax' wants")
        self.good("namespace", "create", "d", "--medium", "file")
        self.good("stop", "--discard")


if __name__ == "__main__":
    kvctl_support.main()
