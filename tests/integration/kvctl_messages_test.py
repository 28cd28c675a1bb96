#!/usr/bin/python3
"""What kvctl and kvd say of wrong kinds, names and files, and what they end with.

  kvctl_messages_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import re
import shutil
import subprocess

import kvctl_support

# Root reads everything: not without these.
WITHOUT_ROOTS_RIGHTS = () if os.geteuid() != 0 else (
    "setpriv", "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search")

KINDS = {"q": "queue", "p": "priority", "o": "ordered", "b": "bloom"}
HAS = {"queue": "(queues: kvctl push, pop, peek)", "priority": "(queues: kvctl push, pop, peek)",
       "ordered": "(ordered namespaces: kvctl put, get, scan, dump)",
       "bloom": "(filters: kvctl bloom add, bloom has)",
       "hash": "(hash namespaces: kvctl put, get, keys, dump)"}


class Messages(kvctl_support.KvctlTest):
    nodes = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, kind in KINDS.items():
            more = ("--expected-items", "100") if kind == "bloom" else ()
            made = cls.cluster.kvctl("namespace", "create", name, "--kind", kind, *more)
            assert made.code == 0, made

    def folder(self, name):
        path = os.path.join(self.cluster.folder, name)
        os.mkdir(path)
        return path

    def namespaces(self):
        return [space["name"] for space in
                self.kvctl("namespace", "list", "--json").json()["result"]["namespaces"]]

    def refused_kind(self, name, needs, *arguments):
        line = self.bad(2, *arguments, says=f"namespace '{name}' is of kind {KINDS.get(name, 'hash')}; ")
        # By no other name than the user's.
        verbs = {arguments[0], " ".join(arguments[:2]), "this", "count --prefix", "staging of files", "a split"}
        doing = re.search(f"; ([^;]*) needs {needs} ", line)
        self.assertTrue(doing and doing[1] in verbs, line)
        self.assertTrue(line.endswith(HAS[KINDS.get(name, "hash")]), line)

    def test_a_wrong_kind_is_named_with_what_the_namespace_has(self):
        folder = self.folder("kinds")
        for name in ("q", "p", "b"):
            for verb in ("get", "exists", "ttl", "incr", "delete"):
                self.refused_kind(name, "hash or ordered", verb, name, "k")
            for verb, *more in (("append", "v"), ("cas", "a", "b"), ("expire", "1m"), ("apply", "exchange", "v")):
                self.refused_kind(name, "hash or ordered", verb, name, "k", *more)
            self.refused_kind(name, "hash or ordered", "put", name, "k", "v")
            self.refused_kind(name, "hash or ordered", "put", name, "k", "@" + self.large())
            self.refused_kind(name, "hash or ordered", "watch", name, "k")
            self.refused_kind(name, "hash or ordered", "keys", name)
            self.refused_kind(name, "hash or ordered", "dump", name)
        for name in ("q", "o", "default"):
            for verb in ("add", "has"):
                self.refused_kind(name, "bloom", "bloom", verb, name, "x")
                self.refused_kind(name, "bloom", "bloom", verb, name, "-")
        for name in ("q", "p", "o", "b"):
            self.refused_kind(name, "hash", "stage", "out", name, folder)
            self.refused_kind(name, "hash", "stage", "in", folder, name)
            self.refused_kind(name, "hash", "bench", name)
        for name in ("o", "b", "default"):
            self.refused_kind(name, "queue or priority", "push", name, "x")
            self.refused_kind(name, "queue or priority", "pop", name)
            self.refused_kind(name, "queue or priority", "ack", name, "1:1")
        for name in ("q", "b", "default"):
            self.refused_kind(name, "ordered", "scan", name)
            self.refused_kind(name, "ordered", "count", name, "--prefix", "x")
            self.refused_kind(name, "ordered", "namespace", "split", name)

    def large(self):
        path = os.path.join(self.cluster.folder, "large")
        with open(path, "wb") as file:
            file.write(bytes(3 << 20))
        return path

    def test_a_queue_with_lanes_refuses_what_no_queue_has_as_other_queues_do(self):
        self.good("namespace", "create", "lanes", "--kind", "queue", "--lanes", "2")
        for verb in (("get", "lanes", "k"), ("apply", "lanes", "k", "exchange", "v")):
            self.bad(2, *verb, says="namespace 'lanes' is of kind queue; this needs hash or ordered (queues: ")

    def test_a_full_lane_is_told_from_a_full_queue(self):
        self.good("namespace", "create", "narrow", "--kind", "queue", "--lanes", "2", "--capacity", "2")
        self.good("namespace", "create", "full", "--kind", "queue", "--capacity", "2")
        many = self.kvctl("push", "full", "a", "b", "c")
        self.assertEqual(many.code, 6, many)
        self.assertIn(b"queue 'full' is full: it holds its capacity (pop first", many.err)
        self.bad(1, "push", "full", "c", says="queue 'full' is full: it holds its capacity (pop first, or push with")
        lane = "the lane of queue 'narrow' that this push goes to is full: each of the 2 lanes holds its part"
        many = self.kvctl("push", "narrow", "a", "b")
        self.assertEqual(many.code, 6, many)
        self.assertIn(lane.encode(), many.err)
        # Each push goes to either lane, and fills one.
        for _ in range(64):
            if self.kvctl("count", "narrow").out.strip() == b"2":
                break
            self.kvctl("push", "narrow", "x")
        line = self.bad(1, "push", "narrow", "c", says=lane)
        self.assertIn("(pop first, push with a wait, or open the queue again (kvctl: push again): another lane", line)
        self.bad(4, "push", "narrow", "c", "--wait", "10ms", says="or of one with lanes this lane, stayed full")

    def test_nothing_to_do_is_done_in_a_namespace_that_is_there(self):
        for verb in (("bloom", "has"), ("bloom", "add"), ("push",)):
            self.bad(3, *verb, "absent", "-", says="no namespace 'absent' (")
        self.good("bloom", "has", "b", "-")
        for name in ("q", "b"):
            line = self.bad(2, "load", name, "-", says=f"namespace '{name}' is of kind {KINDS[name]}; load needs ")
            self.assertNotIn("loaded", line)
        self.good("load", "filled", "-")
        self.assertIn("filled", self.namespaces())

    def test_what_cannot_be_loaded_into_a_queue_is_said_once(self):
        result = self.kvctl("load", "q", "-", stdin=b'{"key":"a","value":"b"}\n')
        self.assertEqual(result.code, 2, result)
        self.assertIn(b"namespace 'q' is of kind queue; load needs hash or ordered", result.err)

    def test_a_name_that_no_namespace_can_have_is_refused_as_such(self):
        for verb in (("get", "bad name", "k"), ("put", "bad name", "k", "v"), ("keys", "bad name"),
                     ("count", "bad name"), ("push", "bad name", "x"), ("dump", "bad name"),
                     ("namespace", "describe", "bad name"), ("namespace", "drop", "bad name"),
                     ("namespace", "create", "bad name"), ("stage", "out", "bad name", "/tmp/x")):
            self.bad(2, *verb, says="'bad name' is not a name of a namespace (use 1 to 200 of the "
                     "characters A-Z a-z 0-9 . _ / -)")
        self.bad(3, "get", "absent", "k", says="create it with: kvctl namespace create absent")

    def test_a_folder_that_cannot_be_read_is_refused_before_anything_is_made(self):
        folder = self.folder("closed")
        os.chmod(folder, 0)
        line = self.bad(1, "stage", "in", folder, "staged", within=WITHOUT_ROOTS_RIGHTS,
                        says="Permission denied (ask its owner for the right to read it, or name another)")
        self.assertNotIn("daemon", line)
        self.bad(3, "stage", "in", "/nonexist", "staged", says="(name one that is there)")
        self.bad(3, "load", "loaded", "/nonexist", says="(name one that is there)")
        self.bad(3, "load", "loaded", "/etc/passwd/x", says="is a file: check the path)")
        self.bad(2, "load", "loaded", self.cluster.folder, says="for folders use: kvctl stage in")
        self.bad(3, "stage", "out", "default", "/etc/passwd", says="is a file: name another place")
        self.assertNotIn("staged", self.namespaces())
        self.assertNotIn("loaded", self.namespaces())

    def test_a_connection_file_that_cannot_be_read_or_is_of_another_cluster(self):
        copy = os.path.join(self.cluster.folder, "copy.json")
        shutil.copy(self.cluster.file, copy)
        os.chmod(copy, 0)
        self.bad(1, "status", "--cluster", copy, within=WITHOUT_ROOTS_RIGHTS,
                 says="(ask its owner for the right to read it")
        with open(self.cluster.file, encoding="utf-8") as file:
            text = file.read()
        token = os.path.join(self.cluster.folder, "other.token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("0" * 64 + "\n")
        os.chmod(token, 0o600)
        other = json.loads(text)
        other["token_file"] = token
        os.chmod(copy, 0o600)
        with open(copy, "w", encoding="utf-8") as file:
            json.dump(other, file)
        for verb in (("get", "default", "k"), ("pop", "q")):
            line = self.bad(1, *verb, "--cluster", copy, says="name the right file with --cluster")
            self.assertNotIn("metadata", line)

    def test_wrong_values_are_named_with_what_to_do(self):
        for option, value in (("--memory-share", "150"), ("--partitions", "99999"),
                              ("--replicas", "99999999999")):
            self.bad(2, "namespace", "create", "wrong", option, value, says=f"{option} cannot be {value} (")
        line = self.bad(1, "namespace", "create", "default", "--ttl", "1s", says="use these options or another")
        self.assertNotIn("drop", line)
        self.good("put", "default", "greeting", "hello")
        self.bad(2, "incr", "default", "greeting", says="key 'greeting' of namespace 'default': the value is no")
        self.bad(2, "put", "default", "k", "xx", "--int", says="of 64 bits (give a number, or bytes without --int")
        self.bad(2, "append", "default", "greeting", "-", stdin=bytes(40_000),
                 says="40000 bytes in one append, which takes at most 32 KiB (append several times")

    def test_long_lists_of_ordered_namespaces_have_sizes(self):
        self.good("namespace", "create", "sizes", "--kind", "ordered")
        self.good("put", "sizes", "k", "v" * 1234, "--ttl", "1h")
        [found] = self.kvctl("keys", "sizes", "--long", "--json").json()["result"]["keys"]
        self.assertEqual((found["value_bytes"], found["kind"]), (1234, "bytes"))
        self.assertGreater(found["ttl_ms"], 0)
        self.assertEqual(self.good("keys", "sizes", "-0"), b"k\0")
        self.assertEqual(self.good("scan", "sizes", "-k", "-0"), b"k\0")


class Stop(kvctl_support.KvctlTest):
    def test_stop_says_how_to_save_what_there_is(self):
        self.good("namespace", "create", "q", "--kind", "queue")
        self.good("namespace", "create", "o", "--kind", "ordered")
        self.good("push", "q", "x")
        line = self.bad(1, "stop", says="take items out of queues with kvctl pop --all")
        self.assertNotIn("dump", line)
        self.assertIn("give --discard", line)
        self.good("put", "o", "k", "v")
        self.assertIn("save those of kind ordered with kvctl dump", self.bad(1, "stop"))


class DaemonsOptions(kvctl_support.KvctlTest):
    nodes = 0

    def refused(self, code, *options, says):
        kvd = os.path.join(os.path.dirname(self.cluster.kvctl_path), "kvd")
        data = os.path.join(self.cluster.folder, "data")
        done = subprocess.run([kvd, "--data-dir", data, *options], env=self.cluster.environment,
                              capture_output=True, check=False, cwd=self.cluster.folder,
                              timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr.decode())

    def test_options_that_the_machine_shows_to_be_wrong_are_wrong_options(self):
        damaged = os.path.join(self.cluster.folder, "damaged.json")
        with open(damaged, "w", encoding="utf-8") as file:
            file.write("{")
        self.refused(2, "--interface", "nope0", says="nope0")
        self.refused(2, "--interface", "lo", "--cluster", self.cluster.folder, says="is not a file (name a file)")
        self.refused(2, "--interface", "lo", "--cluster", damaged, says="is damaged")
        self.refused(1, "--interface", "lo", "--data-dir", "/etc/passwd", says="is a file: name another place")

    def test_what_is_wrong_in_the_option_file_is_named_with_its_path(self):
        path = os.path.join(self.cluster.folder, "ty.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('cores = "x"\n')
        self.refused(2, "--config", path, says=f"{path}: cores cannot be 'x'")
        self.refused(2, "--config", "nofile", says="(name one that is there)")


if __name__ == "__main__":
    kvctl_support.main()
