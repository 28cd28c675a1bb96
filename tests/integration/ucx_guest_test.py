#!/usr/bin/python3
"""UCX as a guest of a user's process: it takes no signal and writes nothing to standard output, in kvctl and in
programs of the SDK.

  ucx_guest_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import signal
import subprocess

import kvctl_support

# Variables of a site that this UCX does not know. UCX warns of them.
UNKNOWN = {"UCX_SITE_SETTING": "1"}


class UcxGuest(kvctl_support.KvctlTest):
    def waiting_pop(self, queue, **more):
        """kvctl in a pop that waits."""
        self.good("namespace", "create", queue, "--kind", "queue")
        child = subprocess.Popen([self.cluster.kvctl_path, "pop", queue, "--wait", "5m"], env=self.cluster.environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        # Its UCX context is there when the worker's descriptors are.
        kvctl_support.wait_until(lambda: "anon_inode:[eventpoll]" in self.descriptors(child.pid))
        return child

    @staticmethod
    def descriptors(pid):
        found = []
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except FileNotFoundError:
                pass
        return found

    def test_a_hangup_ends_a_waiting_pop_which_takes_no_item_after_that(self):
        child = self.waiting_pop("hung-up")
        child.send_signal(signal.SIGHUP)
        self.assertEqual(child.wait(kvctl_support.PATIENCE_SECONDS), -signal.SIGHUP)
        self.good("push", "hung-up", "item")
        self.assertEqual(self.good("pop", "hung-up"), b"item")

    def test_a_pop_under_nohup_outlives_a_hangup(self):
        child = self.waiting_pop("nohup", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        child.send_signal(signal.SIGHUP)
        self.good("push", "nohup", "item")
        self.assertEqual(child.communicate(timeout=kvctl_support.PATIENCE_SECONDS)[0], b"item")

    def test_warnings_of_ucx_go_to_standard_error(self):
        self.good("namespace", "create", "warned", "--kind", "queue")
        self.good("push", "warned", "one")
        popped = self.kvctl("--json", "pop", "warned", environment=UNKNOWN)
        self.assertTrue(popped.json()["ok"], popped)
        self.assertIn(b"UCX_SITE_SETTING", popped.err)

    def test_the_shared_library_gives_the_signals_back(self):
        caught = ("import ctypes, sys; ctypes.CDLL(sys.argv[1]); "
                  "print([line for line in open('/proc/self/status') if line.startswith('SigCgt')][0].split()[1])")
        library = os.path.join(self.build, "lib", "libtidepool.so")
        mask = int(subprocess.run(["/usr/bin/python3", "-c", caught, library], capture_output=True, check=True).stdout, 16)
        for number in (signal.SIGHUP, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
            self.assertFalse(mask >> (number - 1) & 1, number)

    def test_a_program_of_the_sdk_has_its_standard_output_for_itself(self):
        hello = os.path.join(self.build, "bin", "hello")
        environment = {**self.cluster.environment, **UNKNOWN, "UCX_LOG_LEVEL": "info"}
        done = subprocess.run([hello], env=environment, capture_output=True, check=False,
                              timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout.decode(), r"\Ap7 is at 3.5; this is run \d+\n\Z")
        self.assertIn(b"UCX_SITE_SETTING", done.stderr)

    def refused(self, *command):
        """What a program says that finds UCX 1.16."""
        preload = {"LD_PRELOAD": os.path.join(self.build, "lib", "libucx_1_16.so")}
        done = subprocess.run(command, env={**self.cluster.environment, **preload}, capture_output=True, check=False,
                              timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(done.returncode, 0, done)
        self.assertIn(b"UCX 1.16 is loaded", done.stderr, done)
        self.assertIn(b"load UCX 1.13 or 1.18", done.stderr, done)

    def test_another_version_of_ucx_is_refused_with_a_remedy(self):
        self.refused(os.path.join(self.build, "bin", "kvd"), "--memory", "128MiB", "--cluster",
                     os.path.join(self.cluster.folder, "other.json"))
        self.refused(self.cluster.kvctl_path, "bench", "--duration", "10ms")
        self.refused(os.path.join(self.build, "bin", "hello"))


if __name__ == "__main__":
    kvctl_support.main()
