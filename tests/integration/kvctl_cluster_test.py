#!/usr/bin/python3
"""kvctl start and stop, wrong arguments, and clusters in trouble.

  kvctl_cluster_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import signal
import stat
import tempfile

import kvctl_support


class StartAndStop(kvctl_support.KvctlTest):
    nodes = 0

    def tearDown(self):
        self.cluster.kill()

    def test_stop_refuses_names_what_would_be_lost_and_then_discards(self):
        self.cluster.start(2)
        self.good("put", "default", "precious", "x")
        line = self.bad(1, "stop", says="default")
        self.assertIn("--discard", line)
        envelope = self.kvctl("stop", "--json").json()
        self.assertEqual(envelope["code"], "FAILED_PRECONDITION")
        self.assertEqual([loss["namespace"] for loss in envelope["result"]["losses"]], ["default"])
        self.assertEqual(self.good("get", "default", "precious"), b"x")
        self.assertIn(b"stopped 2 daemons", self.good("stop", "--discard"))
        self.assertEqual([pid for pid in self.cluster.pids if kvctl_support.alive(pid)], [])
        self.assertFalse(os.path.exists(self.cluster.file))

    def test_status_shows_the_devices_of_each_node(self):
        # On the build's disk: the temporary folder may be memory without direct I/O.
        with tempfile.TemporaryDirectory(prefix="nvm-", dir=os.getcwd()) as folder:
            self.cluster.start(1, more=(f"--nvm-dir={folder}", "--nvm-size=40MiB"))
            status = self.kvctl("status", "--json").json()["result"]
            [device] = status["nodes"][0]["devices"]
            self.assertLessEqual(device.pop("used_bytes"), 40 << 20)
            self.assertEqual(device, {"medium": "file", "bytes": 40 << 20, "description":
                                      f"{folder}/tidepool.nvm (file, O_DIRECT, io_uring)"})
            self.assertRegex(self.good("status").decode(), r"0  file .* of 40.0 MiB  .*tidepool.nvm")
            self.cluster.kill()
        self.cluster.start(1)
        self.assertEqual(self.kvctl("status", "--json").json()["result"]["nodes"][0]["devices"], [])
        self.assertNotIn(b"MEDIUM", self.good("status"))

    def test_each_daemon_of_a_start_gets_a_folder_and_its_share_of_the_disk(self):
        with tempfile.TemporaryDirectory(prefix="nvm-", dir=os.getcwd()) as folder:
            self.cluster.start(2, options=("--nvm-dir", folder, "--nvm-size", "80MiB"))
            status = self.kvctl("status", "--json").json()["result"]
            devices = sorted((device["description"], device["bytes"])
                             for node in status["nodes"] for device in node["devices"])
            self.assertEqual(devices, [(f"{folder}/{i}/tidepool.nvm (file, O_DIRECT, io_uring)", 40 << 20)
                                       for i in range(2)])
            self.cluster.kill()
        self.bad(2, "start", "--local", "--nvm-dir", folder, says="is no directory")
        self.assertFalse(os.path.exists(folder))
        self.bad(2, "start", "--local", "--nvm-size", "80MiB", says="--nvm-dir DIR")

    def test_records_are_counted_over_all_nodes_as_users_see_them(self):
        self.cluster.start(3)
        for i in range(20):
            self.good("put", "default", f"k{i}", "v")
        source = os.path.join(self.cluster.folder, "source")
        os.makedirs(os.path.join(source, "folder"))
        for i in range(7):
            with open(os.path.join(source, "folder", f"file{i}"), "w", encoding="utf-8") as file:
                file.write("content")
        self.good("stage", "in", source, "inputs")
        counts = lambda: {space["name"]: (space["records"], space["internal_records"]) for space in
                          self.kvctl("status", "--json").json()["result"]["namespaces"]}
        self.assertEqual(counts()["default"], (20, 0))
        # Files are the records; the folder and what else staging has to know are its own.
        self.assertEqual(counts()["inputs"][0], 7)
        self.assertGreater(counts()["inputs"][1], 7)
        self.assertEqual(self.good("count", "inputs"), b"7\n")
        described = self.kvctl("namespace", "describe", "inputs", "--json").json()["result"]
        self.assertEqual((described["records"], described["internal_records"]), counts()["inputs"])
        # One change on one node: the whole namespace has to be staged out again.
        self.good("put", "inputs", "folder/more", "v")
        losses = {loss["namespace"]: loss["records"] for loss in
                  self.kvctl("stop", "--json").json()["result"]["losses"]}
        self.assertEqual(losses, {"default": 20, "inputs": 8})
        self.assertIn("default (20 records,", self.bad(1, "stop"))
        self.assertIn(b"inputs (8 records,", self.good("stop", "--discard"))

    def test_an_empty_cluster_stops_and_starts_again(self):
        for _ in range(2):
            self.cluster.start(1)
            self.good("stop")
            self.assertFalse(os.path.exists(self.cluster.file))

    def test_start_beside_a_live_cluster_is_refused_and_names_its_file(self):
        self.cluster.start(1)
        self.bad(1, "start", "--local", says=self.cluster.file)
        self.assertIn(b"1 of 1 nodes up", self.good("status"))

    def test_start_replaces_the_file_of_a_dead_cluster(self):
        self.cluster.start(1)
        self.cluster.kill()
        self.assertTrue(os.path.exists(self.cluster.file))
        self.bad(5, "get", "default", "x", "--timeout", "1s", says=self.cluster.file)
        self.cluster.start(1)
        self.good("put", "default", "x", "1")

    def test_a_dead_file_whose_address_somebody_else_has_now_does_not_hinder_a_start(self):
        self.cluster.start(1)
        with open(self.cluster.file, encoding="utf-8") as file:
            text = file.read()
        # As a file of a cluster that was killed, whose port the one above was given.
        folder = os.path.join(self.cluster.folder, "reused")
        os.mkdir(folder)
        dead = os.path.join(folder, "dead.json")
        uuid = json.loads(text)["cluster_uuid"]
        other = uuid[:-4] + ("0000" if uuid[-4:] != "0000" else "1111")
        token = json.loads(text)["token_file"]
        with open(os.path.join(folder, os.path.basename(token)), "w", encoding="utf-8") as file:
            file.write("0" * 64 + "\n")
        os.chmod(os.path.join(folder, os.path.basename(token)), 0o600)
        with open(dead, "w", encoding="utf-8") as file:
            file.write(text.replace(uuid, other).replace(token, os.path.basename(token)))
        os.chmod(dead, 0o600)
        started = self.kvctl("start", "--local", "--cluster", dead, "--memory", "64MiB", "--json",
                             "--", *kvctl_support.QUIET)
        self.assertEqual(started.code, 0, started)
        self.cluster.pids += started.json()["result"]["pids"]
        self.good("put", "default", "k", "v", "--cluster", dead)

    def test_connection_file_and_token_are_the_users_alone(self):
        self.cluster.start(1)
        with open(self.cluster.file, encoding="utf-8") as file:
            token = os.path.join(os.path.dirname(self.cluster.file), json.load(file)["token_file"])
        for path in (self.cluster.file, token):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)

    def test_a_daemon_that_refuses_its_options_is_told_with_its_log(self):
        line = self.bad(1, "start", "--local", "--", "--no-such-option")
        self.assertIn("no-such-option", line)
        self.assertIn(".log", line)
        self.bad(5, "status")

    def test_clusters_that_were_killed_do_not_hinder_a_larger_or_smaller_one(self):
        for nodes in (2, 1, 3):
            self.cluster.start(nodes)
            self.assertIn(f"{nodes} of {nodes} nodes up".encode(), self.good("status"))
            self.bad(3, "get", "default", "x")
            self.good("put", "default", "x", "1")

    def test_another_cluster_beside_the_default_one(self):
        self.cluster.start(1)
        file = os.path.join(self.cluster.folder, "second.json")
        started = self.kvctl("start", "--local", "--cluster", file, "--memory", "64MiB", "--json",
                             "--", *kvctl_support.QUIET)
        self.assertEqual(started.code, 0, started)
        self.cluster.pids += started.json()["result"]["pids"]
        self.good("put", "default", "k", "second", "--cluster", file)
        self.bad(3, "get", "default", "k")
        self.assertEqual(self.good("get", "default", "k", environment={"TIDEPOOL_CLUSTER": file}),
                         b"second")
        self.good("stop", "--discard", "--cluster", file)
        self.assertIn(b"1 of 1 nodes up", self.good("status"))


class BadInput(kvctl_support.KvctlTest):
    nodes = 1

    def test_arguments_that_make_no_sense(self):
        for says, arguments in (
                ("unknown verb", ("frobnicate",)), ("no verb", ("--timeout", "1s")), ("VALUE", ("put", "default", "k")),
                ("extra", ("ttl", "default", "k", "extra")), ("--ttl", ("put", "a", "b", "c", "--tll", "1")),
                ("--timeout", ("get", "a", "b", "--timeout", "soon")), ("--local", ("start",)),
                ("--if-absent", ("put", "default", "k", "v", "--if-absent", "--if-present")),
                ("--int", ("put", "default", "k", "1", "--int", "--f64")),
                ("abc", ("put", "default", "k", "abc", "--int")), ("limit", ("keys", "default", "-n", "0"))):
            self.bad(2, *arguments, says=says)

    def test_kvctl_alone_prints_its_verbs_by_purpose(self):
        text = self.good().decode()
        self.assertLess(len(text.splitlines()), 40)
        for group in ("Start and stop", "Records", "Namespaces", "Queues and filters", "Files and snapshots",
                      "Look and measure"):
            self.assertIn("\n  " + group + " ", text)
        for verb in ("start, run, wait-ready, stop", "put, get, delete", "stage in|out", "doctor"):
            self.assertIn(verb, " ".join(text.split()))
        self.assertIn("kvctl help VERB", text)
        self.assertNotEqual(text, self.good("help").decode())

    def test_a_wrong_option_names_the_right_one_or_its_place(self):
        for says, arguments in (
                ("start has no option '--metrics-port' (if it is an option of kvd, write it behind --: "
                 "'kvctl start [OPTION]... -- --metrics-port')", ("start", "--local", "--metrics-port", "9100")),
                ("did you mean: --expected-items", ("namespace", "create", "x", "--items", "5")),
                ("did you mean: --false-positive-rate", ("namespace", "create", "x", "--false-positives", "1")),
                ("did you mean: --memory", ("start", "--local", "--memory-limit", "1GiB")),
                ("did you mean: --limit", ("keys", "default", "-limit", "5")),
                ("did you mean hash?", ("namespace", "create", "x", "--kind", "hsh")),
                ("give --expected-items", ("namespace", "create", "x", "--kind", "bloom")),
                ("--memory-share is not an option of kind 'bloom'",
                 ("namespace", "create", "x", "--kind", "bloom", "--expected-items", "9", "--memory-share", "5"))):
            self.bad(2, *arguments, says=says)

    def test_a_divided_memory_says_so_when_it_is_too_little(self):
        file = os.path.join(self.cluster.folder, "divided.json")
        start = ("start", "--cluster", file, "--local")
        self.bad(2, *start, "3", "--memory", "150MiB",
                 says="--memory 150MiB, divided among 3 daemons, is 50.0 MiB for each; the least for a daemon is 64.0 MiB "
                      "(give --memory 192MiB or more")
        self.bad(2, *start, "--memory", "1MiB", says="--memory 1MiB, is 1.0 MiB; the least")
        self.bad(2, *start, "64", "--memory", "0.001%", says="divided among 64 daemons")
        self.bad(2, *start, "2", "--memory", "many%", says="--memory cannot be 'many%'")
        self.bad(2, *start, "2", "--", "--metrics-port", "9100", says="--metrics-port 9100 is one port for 2 daemons")
        self.assertFalse(os.path.exists(file))

    def test_json_also_for_arguments_that_make_no_sense(self):
        envelope = self.kvctl("frobnicate", "--json").json()
        self.assertEqual((envelope["ok"], envelope["code"]), (False, "INVALID_ARGUMENT"))

    def test_a_namespace_that_is_not_there(self):
        for verb in (("get", "nope", "k"), ("put", "nope", "k", "v"), ("delete", "nope", "k"),
                     ("exists", "nope", "k"), ("keys", "nope"), ("count", "nope"), ("dump", "nope"),
                     ("locate", "nope", "k"), ("namespace", "describe", "nope"),
                     ("namespace", "drop", "nope")):
            self.assertIn("nope", self.bad(3, *verb))
        line = self.bad(3, "put", "nope", "k", "v")
        self.assertIn("kvctl namespace create", line)

    def test_names_kinds_and_options_that_cannot_be(self):
        for name in ("", "a b", "x" * 201, "gr\u00fc\u00df"):
            self.bad(2, "namespace", "create", name)
        for option in (("--kind", "table"), ("--kind", "array"), ("--replicas", "4"),
                       ("--durability", "forever"), ("--prefilter", "bloom"), ("--on-loss", "shrug"),
                       ("--medium", "tape"),
                       ("--partitions", "4097"), ("--partitions", "-1"), ("--memory-share", "101")):
            self.bad(2, "namespace", "create", "badoption", *option)
        self.bad(1, "namespace", "create", "badoption", "--replicas", "2", says="replicas 2 needs etcd")
        self.assertNotIn(b"badoption", self.good("namespace", "list"))

    def test_keys_and_values_that_are_too_large(self):
        self.bad(2, "put", "default", "k" * 16_385, "v", says="16384")
        self.good("put", "default", "k" * 16_384, "v")
        path = os.path.join(self.cluster.folder, "huge")
        with open(path, "wb") as file:
            file.truncate((1 << 30) + 1)
        self.bad(2, "put", "default", "huge", "@" + path, says="1 GiB")
        self.bad(2, "append", "default", "app", "-", stdin=b"x" * (1024 * 1024 + 1))

    def test_files_that_are_not_there(self):
        self.bad(3, "put", "default", "k", "@/no/such/file", says="/no/such/file")
        self.bad(3, "load", "default", "/no/such/file", says="/no/such/file")
        self.bad(5, "get", "default", "k", "--cluster", "/no/such/file", says="/no/such/file")

    def test_full_memory_is_said_and_reads_and_deletes_still_work(self):
        value = os.urandom(1 << 20)
        self.good("namespace", "create", "full")
        stored = 0
        while True:
            result = self.kvctl("put", "full", f"k{stored}", "-", stdin=value)
            if result.code != 0:
                break
            stored += 1
            self.assertLess(stored, 1_000)
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"memory", result.err)
        self.assertEqual(self.good("get", "full", "k0"), value)
        self.good("delete", "full", *[f"k{i}" for i in range(stored)])
        self.good("namespace", "drop", "full")

    def test_a_damaged_or_foreign_connection_file(self):
        path = os.path.join(self.cluster.folder, "damaged.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{\"format\": 1, ")
        os.chmod(path, 0o600)
        self.bad(2, "status", "--cluster", path, says="damaged.json")

    def test_a_wrong_token_is_refused(self):
        with open(self.cluster.file, encoding="utf-8") as file:
            content = json.load(file)
        wrong = os.path.join(self.cluster.folder, "wrong.token")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write("0" * 64)
        os.chmod(wrong, 0o600)
        content["token_file"] = wrong
        path = os.path.join(self.cluster.folder, "wrong.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(path, 0o600)
        self.bad(1, "get", "default", "k", "--cluster", path, says="token")

    def test_the_token_leaves_the_machine_only_when_the_user_agrees(self):
        with open(self.cluster.file, encoding="utf-8") as file:
            content = json.load(file)
        for node in content["nodes"]:
            node["control_address"] = "192.0.2.1:9"  # Of nobody, by RFC 5737.
        # The file is what the daemons say; it cannot agree for the user.
        content["insecure"] = True
        content["token_file"] = os.path.join(os.path.dirname(self.cluster.file),
                                             content["token_file"])
        path = os.path.join(self.cluster.folder, "elsewhere.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(path, 0o600)
        for verb in (("get", "default", "k"), ("ping",)):  # By gRPC, and by the SDK.
            command = (*verb, "--cluster", path, "--timeout", "500ms")
            self.bad(1, *command, says="not sent to 192.0.2.1:9")
            agreed = (self.kvctl(*command, "--insecure"),
                      self.kvctl(*command, environment={"TIDEPOOL_INSECURE": "1"}))
            for result in agreed:
                self.assertIn(result.code, (4, 5), result)
                self.assertNotIn(b"not sent", result.err)

    def test_a_full_disk_is_not_silent(self):
        self.good("put", "default", "todisk", "x" * 1000)
        with open("/dev/full", "wb") as full:
            import subprocess
            done = subprocess.run([self.cluster.kvctl_path, "get", "default", "todisk"], stdout=full,
                                  stderr=subprocess.PIPE, env=self.cluster.environment, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left", done.stderr)


class Trouble(kvctl_support.KvctlTest):
    nodes = 3

    def owned_by(self, node_id):
        """A key of `default` that lives on this node."""
        for i in range(1_000):
            place = self.kvctl("locate", "default", f"key{i}", "--json").json()["result"]
            if place["node_id"] == node_id:
                return f"key{i}"
        self.fail("no key on node " + str(node_id))

    def test_a_dead_node_fails_fast_by_name_and_a_stopped_one_in_time(self):
        nodes = self.kvctl("status", "--json").json()["result"]["nodes"]
        pids = {node["node_id"]: node["pid"] for node in nodes}
        dead, stopped = self.owned_by(1), self.owned_by(2)
        os.kill(pids[2], signal.SIGSTOP)
        try:
            # What became of the change is not known; or the map says already that the node is down.
            result = self.kvctl("put", "default", stopped, "x", "--timeout", "1s")
            self.assertIn(result.code, (4, 5), result)
        finally:
            os.kill(pids[2], signal.SIGCONT)
        os.kill(pids[1], signal.SIGKILL)
        state = lambda: [node["state"] for node in
                         self.kvctl("status", "--json").json()["result"]["nodes"]]
        kvctl_support.wait_until(lambda: state()[1] == "down" and state()[2] == "up")
        self.bad(5, "get", "default", dead, says="node 1")
        self.good("put", "default", stopped, "y")
        self.assertIn(b"down", self.good("status"))
        # Nobody calls the coordinator down, but nobody says that it is up.
        os.kill(pids[0], signal.SIGKILL)
        kvctl_support.wait_until(lambda: state()[0] == "silent")
        status = self.good("status")
        self.assertIn(b"1 of 3 nodes up", status)
        self.assertIn(b"silent: ", status)


if __name__ == "__main__":
    kvctl_support.main()
