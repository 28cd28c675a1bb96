#!/usr/bin/python3
"""A node's data after its folder, its disk or its host has changed its name, and copies of it.

  kvctl_moved_test.py BUILD_FOLDER [unittest arguments]
"""

import glob
import os
import shutil
import subprocess
import tempfile

import kvctl_support


class Moved(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        # On the build's disk: /tmp may be memory without direct I/O.
        self.disk = tempfile.mkdtemp(prefix="kvctl_moved.", dir=os.getcwd())
        self.addCleanup(shutil.rmtree, self.disk, ignore_errors=True)
        self.original = os.path.join(self.disk, "a")
        self.copy = os.path.join(self.disk, "b")
        os.mkdir(self.original)

    def options(self, folder, *more):
        return ("--nvm-dir", folder, "--nvm-size", "128MiB", *more)

    def start(self, folder, *more, within=()):
        self.cluster.start(1, more=self.options(folder, *more), within=within)

    def refused(self, folder, *more, file=None):
        """The error of a start that must fail."""
        where = ("--cluster", file) if file else ()
        result = self.kvctl("start", "--local=1", "--memory", "128MiB", *where, "--",
                            *kvctl_support.QUIET, *self.options(folder, *more))
        self.assertNotEqual(result.code, 0, result)
        return result.err.decode()

    def check(self, folder):
        kvd = os.path.join(os.path.dirname(self.cluster.kvctl_path), "kvd")
        return kvctl_support.Result(subprocess.run([kvd, "check", folder], capture_output=True,
                                                   check=False, env=self.cluster.environment))

    def fill(self, within=()):
        self.start(self.original, within=within)
        self.good("namespace", "create", "data", "--durability", "sync")
        self.good("put", "data", "k", "v")
        self.good("stop")

    def log(self):
        text = ""
        for name in glob.glob(os.path.join(self.cluster.log_folder, "*")):
            with open(name, encoding="utf-8") as file:
                text += file.read()
        return text

    def test_a_folder_with_another_path_and_inode_keeps_its_data(self):
        self.fill()
        # Another inode, as after a restore; the original is gone.
        shutil.copytree(self.original, self.copy)
        shutil.rmtree(self.original)
        checked = self.check(self.copy)
        self.assertEqual(checked.code, 0, checked)
        self.assertIn(b"moved since the last start", checked.out)
        self.start(self.copy)
        self.assertEqual(self.good("get", "data", "k"), b"v")
        self.assertIn("was moved", self.log())
        self.good("stop")

    def test_a_host_with_another_name_keeps_its_data(self):
        if os.geteuid() != 0:
            self.skipTest("unshare needs root")

        def named(name):
            return ("unshare", "-u", "bash", "-c", f'hostname {name}; exec "$@"', "bash")

        self.fill(within=named("first-name"))
        self.start(self.original, within=named("second-name"))
        self.assertEqual(self.good("get", "data", "k"), b"v")
        self.good("stop")

    def test_a_copy_beside_its_original_needs_adopt(self):
        self.fill()
        shutil.copytree(self.original, self.copy)
        error = self.refused(self.copy)
        self.assertIn("is a copy of that of node", error)
        self.assertIn("--adopt", error)
        self.assertNotIn("remove", error)
        checked = self.check(self.copy)
        self.assertEqual(checked.code, 1, checked)
        self.assertIn(b"a start is refused", checked.out)
        self.assertIn(b"--adopt", checked.out)
        # Nothing of this has hurt the original, which nothing is said about.
        self.assertEqual(self.check(self.original).code, 0)
        self.start(self.original)
        other = os.path.join(self.disk, "other.json")
        for more in ((), ("--adopt",)):
            self.assertIn("in which a daemon runs", self.refused(self.copy, *more, file=other))
        self.assertEqual(self.good("get", "data", "k"), b"v")
        self.good("stop")
        self.start(self.copy, "--adopt")
        self.assertEqual(self.good("get", "data", "k"), b"v")
        self.good("stop")
        # The copy is the node now, and needs no word any more.
        self.start(self.copy)
        self.good("stop")

    def test_an_older_device_needs_adopt(self):
        self.fill()
        device = os.path.join(self.original, "tidepool.nvm")
        shutil.copy(device, self.copy)
        self.start(self.original)
        self.good("put", "data", "k", "newer")
        self.good("stop")
        shutil.copy(self.copy, device)
        self.assertIn("--adopt", self.refused(self.original))
        self.assertIn(b"has used it since", self.check(self.original).out)
        self.start(self.original, "--adopt")
        self.assertEqual(self.good("get", "data", "k"), b"v")
        self.good("stop")

    def test_a_change_of_the_cluster_is_appended_to_its_state(self):
        self.start(self.original)
        state = os.path.join(self.original, "cluster-state")
        before = os.stat(state).st_ino
        for name in ("one", "two", "three"):
            self.good("namespace", "create", name)
        self.good("namespace", "drop", "two")
        self.assertEqual(os.stat(state).st_ino, before)
        # A crash cuts off a change that nobody was told of.
        self.cluster.kill()
        with open(state + ".log", "ab") as file:
            file.write(b"tidepool-cluster-state 1 00")
        self.start(self.original)
        listed = self.good("namespace", "list")
        self.assertIn(b"one", listed)
        self.assertIn(b"three", listed)
        self.assertNotIn(b"two", listed)
        self.good("stop")

    def test_a_damaged_connection_file_of_a_live_cluster_is_written_again(self):
        self.start(self.original)
        for damage in ("", "{", "no such thing\n" * 100):
            with open(self.cluster.file, "w", encoding="utf-8") as file:
                file.write(damage)
            kvctl_support.wait_until(lambda: self.kvctl("status").code == 0)
        self.good("stop", "--discard")


if __name__ == "__main__":
    kvctl_support.main()
