#!/usr/bin/python3
"""Functions on records with kvctl, against daemons that load a shared object of the tests.

  kvctl_apply_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import struct
import subprocess

import kvctl_support


class Apply(kvctl_support.KvctlTest):
    nodes = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.library = os.path.join(kvctl_support.KvctlTest.build, "bin", "libsample_functions.so")
        cls.cluster.environment["TIDEPOOL_FUNCTIONS"] = cls.library
        cls.cluster.start(2)

    def test_a_built_in_function_decides(self):
        self.assertEqual(self.good("apply", "default", "a", "exchange", "one"), b"")
        self.assertEqual(self.good("apply", "default", "a", "exchange", "two"), b"one")
        self.assertEqual(self.good("get", "default", "a"), b"two")
        self.good("apply", "default", "sums", "add-i64s", "5", "--int")
        self.good("apply", "default", "sums", "add-i64s", "-7", "--int")
        self.assertEqual(self.good("get", "default", "sums"), struct.pack("<q", -2))

    def test_keys_of_both_nodes_reach_the_function(self):
        for i in range(20):
            self.good("apply", "default", f"key{i}", "sample.longest", "x" * (i + 1))
        for i in range(20):
            self.good("apply", "default", f"key{i}", "sample.longest", "y")
            self.assertEqual(self.good("get", "default", f"key{i}"), b"x" * (i + 1))

    def test_json_and_deletion(self):
        self.good("put", "default", "gone", "value")
        result = self.kvctl("apply", "default", "gone", "sample.drop", "--json").json()["result"]
        self.assertEqual(result, {"key": "gone", "result": "gone", "version": None})
        self.bad(3, "get", "default", "gone")

    def test_refusals(self):
        self.good("put", "default", "text", "abc")
        self.bad(2, "apply", "default", "text", "sample.twice", says="no counter")
        message = self.bad(2, "apply", "default", "text", "nothing", says="no function 'nothing'")
        self.assertIn("sample.twice", message)
        self.bad(2, "apply", "default", "text", "exchange", "x" * 40000)
        self.bad(2, "apply", "default", "text")
        self.assertEqual(self.good("get", "default", "text"), b"abc")

    def test_a_daemon_without_its_library_does_not_start(self):
        folder = self.cluster.folder
        done = subprocess.run(
            [os.path.join(kvctl_support.KvctlTest.build, "bin", "kvd"), "--cluster",
             os.path.join(folder, "other.json"), "--data-dir", os.path.join(folder, "other"),
             "--memory", "64MiB", "--functions", "/nowhere/libx.so"],
            capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("/nowhere/libx.so", done.stderr.decode())

    def test_a_list_in_the_options_file(self):
        path = os.path.join(self.cluster.folder, "kvd.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'functions = ["{self.library}", "/b.so"]\n')
        done = subprocess.run(
            [os.path.join(kvctl_support.KvctlTest.build, "bin", "kvd"), "--config", path, "--print-config"],
            capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(f'functions = "{self.library},/b.so"', done.stdout.decode())


if __name__ == "__main__":
    kvctl_support.main()
