#!/usr/bin/python3
"""What kvctl saves of a cluster of which one node is dead for good.

  kvctl_saving_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import signal
import unittest

import kvctl_support
from kvctl_support import alive, wait_until

RECORDS = 300


class SavingTest(kvctl_support.KvctlTest):
    """Each test starts three daemons and kills one of them."""

    nodes = 0

    def start_with_dead(self, dead):
        """300 records in "data"; then the node with this number is killed."""
        self.cluster.start(3)
        records = "".join(f"k{i}\tv{i}\n" for i in range(RECORDS)).encode()
        self.good("load", "data", "-", stdin=records)
        self.kill_node(dead)

    def kill_node(self, dead):
        self.dead = dead
        pid = next(node["pid"] for node in self.nodes_known() if node["node_id"] == dead)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid))

    def wait_until_down(self):
        wait_until(lambda: any(node["node_id"] == self.dead and node["state"] == "down"
                               for node in self.nodes_known()))

    def nodes_known(self):
        return json.loads(self.kvctl("status", "--json").out)["result"]["nodes"]

    def folder(self, name):
        """A path of this test's own."""
        mine = os.path.join(self.cluster.folder, self.id())
        os.makedirs(mine, exist_ok=True)
        return os.path.join(mine, name)

    def partly(self, *arguments):
        """What a command prints that ends with exit code 6 and names the dead node."""
        result = self.kvctl(*arguments)
        self.assertEqual(result.code, 6, result)
        self.assertIn(f"node {self.dead}", result.err.decode(), result)
        self.assertRegex(result.err.decode(), r"[1-9][0-9]* of [1-9][0-9]* partitions")
        return result.out

    def living(self):
        """The records that can be read, by their keys."""
        return {json.loads(line)["key"] for line in self.partly("dump", "data").splitlines()}

    def check_stage_out(self, living, *options):
        out = self.folder("out" + "".join(options))
        self.partly("stage", "out", "data", out, *options)
        self.assertEqual(set(os.listdir(out)), living)

    def test_a_dead_member(self):
        self.start_with_dead(1)
        self.wait_until_down()
        living = self.living()
        self.assertTrue(RECORDS // 3 < len(living) < RECORDS)
        self.assertEqual(set(self.partly("keys", "data").decode().split()), living)
        self.assertEqual(int(self.partly("count", "data")), len(living))
        for options in ([], ["--partial", "--incomplete"], ["--through-client"]):
            self.check_stage_out(living, *options)
        self.partly("snapshot", "create", "data", self.folder("snap"))
        # What was saved in part comes back in part, and only if that is asked for.
        self.bad(1, "snapshot", "restore", self.folder("snap"), "again", says="partitions")
        self.cluster.start(2)
        self.good("snapshot", "restore", self.folder("snap"), "again", "--partial")
        self.assertEqual(set(self.good("keys", "again").decode().split()), living)

    def test_the_dead_first_node(self):
        """The coordinator: nobody says in the map that it is down."""
        self.start_with_dead(0)
        living = self.living()
        self.assertTrue(RECORDS // 3 < len(living) < RECORDS)
        self.check_stage_out(living)

    def test_a_node_that_nobody_knows_to_be_dead(self):
        self.start_with_dead(2)
        out = self.folder("early")
        self.partly("stage", "out", "data", out)
        self.assertGreater(len(os.listdir(out)), RECORDS // 3)

    def test_staged_files_beside_a_dead_node(self):
        source = self.folder("tree")
        os.makedirs(source)
        for i in range(60):
            with open(os.path.join(source, f"f{i}"), "w", encoding="utf-8") as file:
                file.write(str(i))
        # Either node may own the mark of the namespace.
        for dead in (1, 2):
            self.cluster.start(3)
            self.good("stage", "in", source, "files")
            self.kill_node(dead)
            self.wait_until_down()
            out = self.folder(f"files{dead}")
            self.partly("stage", "out", "files", out)
            names = set(os.listdir(out))
            self.assertTrue(20 < len(names) < 60, names)
            for name in names:
                with open(os.path.join(out, name), encoding="utf-8") as file:
                    self.assertEqual(file.read(), name[1:])

    def test_accept_loss_says_what_it_left_alone(self):
        self.start_with_dead(1)
        self.wait_until_down()
        result = self.kvctl("namespace", "accept-loss", "data")
        self.assertEqual(result.code, 1, result)
        self.assertIn("0 partitions of data serve again", result.out.decode())
        self.assertIn("of node 1, which is down", result.err.decode())

    def test_run_saves_what_lives(self):
        # The program ends a daemon of its own cluster.
        program = self.folder("program")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/bash
seq {RECORDS} | awk '{{print "k"$1"\\tv"$1}}' | {self.cluster.kvctl_path} load results - || exit 9
pid=$({self.cluster.kvctl_path} status --json | python3 -c '
import json, sys
print(next(n["pid"] for n in json.load(sys.stdin)["result"]["nodes"] if n["node_id"] == 1))')
kill -KILL $pid
""")
        os.chmod(program, 0o755)
        out = self.folder("results")
        runtime = self.folder("runtime")
        os.mkdir(runtime, 0o700)
        place = {"XDG_RUNTIME_DIR": runtime}
        result = self.kvctl("run", "--local=3", "--memory", "384MiB", "--stage-out", f"results:{out}",
                            "--", program, environment=place)
        self.addCleanup(self.kvctl, "stop", "--discard", environment=place)
        self.assertEqual(result.code, 6, result)
        self.assertIn("only in part: results", result.err.decode())
        self.assertGreater(len(os.listdir(out)), RECORDS // 3)


if __name__ == "__main__":
    kvctl_support.main()
