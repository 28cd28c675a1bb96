#!/usr/bin/python3
"""Starts at once, starts that fail, logins that print, and what killed daemons leave.

  kvctl_starting_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import signal
import subprocess

import kvctl_support
from kvctl_support import alive, wait_until


class Starting(kvctl_support.KvctlTest):
    nodes = 0

    def tearDown(self):
        self.kvctl("stop", "--discard")
        self.cluster.kill()

    def script(self, name, text):
        path = os.path.join(self.cluster.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
        return path

    def left(self):
        """Names below the folder of the user's services."""
        folder = os.path.join(self.cluster.folder, "tidepool")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def test_of_two_starts_one_waits_and_finds_the_other(self):
        command = [self.cluster.kvctl_path, "start", "--local", "2", "--memory", "128MiB", "--", *kvctl_support.QUIET]
        starts = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.cluster.folder,
                                   env=self.cluster.environment) for _ in range(3)]
        ends = [(start.communicate(timeout=kvctl_support.PATIENCE_SECONDS), start.returncode) for start in starts]
        self.assertEqual(sorted(code for _, code in ends), [0, 1, 1], ends)
        for (_, error), code in ends:
            if code != 0:
                self.assertIn(b"a cluster runs already", error)
        self.assertIn(b"2 of 2 nodes up", self.good("status"))
        self.good("stop")
        # The folder also has what the killed daemons of other tests left.
        self.assertEqual([name for name in self.left() if name in ("cluster.json", "cluster.json.starting")], [])

    def test_a_start_that_was_killed_troubles_no_other(self):
        lock = os.path.join(self.cluster.folder, "tidepool", "cluster.json.starting")
        os.makedirs(os.path.dirname(lock), mode=0o700, exist_ok=True)
        with open(lock, "w", encoding="utf-8"):
            pass
        self.cluster.start(1)
        self.assertFalse(os.path.exists(lock))

    def test_a_daemon_that_dies_is_named_with_its_signal(self):
        for name in ("SEGV", "KILL", "ABRT"):
            result = self.kvctl("start", "--local", "--memory", "64MiB",
                                environment={"TIDEPOOL_KVD": self.script("kvd-" + name, f"kill -{name} $$\n")})
            self.assertEqual(result.code, 1, result)
            self.assertIn(f"ended while starting (SIG{name})".encode(), result.err)
        result = self.kvctl("start", "--local", "--memory", "64MiB",
                            environment={"TIDEPOOL_KVD": self.script("kvd-9", "exit 9\n")})
        self.assertIn(b"ended while starting (exit code 9)", result.err)

    def test_a_login_may_print(self):
        """Lines of a profile before and after, and numbers among them."""
        ssh = self.script("ssh", 'echo "Welcome. 17 users."; echo 42; shift; sh -c "$*"; echo 4711; echo "Bye"\n')
        result = self.kvctl("start", "--hosts", "elsewhere", "--memory", "64MiB", "--insecure", "--", "--interface", "lo",
                            environment={"TIDEPOOL_KVCTL_SSH": ssh})
        self.assertEqual(result.code, 0, result)
        self.assertIn(b"1 of 1 nodes up", self.good("status", "--insecure"))
        self.good("stop", "--insecure")

    def test_a_killed_daemon_leaves_nothing_behind_a_stop(self):
        self.cluster.start(2)
        rings = [name for name in self.left() if name.startswith("ring-")]
        self.assertEqual(len(rings), 4 if len(rings) > 2 else 2)
        victim = self.cluster.pids[1]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not alive(victim))
        self.good("stop", "--discard")
        self.assertEqual(self.left(), [])

    def test_a_start_after_a_kill_of_all_is_as_any_other(self):
        self.cluster.start(1)
        self.cluster.kill()
        # The stop says that they have vanished, and removes their sockets.
        self.assertNotEqual(self.kvctl("stop").code, 0)
        self.assertEqual([name for name in self.left() if name.startswith(("ring-", ".ring-"))], [])
        self.cluster.start(1)
        self.good("put", "default", "a", "1")
        self.good("stop", "--discard")
        self.assertEqual([name for name in self.left() if name.startswith(("ring-", ".ring-"))], [])


if __name__ == "__main__":
    kvctl_support.main()
