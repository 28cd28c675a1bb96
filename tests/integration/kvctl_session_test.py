#!/usr/bin/python3
"""A user's first session, command by command as a shell takes it.

  kvctl_session_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import subprocess

import kvctl_support

# In the order of a session. HOME and SCRATCH are folders of the test; what a command prints is held
# against the expected bytes, or given to a check.
SESSION = (
    ("kvctl start --local 3", lambda out: b"started 3 daemons" in out),
    ("kvctl put default greeting hello", b""),
    ("kvctl incr default visits", b"1\n"),
    ("kvctl get default visits", b"1\n"),
    ("kvctl stage in ~/data inputs", lambda out: b"moved 6 files" in out),
    ("kvctl keys inputs 'run1/*' | head", lambda out: sorted(out.splitlines()) == [
        b"run1/a.txt", b"run1/b.bin", b"run1/empty", b"run1/sub/deep"]),
    ("kvctl get inputs run1/a.txt | wc -c", lambda out: int(out) == 1_300_000),
    ("kvctl status", lambda out: b"3 of 3 nodes up" in out and b"inputs" in out),
    ("kvctl stage out inputs $SCRATCH/b && diff -r ~/data $SCRATCH/b",
     lambda out: b"nly in" not in out and b"iffer" not in out),
)


class Session(kvctl_support.KvctlTest):
    nodes = 0

    def shell(self, line):
        """As a user's shell, but with the exit code of the first command of a pipe that fails."""
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True,
                              check=False, timeout=kvctl_support.PATIENCE_SECONDS, cwd=self.home,
                              env=self.environment)

    def setUp(self):
        self.home = os.path.join(self.cluster.folder, "home")
        scratch = os.path.join(self.cluster.folder, "scratch")
        os.makedirs(scratch)
        self.environment = {**self.cluster.environment, "HOME": self.home, "SCRATCH": scratch,
                            # Quiet daemons, as in the other tests.
                            "TIDEPOOL_WAIT": "block",
                            "PATH": os.path.dirname(self.cluster.kvctl_path) + ":" +
                                    self.cluster.environment["PATH"]}
        data = os.path.join(self.home, "data")
        os.makedirs(os.path.join(data, "run1", "sub"))
        os.makedirs(os.path.join(data, "nothing here"))
        for name, content in (("run1/a.txt", b"line of text\n" * 100_000),
                              ("run1/b.bin", bytes(range(256)) * 500), ("run1/empty", b""),
                              ("run1/sub/deep", b"deep"), ("run2", b"not run1"), ("odd name\n", b"x")):
            with open(os.path.join(data, name), "wb") as file:
                file.write(content)

    def test_every_command_does_what_it_says(self):
        for line, expected in SESSION:
            with self.subTest(line):
                done = self.shell(line)
                if line.startswith("kvctl start"):
                    status = self.shell("kvctl status --json")
                    nodes = json.loads(status.stdout)["result"]["nodes"]
                    self.cluster.pids = [node["pid"] for node in nodes]
                self.assertEqual(done.returncode, 0, done)
                if callable(expected):
                    self.assertTrue(expected(done.stdout), done)
                else:
                    self.assertEqual(done.stdout, expected)
        # What was staged out is safe; the two records of `default` are not.
        refused = self.shell("kvctl stop")
        self.assertEqual(refused.returncode, 1, refused)
        self.assertIn(b"default (2 records,", refused.stderr)
        self.assertNotIn(b"inputs", refused.stderr)
        self.assertIn(b"--discard", refused.stderr)
        self.assertEqual(self.shell("kvctl get default greeting").stdout, b"hello")
        stopped = self.shell("kvctl stop --discard")
        self.assertEqual(stopped.returncode, 0, stopped)
        self.assertIn(b"stopped 3 daemons", stopped.stdout)
        self.assertEqual([pid for pid in self.cluster.pids if kvctl_support.alive(pid)], [])


if __name__ == "__main__":
    kvctl_support.main()
