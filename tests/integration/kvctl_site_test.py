"""Manners on a shared machine: what daemons leave behind, what they say of lost data, how they answer Ctrl-C, and what
kvd and kvctl say of the environment. Real daemons, real signals, a real pseudo-terminal."""

import glob
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time

import kvctl_support
from kvctl_support import alive, wait_until

KVD_OPTIONS = ["--memory=64MiB", "--wait=block", "--lease-ms=1500", "--heartbeat-ms=200"]
# Ends a test that hangs.
PATIENCE_SECONDS = 60


class SiteTest(kvctl_support.KvctlTest):
    """Each test has a cluster of its own."""

    nodes = 0

    def setUp(self):
        self.cluster = kvctl_support.Cluster(self.build)
        self.addCleanup(self.cluster.close)
        self.user_folder = os.path.join(self.cluster.folder, "tidepool")

    def kvd(self, *arguments, environment=None):
        """kvd that ends by itself."""
        done = subprocess.run([os.path.join(self.build, "bin", "kvd"), *arguments], capture_output=True, text=True,
                              check=False, timeout=PATIENCE_SECONDS, env={**self.cluster.environment, **(environment or {})})
        return done.returncode, done.stdout, done.stderr

    def end(self, pids, number=signal.SIGTERM):
        for pid in pids:
            os.kill(pid, number)
        wait_until(lambda: not any(alive(pid) for pid in pids))

    def nodes_of(self):
        return self.kvctl("status", "--json").json()["result"]["nodes"]

    def coordinator_first(self):
        nodes = sorted(self.nodes_of(), key=lambda node: node["node_id"])
        return [node["pid"] for node in nodes]

    def log_text(self):
        text = ""
        for path in glob.glob(self.cluster.log_folder + "/*.log"):
            with open(path, encoding="utf-8") as file:
                text += file.read()
        return text

    def left(self):
        """Files below the user's folder but for logs and records of losses."""
        return sorted(os.path.relpath(os.path.join(folder, name), self.user_folder)
                      for folder, _, names in os.walk(self.user_folder) for name in names
                      if "/logs" not in folder and "/lost" not in folder)


class Environment(SiteTest):
    def test_an_unknown_variable_warns_once_on_standard_error(self):
        odd = {"TIDEPOOL_CLSTER": "x", "TIDEPOOL_MEMROY": "1GiB"}
        result = self.kvctl("help", "put", environment=odd)
        self.assertEqual(result.code, 0)
        lines = result.err.decode().splitlines()
        self.assertEqual(len(lines), 2, result)
        self.assertTrue(all(line.startswith("kvctl: warning: ") for line in lines), result)
        self.assertIn("did you mean TIDEPOOL_CLUSTER?", result.err.decode())
        self.assertIn("did you mean TIDEPOOL_MEMORY?", result.err.decode())
        self.assertNotIn(b"TIDEPOOL_CLSTER", result.out)
        self.assertEqual(self.kvctl("help", "put", environment={"TIDEPOOL_LEASE_MS": "5000", "TIDEPOOL_ROOT": "/x",
                                                                "TIDEPOOL_TEST_STORE": "embedded"}).err, b"")

    def test_json_stays_one_object_of_standard_output(self):
        result = self.kvctl("get", "default", "k", "--json", environment={"TIDEPOOL_CLSTER": "x"})
        self.assertFalse(json.loads(result.out)["ok"])
        self.assertIn(b"TIDEPOOL_CLSTER", result.err)
        self.assertNotIn(b"TIDEPOOL_CLSTER", result.out)

    def test_kvd_serves_all_the_same(self):
        code, out, err = self.kvd("--print-config", environment={"TIDEPOOL_CORSE": "2", "TIDEPOOL_CORES": "3"})
        self.assertEqual(code, 0)
        self.assertEqual(err.count("TIDEPOOL_CORSE"), 1)
        self.assertIn("did you mean TIDEPOOL_CORES?", err)
        self.assertNotIn("CORSE", out)
        self.assertRegex(out, r"(?m)^cores = 3 ")
        self.cluster.environment["TIDEPOOL_CORSE"] = "2"
        self.cluster.start(1)
        self.assertEqual(self.log_text().count("TIDEPOOL_CORSE"), 1, self.log_text())

    def test_the_default_of_memory_heeds_slurm(self):
        def memory(**variables):
            code, out, err = self.kvd("--print-config", environment=variables)
            self.assertEqual((code, err), (0, ""))
            return re.search(r'(?m)^memory = "(\S+)"', out).group(1)

        self.assertEqual(memory(SLURM_MEM_PER_NODE="400"), "200MiB")
        self.assertEqual(memory(SLURM_MEM_PER_CPU="100", SLURM_CPUS_ON_NODE="3"), "150MiB")
        self.assertEqual(memory(SLURM_MEM_PER_CPU="100", SLURM_CPUS_ON_NODE="3", SLURM_MEM_PER_NODE="200"), "100MiB")
        code, _, err = self.kvd("--print-config", environment={"SLURM_MEM_PER_NODE": "60"})
        self.assertEqual(code, 2)
        self.assertIn("SLURM_MEM_PER_NODE=60", err)


class Files(SiteTest):
    def test_the_last_daemon_removes_the_files_of_the_cluster(self):
        orders = {"coordinator first": lambda pids: [[pid] for pid in pids],
                  "coordinator last": lambda pids: [[pid] for pid in reversed(pids)],
                  "all at once": lambda pids: [pids]}
        for name, order in orders.items():
            with self.subTest(name):
                self.cluster.start(3, more=["--tls"])
                self.assertTrue(any(path.endswith(".token") for path in self.left()), self.left())
                self.assertTrue(any(path.endswith(".tls") for path in self.left()), self.left())
                for group in order(self.coordinator_first()):
                    self.end(group)
                self.assertEqual(self.left(), [], self.log_text())
                self.assertTrue(os.path.exists(self.cluster.log_folder))

    def test_a_bare_kvd_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            # pylint: disable=consider-using-with
            daemon = subprocess.Popen([os.path.join(self.build, "bin", "kvd"), *KVD_OPTIONS], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, env=self.cluster.environment, text=True)
            self.assertIn("kvd ready", daemon.stdout.readline())
            daemon.stdout.close()
            daemon.send_signal(number)
            self.assertEqual(daemon.wait(PATIENCE_SECONDS), 0)
            self.assertEqual(os.listdir(self.user_folder), [])

    def test_files_stay_while_a_daemon_lives(self):
        self.cluster.start(3)
        first, second, third = self.coordinator_first()
        self.end([first])
        self.end([second])
        self.assertTrue(os.path.exists(self.cluster.file), self.left())
        self.assertTrue(any(path.endswith(".token") for path in self.left()), self.left())
        self.assertEqual(self.kvctl("config").code, 0)
        self.end([third])
        self.assertEqual(self.left(), [])

    def test_sockets_of_a_killed_daemon_go_with_the_last_one(self):
        self.cluster.start(2)
        coordinator, other = self.coordinator_first()
        self.end([other], signal.SIGKILL)
        self.assertGreaterEqual(len([path for path in self.left() if path.startswith("ring-")]), 2)
        self.end([coordinator])
        self.assertEqual(self.left(), [])

    def test_a_daemon_that_is_stopped_lives(self):
        self.cluster.start(2)
        coordinator, other = self.coordinator_first()
        os.kill(coordinator, signal.SIGSTOP)
        self.end([other])
        self.assertTrue(os.path.exists(self.cluster.file), self.left())
        os.kill(coordinator, signal.SIGCONT)
        self.end([coordinator])
        self.assertEqual(self.left(), [])

    def test_durable_data_and_the_state_of_its_cluster_stay(self):
        folder = os.path.join(os.getcwd(), f"site-nvm-{os.getpid()}")  # /tmp may be memory without direct I/O.
        os.mkdir(folder)
        self.addCleanup(subprocess.run, ["rm", "-r", "-f", folder], check=True)
        options = ["--nvm-dir", folder, "--nvm-size", "128MiB"]
        self.cluster.start(2, options=options)
        self.good("namespace", "create", "kept", "--durability", "sync")
        self.good("put", "kept", "k", "v")
        self.end(self.coordinator_first())
        self.assertEqual(self.left(), [])
        self.assertTrue(glob.glob(folder + "/*/cluster-state"))
        self.assertEqual(self.kvctl("help").err, b"")
        self.cluster.start(2, options=options)
        self.assertEqual(self.good("get", "kept", "k"), b"v")
        self.good("stop")
        self.assertTrue(glob.glob(folder + "/*/cluster-state"))


class Losses(SiteTest):
    def put(self, space, count):
        if space != "default":
            self.good("namespace", "create", space)
        for i in range(count):
            self.good("put", space, f"key{i}", "value")

    def test_kvctl_says_once_what_a_signal_has_lost(self):
        self.cluster.start(2)
        self.put("default", 3)
        self.put("results", 2)
        self.end(self.coordinator_first())
        log = self.log_text()
        self.assertIn("ends by SIGTERM with data that was neither staged out nor durable; lost: ", log)
        # Completion of a shell throws away what is said.
        with open(os.devnull, "wb") as nowhere:
            subprocess.run([self.cluster.kvctl_path, "namespace", "list", "--names"], stdout=nowhere, stderr=nowhere,
                           env=self.cluster.environment, check=False)
        result = self.kvctl("get", "default", "key0", "--json")
        self.assertEqual(result.json()["ok"], False)
        said = result.err.decode()
        self.assertIn(f" on {socket.gethostname()} ended by SIGTERM at {time.strftime('%Y-%m-%d')}", said)
        self.assertRegex(said, r"'default' \(3 records, \d+ bytes\)")
        self.assertRegex(said, r"'results' \(2 records, \d+ bytes\)")
        self.assertNotIn(b"SIGTERM", result.out)
        self.assertNotIn(b"SIGTERM", self.kvctl("get", "default", "key0").err)
        self.assertFalse(os.path.exists(os.path.join(self.user_folder, "cluster.d", "lost")))

    def test_the_next_start_says_it_too(self):
        self.cluster.start(1)
        self.put("default", 1)
        self.end(self.coordinator_first(), signal.SIGINT)
        self.assertRegex(self.cluster.start(1).err.decode(), r"a daemon on \S+ ended by SIGINT .*'default' \(1 record, ")
        self.assertEqual(self.kvctl("status").err, b"")

    def test_nothing_is_said_where_nothing_is_lost(self):
        folder = os.path.join(self.cluster.folder, "saved")
        self.cluster.start(1)
        self.put("results", 2)
        self.good("stage", "out", "results", folder)
        self.end(self.coordinator_first())
        self.assertNotIn("lost", self.log_text())
        self.cluster.start(1)
        self.put("default", 2)
        self.good("stop", "--discard")
        self.assertNotIn(b"lost", self.kvctl("status").err)
        self.cluster.start(1)
        self.end(self.coordinator_first())
        self.assertNotIn(b"ended by", self.kvctl("status").err)

    def test_daemons_that_were_killed_are_said_to_have_vanished(self):
        self.cluster.start(2)
        self.put("default", 1)
        pids = self.coordinator_first()
        self.end(pids, signal.SIGKILL)
        line = self.bad(5, "get", "default", "key0", says="have vanished")
        self.assertIn(self.cluster.file, line)
        self.assertIn("SIGKILL", line)
        self.assertIn("kvctl start", line)


class Terminal:
    """A kvd whose standard streams are a terminal of its own."""

    def __init__(self, build, environment, *options):
        self.text = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            program = os.path.join(build, "bin", "kvd")
            os.execve(program, [program, *KVD_OPTIONS, *options], environment)

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def says(self, text, count=1):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.text.count(text) < count:
            assert time.monotonic() < deadline, f"never says {text!r}: {self.text}"
            if not select.select([self.descriptor], [], [], 1)[0]:
                continue
            try:
                self.text += os.read(self.descriptor, 65536).decode(errors="replace")
            except OSError as error:  # The other side is closed.
                raise AssertionError(f"ended without saying {text!r}: {self.text}") from error

    def code(self):
        """Its exit code, once it has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            if select.select([self.descriptor], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.descriptor, 65536).decode(errors="replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"does not end: {self.text}"

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)


class CtrlC(SiteTest):
    def terminal(self, *options):
        terminal = Terminal(self.build, self.cluster.environment, *options)
        self.addCleanup(terminal.close)
        terminal.says("kvd ready")
        return terminal

    def test_the_first_one_says_what_is_unsaved_and_the_second_one_ends(self):
        terminal = self.terminal()
        self.good("namespace", "create", "jobs")
        self.good("put", "default", "a", "1")
        self.good("put", "default", "b", "2")
        self.good("put", "jobs", "c", "3")
        terminal.type("\x03")
        terminal.says("Ctrl-C again within 10 s")
        self.assertRegex(terminal.text, r"3 records in namespaces 'default' \(2 records, \d+ bytes\), 'jobs' "
                                        r"\(1 record, \d+ bytes\) are unsaved")
        self.assertIn("kvctl stage out", terminal.text)
        # It serves as before.
        self.assertEqual(self.good("get", "default", "a"), b"1")
        terminal.type("\x03")
        self.assertEqual(terminal.code(), 0, terminal.text)
        self.assertIn("ends by SIGINT", terminal.text)
        self.assertEqual(self.left(), [])
        self.assertIn(b"ended by SIGINT", self.kvctl("status").err)

    def test_with_nothing_unsaved_the_first_one_ends(self):
        terminal = self.terminal()
        terminal.type("\x03")
        self.assertEqual(terminal.code(), 0, terminal.text)
        self.assertNotIn("unsaved", terminal.text)

    def test_sigterm_is_no_question(self):
        terminal = self.terminal()
        self.good("put", "default", "a", "1")
        terminal.type("\x03")
        terminal.says("Ctrl-C again")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.code(), 0, terminal.text)
        self.assertIn("ends by SIGTERM", terminal.text)
        self.kvctl("status")

    def test_a_terminal_that_goes_takes_the_daemon_along(self):
        terminal = self.terminal()
        self.good("put", "default", "a", "1")
        os.kill(terminal.pid, signal.SIGHUP)
        self.assertEqual(terminal.code(), 0, terminal.text)
        self.assertIn(b"ended by SIGHUP", self.kvctl("status").err)

    def test_signals_of_a_batch_system_end_no_daemon(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "1")
        [pid] = self.coordinator_first()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            os.kill(pid, number)
            wait_until(lambda number=number: f"{number.name} is left alone" in self.log_text())
        self.assertEqual(self.good("get", "default", "a"), b"1")
        self.end([pid], signal.SIGQUIT)
        self.assertIn(b"ended by SIGQUIT", self.kvctl("status").err)

    def test_without_a_terminal_the_first_one_ends(self):
        self.cluster.start(1)
        self.good("put", "default", "a", "1")
        self.end(self.coordinator_first(), signal.SIGINT)
        self.assertNotIn("Ctrl-C", self.log_text())
        self.assertIn(b"ended by SIGINT", self.kvctl("status").err)


class Page(SiteTest):
    def test_its_address_comes_with_the_host_and_an_ssh_line(self):
        self.cluster.environment["USER"] = "me"
        started = self.cluster.start(1).json()["result"]
        [node] = self.nodes_of()
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", node["metrics_url"]).group(1)
        host = socket.gethostname()
        tunnel = f"ssh -L {port}:127.0.0.1:{port} -N me@{host}"
        text = f"http://127.0.0.1:{port}/ on {host} (from elsewhere: {tunnel}, then http://127.0.0.1:{port}/)"
        self.assertEqual(node["metrics_tunnel"], tunnel)
        self.assertEqual(started["metrics_url"], node["metrics_url"])
        self.assertIn(text, self.good("status").decode())
        self.assertIn(text, self.log_text())
        # From a login node, where kvctl has submitted the job.
        behind = self.kvctl("status", environment={"SLURM_SUBMIT_HOST": "login1"}).out.decode()
        self.assertIn(f"-N -J me@login1 me@{host}", behind)
        self.good("stop")
        result = self.kvctl("start", "--local", "--memory", "64MiB", "--", *kvctl_support.QUIET)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out.decode(), rf"(?m)^status page     http://127\.0\.0\.1:\d+/ on {host} \(from elsewhere: ssh -L ")
        self.good("stop")
        self.cluster.start(1, more=["--metrics-port", "off"])
        self.assertNotIn(b"ssh", self.good("status"))
        self.assertIsNone(self.nodes_of()[0]["metrics_tunnel"])


class FullDisk(SiteTest):
    def test_a_full_file_system_is_refused_before_anything_is_taken(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        folder = os.path.join(self.cluster.folder, "small")
        os.mkdir(folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", folder], check=False).returncode != 0:
            self.skipTest("tmpfs cannot be mounted")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        code, _, err = self.kvd("--memory=64MiB", f"--nvm-dir={folder}", "--nvm-size=47MiB")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"kvd: \S+ cannot reserve 49283072 bytes \(47MiB\) in '.*': \d+ bytes \(4\dMiB\) are free, "
                              r"and \d+ bytes \(2MiB\) of the file system stay free for others")
        self.assertEqual(os.listdir(folder), [])
        result = self.kvctl("start", "--local", "2", "--memory", "128MiB", "--nvm-dir", folder, "--nvm-size", "94MiB")
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"cannot reserve", result.err)
        self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    sys.stdout.flush()
    kvctl_support.main()
