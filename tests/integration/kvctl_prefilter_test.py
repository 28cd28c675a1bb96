#!/usr/bin/python3
"""Prefilters of namespaces with kvctl, against a real cluster of two daemons.

  kvctl_prefilter_test.py BUILD_FOLDER [unittest arguments]
"""

import kvctl_support


class Prefilter(kvctl_support.KvctlTest):
    nodes = 2

    def make(self, name, prefilter, *options):
        self.good("namespace", "create", name, "--prefilter", prefilter, *options)

    def describe(self, name):
        return self.kvctl("namespace", "describe", name, "--json").json()["result"]

    def test_the_first_incr_of_a_key_stores_nothing(self):
        self.make("words", "admit")
        self.assertEqual(self.good("incr", "words", "once"), b"0\n")
        self.bad(3, "get", "words", "once")
        self.assertEqual(self.good("incr", "words", "twice"), b"0\n")
        self.assertEqual(self.good("incr", "words", "twice", "5"), b"5\n")
        self.assertEqual(self.good("incr", "words", "twice"), b"6\n")
        self.assertEqual(self.good("get", "words", "twice"), b"6\n")
        self.assertEqual(self.good("incr", "words", "energy", "0.5", "--f64"), b"0\n")
        self.assertEqual(self.good("incr", "words", "energy", "0.5", "--f64"), b"0.5\n")
        self.good("put", "words", "new", "a", "--if-absent")
        self.bad(3, "get", "words", "new")
        self.good("put", "words", "new", "b", "--if-absent")
        self.assertEqual(self.good("get", "words", "new"), b"b")
        self.good("put", "words", "put", "at once")
        self.assertEqual(self.good("get", "words", "put"), b"at once")
        found = self.describe("words")
        self.assertEqual(found["prefilter"], "admit")
        self.assertEqual(found["records"], 4)
        self.assertEqual(found["filter_keys"], 4)

    def test_incr_if_present(self):
        self.make("present", "none")
        self.bad(3, "incr", "present", "a", "--if-present")
        self.good("incr", "present", "a")
        self.assertEqual(self.good("incr", "present", "a", "--if-present"), b"2\n")

    def test_describe_shows_what_a_prefilter_holds(self):
        for kind in ("hash", "ordered"):
            name = "keys-" + kind
            self.make(name, "absent", "--kind", kind, "--expected-items", "100000",
                      "--false-positive-rate", "0.001")
            lines = "".join(f"key{i}\tvalue\n" for i in range(2000)).encode()
            self.good("load", name, "-", "--format", "tsv", stdin=lines)
            found = self.describe(name)
            self.assertEqual(found["kind"], kind)
            self.assertEqual(found["prefilter"], "absent")
            self.assertEqual(found["expected_items"], 100000)
            self.assertAlmostEqual(found["filter_keys"], found["records"], delta=40)
            self.assertGreater(found["filter_bytes"], 100000 * 14 / 8)
            self.assertLess(found["filter_false_positive_rate"], 0.001)
        self.make("none", "none")
        self.assertNotIn("filter_bytes", self.describe("none"))

    def test_what_a_prefilter_cannot_be_is_refused(self):
        create = ("namespace", "create", "x")
        self.bad(2, *create, "--prefilter", "bloom", says="absent")
        self.bad(2, *create, "--prefilter", "absent", "--kind", "bloom", "--expected-items", "10",
                 says="hash")
        self.bad(2, *create, "--kind", "queue", "--expected-items", "10", says="capacity")
        self.bad(2, *create, "--false-positive-rate", "0.1", says="prefilter")
        self.bad(2, *create, "--prefilter", "absent", "--false-positive-rate", "0.9")
        self.bad(1, *create, "--prefilter", "absent", "--expected-items", "10000000000", says="MiB")
        self.make("once", "absent")
        self.bad(1, "namespace", "create", "once", "--prefilter", "admit", says="prefilter")


if __name__ == "__main__":
    kvctl_support.main()
