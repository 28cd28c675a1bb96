#!/usr/bin/python3
"""kvctl on records, against a real cluster of three daemons.

  kvctl_records_test.py BUILD_FOLDER [unittest arguments]
"""

import base64
import json
import os
import random
import signal
import subprocess

import kvctl_support

BINARY = bytes(range(256)) + b"\n\0\n"


class Records(kvctl_support.KvctlTest):
    nodes = 3

    def test_the_first_minute_of_a_user(self):
        self.assertEqual(self.good("put", "default", "greeting", "hello"), b"")
        self.assertEqual(self.good("get", "default", "greeting"), b"hello")
        self.assertEqual(self.good("incr", "default", "visits"), b"1\n")
        self.assertEqual(self.good("get", "default", "visits"), b"1\n")
        self.assertIn(b"3 of 3 nodes up", self.good("status"))

    def test_values_of_any_bytes_come_back(self):
        self.good("put", "default", "bin/stdin", "-", stdin=BINARY)
        self.assertEqual(self.good("get", "default", "bin/stdin"), BINARY)
        path = os.path.join(self.cluster.folder, "value")
        with open(path, "wb") as file:
            file.write(BINARY)
        self.good("put", "default", "bin/file", "@" + path)
        self.assertEqual(self.good("get", "default", "bin/file"), BINARY)
        self.good("put", "default", "bin/empty", "")
        self.assertEqual(self.good("get", "default", "bin/empty"), b"")
        self.good("put", "default", "bin/literal", "@x", "--literal")
        self.assertEqual(self.good("get", "default", "bin/literal"), b"@x")
        for text in ("[1,2]", "-5", "{}", "%%", "--"):
            self.good("put", "default", "bin/odd", "--", text)
            self.assertEqual(self.good("get", "default", "bin/odd"), text.encode())

    def test_keys_of_any_bytes(self):
        key = b"k\xff\n\x00end"
        encoded = base64.b64encode(key).decode()
        self.good("put", "default", encoded, "v", "--base64")
        self.assertEqual(self.good("get", "default", encoded, "--base64"), b"v")
        found = self.kvctl("get", "default", encoded, "--base64", "--json").json()["result"]
        self.assertEqual(found["key_base64"], encoded)
        # The key holds a NUL itself, so it is looked for with the one that ends it.
        self.assertIn(key + b"\0", self.good("keys", "default", "--null"))

    def test_values_around_the_limits_of_messages_and_streams(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        source = random.Random(seed)
        for size in (32 * 1024, 32 * 1024 + 1, 1 << 20, (1 << 20) + 1, 5_000_001):
            value = source.randbytes(size)
            self.good("put", "default", "large", "-", stdin=value)
            self.assertEqual(self.good("get", "default", "large"), value, f"{size} bytes")
        found = self.kvctl("get", "default", "large", "--json").json()["result"]
        self.assertEqual(base64.b64decode(found["value_base64"]), value)

    def test_json_tells_text_from_bytes_and_numbers(self):
        self.good("put", "default", "json/text", "gr\u00fc\u00df\n")
        self.good("put", "default", "json/bytes", "-", stdin=b"\xff\x00")
        self.good("put", "default", "json/int", "-42", "--int")
        self.good("put", "default", "json/f64", "0.5", "--f64")
        read = lambda key: self.kvctl("get", "default", key, "--json").json()["result"]
        self.assertEqual(read("json/text")["value"], "gr\u00fc\u00df\n")
        self.assertEqual(base64.b64decode(read("json/bytes")["value_base64"]), b"\xff\x00")
        self.assertEqual((read("json/int")["value"], read("json/int")["kind"]), (-42, "i64"))
        self.assertEqual((read("json/f64")["value"], read("json/f64")["kind"]), (0.5, "f64"))
        self.assertGreater(read("json/int")["version"], 0)

    def test_counters(self):
        self.assertEqual(self.good("incr", "default", "c/a", "5"), b"5\n")
        self.assertEqual(self.good("incr", "default", "c/a", "-7"), b"-2\n")
        self.assertEqual(self.good("incr", "default", "c/f", "0.25", "--f64"), b"0.25\n")
        self.assertEqual(self.good("incr", "default", "c/f", "0.5", "--f64"), b"0.75\n")
        self.good("put", "default", "c/text", "12345678")
        self.bad(2, "incr", "default", "c/text")
        self.bad(2, "incr", "default", "c/a", "--f64")
        self.good("put", "default", "c/max", str(2**63 - 1), "--int")
        self.bad(1, "incr", "default", "c/max")
        self.assertEqual(self.good("get", "default", "c/max"), b"9223372036854775807\n")

    def test_conditions_of_put(self):
        self.good("put", "default", "cond", "1", "--if-absent")
        self.bad(1, "put", "default", "cond", "2", "--if-absent", says="exists already")
        self.good("put", "default", "cond", "3", "--if-present")
        self.bad(3, "put", "default", "cond/none", "x", "--if-present", says="does not exist")
        version = self.kvctl("get", "default", "cond", "--json").json()["result"]["version"]
        self.good("put", "default", "cond", "4", "--if-version", str(version))
        self.bad(1, "put", "default", "cond", "5", "--if-version", str(version), says="version")
        self.assertEqual(self.good("get", "default", "cond"), b"4")

    def test_conditions_of_put_hold_for_streamed_values_too(self):
        large = [bytes([i]) * ((1 << 20) + 1 + i) for i in range(5)]
        put = lambda *arguments, value: self.kvctl("put", "default", *arguments, "-", stdin=value)
        self.assertEqual(put("big", "--if-present", value=large[0]).code, 3)
        self.bad(3, "get", "default", "big")
        self.assertEqual(put("big", "--if-absent", value=large[1]).code, 0)
        again = put("big", "--if-absent", value=large[2])
        self.assertEqual(again.code, 1)
        self.assertIn(b"exists already", again.err)
        self.assertEqual(self.good("get", "default", "big"), large[1])
        self.assertEqual(put("big", "--if-present", value=large[3]).code, 0)
        version = self.kvctl("put", "default", "big", "small", "--json").json()["result"]["version"]
        self.assertEqual(put("big", "--if-version", str(version), value=large[4]).code, 0)
        late = put("big", "--if-version", str(version), value=large[0])
        self.assertEqual(late.code, 1)
        self.assertIn(b"version", late.err)
        self.assertEqual(self.good("get", "default", "big"), large[4])
        self.good("delete", "default", "big")

    def test_append_and_cas_have_the_limit_of_the_sdk(self):
        half = b"x" * (16 * 1024)
        self.good("append", "default", "limit", "-", stdin=half + half)
        for more in (half + half + b"x", b"x" * (1 << 20)):
            refused = self.kvctl("append", "default", "limit", "-", stdin=more)
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(b"32 KiB", refused.err)
        self.assertEqual(self.good("get", "default", "limit"), half + half)
        self.good("put", "default", "limit", "-", stdin=half)
        self.good("cas", "default", "limit", "-", (half[1:] + b"y").decode(), stdin=half)
        swapped = self.kvctl("cas", "default", "limit", "-", "z", stdin=half + half)
        self.assertEqual(swapped.code, 2, swapped)
        self.assertIn(b"32 KiB", swapped.err)

    def test_compare_and_swap(self):
        self.bad(3, "cas", "default", "cas", "a", "b", says="does not exist")
        self.good("put", "default", "cas", "a")
        self.good("cas", "default", "cas", "a", "b")
        self.bad(1, "cas", "default", "cas", "a", "c")
        self.assertEqual(self.good("get", "default", "cas"), b"b")
        self.good("put", "default", "cas/n", "1", "--int")
        self.good("cas", "default", "cas/n", "1", "7", "--int")
        self.assertEqual(self.good("get", "default", "cas/n"), b"7\n")

    def test_append(self):
        self.good("append", "default", "app", "one")
        self.assertEqual(self.kvctl("append", "default", "app", " two", "--json").json()["result"],
                         {"key": "app", "value_bytes": 7})
        self.assertEqual(self.good("get", "default", "app"), b"one two")

    def test_exists_and_delete(self):
        self.good("put", "default", "ed", "x")
        self.assertEqual(self.good("exists", "default", "ed"), b"true\n")
        self.good("delete", "default", "ed")
        result = self.kvctl("exists", "default", "ed")
        self.assertEqual((result.code, result.out), (3, b"false\n"), result)
        self.bad(3, "delete", "default", "ed", says="does not exist")
        self.good("put", "default", "ed/1", "x")
        result = self.kvctl("delete", "default", "ed/1", "ed/2", "--json")
        self.assertEqual(result.code, 6, result)
        self.assertEqual(result.json()["result"], {"deleted": 1, "asked": 2})

    def test_several_keys_are_printed_as_lines_that_load_reads(self):
        self.good("put", "default", "gm/text", "two\nlines")
        self.good("put", "default", "gm/bytes", "-", stdin=BINARY)
        self.good("put", "default", "gm/count", "7", "--int")
        large = random.randbytes((1 << 20) + 17)
        self.good("put", "default", "gm/large", "-", stdin=large)
        keys = ("gm/count", "gm/bytes", "gm/large", "gm/text")
        lines = self.good("get", "default", *keys)
        records = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([record["key"] for record in records], list(keys))
        self.assertEqual((records[0]["value"], records[3]["value"]), (7, "two\nlines"))
        self.assertEqual(base64.b64decode(records[1]["value_base64"]), BINARY)
        self.assertEqual(base64.b64decode(records[2]["value_base64"]), large)
        self.good("load", "gm", "-", stdin=lines)
        self.assertEqual(self.good("get", "gm", "gm/bytes"), BINARY)

        missing = self.kvctl("get", "default", "gm/count", "gm/no", "gm/text")
        self.assertEqual((missing.code, len(missing.out.splitlines())), (3, 2), missing)
        self.assertIn(b"key 'gm/no' of namespace 'default' does not exist", missing.err)
        self.assertIn(b"1 of 3 keys do not exist", missing.err)
        found = self.kvctl("get", "default", "gm/no", "gm/count", "--json")
        self.assertEqual(found.code, 3, found)
        self.assertEqual([record["value"] for record in found.json()["result"]["records"]], [7])
        self.assertEqual(found.json()["result"]["missing"], [{"key": "gm/no", "code": "NOT_FOUND"}])
        self.assertEqual(self.kvctl("get", "nope", "a", "b").code, 3)

    def test_more_keys_than_a_call_takes(self):
        keys = [f"mk{i}" for i in range(5_000)]
        self.good("load", "many keys".replace(" ", "/"), "-",
                  stdin="".join(json.dumps({"key": key, "value": key}) + "\n" for key in keys).encode())
        lines = self.good("get", "many/keys", *keys).splitlines()
        self.assertEqual([json.loads(line)["value"] for line in lines], keys)
        self.good("delete", "many/keys", *keys)
        self.assertEqual(self.good("count", "many/keys"), b"0\n")

    def test_delete_by_a_pattern_counts_and_leaves_the_others(self):
        for kind in ("hash", "ordered"):
            space = "glob/" + kind
            self.good("namespace", "create", space, "--kind", kind)
            self.good("load", space, "-", stdin="".join(
                json.dumps({"key": f"{'ab'[i % 2]}{i}", "value": i}) + "\n" for i in range(10_000)).encode())
            self.assertEqual(self.good("delete", space, "--glob", "a*"), b"5000\n")
            self.assertEqual(self.good("count", space), b"5000\n")
            self.assertEqual(self.good("keys", space, "a*"), b"")
            self.assertEqual(self.good("delete", space, "--glob", "a*"), b"0\n")
            self.assertEqual(self.kvctl("delete", space, "--glob", "*", "--json").json()["result"], {"deleted": 5000})
        self.bad(2, "delete", "default", says="KEY..., or --glob")
        self.bad(2, "delete", "default", "k", "--glob", "*", says="KEY..., or --glob")
        self.bad(2, "delete", "default", "--glob", "", says="write * for all keys")
        self.bad(3, "delete", "nope", "--glob", "*")

    def test_a_namespace_that_is_cleared_keeps_its_options(self):
        for kind, fill in (("hash", ("put", "k", "v")), ("ordered", ("put", "k", "v")), ("queue", ("push", "v")),
                           ("priority", ("push", "v")), ("bloom", ("bloom", "add", "v"))):
            space = "clear/" + kind
            options = ("--expected-items", "1000") if kind == "bloom" else ("--ttl", "1h")
            self.good("namespace", "create", space, "--kind", kind, *options)
            verb = fill[:2] if kind == "bloom" else fill[:1]
            self.good(*verb, space, *fill[len(verb):])
            before = self.kvctl("namespace", "describe", space, "--json").json()["result"]
            self.assertEqual(before["records"], 1, before)
            self.assertIn(b"cleared " + space.encode() + b": 1 ", self.good("namespace", "clear", space))
            after = self.kvctl("namespace", "describe", space, "--json").json()["result"]
            for name in ("kind", "ttl_ms", "partitions", "durability"):
                self.assertEqual(before[name], after[name], name)
            self.assertEqual(after["records"], 0)
            self.good(*verb, space, *fill[len(verb):])
        self.bad(3, "namespace", "clear", "nope")

    def test_what_is_staged_in_is_cleared_with_all_that_staging_keeps(self):
        folder = os.path.join(self.cluster.folder, "staged")
        os.makedirs(folder)
        for i in range(10):
            with open(os.path.join(folder, f"f{i}"), "wb") as file:
                file.write(BINARY)
        self.good("stage", "in", folder, "clear/staged")
        self.assertIn(b"cleared clear/staged: 10 records", self.good("namespace", "clear", "clear/staged"))
        after = self.kvctl("namespace", "describe", "clear/staged", "--json").json()["result"]
        self.assertEqual((after["records"], after["internal_records"]), (0, 0))
        out = os.path.join(self.cluster.folder, "staged out")
        self.good("stage", "in", folder, "clear/staged")
        self.good("stage", "out", "clear/staged", out)
        self.assertEqual(len(os.listdir(out)), 10)

    def test_items_under_a_lease_survive_a_clear(self):
        self.good("namespace", "create", "clear/leased", "--kind", "queue")
        self.good("push", "clear/leased", "a", "b", "c")
        lease = self.good("pop", "clear/leased", "--lease", "1m").split(b"\t")[0].decode()
        result = self.kvctl("namespace", "clear", "clear/leased")
        self.assertEqual((result.code, result.out), (0, b"cleared clear/leased: 2 items\n"), result)
        self.assertIn(b"1 items are leased", result.err)
        self.good("ack", "clear/leased", lease)

    def test_bench_drops_the_namespace_that_it_has_made(self):
        quick = ("--keys", "100", "--duration", "50ms")
        names = lambda: self.good("namespace", "list", "--names").decode().split()
        self.good("bench", *quick)
        self.assertNotIn("bench", names())
        self.good("bench", "kept", *quick, "--keep")
        self.assertIn("kept", names())
        self.good("bench", "kept", *quick)
        self.assertIn("kept", names())
        self.bad(2, "bench", *quick, "--reads", "101")
        self.assertNotIn("bench", names())

    def test_bench_drops_it_at_a_signal_and_after_a_failure(self):
        names = lambda: self.good("namespace", "list", "--names").decode().split()
        for number in (signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen([self.cluster.kvctl_path, "bench", "--keys", "100", "--duration", "1h"],
                                       env=self.cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            kvctl_support.wait_until(lambda: "bench" in names())
            running.send_signal(number)
            _, errors = running.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
            self.assertEqual(running.returncode, 128 + number, errors)
            self.assertNotIn("bench", names())
        # Values that no memory holds.
        full = self.kvctl("bench", "--keys", "2000", "--value-bytes", "1MiB")
        self.assertNotEqual(full.code, 0)
        self.assertNotIn("bench", names())

    def test_time_to_live(self):
        self.good("put", "default", "ttl", "x")
        self.assertEqual(self.good("ttl", "default", "ttl"), b"never\n")
        self.good("expire", "default", "ttl", "1h")
        left = self.kvctl("ttl", "default", "ttl", "--json").json()["result"]["ttl_ms"]
        self.assertTrue(0 < left <= 3_600_000, left)
        self.good("expire", "default", "ttl", "never")
        self.assertEqual(self.good("ttl", "default", "ttl"), b"never\n")
        self.good("put", "default", "ttl/short", "x", "--ttl", "20ms")
        kvctl_support.wait_until(lambda: self.kvctl("get", "default", "ttl/short").code == 3)
        self.bad(3, "ttl", "default", "ttl/none")

    def test_keys_count_and_patterns(self):
        self.good("namespace", "create", "listing")
        names = [f"run{i}/{j}.txt" for i in range(3) for j in range(100)]
        lines = "".join(f"{name}\tv\n" for name in names)
        self.good("load", "listing", "-", stdin=lines.encode())
        self.assertEqual(self.good("count", "listing"), b"300\n")
        listed = self.good("keys", "listing").decode().splitlines()
        self.assertEqual(sorted(listed), sorted(names))
        some = self.good("keys", "listing", "run1/*").decode().splitlines()
        self.assertEqual(sorted(some), sorted(n for n in names if n.startswith("run1/")))
        self.assertEqual(len(self.good("keys", "listing", "-n", "7").splitlines()), 7)
        self.assertEqual(self.good("keys", "listing", "none*"), b"")
        found = self.kvctl("keys", "listing", "--json").json()["result"]["keys"]
        self.assertEqual(sorted(item["key"] for item in found), sorted(names))

    def test_a_closed_pipe_ends_a_listing(self):
        command = f"'{self.cluster.kvctl_path}' keys default | head -n 1"
        done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False,
                              env=self.cluster.environment, cwd=self.cluster.folder)
        self.assertEqual(done.stderr, b"")

    def test_dump_and_load_give_the_same_records(self):
        self.good("namespace", "create", "from")
        big = random.Random(1).randbytes((1 << 20) + 5)
        self.good("put", "from", "big", "-", stdin=big)
        self.good("put", "from", "text", "line\nwith\ttab \u20ac")
        self.good("put", "from", "bytes", "-", stdin=BINARY)
        self.good("put", "from", "n", "-3", "--int")
        self.good("put", "from", "x", "1e300", "--f64")
        self.good("put", "from", base64.b64encode(b"\xff\0").decode(), "odd", "--base64")
        dumped = self.good("dump", "from")
        result = self.kvctl("load", "to", "-", stdin=dumped)
        self.assertEqual(result.code, 0, result)
        self.assertIn(b"created namespace to", result.err)
        self.assertEqual(sorted(self.good("dump", "to").splitlines()), sorted(dumped.splitlines()))
        self.assertEqual(self.good("get", "to", "big"), big)
        self.assertEqual(self.good("get", "to", "n"), b"-3\n")
        whole = self.kvctl("dump", "from", "--json").json()["result"]["records"]
        self.assertEqual(len(whole), 6)
        tsv = self.good("dump", "from", "--format", "tsv")
        self.assertIn(b"text\tline\\nwith\\ttab \xe2\x82\xac\n", tsv)
        self.good("load", "from_tsv", "-", stdin=tsv)
        self.assertEqual(self.good("get", "from_tsv", "bytes"), BINARY)
        self.assertEqual(self.good("get", "from_tsv", "big"), big)

    def test_lines_that_are_no_records_are_named_and_the_others_loaded(self):
        lines = b'{"key":"a","value":"1"}\n{"key":5}\n\nnonsense\n{"key":"b","value":"2"}\n'
        result = self.kvctl("load", "partial", "-", stdin=lines)
        self.assertEqual(result.code, 6, result)
        self.assertIn(b"line 2: ", result.err)
        self.assertIn(b"line 4: ", result.err)
        self.assertEqual(self.good("get", "partial", "a") + self.good("get", "partial", "b"), b"12")
        envelope = self.kvctl("load", "partial", "-", "--json", stdin=lines).json()
        self.assertEqual((envelope["ok"], envelope["code"]), (False, "PARTIAL"))
        self.assertEqual([f["line"] for f in envelope["result"]["failures"]], [2, 4])
        self.assertEqual(envelope["result"]["loaded"], 2)

    def test_many_records_are_loaded(self):
        lines = "".join(json.dumps({"key": f"k{i}", "value": i}) + "\n" for i in range(20_000))
        result = self.kvctl("load", "many", "-", "--json", stdin=lines.encode())
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.json()["result"]["loaded"], 20_000)
        self.assertEqual(self.good("count", "many"), b"20000\n")
        self.assertEqual(self.good("incr", "many", "k777"), b"778\n")

    def test_namespaces(self):
        created = self.kvctl("namespace", "create", "sp/a", "--partitions", "7", "--ttl", "1h",
                             "--json").json()["result"]
        self.assertEqual((created["partitions"], created["created"]), (7, True))
        again = self.kvctl("namespace", "create", "sp/a", "--partitions", "7", "--ttl", "1h", "--json")
        self.assertEqual(again.json()["result"]["created"], False)
        self.bad(1, "namespace", "create", "sp/a", "--partitions", "8", says="sp/a")
        self.assertIn(b"sp/a", self.good("namespace", "list"))
        self.good("put", "sp/a", "k", "v")
        described = self.kvctl("namespace", "describe", "sp/a", "--json").json()["result"]
        self.assertEqual((described["records"], len(described["partition_list"])), (1, 7))
        self.good("namespace", "drop", "sp/a")
        self.bad(3, "get", "sp/a", "k", says="sp/a")
        self.good("namespace", "create", "sp/a")
        self.bad(3, "get", "sp/a", "k", says="does not exist")

    def test_where_a_key_lives(self):
        place = self.kvctl("locate", "default", "anything", "--json").json()["result"]
        self.assertIn(place["node_id"], (0, 1, 2))
        self.assertEqual(place["node_state"], "up")
        tagged = [self.kvctl("locate", "default", key, "--json").json()["result"]["partition"]
                  for key in ("{t}a", "{t}b", "x{t}")]
        self.assertEqual(len(set(tagged)), 1)

    def test_ping_bench_config_and_status(self):
        nodes = self.kvctl("ping", "--json").json()["result"]["nodes"]
        self.assertEqual(sorted(node["node_id"] for node in nodes), [0, 1, 2])
        for node in nodes:
            self.assertGreater(node["round_trip_ns"], 0)
        bench = self.kvctl("bench", "--keys", "500", "--duration", "200ms", "--batch", "16",
                           "--clients", "2", "--zipf", "0.99", "--reads", "50", "--json")
        self.assertEqual(bench.code, 0, bench)
        bench = bench.json()["result"]
        self.assertGreater(bench["operations"], 0)
        self.assertEqual((bench["failed"], bench["absent"]), (0, 0))
        options = self.kvctl("config", "--json").json()["result"]["options"]
        lease = next(option for option in options if option["name"] == "lease-ms")
        self.assertEqual((lease["value"], lease["source"]), ("1500", "flag"))
        status = self.kvctl("status", "--json").json()["result"]
        self.assertEqual([node["state"] for node in status["nodes"]], ["up"] * 3)
        self.assertFalse(status["forming"])


if __name__ == "__main__":
    kvctl_support.main()
