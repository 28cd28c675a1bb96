#!/usr/bin/python3
"""Signals and resource limits that shells and batch systems hand on, against real daemons.

  kvctl_limits_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import resource
import signal
import subprocess

import kvctl_support
from kvctl_support import alive, wait_until

NO_END = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU, signal.SIGXFSZ,
          signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN, signal.SIGRTMAX]


def limited(options):
    """A command that runs its arguments under limits of the shell: "-f 20000"."""
    return ["bash", "-c", f'ulimit {options}; exec "$@"', "-"]


class Limits(kvctl_support.KvctlTest):
    nodes = 0

    def tearDown(self):
        self.cluster.kill()

    def log_text(self):
        with open(os.path.join(self.cluster.log_folder, "kvd-0.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def test_signals_of_batch_systems_are_logged_and_served_on(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "1")
        [pid] = self.cluster.pids
        for number in NO_END:
            before = self.log_text().count("is left alone")
            os.kill(pid, number)
            wait_until(lambda before=before: self.log_text().count("is left alone") == before + 1)
        self.assertEqual(self.good("get", "default", "a"), b"1")

    def test_a_limit_below_the_memory_is_refused_with_the_remedy(self):
        for options, says in (("-f 100000", "ulimit -f unlimited"), ("-v 700000", "ulimit -v unlimited"),
                              ("-d 60000", "ulimit -d unlimited")):
            with self.subTest(options):
                result = self.kvctl("start", "--local", "--memory", "128MiB", within=limited(options))
                self.assertEqual(result.code, 1, result)
                self.assertIn(says, result.err.decode())
                self.assertEqual(result.out, b"")

    def test_a_limit_of_file_sizes_above_the_memory_is_enough(self):
        self.cluster.start(1, within=limited("-f 140000"))
        self.good("put", "default", "a", "1")

    def test_a_write_beyond_the_limit_is_an_error_by_name(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "-", stdin=bytes(3 << 20))
        [pid] = self.cluster.pids
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for words in (("snapshot", "create", "default", os.path.join(self.cluster.folder, "snapshot")),
                      ("stage", "out", "default", os.path.join(self.cluster.folder, "out"))):
            with self.subTest(words[0]):
                result = self.kvctl(*words)
                self.assertNotEqual(result.code, 0, result)
                self.assertIn(b"File too large", result.err)
                self.assertIn(b"ulimit -f", result.err)
        # Memory that cannot grow is no memory.
        for number in range(128):
            if self.kvctl("put", "default", f"more-{number}", "-", stdin=bytes(1 << 20)).code != 0:
                break
        self.assertTrue(alive(pid), self.log_text())
        self.assertEqual(self.good("get", "default", "a"), bytes(3 << 20))

    def test_kvctl_writes_up_to_its_limit_and_says_so(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "-", stdin=bytes(3 << 20))
        path = os.path.join(self.cluster.folder, "value")
        result = self.kvctl("get", "default", "a", within=["bash", "-c", f'ulimit -f 1000; exec "$@" >{path}', "-"])
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"cannot write to standard output: File too large", result.err)

    def test_a_limit_of_cpu_time_is_told(self):
        self.cluster.start(1, within=limited("-t 10000"))
        self.assertIn("when it has used 10000 s of CPU time (ulimit -t)", self.log_text())
        # The soft limit alone would be a SIGXCPU each second: it is raised to the hard one.
        self.cluster.start(1, within=limited("-S -t 20000"))
        self.assertNotIn("used 20000 s", self.log_text())
        [pid] = self.cluster.pids
        self.assertEqual(resource.prlimit(pid, resource.RLIMIT_CPU)[0], resource.RLIM_INFINITY)

    def test_doctor_looks_at_each_limit(self):
        for options, level, says in (("-f 100000", "warning", "files and shared memory up to 97.7 MiB"),
                                     ("-v 2000000", "warning", "address space up to 1.9 GiB"),
                                     ("-d 1000000", "warning", "private memory up to 976.6 MiB"),
                                     ("-t 3600", "warning", "3600 s of CPU time"),
                                     ("-c 0", "ok", "no core file")):
            with self.subTest(options):
                found = self.kvctl("doctor", "--json", within=limited(options)).json()["result"]["findings"]
                fits = [each for each in found if each["topic"] == "limits" and says in each["what"]]
                self.assertEqual([each["level"] for each in fits], [level], found)
                self.assertEqual(bool(fits[0]["remedy"]), level == "warning")

    def test_closed_descriptors_are_opened_first(self):
        file = os.path.join(self.cluster.folder, "closed.json")
        kvd = os.path.join(os.path.dirname(self.cluster.kvctl_path), "kvd")
        with subprocess.Popen(["bash", "-c", f'exec "{kvd}" --memory 64MiB --interface lo --cluster "{file}" <&- >&- 2>&-'],
                              env=self.cluster.environment) as daemon:
            try:
                wait_until(lambda: os.path.exists(file) or daemon.poll() is not None)
                for descriptor in range(3):
                    self.assertEqual(os.readlink(f"/proc/{daemon.pid}/fd/{descriptor}"), "/dev/null")
            finally:
                daemon.kill()

    def test_closed_descriptors_of_kvctl_fail_by_name(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "1")
        result = self.kvctl("get", "default", "a", within=["bash", "-c", 'exec "$@" >&-', "-"])
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"cannot write to standard output", result.err)
        result = self.kvctl("put", "default", "b", "-", within=["bash", "-c", 'exec "$@" <&-', "-"])
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(b"standard input", result.err)


class Run(kvctl_support.KvctlTest):
    nodes = 0

    def test_notices_are_the_programs_and_all_is_saved(self):
        """USR1 and its like come before the end of a job; only the program knows their meaning."""
        out = os.path.join(self.cluster.folder, "out")
        begun = os.path.join(self.cluster.folder, "begun")
        script = ("for s in USR1 USR2 ALRM XCPU RTMIN; do trap \"kvctl put results $s told\" $s; done; "
                  f"kvctl namespace create results; touch {begun}; "
                  "until [ $(kvctl count results) = 5 ]; do sleep 0.05; done")
        path = os.path.dirname(self.cluster.kvctl_path) + ":" + os.environ["PATH"]
        with subprocess.Popen([self.cluster.kvctl_path, "run", "--local", "--memory", "64MiB", "--stage-out",
                               f"results:{out}", "--", "bash", "-c", script], stdout=subprocess.DEVNULL,
                              env={**self.cluster.environment, "PATH": path}, cwd=self.cluster.folder) as running:
            wait_until(lambda: os.path.exists(begun))
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, signal.SIGRTMIN):
                running.send_signal(number)
            self.assertEqual(running.wait(timeout=kvctl_support.PATIENCE_SECONDS), 0)
        self.assertEqual(sorted(os.listdir(out)), ["ALRM", "RTMIN", "USR1", "USR2", "XCPU"])


if __name__ == "__main__":
    kvctl_support.main()
