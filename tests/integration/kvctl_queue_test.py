#!/usr/bin/python3
"""kvctl on queues, against a real cluster of two daemons.

  kvctl_queue_test.py BUILD_FOLDER [unittest arguments]
"""

import base64
import json
import subprocess

import kvctl_support


class Queues(kvctl_support.KvctlTest):
    nodes = 2

    def make(self, name, *items, kind="queue", options=()):
        self.good("namespace", "create", name, "--kind", kind, *options)
        if items:
            self.good("push", name, *items)

    def items(self, *arguments):
        found = self.kvctl(*arguments, "--json").json()
        return [item["value"] for item in found["result"]["items"]] if found["ok"] else []

    def test_items_leave_in_the_order_in_which_they_came(self):
        self.make("fifo")
        self.assertEqual(self.good("push", "fifo", "a", "b"), b"2\n")
        self.assertEqual(self.good("push", "fifo", "-", stdin=b"c\nd\n\ne"), b"4\n")
        self.assertEqual(self.good("count", "fifo"), b"6\n")
        self.assertEqual(self.good("peek", "fifo"), b"a")
        self.assertEqual(self.good("peek", "fifo", "-n", "3"), b"a\nb\nc\n")
        self.assertEqual(self.good("pop", "fifo"), b"a")
        self.assertEqual(self.good("pop", "fifo", "-n", "2", "-0"), b"b\0c\0")
        self.assertEqual(self.good("pop", "fifo", "--all"), b"d\n\ne\n")
        self.assertIn("no item", self.bad(3, "pop", "fifo"))
        self.bad(3, "peek", "fifo")
        self.bad(3, "pop", "fifo", "--all")
        self.bad(3, "pop", "fifo", "--wait", "30ms")

    def test_the_least_priority_leaves_first(self):
        self.make("urgent", kind="priority")
        self.good("push", "urgent", "--priority", "5", "later", "later still")
        self.good("push", "urgent", "-p", "1", "first")
        self.good("push", "urgent", "at once")
        found = self.kvctl("pop", "urgent", "--all", "--json").json()["result"]["items"]
        self.assertEqual([(item["value"], item["priority"]) for item in found],
                         [("at once", 0), ("first", 1), ("later", 5), ("later still", 5)])
        self.make("plain")
        self.bad(2, "push", "plain", "--priority", "1", "x", says="no priorities")

    def test_any_bytes_and_sizes(self):
        self.make("bytes")
        self.good("push", "bytes", "--base64", base64.b64encode(b"\0\xff\n").decode())
        large = bytes(range(256)) * 10_000
        self.good("push", "bytes", "--file", "-", stdin=large)
        self.good("push", "bytes", "--literal", "--", "-")
        self.assertEqual(self.good("pop", "bytes"), b"\0\xff\n")
        self.assertEqual(self.good("pop", "bytes"), large)
        self.assertEqual(self.good("pop", "bytes"), b"-")

    def test_leases_are_acked_and_given_back(self):
        self.make("jobs", "a", "b")
        lease = self.good("pop", "jobs", "--lease", "1h")
        self.assertEqual(lease, b"1:1\ta\n")
        found = self.kvctl("pop", "jobs", "--lease", "1h", "--json").json()["result"]["items"]
        self.assertEqual(found, [{"value": "b", "id": 2, "priority": 0, "deliveries": 1, "lease": "2:1"}])
        self.bad(3, "pop", "jobs")
        self.good("nack", "jobs", "1:1")
        self.assertEqual(self.good("pop", "jobs", "-l", "1h"), b"1:2\ta\n")
        self.bad(1, "ack", "jobs", "1:1", says="has ended")
        self.good("ack", "jobs", "1:2", "2:1")
        self.bad(3, "ack", "jobs", "1:2", says="not leased")
        self.good("push", "jobs", "c")
        self.good("pop", "jobs", "--lease", "1m")
        partly = self.kvctl("ack", "jobs", "3:1", "1:2", "--json")
        self.assertEqual(partly.code, 6, partly)
        self.assertEqual(partly.json()["result"], {"acked": 1, "asked": 2})
        self.bad(2, "ack", "jobs", "1", says="kvctl pop --lease")
        self.assertEqual(self.good("count", "jobs"), b"0\n")

    def test_a_lease_that_runs_out_gives_the_item_back(self):
        self.make("short", "a")
        self.good("pop", "short", "--lease", "50ms")
        self.assertEqual(self.good("pop", "short", "--lease", "1h", "--wait", "60s"), b"1:2\ta\n")

    def test_a_pop_waits_for_a_push(self):
        self.make("idle")
        waiter = subprocess.Popen([self.cluster.kvctl_path, "pop", "idle", "--wait", "100s"],
                                  stdout=subprocess.PIPE, env=self.cluster.environment,
                                  cwd=self.cluster.folder)
        self.good("push", "idle", "here")
        self.assertEqual(waiter.communicate(timeout=60)[0], b"here")
        self.assertEqual(waiter.returncode, 0)

    def test_a_full_queue_refuses_or_lets_wait(self):
        self.make("full", "a", "b", options=("--capacity", "2"))
        self.assertIn("full", self.bad(1, "push", "full", "c"))
        self.bad(4, "push", "full", "c", "--wait", "30ms")
        waiter = subprocess.Popen([self.cluster.kvctl_path, "push", "full", "c", "--wait", "100s"],
                                  stdout=subprocess.PIPE, env=self.cluster.environment,
                                  cwd=self.cluster.folder)
        self.assertEqual(self.good("pop", "full"), b"a")
        self.assertEqual(waiter.communicate(timeout=60)[0], b"1\n")
        self.assertEqual(self.items("pop", "full", "--all"), ["b", "c"])
        self.good("push", "full", "d")
        partly = self.kvctl("push", "full", "e", "f", "--json")
        self.assertEqual(partly.code, 6, partly)
        self.assertEqual(partly.json()["result"]["pushed"], 1)
        self.assertIn("1 items were pushed, then: item 1 of 2", partly.json()["error"])

    def test_a_queue_has_its_home(self):
        for node in ("0", "1"):
            self.make("home" + node, options=("--home", node))
            found = self.kvctl("namespace", "describe", "home" + node, "--json").json()["result"]
            self.assertEqual([part["node"] for part in found["partition_list"]], [int(node)])
            self.assertEqual((found["kind"], found["capacity"]), ("queue", None))
        self.make("here", "x", options=("--home", "local", "--capacity", "7"))
        found = self.kvctl("namespace", "describe", "here", "--json").json()["result"]
        self.assertEqual((found["capacity"], found["records"]), (7, 1))
        self.bad(2, "namespace", "create", "nowhere", "--kind", "queue", "--home", "2")
        self.bad(2, "namespace", "create", "nowhere", "--kind", "priority", "--partitions", "2")
        self.bad(2, "namespace", "create", "nowhere", "--capacity", "2")

    def test_a_queue_moves_to_another_node(self):
        self.make("moves", "a", "b", "c", options=("--home", "0"))
        lease = self.good("pop", "moves", "--lease", "1h").split(b"\t")[0].decode()
        self.assertIn(b"moves is now on node 1", self.good("namespace", "migrate", "moves", "1"))
        self.assertIn(b"moves is already on node 1", self.good("namespace", "migrate", "moves", "1"))
        found = self.kvctl("namespace", "describe", "moves", "--json").json()["result"]
        self.assertEqual([(part["node"], part["term"]) for part in found["partition_list"]], [(1, 2)])
        self.good("ack", "moves", lease)
        result = self.kvctl("namespace", "migrate", "moves", "0", "--timeout", "30s", "--json").json()["result"]
        self.assertEqual((result["node"], result["partitions_moved"]), (0, 1))
        self.assertEqual(self.items("pop", "moves", "--all"), ["b", "c"])
        self.bad(2, "namespace", "migrate", "moves", "7")
        self.bad(2, "namespace", "migrate", "moves", "there")
        self.bad(3, "namespace", "migrate", "nowhere", "1", says="nowhere")
        self.make("sorted", kind="ordered")
        self.bad(2, "namespace", "migrate", "sorted", "1", says="is of kind ordered, whose records stay")

    def test_a_queue_may_have_lanes(self):
        self.make("wide", options=("--lanes", "3", "--capacity", "30"))
        for value in "abcdef":
            self.good("push", "wide", value)
        self.assertEqual(self.good("count", "wide"), b"6\n")
        self.assertEqual(len(self.items("peek", "wide")), 1)
        leased = self.kvctl("pop", "wide", "--lease", "1h", "--all", "--json").json()["result"]["items"]
        self.assertEqual(sorted(item["value"] for item in leased), list("abcdef"))
        self.good("nack", "wide", leased[0]["lease"])
        self.good("ack", "wide", *(item["lease"] for item in leased[1:]))
        self.assertEqual(self.items("pop", "wide", "--all"), [leased[0]["value"]])
        self.bad(3, "pop", "wide", "--wait", "30ms")
        found = self.kvctl("namespace", "describe", "wide", "--json").json()["result"]
        self.assertEqual((found["lanes"], found["partitions"]), (3, 3))
        self.good("namespace", "migrate", "wide", "1")
        self.bad(2, "namespace", "create", "wider", "--kind", "queue", "--lanes", "65")
        self.bad(2, "namespace", "create", "wider", "--kind", "priority", "--lanes", "2", says="queue")
        self.bad(2, "namespace", "create", "wider", "--lanes", "2", says="queue")

    def test_a_filter_moves_with_all_its_partitions(self):
        self.good("namespace", "create", "seen", "--kind", "bloom", "--expected-items", "10000")
        self.good("bloom", "add", "seen", "x", "y")
        self.good("namespace", "migrate", "seen", "1")
        found = self.kvctl("namespace", "describe", "seen", "--json").json()["result"]
        self.assertEqual({part["node"] for part in found["partition_list"]}, {1})
        self.good("bloom", "has", "seen", "x")
        self.good("bloom", "has", "seen", "y")
        self.assertEqual(self.kvctl("bloom", "has", "seen", "z").code, 3)

    def test_what_cannot_be_is_refused(self):
        self.make("refused", "a")
        for wrong in (("push", "refused"), ("push", "refused", "a", "--file", "x"),
                      ("pop", "refused", "-n", "0"), ("pop", "refused", "--all", "-n", "1"),
                      ("pop", "refused", "--lease", "0s"), ("peek", "refused", "-n", "0"),
                      ("push", "refused", "--base64", "%")):
            self.bad(2, *wrong)
        self.bad(3, "pop", "nowhere", says="nowhere")
        self.bad(2, "pop", "default", says="hash")
        self.bad(2, "get", "refused", "a", says="kind")
        self.bad(2, "stage", "in", "/etc/apt", "refused", says="queue")
        self.assertEqual(json.loads(self.kvctl("peek", "refused", "--json").out)["result"]["items"][0]["value"],
                         "a")


if __name__ == "__main__":
    kvctl_support.main()
