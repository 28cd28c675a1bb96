#!/usr/bin/python3
"""kvctl on ordered namespaces, against a real cluster of two daemons.

  kvctl_ordered_test.py BUILD_FOLDER [unittest arguments]
"""

import base64
import json

import kvctl_support


class Ordered(kvctl_support.KvctlTest):
    nodes = 2

    def make(self, name, *keys):
        self.good("namespace", "create", name, "--kind", "ordered")
        lines = "".join(f"{key}\tvalue of {key}\n" for key in keys)
        self.good("load", name, "-", "--format", "tsv", stdin=lines.encode())

    def keys(self, *arguments):
        return self.good("scan", *arguments, "--keys").decode().split()

    def test_a_scan_is_in_order(self):
        self.make("fruit", "fig", "apple", "date", "cherry", "banana")
        self.assertEqual(self.keys("fruit"), ["apple", "banana", "cherry", "date", "fig"])
        self.assertEqual(self.keys("fruit", "banana", "date"), ["banana", "cherry"])
        self.assertEqual(self.keys("fruit", "c"), ["cherry", "date", "fig"])
        self.assertEqual(self.keys("fruit", "--reverse", "--limit", "2"), ["fig", "date"])
        self.assertEqual(self.keys("fruit", "banana", "date", "-r"), ["cherry", "banana"])
        self.assertEqual(self.keys("fruit", "--prefix", "b"), ["banana"])
        self.assertEqual(self.keys("fruit", "x"), [])
        self.assertEqual(self.good("scan", "fruit", "--keys", "--null", "-n", "2"), b"apple\0banana\0")

    def test_records_are_printed_as_dump_does_and_load_reads_them(self):
        self.make("source", "b", "a")
        self.good("put", "source", "n", "7", "--int")
        lines = self.good("scan", "source")
        self.assertEqual([json.loads(line) for line in lines.splitlines()],
                         [{"key": "a", "value": "value of a"}, {"key": "b", "value": "value of b"},
                          {"key": "n", "value": 7}])
        self.make("copy")
        self.good("load", "copy", "-", stdin=lines)
        self.assertEqual(self.good("scan", "copy", "--format", "tsv"),
                         b"a\tvalue of a\nb\tvalue of b\nn\t7\n")
        found = self.kvctl("scan", "copy", "--limit", "1", "--json").json()["result"]
        self.assertEqual(found["records"], [{"key": "a", "value": "value of a"}])

    def test_count_and_erase(self):
        self.make("many", *[f"k{i}" for i in range(1000, 4000)])
        self.assertEqual(self.good("count", "many"), b"3000\n")
        self.assertEqual(self.good("count", "many", "--prefix", "k2"), b"1000\n")
        self.assertEqual(self.good("erase", "many", "--prefix", "k2"), b"1000\n")
        self.assertEqual(self.good("erase", "many", "--range", "k1500", "k1600"), b"100\n")
        self.assertEqual(self.good("erase", "many", "--range", "k3990"), b"10\n")
        self.assertEqual(self.good("count", "many", "--prefix", ""), b"1890\n")
        self.assertEqual(self.good("erase", "many", "--all"), b"1890\n")
        self.assertEqual(self.good("erase", "many", "--all"), b"0\n")

    def test_keys_of_any_bytes(self):
        self.make("bytes")
        for key in (b"a\xff", b"a\xff\x00", b"b"):
            self.good("put", "bytes", base64.b64encode(key).decode(), "v", "--base64")
        prefix = base64.b64encode(b"a\xff").decode()
        self.assertEqual(self.good("count", "bytes", "--prefix", prefix, "--base64"), b"2\n")
        self.assertEqual(self.good("scan", "bytes", "--prefix", prefix, "--base64", "-k"),
                         b"a\xff\na\xff\x00\n")

    def test_single_keys_and_dump_work_as_on_hash_namespaces(self):
        self.make("same")
        self.good("put", "same", "k", "v")
        self.assertEqual(self.good("get", "same", "k"), b"v")
        self.good("delete", "same", "k")
        self.bad(3, "get", "same", "k")
        self.good("put", "same", "k", "v2")
        self.assertEqual(json.loads(self.good("dump", "same")), {"key": "k", "value": "v2"})
        found = self.kvctl("namespace", "describe", "same", "--json").json()["result"]
        self.assertEqual((found["kind"], found["records"], found["partitions"]), ("ordered", 1, 1))

    def test_several_ranges(self):
        self.good("namespace", "create", "ranges", "--kind", "ordered", "--split-keys", "g,n,t",
                  "--split", "manual")
        keys = [chr(c) for c in range(ord("a"), ord("z") + 1)]
        for key in keys:
            self.good("put", "ranges", key, "value of " + key)
        self.assertEqual(self.keys("ranges"), keys)
        self.assertEqual(self.good("scan", "ranges", "-k", "-r", "-n", "9").decode().split(),
                         keys[:-10:-1])
        self.assertEqual(self.good("scan", "ranges", "f", "u", "-k").decode().split(), keys[5:20])
        self.assertEqual(self.good("count", "ranges"), b"26\n")
        self.assertEqual([json.loads(line)["key"] for line in
                          self.good("dump", "ranges").decode().splitlines()], keys)
        found = self.kvctl("namespace", "describe", "ranges", "--json").json()["result"]
        self.assertEqual((found["records"], found["partitions"], found["split"]),
                         (26, 4, "manual"))
        self.assertEqual([(part["begin"], part["records"]) for part in found["partition_list"]],
                         [("", 6), ("g", 7), ("n", 6), ("t", 7)])
        place = self.kvctl("locate", "ranges", "k", "--json").json()["result"]
        self.assertEqual((place["range_begin"], place["range_end"]), ("g", "n"))
        place = self.kvctl("locate", "ranges", "z", "--json").json()["result"]
        self.assertEqual(place["range_begin"], "t")
        self.assertNotIn("range_end", place)
        self.assertEqual(self.good("erase", "ranges", "--range", "f", "u"), b"15\n")
        self.assertEqual(self.good("count", "ranges"), b"11\n")
        self.good("namespace", "create", "bytes-ranges", "--kind", "ordered", "--base64",
                  "--split-keys", base64.b64encode(b"a,\xff").decode())
        found = self.kvctl("namespace", "describe", "bytes-ranges", "--json").json()["result"]
        self.assertEqual(found["partition_list"][1]["begin_base64"],
                         base64.b64encode(b"a,\xff").decode())

    def test_a_split_by_hand(self):
        self.good("namespace", "create", "halves", "--kind", "ordered", "--split", "manual")
        keys = [f"k{i}" for i in range(100, 200)]
        for key in keys:
            self.good("put", "halves", key, "v")
        split = self.kvctl("namespace", "split", "halves", "--json").json()["result"]
        self.assertEqual((split["partition"], split["key"]), (1, "k15"))
        self.good("namespace", "split", "halves", base64.b64encode(b"k120").decode(), "--base64")
        found = self.kvctl("namespace", "describe", "halves", "--json").json()["result"]
        self.assertEqual([(part["index"], part["begin"]) for part in found["partition_list"]],
                         [(0, ""), (2, "k120"), (1, "k15")])
        self.assertEqual(found["records"], 100)
        self.assertEqual(self.keys("halves"), keys)
        self.bad(1, "namespace", "split", "halves", "k120", says="begins with it")
        self.bad(2, "namespace", "split", "default", says="hash")
        self.bad(3, "namespace", "split", "nowhere", says="nowhere")

    def test_what_cannot_be_is_refused(self):
        self.make("refused", "a")
        self.bad(2, "namespace", "create", "x", "--kind", "ordered", "--partitions", "2",
                 says="split keys")
        self.bad(2, "namespace", "create", "x", "--split-keys", "a", says="ordered")
        self.bad(2, "namespace", "create", "x", "--kind", "ordered", "--split-keys", "a,,b")
        self.bad(2, "namespace", "create", "x", "--kind", "ordered", "--split", "never")
        self.good("namespace", "create", "refused", "--kind", "ordered", "--partitions", "1")
        self.bad(2, "stage", "in", "/etc/apt", "refused", says="ordered")
        for wrong in (("erase", "refused"), ("erase", "refused", "a"),
                      ("erase", "refused", "--range"), ("erase", "refused", "--all", "--prefix", "a"),
                      ("scan", "refused", "a", "--prefix", "a"), ("scan", "refused", "--limit", "0"),
                      ("scan", "refused", "--null"), ("scan", "refused", "%", "--base64")):
            self.bad(2, *wrong)
        self.assertIn("hash", self.bad(2, "scan", "default"))
        self.bad(2, "erase", "default", "--all")
        self.bad(2, "count", "default", "--prefix", "a")
        self.bad(3, "scan", "nowhere", says="nowhere")
        self.assertEqual(self.keys("refused"), ["a"])


if __name__ == "__main__":
    kvctl_support.main()
