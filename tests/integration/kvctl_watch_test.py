#!/usr/bin/python3
"""kvctl watch, against a real cluster of two daemons.

  kvctl_watch_test.py BUILD_FOLDER [unittest arguments]
"""

import subprocess
import threading

import kvctl_support


class Watch(kvctl_support.KvctlTest):
    nodes = 2

    def start_watch(self, *arguments):
        """kvctl watch in the background; ends with the test."""
        watch = subprocess.Popen([self.cluster.kvctl_path, "watch", *arguments], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=self.cluster.environment, cwd=self.cluster.folder)
        timer = threading.Timer(kvctl_support.PATIENCE_SECONDS, watch.kill)
        timer.start()
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        self.addCleanup(timer.cancel)
        return watch

    def test_each_change_is_printed_as_it_comes(self):
        self.good("put", "default", "watched", "first")
        watch = self.start_watch("default", "watched")
        self.assertEqual(watch.stdout.readline(), "first\n")
        self.good("put", "default", "watched", "second")
        self.assertEqual(watch.stdout.readline(), "second\n")
        self.good("delete", "default", "watched")
        self.assertIn("not there any more", watch.stderr.readline())
        self.good("put", "default", "watched", "7", "--int")
        self.assertEqual(watch.stdout.readline(), "7\n")
        self.assertIsNone(watch.poll())

    def test_a_key_that_does_not_exist_is_waited_for(self):
        self.good("namespace", "create", "watch-ordered", "--kind", "ordered")
        watch = self.start_watch("watch-ordered", "done", "--count", "1", "--json")
        self.good("put", "watch-ordered", "done", "yes")
        result = kvctl_support.json.loads(watch.stdout.read())["result"]
        self.assertEqual(result["values"][0]["value"], "yes")
        self.assertEqual(watch.wait(), 0)

    def test_a_deletion_is_no_value_that_counts(self):
        self.good("put", "default", "counted", "first")
        watch = self.start_watch("default", "counted", "--count", "2")
        self.assertEqual(watch.stdout.readline(), "first\n")
        self.good("delete", "default", "counted")
        self.assertIn("not there any more", watch.stderr.readline())
        self.good("put", "default", "counted", "second")
        self.assertEqual(watch.stdout.readline(), "second\n")
        self.assertEqual(watch.wait(), 0)

    def test_it_ends_at_its_time(self):
        self.bad(4, "watch", "default", "never-put", "--timeout", "100ms")

    def test_it_ends_with_its_namespace(self):
        self.good("namespace", "create", "watch-gone")
        self.good("put", "watch-gone", "k", "v")
        watch = self.start_watch("watch-gone", "k")
        self.assertEqual(watch.stdout.readline(), "v\n")
        self.good("namespace", "drop", "watch-gone")
        self.assertEqual(watch.wait(), 3)
        self.assertIn("dropped", watch.stderr.read())

    def test_what_cannot_be_watched_is_refused(self):
        self.bad(3, "watch", "no-such-namespace", "k", says="no-such-namespace")
        self.good("namespace", "create", "watch-bloom", "--kind", "bloom", "--expected-items", "1000")
        self.bad(2, "watch", "watch-bloom", "k", says="bloom")
        self.bad(2, "watch", "default", "k", "--count", "0", says="--count")


if __name__ == "__main__":
    kvctl_support.main()
