#!/usr/bin/python3
"""kvctl run inside a Slurm job: staging, a program of several ranks, and what is saved when the job must end."""

import json
import os
import subprocess

import slurm_support
from virtual_nodes import wait_until

RUN = "kvctl run --memory 128MiB"
FOUR = ("-N4", "--ntasks-per-node=1")

# A program that never ends by itself, and writes down that it was asked to.
STUBBORN = """#!/bin/bash
kvctl namespace create results >/dev/null 2>&1
echo first | kvctl put results first-$SLURM_PROCID -
trap 'echo last words | kvctl put results last-$SLURM_PROCID -; exit 0' TERM
echo RUNS
while :; do sleep 0.1; done
"""


class Run(slurm_support.SlurmTest):
    def setUp(self):
        super().setUp()
        self.data = self.path("in")
        os.makedirs(os.path.join(self.data, "deep"))
        for number in range(20):
            with open(os.path.join(self.data, "deep" if number % 2 else "", f"file{number}"), "wb") as file:
                file.write(os.urandom(10_000 * number))
        os.chmod(self.data, 0o755)

    def program(self, text, name="program"):
        return self.slurm.write(self.path(name), text)

    def files_of(self, name):
        return sorted(os.listdir(self.path(name)))

    def test_stage_in_four_ranks_stage_out(self):
        self.program("""#!/bin/bash
set -e
[ "$(kvctl get inputs deep/file3 | wc -c)" = 30000 ]
srun balance
kvctl get balance next >next
""")
        text = self.done(f"{RUN} --stage-in {self.data}:inputs --stage-out balance:out --stage-out inputs:copy "
                         "-- ./program; echo code=$?\n" + "until [ -e go ]; do sleep 0.1; [ -e go ] || touch go; done",
                         *FOUR)
        self.assertIn("code=0", text)
        self.assertIn("148933 primes", text)
        self.assertEqual(sum(line.startswith("rank ") for line in text.splitlines()), 4, text)
        subprocess.run(["diff", "-r", self.data, self.path("copy")], check=True)
        self.assertEqual(self.files_of("out"), ["next"])
        # 400 pieces, and once more for each rank.
        self.assertEqual(int.from_bytes(self.read_bytes("out", "next"), "little"), 404)
        self.assert_nothing_left()

    def read_bytes(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def test_the_exit_code_is_the_commands(self):
        text = self.done(f"""{RUN} -- sh -c 'exit 42'; echo code=$?
{RUN} -- srun sh -c 'exit 9'; echo code=$?
{RUN} -- sh -c 'kill -KILL $$'; echo code=$?
{RUN} -- /nowhere/program; echo code=$?
{RUN} --stage-in /nowhere:inputs -- true; echo code=$?
{RUN} --stage-out results:out -- false; echo code=$?
""", *FOUR)
        codes = [line for line in text.splitlines() if line.startswith("code=")]
        self.assertEqual(codes, ["code=42", "code=9", "code=137", "code=3", "code=3", "code=1"], text)
        self.assert_nothing_left()

    def test_a_failed_stage_out_leaves_the_daemons_with_the_data(self):
        text = self.done(f"""{RUN} --stage-out results:out -- sh -c '
kvctl namespace create results; echo a | kvctl put results a -; rm -r out; touch out'; echo code=$?
kvctl get results a; rm out; kvctl stage out results out; kvctl stop
""", *FOUR)
        self.assertIn("code=5", text)
        self.assertIn("not staged out: results", text)
        self.assertEqual(self.files_of("out"), ["a"])
        self.assert_nothing_left()

    def ends_early(self, job):
        """A job whose program is STUBBORN, in four ranks that were told to end, and whose results are saved."""
        code = job.wait()
        text = job.text()
        self.assertEqual(self.files_of("out"), [f"{word}-{rank}" for word in ("first", "last") for rank in range(4)],
                         job)
        self.assertIn("saved: results", text)
        self.assert_nothing_left()
        return code, text

    def test_before_the_deadline_the_program_is_ended_and_its_results_saved(self):
        self.program(STUBBORN)
        job = self.submit(f"{RUN} --deadline 45s --stage-out results:out -- srun ./program; echo code=$?", *FOUR)
        _, text = self.ends_early(job)
        self.assertIn("the walltime ends in", text)
        self.assertIn("code=0", text)  # Each rank has ended with 0 when it was told to.

    def test_the_walltime_of_the_job_is_known_and_may_be_extended(self):
        """Two jobs at the same time: a minute is the least that Slurm gives, of which 20 s are for saving."""
        self.program(STUBBORN)
        self.program("#!/bin/bash\nsrun ./program\n", "script")
        self.program("#!/bin/bash\necho RUNS; until [ -e go ]; do sleep 0.1; done\n"
                     "kvctl namespace create results; echo all | kvctl put results all -", "longer")
        share = ("--mem=1000", "--time=1")
        ended = self.submit(f"{RUN} --stage-out results:out -- ./script; echo code=$?", *FOUR, *share)
        extended = self.submit(f"{RUN} --cluster $PWD/x.json --stage-out results:out2 -- ./longer; echo code=$?", "-N1",
                               *share)
        extended.says("RUNS")
        self.slurm.control("update", f"JobId={extended.number}", "TimeLimit=10")
        ended.wait()
        # Later than it would have been ended, but for the extension.
        wait_until(lambda: extended.seconds() > 45, "time stands still", 60)
        self.program("", "go")
        self.assertEqual(extended.wait(), 0, extended)
        self.assertIn("code=0", extended.text())
        self.assertEqual(self.files_of("out2"), ["all"])
        _, text = self.ends_early(ended)
        self.assertIn("the walltime ends in", text)
        self.assertEqual(ended.state(), "COMPLETED")  # And not TIMEOUT.

    def test_scancel_saves(self):
        self.program(STUBBORN)
        job = self.submit(f"exec {RUN} --stage-out results:out --stage-out more:out2 -- srun ./program", *FOUR)
        wait_until(lambda: job.text().count("RUNS") == 4, lambda: str(job), 60)
        job.cancel()
        _, text = self.ends_early(job)
        self.assertIn("signal Terminated", text)
        self.assertEqual(job.state(), "CANCELLED")

    def two_namespaces(self):
        """`urgent` on the first node, `large` on the second one."""
        self.program("""#!/bin/bash
kvctl namespace create urgent --home 0; kvctl namespace create large --home 1
echo now | kvctl put urgent now -
head -c 20000000 /dev/urandom | kvctl put large large -
kvctl status --json >status.json
echo RUNS; exec sleep 600
""")

    def daemon_of(self, node_id):
        """The Node with that daemon."""
        with open(self.path("status.json"), encoding="utf-8") as file:
            nodes = json.load(file)["result"]["nodes"]
        return self.slurm.machines.nodes[next(node["host"] for node in nodes if node["node_id"] == node_id)]

    def test_what_could_not_be_saved_is_said(self):
        self.two_namespaces()
        job = self.submit(f"exec {RUN} --stage-out urgent:out --stage-out large:out2 -- ./program", "-N2")
        job.says("RUNS")
        self.daemon_of(1).run("pkill", "-KILL", "-x", "kvd")
        job.cancel()
        job.wait()
        self.assertEqual(self.files_of("out"), ["now"])
        self.assertIn("saved: urgent", job.text())
        self.assertIn("not staged out: large", job.text())

    def test_what_is_not_saved_in_time_is_said_in_time(self):
        self.two_namespaces()
        # A node that does nothing for long, and is not given up.
        job = self.submit(f"""export TIDEPOOL_LEASE_MS=120000
{RUN} --deadline 40s --stage-out urgent:out --stage-out large:out2 -- ./program; echo code=$?""", "-N2")
        job.says("RUNS")
        node = self.daemon_of(1)
        node.run("pkill", "-STOP", "-x", "kvd")
        self.addCleanup(subprocess.run, [*node.within(), "pkill", "-CONT", "-x", "kvd"], check=False)
        job.says("time is out; saved: urgent; not saved so far, and lost if all is killed now: large")
        self.assertEqual(self.files_of("out"), ["now"])
        # It comes back behind the end of what was tried then: that was not the last try.
        wait_until(lambda: "did not answer in time" in job.text().partition("time is out")[2], lambda: str(job), 60)
        node.run("pkill", "-CONT", "-x", "kvd")
        job.wait()
        self.assertIn("saved: urgent, large", job.text())
        self.assertEqual(self.files_of("out2"), ["large"])


if __name__ == "__main__":
    slurm_support.main()
