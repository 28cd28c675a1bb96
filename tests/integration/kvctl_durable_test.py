#!/usr/bin/python3
"""Durable namespaces as a user meets them: made, persisted, stopped, killed, described.

  kvctl_durable_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import shutil
import tempfile

import kvctl_support


class Durable(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        # On the build's disk: /tmp may be memory without direct I/O.
        self.device = tempfile.mkdtemp(prefix="kvctl_durable.", dir=os.getcwd())
        self.addCleanup(shutil.rmtree, self.device, ignore_errors=True)

    def start(self):
        self.cluster.start(1, more=("--nvm-dir", self.device, "--nvm-size", "128MiB"))

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

    def test_refusals_say_what_is_missing(self):
        self.cluster.start(1)
        self.bad(1, "namespace", "create", "d", "--durability", "async", says="--nvm-dir")
        self.cluster.kill()
        self.start()
        self.bad(2, "namespace", "create", "d", "--durability", "forever", says="'sync'")
        self.bad(2, "namespace", "create", "d", "--kind", "queue", "--durability", "async",
                 says="queue")
        self.bad(2, "namespace", "create", "d", "--kind", "bloom", "--expected-items", "9",
                 "--durability", "sync", says="bloom")
        self.good("stop")


if __name__ == "__main__":
    kvctl_support.main()
