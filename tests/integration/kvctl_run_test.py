#!/usr/bin/python3
"""kvctl run, stop --stage-out and wait-ready: a cluster for one program, and nothing of it afterwards."""

import os
import signal
import subprocess
import time

import kvctl_support

# Of the walltime kvctl keeps so much for ending (walltime.h: kMarginMs).
MARGIN_SECONDS = 20


class RunTest(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        self.place = os.path.join(self.cluster.folder, self.id().rsplit(".", 1)[1])
        os.makedirs(self.place)
        self.file = self.path("run.json")
        self.environment = {"TIDEPOOL_CLUSTER": self.file}
        self.addCleanup(self.end_daemons)

    def path(self, *names):
        return os.path.join(self.place, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def daemons(self):
        """Numbers of those whose command line names this test's connection file."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"/kvd") and self.file.encode() in words and kvctl_support.alive(int(pid)):
                found.append(int(pid))
        return found

    def end_daemons(self):
        for pid in self.daemons():
            os.kill(pid, signal.SIGKILL)
            kvctl_support.wait_until(lambda pid=pid: not kvctl_support.alive(pid))

    def nothing_is_left(self):
        self.assertEqual(self.daemons(), [])
        left = [name for name in os.listdir(self.place) if name.startswith("run.")]
        self.assertEqual(left, [])

    def arguments(self, *options, program):
        return ["run", "--local", "--memory", "64MiB", *options, "--", *program]

    def run_program(self, *options, program, **more):
        return self.kvctl(*self.arguments(*options, program=program), environment=self.environment, **more)

    def begin(self, *options, program, has_begun=None):
        """The same in the background, once the program has made the file `begun`."""
        has_begun = has_begun or (lambda _: os.path.exists(self.path("begun")))
        errors = open(self.path("errors"), "wb")
        running = subprocess.Popen(
            [self.cluster.kvctl_path, *self.arguments(*options, program=program)], stderr=errors, cwd=self.place,
            env={**self.cluster.environment, **self.environment})
        errors.close()

        def end():
            running.kill()
            running.wait()

        self.addCleanup(end)
        kvctl_support.wait_until(lambda: running.poll() is not None or has_begun(running))
        self.assertIsNone(running.poll(), self.read("errors"))
        return running

    def staging(self, running):
        """Numbers of the processes by which `running` stages in."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(") ")[2].split()[1])
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    is_it = parent == running.pid and b"\0stage\0in\0" in file.read()
            except OSError:
                continue
            if is_it:
                found.append(int(pid))
        return found

    def shell(self, script):
        kvctl = self.cluster.kvctl_path
        return ["sh", "-c", f"kvctl() {{ {kvctl} \"$@\"; }}; cd {self.place}; {script}"]


class Run(RunTest):
    def test_what_is_staged_in_is_there_and_what_is_made_is_staged_out(self):
        self.write("in/a.txt", "alpha")
        result = self.run_program(
            "--stage-in", self.path("in") + ":inputs", "--stage-out", "results:" + self.path("out"),
            program=self.shell("kvctl namespace create results && kvctl put results b.txt \"$(kvctl get inputs a.txt)\""))
        self.assertEqual(result.code, 0, result)
        self.assertEqual(self.read("out/b.txt"), "alpha")
        self.nothing_is_left()

    def test_a_connection_file_that_is_given_is_that_of_all_its_steps(self):
        self.environment["TIDEPOOL_CLUSTER"] = self.path("another.json")
        result = self.run_program("--cluster", self.file, "--stage-out", "default:" + self.path("out"),
                                  program=self.shell("kvctl put default kept yes"))
        self.assertEqual(result.code, 0, result)
        self.assertEqual(self.read("out/kept"), "yes")
        self.nothing_is_left()
        self.assertEqual(os.listdir(self.place), ["out"])

    def test_standard_output_is_the_programs(self):
        result = self.run_program(program=["echo", "only this"])
        self.assertEqual((result.code, result.out), (0, b"only this\n"), result)

    def test_standard_input_is_the_programs(self):
        result = self.run_program(program=["cat"], stdin=b"from a pipe")
        self.assertEqual((result.code, result.out), (0, b"from a pipe"), result)

    def test_its_exit_code_is_that_of_the_program_which_is_saved_all_the_same(self):
        result = self.run_program("--stage-out", "default:" + self.path("out"),
                                  program=self.shell("kvctl put default kept yes && exit 7"))
        self.assertEqual(result.code, 7, result)
        self.assertEqual(self.read("out/kept"), "yes")
        self.nothing_is_left()

    def test_a_program_that_does_not_exist(self):
        for program in ("/no/such/program", "no-such-program", self.place):
            self.bad(3, *self.arguments(program=[program]), environment=self.environment,
                     says=f"cannot run '{program}': there is no such program")
            self.nothing_is_left()
        self.write("text", "no program")
        self.bad(1, *self.arguments(program=[self.path("text")]), environment=self.environment, says="chmod +x")
        self.nothing_is_left()

    def test_a_program_without_dashes_is_told_of_them(self):
        remedy = "write -- before the program: 'kvctl run [OPTION]... -- "
        for arguments, says in (
                (("--local",), "there is no program to run (write it behind --: "),
                (("--local", "1", "--"), "there is no program to run (write it behind --: "),
                (("--local", "1", "mpirun", "-n", "4", "./a"),
                 f"'-n' stands behind 'mpirun' and may be an option of either ({remedy}mpirun -n 4 ./a')"),
                (("--local", "1", "cat", "--memory", "1GiB"), f"({remedy}cat --memory 1GiB')"),
                (("--local", "cat", "--memory", "1GiB"), f"({remedy}cat --memory 1GiB')"),
                (("--verbose", "cat"), f"run has no option '--verbose' (if it is an option of the program, {remedy}PROGRAM --verbose')"),
                (("--stage-inn", "a:b", "--", "cat"), "did you mean: --stage-in")):
            self.bad(2, "run", *arguments, environment=self.environment, says=says)
            self.nothing_is_left()

    def test_each_error_is_printed_once(self):
        self.bad(2, "run", "--local", "--memory", "1MiB", "--", "true", environment=self.environment, says="--memory 1MiB")
        self.nothing_is_left()
        self.good("start", "--local", "--memory", "64MiB", environment=self.environment)
        self.bad(1, *self.arguments(program=["true"]), environment=self.environment, says="runs already")
        self.good("stop", environment=self.environment)
        self.nothing_is_left()

    def kvd_that(self, does):
        """A program in the place of kvd: `does` is a line of shell, $kvd the real one."""
        self.write("kvd", f"#!/bin/sh\nkvd={self.build}/bin/kvd\n{does}\n")
        os.chmod(self.path("kvd"), 0o755)
        self.environment["TIDEPOOL_KVD"] = self.path("kvd")

    def children_of_kvd(self):
        """Numbers of processes that the program in the place of kvd has become."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    is_it = f"TIDEPOOL_KVD={self.path('kvd')}".encode() in file.read().split(b"\0")
            except OSError:
                continue
            if is_it and kvctl_support.alive(int(pid)):
                found.append(int(pid))
        return found

    def test_a_start_that_fails_half_way_leaves_no_daemon(self):
        self.kvd_that(f'mkdir {self.path("first")} 2>/dev/null && exec "$kvd" "$@"; echo "kvd: broken"; exit 1')
        result = self.kvctl("run", "--local", "2", "--memory", "128MiB", "--", "true", environment=self.environment)
        self.assertEqual(result.code, 1, result)
        errors = [line for line in result.err.splitlines() if b"ended while starting" in line]
        self.assertEqual(len(errors), 1, result)
        self.assertIn(b"broken", errors[0])
        self.assertEqual(self.daemons() + self.children_of_kvd(), [])
        self.assertFalse(os.path.exists(self.file))

    def test_a_signal_while_daemons_start_leaves_nothing(self):
        self.kvd_that(f'touch {self.path("starts")}; exec sleep 1000')
        for verb in (("run", "--local", "--memory", "64MiB", "--", "touch", self.path("begun")),
                     ("start", "--local", "--memory", "64MiB")):
            for number in (signal.SIGINT, signal.SIGTERM):
                running = subprocess.Popen([self.cluster.kvctl_path, *verb], stderr=subprocess.PIPE, cwd=self.place,
                                           env={**self.cluster.environment, **self.environment})
                kvctl_support.wait_until(lambda: os.path.exists(self.path("starts")))
                running.send_signal(number)
                _, errors = running.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
                self.assertEqual(running.returncode, 128 + number, errors)
                self.assertEqual(errors.count(b"\n"), 1, errors)
                self.assertIn(b"interrupted", errors)
                self.assertEqual(self.children_of_kvd(), [])
                self.nothing_is_left()
                os.remove(self.path("starts"))
        self.assertFalse(os.path.exists(self.path("begun")))

    def test_a_daemon_that_does_not_stop_is_killed(self):
        running = self.begin(program=self.shell("touch begun; exec sleep 1000"))
        daemon, = self.daemons()
        os.kill(daemon, signal.SIGSTOP)
        running.terminate()
        self.assertNotEqual(running.wait(timeout=kvctl_support.PATIENCE_SECONDS), 0)
        self.assertIn("killed 1 daemon of this machine", self.read("errors"))
        self.nothing_is_left()

    def test_a_signal_that_a_user_defines_is_the_programs(self):
        running = self.begin(program=self.shell("trap 'touch told; exit 9' USR1; touch begun; while :; do sleep 0.1; done"))
        running.send_signal(signal.SIGUSR1)
        self.assertEqual(running.wait(timeout=kvctl_support.PATIENCE_SECONDS), 9)
        self.assertTrue(os.path.exists(self.path("told")))
        self.nothing_is_left()

    def test_a_directory_that_cannot_be_staged_in_ends_it_before_the_program(self):
        result = self.run_program("--stage-in", self.path("missing") + ":inputs",
                                  program=self.shell("touch begun"))
        self.assertNotEqual(result.code, 0)
        self.assertIn(b"missing", result.err)
        self.assertFalse(os.path.exists(self.path("begun")))
        self.nothing_is_left()

    def test_words_that_are_no_namespace_and_directory_start_nothing(self):
        for option, text in (("--stage-out", "results"), ("--stage-out", ":out"), ("--stage-in", "in:"), ("--stage-in", "in")):
            result = self.run_program(option, text, program=["true"])
            self.assertEqual(result.code, 2, result)
            self.assertIn(option.encode(), result.err)
            self.nothing_is_left()

    def test_what_cannot_be_saved_stays_in_the_daemons(self):
        result = self.run_program("--stage-out", "nothing:" + self.path("out"),
                                  program=self.shell("kvctl put default kept yes"))
        self.assertNotEqual(result.code, 0)
        self.assertIn(b"not staged out: nothing", result.err)
        self.assertIn(b"the daemons still run", result.err)
        self.assertEqual(self.good("get", "default", "kept", environment=self.environment), b"yes")
        self.good("stop", "--discard", environment=self.environment)
        self.nothing_is_left()

    def test_a_live_cluster_of_that_file_is_left_alone(self):
        self.good("start", "--local", "--memory", "64MiB", environment=self.environment)
        result = self.run_program(program=["true"])
        self.assertNotEqual(result.code, 0)
        self.assertIn(b"runs already", result.err)
        self.good("stop", environment=self.environment)
        self.nothing_is_left()


class Ending(RunTest):
    """A program that does not end by itself, when its time is over."""

    WAITS = "kvctl put default kept yes && touch begun && exec sleep 1000"

    def saved(self, running, says):
        code = running.wait(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(code, 0)
        self.assertEqual(self.read("out/kept"), "yes")
        self.assertIn(says, self.read("errors"))
        self.nothing_is_left()

    def test_a_batch_system_that_ends_the_job(self):
        running = self.begin("--stage-out", "default:" + self.path("out"), program=self.shell(self.WAITS))
        # All processes of a job at once, the daemons first.
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        running.terminate()
        self.saved(running, "signal Terminated")

    def test_while_it_stages_in(self):
        for i in range(20_000):
            self.write(f"in/{i}", str(i))
        running = self.begin("--stage-in", self.path("in") + ":inputs", program=self.shell("touch begun"),
                             has_begun=self.staging)
        daemon, = self.daemons()
        os.kill(daemon, signal.SIGSTOP)  # So it would take for ever.
        running.terminate()
        kvctl_support.wait_until(lambda: not self.staging(running))
        os.kill(daemon, signal.SIGCONT)
        self.assertEqual(running.wait(timeout=kvctl_support.PATIENCE_SECONDS), 128 + signal.SIGTERM)
        self.assertIn("a signal came before the program began", self.read("errors"))
        self.assertFalse(os.path.exists(self.path("begun")))
        self.nothing_is_left()

    def test_the_end_of_the_walltime(self):
        begin = time.monotonic()
        running = self.begin("--deadline", f"{MARGIN_SECONDS + 5}s", "--stage-out", "default:" + self.path("out"),
                             program=self.shell(self.WAITS))
        self.saved(running, "the walltime ends in")
        self.assertLess(time.monotonic() - begin, MARGIN_SECONDS + 5)

    def test_one_that_ignores_SIGTERM_is_killed(self):
        running = self.begin("--stage-out", "default:" + self.path("out"),
                             program=self.shell("trap '' TERM; " + self.WAITS))
        running.terminate()
        self.saved(running, "does not end: killed")


class StopAndWait(RunTest):
    def start(self):
        self.good("start", "--local", "--memory", "64MiB", environment=self.environment)

    def test_stop_stages_out_first_and_then_loses_nothing(self):
        self.start()
        self.good("put", "default", "a", "1", environment=self.environment)
        self.bad(1, "stop", says="default (1 record", environment=self.environment)
        self.good("stop", "--stage-out", "default:" + self.path("out"), environment=self.environment)
        self.assertEqual(self.read("out/a"), "1")
        self.nothing_is_left()

    def test_stop_that_cannot_stage_out_stops_nothing(self):
        self.start()
        result = self.kvctl("stop", "--discard", "--stage-out", "nothing:" + self.path("out"), environment=self.environment)
        self.assertNotEqual(result.code, 0)
        self.assertIn(b"the daemons still run", result.err)
        self.assertEqual(len(self.daemons()), 1)
        self.good("stop", environment=self.environment)
        self.nothing_is_left()

    def test_stop_leaves_nothing_of_a_cluster_with_a_dead_node(self):
        for has_been_noticed in (False, True):
            with self.subTest(has_been_noticed=has_been_noticed):
                self.good("start", "--local", "2", "--memory", "128MiB", environment=self.environment)
                dead = self.kvctl("status", "--json", environment=self.environment).json()["result"]["nodes"][1]
                os.kill(dead["pid"], signal.SIGKILL)
                if has_been_noticed:
                    kvctl_support.wait_until(lambda: b" down" in self.kvctl("status", environment=self.environment).out)
                self.bad(1, "stop", says="does not answer", environment=self.environment)
                self.good("stop", "--discard", environment=self.environment)
                self.nothing_is_left()

    def test_stop_of_nothing_says_so(self):
        result = self.kvctl("stop", environment=self.environment)
        self.assertEqual(result.code, 5, result)

    def test_wait_ready_waits_for_all_nodes(self):
        kvd = os.path.join(self.build, "bin", "kvd")
        environment = {**self.cluster.environment, **self.environment}

        def start(number):
            with open(self.path(f"{number}.log"), "wb") as log:
                daemon = subprocess.Popen([kvd, "--nodes=2", "--memory=64MiB", "--interface=lo", "--wait=block",
                                           "--cluster", self.file], env=environment, stdout=log, stderr=log)
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)

        self.bad(4, "wait-ready", "--timeout", "300ms", environment=self.environment)
        start(0)
        kvctl_support.wait_until(lambda: os.path.exists(self.file))
        self.bad(4, "wait-ready", "--timeout", "300ms", says="do not all serve", environment=self.environment)
        start(1)
        self.assertIn(b"2 nodes serve", self.good("wait-ready", environment=self.environment))


if __name__ == "__main__":
    kvctl_support.main()
