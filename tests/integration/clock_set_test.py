#!/usr/bin/python3
"""Times to live and item leases of a daemon whose machine's clock is set.

  clock_set_test.py BUILD_FOLDER [unittest arguments]
"""

import glob
import os
import re

import kvctl_support


class ClockSet(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        self.shift = os.path.join(self.cluster.folder, "shift")
        self.set(0)
        # Only the daemon sees another clock.
        build = os.path.dirname(os.path.dirname(self.cluster.kvctl_path))
        library = os.path.join(build, "tests", "integration", "libclock_shift.so")
        self.assertTrue(os.path.exists(library))
        kvd = os.path.join(self.cluster.folder, "kvd")
        with open(kvd, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexport LD_PRELOAD={library} TIDEPOOL_TEST_CLOCK_SHIFT={self.shift}\n"
                       f"exec {os.path.join(build, 'bin', 'kvd')} \"$@\"\n")
        os.chmod(kvd, 0o755)
        self.cluster.environment["TIDEPOOL_KVD"] = kvd
        self.cluster.start(1)
        self.good("namespace", "create", "work", "--kind", "queue")

    def set(self, seconds):
        """Writes beside the file and renames it: the daemon never reads a half."""
        with open(self.shift + ".new", "w", encoding="utf-8") as file:
            file.write(f"{seconds}\n")
        os.rename(self.shift + ".new", self.shift)

    def log(self):
        text = ""
        for name in glob.glob(os.path.join(self.cluster.log_folder, "*.log")):
            with open(name, encoding="utf-8") as file:
                text += file.read()
        return text

    def wait_for_log(self, words):
        kvctl_support.wait_until(lambda: words in self.log())

    def test_a_clock_that_is_set_back_holds_nothing_up(self):
        self.set(-3600)
        self.wait_for_log("was set back by")
        self.good("put", "default", "k", "v", "--ttl", "1s")
        self.good("push", "work", "item")
        self.assertIn(b"item", self.good("pop", "work", "--lease", "1s"))
        # Both are far below the hour.
        kvctl_support.wait_until(lambda: self.kvctl("get", "default", "k").code == 3)
        kvctl_support.wait_until(lambda: self.kvctl("pop", "work").code == 0)

    def test_a_clock_that_is_set_forward_ends_nothing_early(self):
        self.good("put", "default", "k", "v", "--ttl", "30m")
        self.good("push", "work", "item")
        self.good("pop", "work", "--lease", "30m")
        self.set(3600)
        self.wait_for_log("was set forward by")
        self.assertEqual(self.good("get", "default", "k"), b"v")
        self.assertNotEqual(self.kvctl("pop", "work").code, 0)
        # The dump counts the remaining time by the same clock.
        left_ms = int(re.search(rb'"ttl_ms": *"?(\d+)', self.good("--json", "dump", "default"))[1])
        self.assertGreater(left_ms, 20 * 60 * 1000)
        self.assertLessEqual(left_ms, 30 * 60 * 1000)


if __name__ == "__main__":
    kvctl_support.main()
