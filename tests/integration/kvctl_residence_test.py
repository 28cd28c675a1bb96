#!/usr/bin/python3
"""What kvctl shows of namespaces that are larger than memory: where their records are, how often reads
found theirs in memory, what was written to devices for them.

  kvctl_residence_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import shutil
import tempfile

import kvctl_support

RECORDS = 40_000
VALUE_BYTES = 4_000


class Residence(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        # On the build's disk: /tmp may be memory without direct I/O.
        self.device = tempfile.mkdtemp(prefix="kvctl_residence.", dir=os.getcwd())
        self.addCleanup(shutil.rmtree, self.device, ignore_errors=True)
        self.addCleanup(self.cluster.kill)

    def start(self):
        self.cluster.start(1, node_mib=64, more=("--cores", "2", "--nvm-dir", self.device, "--nvm-size", "512MiB"))

    def describe(self, name):
        return json.loads(self.good("namespace", "describe", name, "--json"))["result"]

    def load(self, name, records=RECORDS):
        lines = "".join(f"k{i}\t{i % 10}{'v' * VALUE_BYTES}\n" for i in range(records))
        self.good("load", name, "-", "--format", "tsv", stdin=lines.encode())

    def test_what_has_left_memory_is_counted_where_it_is(self):
        self.start()
        self.load("default")
        found = self.describe("default")
        self.assertEqual(found["records"], RECORDS)
        self.assertEqual(found["memory_records"] + found["device_records"], RECORDS)
        self.assertEqual(found["memory_bytes"] + found["device_bytes"], found["live_bytes"])
        # Of 160 MB; a core keeps some memory free.
        self.assertLess(found["memory_bytes"], 64 << 20)
        self.assertGreater(found["memory_bytes"], 10 << 20)
        self.assertGreater(found["device_records"], RECORDS / 2)
        # Written once, and little else.
        self.assertGreaterEqual(found["device_written_bytes"], found["device_record_bytes"])
        self.assertGreaterEqual(found["device_record_bytes"], found["device_bytes"])
        self.assertGreaterEqual(found["write_amplification"], 1)
        self.assertLess(found["write_amplification"], 1.2)
        text = self.good("namespace", "describe", "default").decode()
        self.assertRegex(text, r"\nin_memory +\d+ records, \d+\.\d MiB")
        self.assertRegex(text, r"\non_devices +\d+ records, \d+\.\d MiB\n")
        self.assertRegex(text, r"\nwrite_amplification +1\.\d\d \(its nodes have written \d+\.\d MiB for \d+\.\d MiB")
        [node] = self.kvctl("status", "--json").json()["result"]["nodes"]
        self.assertGreaterEqual(node["spill"]["record_bytes"], found["device_bytes"])
        self.assertGreaterEqual(node["spill"]["write_amplification"], 1)
        self.assertIn("AMPLIFIED", self.good("status").decode())

    def test_the_hit_rate_rises_with_what_is_read_again(self):
        self.start()
        self.good("namespace", "create", "again")  # kvctl start has read in `default`.
        self.load("again")
        before = self.describe("again")
        self.assertIsNone(before["hit_rate"])
        self.assertRegex(self.good("namespace", "describe", "again").decode(), r"\nhit_rate +- \(no reads yet\)")
        # The first that were put have left first.
        rates = []
        for _ in range(5):
            self.assertEqual(len(self.good("get", "again", "k7")), VALUE_BYTES + 1)
            rates.append(self.describe("again")["hit_rate"])
        self.assertEqual(rates[0], 0)
        self.assertEqual(rates, sorted(set(rates)))
        after = self.describe("again")
        self.assertEqual(after["reads"] - before["reads"], 5)
        self.assertEqual(after["device_reads"] - before["device_reads"], 1)
        self.assertEqual(after["cached_records"], 1)
        self.assertRegex(self.good("namespace", "describe", "again").decode(), r"\nhit_rate +80 % of 5 reads\n")

    def test_queues_and_large_namespaces(self):
        self.start()
        self.good("namespace", "create", "jobs", "--kind", "queue")
        self.good("push", "jobs", "-", stdin=b"".join(b"%d%s\n" % (i, b"j" * 20_000) for i in range(5_000)))
        found = self.describe("jobs")
        self.assertEqual(found["memory_records"] + found["device_records"], 5_000)
        self.assertGreater(found["device_records"], 1_000)
        self.assertFalse(found["residence_sampled"])
        # kvctl pops as programs do, by the fast path.
        self.assertEqual((found["reads"], found["device_reads"]), (0, 0))
        self.assertTrue(self.good("pop", "jobs").startswith(b"0j"))
        found = self.describe("jobs")
        self.assertEqual((found["reads"], found["device_reads"]), (1, 1))
        # More than is looked at.
        lines = "".join(f"k{i}\tv\n" for i in range(100_000))
        self.good("load", "small", "-", "--format", "tsv", stdin=lines.encode())
        found = self.describe("small")
        self.assertTrue(found["residence_sampled"])
        self.assertEqual(found["memory_records"] + found["device_records"], 100_000)
        self.assertRegex(self.good("namespace", "describe", "small").decode(), r"\nin_memory +about \d+ records")

    def test_a_durable_change_is_written_once_and_once_more_for_sync(self):
        self.start()
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.load("ledger", 2_000)
        self.good("persist", "ledger")
        found = self.describe("ledger")
        self.assertEqual((found["memory_records"], found["device_records"]), (2_000, 0))
        self.assertGreaterEqual(found["device_record_bytes"], found["live_bytes"])
        self.assertGreaterEqual(found["device_written_bytes"], 2 * found["live_bytes"])
        self.assertGreaterEqual(found["write_amplification"], 1.9)
        self.good("stop", "--discard")
        self.start()
        found = self.describe("ledger")
        self.assertEqual((found["memory_records"], found["device_records"]), (0, 2_000))
        self.assertEqual((found["memory_bytes"], found["device_bytes"]), (0, found["live_bytes"]))
        self.assertIsNone(found["hit_rate"])

    def test_without_devices_nothing_is_said_of_them(self):
        self.cluster.start(1)
        self.good("put", "default", "k", "v")
        found = self.describe("default")
        for name in ("memory_records", "device_records", "hit_rate", "write_amplification"):
            self.assertNotIn(name, found)
        self.assertNotIn(b"in_memory", self.good("namespace", "describe", "default"))


if __name__ == "__main__":
    kvctl_support.main()
