#!/usr/bin/python3
"""kvctl on filters, against a real cluster of two daemons.

  kvctl_bloom_test.py BUILD_FOLDER [unittest arguments]
"""

import base64

import kvctl_support


class Bloom(kvctl_support.KvctlTest):
    nodes = 2

    def make(self, name, *options):
        self.good("namespace", "create", name, "--kind", "bloom", "--expected-items", "100000", *options)

    def ask(self, code, *arguments, **more):
        """What `bloom` prints, and with which exit code."""
        result = self.kvctl("bloom", *arguments, **more)
        self.assertEqual(result.code, code, result)
        return result.out.decode().split()

    def test_a_value_is_new_once_and_there_from_then_on(self):
        self.make("once")
        self.assertEqual(self.ask(3, "has", "once", "a"), ["false"])
        self.assertEqual(self.ask(0, "add", "once", "a"), ["new"])
        self.assertEqual(self.ask(1, "add", "once", "a"), ["known"])
        self.assertEqual(self.ask(0, "has", "once", "a"), ["true"])

    def test_many_values_get_an_answer_each(self):
        self.make("many")
        self.assertEqual(self.ask(0, "add", "many", "a", "b"), ["new", "new"])
        self.assertEqual(self.ask(1, "add", "many", "b", "c"), ["known", "new"])
        self.assertEqual(self.ask(3, "has", "many", "c", "d", "a"), ["true", "false", "true"])
        found = self.kvctl("bloom", "has", "many", "a", "d", "--json")
        self.assertEqual(found.code, 3)
        self.assertEqual(found.json()["code"], "NOT_FOUND")
        self.assertEqual(found.json()["result"], {
            "values": [{"value": "a", "exists": True}, {"value": "d", "exists": False}], "exists": 1})

    def test_lines_of_standard_input(self):
        self.make("lines")
        lines = "".join(f"line {i}\n" for i in range(2500)).encode()
        self.assertEqual(self.ask(0, "add", "lines", "-", stdin=lines).count("new"), 2500)
        self.assertEqual(self.ask(0, "has", "lines", "-", stdin=lines).count("true"), 2500)
        self.assertEqual(self.ask(0, "add", "lines", "-", stdin=b""), [])
        self.assertEqual(self.ask(0, "add", "lines", "-", "--literal"), ["new"])

    def test_values_of_any_bytes(self):
        self.make("bytes")
        encoded = base64.b64encode(b"k\xff\n\x00end").decode()
        self.assertEqual(self.ask(0, "add", "bytes", encoded, "--base64"), ["new"])
        self.assertEqual(self.ask(0, "has", "bytes", encoded, "--base64"), ["true"])
        self.bad(2, "bloom", "add", "bytes", "%", "--base64")

    def test_describe_says_how_full_it_is(self):
        self.make("full", "--false-positive-rate", "0.001")
        values = "".join(f"{i}\n" for i in range(10000)).encode()
        self.ask(0, "add", "full", "-", stdin=values)
        found = self.kvctl("namespace", "describe", "full", "--json").json()["result"]
        self.assertEqual(found["kind"], "bloom")
        self.assertEqual(found["expected_items"], 100000)
        self.assertEqual(found["false_positive_rate"], 0.001)
        self.assertAlmostEqual(found["records"], 10000, delta=200)
        self.assertGreater(found["filter_bytes"], 100000)
        self.assertLess(found["filter_false_positive_rate"], 0.001)

    def test_what_a_filter_cannot_do_is_refused(self):
        self.make("refused")
        create = ("namespace", "create", "x", "--kind", "bloom")
        self.bad(2, *create, says="expected items")
        for option in (("--ttl", "5s"), ("--memory-share", "5"), ("--false-positive-rate", "0.9"),
                       ("--false-positive-rate", "0"), ("--false-positive-rate", "x")):
            self.bad(2, *create, "--expected-items", "10", *option)
        self.bad(1, *create, "--expected-items", "10000000000", says="MiB")
        self.bad(2, "namespace", "create", "x", "--false-positive-rate", "0.1", says="bloom")
        self.bad(2, "get", "refused", "a", says="kind")
        self.bad(2, "put", "refused", "a", "b", says="kind")
        self.bad(2, "bloom", "add", "default", "a", says="kind")
        self.bad(2, "stage", "in", "/etc/apt", "refused", says="bloom")
        self.bad(3, "bloom", "add", "nowhere", "a", says="nowhere")
        self.bad(2, "bloom", "add", "refused")


if __name__ == "__main__":
    kvctl_support.main()
