"""A cluster that kvctl itself starts, and kvctl as a user calls it, for the tests beside this file.

The cluster belongs to a runtime folder of its own (XDG_RUNTIME_DIR), so it is the "user's default
service" of these tests alone. Daemons are ended by their process numbers, whatever a test did.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

# Ends a command that hangs; no test depends on its length.
PATIENCE_SECONDS = 120
# Nothing spins on a machine that runs other tests, and a lost node is seen soon.
QUIET = ["--wait", "block", "--lease-ms", "1500", "--heartbeat-ms", "200"]


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"exit code {self.code}\nstdout: {self.out[:2000]!r}\nstderr: {self.err[:2000]!r}"

    def json(self):
        envelope = json.loads(self.out)
        assert list(sorted(envelope)) == ["code", "error", "ok", "remedy", "result"], envelope
        return envelope


class Cluster:
    def __init__(self, build):
        self.kvctl_path = os.path.join(build, "bin", "kvctl")
        self.folder = tempfile.mkdtemp(prefix="kvctl-test-")
        self.pids = []
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TIDEPOOL_", "SLURM_")) and
                            not name.lower().endswith("_proxy")}
        self.environment["XDG_RUNTIME_DIR"] = self.folder

    def kvctl(self, *arguments, stdin=b"", cwd=None, environment=None, within=()):
        """Runs kvctl; arguments may be text or bytes. `within`: a command that runs its arguments."""
        command = [*within, self.kvctl_path, *arguments]
        return Result(subprocess.run(command, input=stdin, capture_output=True, check=False,
                                     timeout=PATIENCE_SECONDS, cwd=cwd or self.folder,
                                     env={**self.environment, **(environment or {})}))

    def start(self, nodes, node_mib=128, within=(), options=(), more=()):
        """A new cluster, with `options` of kvctl start and `more` of kvd. What an earlier one of this
        object left is killed first."""
        self.kill()
        result = self.kvctl("start", f"--local={nodes}", "--memory", f"{nodes * node_mib}MiB", "--json",
                            *options, "--", *QUIET, *more, within=within)
        assert result.code == 0, result
        started = result.json()["result"]
        self.pids = started["pids"]
        self.file = started["cluster_file"]
        self.log_folder = started["log_folder"]
        return result

    def kill(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            wait_until(lambda pid=pid: not alive(pid))
        self.pids = []

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def alive(pid):
    """False also for a zombie: daemons are children of nobody who waits for them. Every thread counts:
    the first may be gone while another still holds the daemon's port."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):  # The latter: it went while we looked.
        return False
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class Slowed:
    """Gives processes a fifth of the time, or `share`, within a `with`, so that they can be seen in the
    middle of something, and freezes them there. The pauses are far shorter than any lease."""

    PERIOD_SECONDS = 0.05

    def __init__(self, pids, share=0.2):
        self.pids = pids
        self.share = share
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.alternate)

    def send(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def alternate(self):
        while not self.stop.is_set():
            self.send(signal.SIGSTOP)
            self.stop.wait(self.PERIOD_SECONDS * (1 - self.share))
            self.send(signal.SIGCONT)
            self.stop.wait(self.PERIOD_SECONDS * self.share)

    def freeze(self):
        self.stop.set()
        self.thread.join()
        self.send(signal.SIGSTOP)

    def thaw(self):
        self.send(signal.SIGCONT)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.thaw()


class KvctlTest(unittest.TestCase):
    """Tests of one class share a cluster of `nodes`."""

    nodes = 1
    node_mib = 128
    build = None
    cluster = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(KvctlTest.build)
        cls.addClassCleanup(cls.cluster.close)
        if cls.nodes:
            cls.cluster.start(cls.nodes, cls.node_mib)

    def kvctl(self, *arguments, **more):
        return self.cluster.kvctl(*arguments, **more)

    def good(self, *arguments, **more):
        """What a command that must succeed prints."""
        result = self.kvctl(*arguments, **more)
        self.assertEqual(result.code, 0, result)
        return result.out

    def bad(self, code, *arguments, says="", **more):
        """A command that must fail: with this code, one line on stderr, and nothing on stdout."""
        result = self.kvctl(*arguments, **more)
        self.assertEqual(result.code, code, result)
        lines = result.err.decode().splitlines()
        self.assertEqual(len(lines), 1, result)
        self.assertTrue(lines[0].startswith("kvctl: "), result)
        self.assertIn(says, lines[0], result)
        self.assertEqual(result.out, b"", result)
        return lines[0]


def main():
    KvctlTest.build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
