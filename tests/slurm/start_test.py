#!/usr/bin/python3
"""kvctl start, wait-ready and stop inside a Slurm job, and on machines named by --hosts."""

import json
import os
import subprocess

import slurm_support
from virtual_nodes import processes, wait_until

START = "kvctl start --memory 128MiB"
# The job stays, so that what is left behind is not tidied up by Slurm.
STAY = "echo STAYS\nuntil [ -e go ]; do sleep 0.1; done\n"


class InAJob(slurm_support.SlurmTest):
    def go(self, job, code=0):
        self.slurm.write(self.path("go"), "")
        self.assertEqual(job.wait(), code, job)

    def test_one_daemon_per_node_serves_and_stop_leaves_nothing(self):
        job = self.submit(f"""set -e
{START}
kvctl status --json > status.json
kvctl ping
for i in 1 2 3; do kvctl put default key$i value$i; done
srun sh -c 'kvctl get default key2 && echo'
srun --overlap sh -c 'taskset -cp $(pgrep -x kvd) | sed "s/.*: /CPUs /"'
kvctl wait-ready --timeout 10s
if kvctl stop; then exit 9; fi
kvctl stop --discard
{STAY}""", "-N4", "--ntasks-per-node=1", "--exclusive")
        job.says("STAYS")
        text = job.text()
        self.assertIn("started 4 daemons", text)
        self.assertEqual(text.count("value2\n"), 4, text)
        # Of `--cpus-per-task=1`: the daemon's threads are bound to what its step was given.
        masks = [line.split()[1] for line in text.splitlines() if line.startswith("CPUs ")]
        self.assertEqual(len(masks), 4, text)
        self.assertTrue(all(mask.isdigit() for mask in masks), text)
        nodes = json.loads(self.read("status.json"))["result"]["nodes"]
        self.assertEqual(sorted(node["host"] for node in nodes), ["n1", "n2", "n3", "n4"])
        self.assertIn("4 nodes serve", text)
        self.assertIn("stopping would lose", text)
        self.assertIn("default (3 records", text)
        self.assertIn("stopped 4 daemons", text)
        self.assert_nothing_left()
        self.go(job)

    def test_memory_is_half_of_what_the_job_was_granted(self):
        text = self.done("kvd --print-config | grep ^memory; env | grep SLURM_MEM", "-N1", "--mem=1000")
        self.assertIn('memory = "500MiB"', text)
        # A job step of one CPU, of a job that has two.
        text = self.done("srun --overlap --cpus-per-task=1 -n1 kvd --print-config | grep ^memory", "-N1", "-n1",
                         "--cpus-per-task=2", "--mem-per-cpu=300")
        self.assertIn('memory = "300MiB"', text)
        text = self.done("""kvctl start && kvctl status --json >status.json; kvctl stop""", "-N2",
                         "--ntasks-per-node=1", "--mem=600")
        nodes = json.loads(self.read("status.json"))["result"]["nodes"]
        self.assertEqual([node["memory"]["limit_bytes"] >> 20 for node in nodes], [300, 300], text)

    def test_the_end_of_the_job_removes_its_files_and_kvctl_says_what_was_lost(self):
        job = self.submit(f"{START}\nkvctl put default a b; {STAY}", "-N3", "--ntasks-per-node=1")
        job.says("STAYS")
        self.assertTrue([name for name in os.listdir(self.folder) if name.endswith(".token")])
        job.cancel()
        job.wait()
        file = self.path(f"tidepool-{job.number}.json")
        wait_until(lambda: not os.path.exists(file), lambda: f"{file} stays", 60)
        # The daemons have ended in good order: only logs and the record are left.
        wait_until(lambda: not any(node.processes("kvd") for node in self.slurm.machines.nodes.values()), "kvd runs")
        left = [name for name in os.listdir(self.folder) if name.startswith("tidepool")]
        self.assertEqual(left, [f"tidepool-{job.number}.d"])
        self.assertEqual(sorted(os.listdir(self.path(left[0]))), ["logs", "lost"])
        done = self.slurm.user("kvctl", "--cluster", file, "status", check=False)
        self.assertIn("ended by SIGTERM", done.stderr)
        self.assertIn("'default' (1 record, ", done.stderr)

    def test_start_and_stop_may_be_said_twice(self):
        text = self.done(f"""{START}; echo first=$?
{START}; echo second=$?
kvctl put default a b
kvctl stop --discard; echo stopped=$?
kvctl stop; echo again=$?
{START}; echo third=$?
kvctl get default a; echo gone=$?
kvctl stop; echo end=$?
""", "-N4", "--ntasks-per-node=1")
        for line in ("first=0", "second=1", "a cluster runs already", "stopped=0", "third=0", "gone=3", "end=0"):
            self.assertIn(line, text)
        self.assertNotIn("again=0", text)

    def start_fails(self, before, *says, script=START):
        job = self.submit(f"{before}\n{script}\necho code=$?\n{STAY}", "-N4", "--ntasks-per-node=1")
        job.says("STAYS")
        text = job.text()
        self.assertIn("code=1\n", text)
        for word in says:
            self.assertIn(word, text)
        self.assertNotIn("started", text)
        try:
            wait_until(lambda: not any(node.processes(name) for node in self.slurm.machines.nodes.values()
                                       for name in ("kvd", "srun")), "", 60)
        except AssertionError:
            self.fail(f"left: {self.left_behind()}")
        self.go(job)
        return text

    def test_a_node_that_cannot_start_is_named_and_the_others_end(self):
        taken = self.slurm.machines.path("local", "nvm")
        for name, node in self.slurm.machines.nodes.items():
            node.run("sh", "-c", f"echo is a file >{taken}" if name == "n3" else f"mkdir -m 777 {taken}")
            self.addCleanup(node.run, "rm", "-r", "-f", taken)
        self.start_fails("", "node n3", taken, script=f"{START} --nvm-dir {taken} --nvm-size 64MiB")

    def test_a_daemon_that_is_killed_while_starting_is_named_with_the_end_of_its_log(self):
        # A step's program in kvd's place, so that one node's is killed before it says anything.
        self.slurm.write(self.path("kvd"), """#!/bin/bash
if [ "$(hostname)" = n2 ]; then echo "the last words of n2"; kill -KILL $$; fi
exec "$REAL_KVD" "$@"
""")
        self.start_fails('export REAL_KVD=$(which kvd) TIDEPOOL_KVD=$PWD/kvd', "node n2", "the last words of n2")

    def test_a_node_without_the_program_is_named(self):
        # As where a user has installed it on one node's own disk.
        program = self.slurm.machines.path("local", "kvd")
        for name, node in self.slurm.machines.nodes.items():
            if name != "n4":
                node.run("ln", "-s", self.slurm.machines.path("build", "bin", "kvd"), program)
                self.addCleanup(node.run, "rm", program)
        self.start_fails(f"export TIDEPOOL_KVD={program}", "node n4", "No such file")

    def test_stop_stages_out_first(self):
        self.done(f"""set -e
{START}
kvctl namespace create results
for i in 1 2 3; do echo result $i | kvctl put results r$i -; done
kvctl stop --stage-out results:$PWD/out
""", "-N4", "--ntasks-per-node=1")
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["r1", "r2", "r3"])
        self.assertEqual(self.read("out", "r2"), "result 2\n")

    def test_clusters_on_the_same_nodes_never_meet(self):
        other_folder = self.slurm.folder("of-the-other-user")
        os.chown(other_folder, 1, 1)
        script = f"""{START} && kvctl put default who $USER_IS && echo STARTED
until [ -e go ]; do sleep 0.1; done
echo it is $(kvctl get default who); kvctl stop --discard; echo code=$?"""
        options = ("-N4", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=1000", "--oversubscribe")
        first = self.submit(f"USER_IS=first\n{script}", *options)
        first.says("STARTED")
        path = self.slurm.write(os.path.join(other_folder, "job.sh"), f"#!/bin/bash\nUSER_IS=second\n{script}")
        number = self.slurm.user("sbatch", "--parsable", f"--output={other_folder}/out", *options, path,
                                 cwd=other_folder, user="daemon").strip()
        second = slurm_support.Job(self.slurm, number, os.path.join(other_folder, "out"))
        self.jobs.append(second)
        second.says("STARTED")
        for folder in (self.folder, other_folder):
            self.slurm.write(os.path.join(folder, "go"), "")
        self.assertEqual((first.wait(), second.wait()), (0, 0))
        for job, word in (first, "it is first"), (second, "it is second"):
            self.assertIn(word, job.text())
            self.assertIn("code=0", job.text())

    def test_a_crashed_node_shows_in_the_status_within_seconds(self):
        job = self.submit(f"""{START} || exit 1
kvctl put default here yes; echo READY
until kvctl status --json > status.json; grep -q '"state":"down"' status.json; do sleep 0.2; done
echo SEEN
sleep 600""", "-N4", "--ntasks-per-node=1", "--no-kill")
        job.says("READY")
        # The batch script runs on the first one.
        node = self.slurm.machines.nodes["n4"]
        node.crash()
        self.addCleanup(self.bring_back, "n4")
        # The lease is 2 s. Slurm itself needs SlurmdTimeout: 10 s here, 300 s by default.
        job.says("SEEN")
        nodes = json.loads(self.read("status.json"))["result"]["nodes"]
        self.assertEqual({node["host"]: node["state"] for node in nodes},
                         {"n1": "up", "n2": "up", "n3": "up", "n4": "down"})
        self.assertEqual(job.state(), "RUNNING")

    def bring_back(self, name):
        self.slurm.machines.again(name)
        self.slurm.start_slurmd(name)
        self.end_jobs()
        # It waits for the task of the node that crashed, which came back before Slurm could miss it; and as a daemon's
        # child it is none of the job's to proctrack/linuxproc.
        for node in self.slurm.machines.nodes.values():
            node.run("sh", "-c", "pkill -KILL -x srun || true")
        wait_until(lambda: self.slurm.idle_nodes() == self.nodes, self.slurm.logs)


class ByHosts(slurm_support.SlurmTest):
    """As root, which alone may enter a virtual node from another one, and with the words that ssh would be given:
    it joins them by blanks, and a shell on the other side takes them apart."""

    def setUp(self):
        super().setUp()
        nodes = "\n".join(f"  {name}) within='{' '.join(node.within())}' ;;"
                          for name, node in self.slurm.machines.nodes.items())
        self.ssh = self.slurm.write(self.path("ssh"), f"""#!/bin/bash
case $1 in
{nodes}
  *) echo "ssh: Could not resolve hostname $1" >&2; exit 255 ;;
esac
shift
exec $within setpriv --no-new-privs bash -c "$*"
""")
        self.environment = {**os.environ, "TIDEPOOL_KVCTL_SSH": self.ssh}
        self.file = self.path("my cluster.json")
        self.addCleanup(lambda: self.kvctl("stop", "--discard", check=False))

    def kvctl(self, *arguments, check=True):
        done = subprocess.run(
            ["kvctl", *arguments, "--cluster", self.file], capture_output=True, text=True, check=False,
            cwd=self.folder, env=self.environment, timeout=slurm_support.PATIENCE_SECONDS)
        if check:
            self.assertEqual(done.returncode, 0, done)
        return done

    def test_hosts(self):
        with open(self.path("hosts"), "w", encoding="utf-8") as file:
            file.write("n1\n# not n2\nn3  # the third\n\n")
        text = self.kvctl("start", "--hostfile", self.path("hosts"), "--memory", "128MiB").stdout
        self.assertIn("started 2 daemons", text)
        nodes = json.loads(self.kvctl("status", "--json").stdout)["result"]["nodes"]
        self.assertEqual(sorted(node["host"] for node in nodes), ["n1", "n3"])
        self.kvctl("put", "default", "greeting", "hello")
        self.assertEqual(self.kvctl("start", "--hosts", "n1,n3", check=False).returncode, 1)
        self.assertIn("stopped 2 daemons", self.kvctl("stop", "--discard").stdout)
        self.assert_nothing_left()
        self.assertEqual(sorted(os.listdir(self.folder)), ["hosts", "ssh"])

    def test_a_host_that_cannot_start_is_named_and_the_others_end(self):
        taken = self.slurm.machines.path("local", "nvm")
        for name in ("n1", "n2", "n3"):
            node = self.slurm.machines.nodes[name]
            node.run("touch" if name == "n2" else "mkdir", taken)
            self.addCleanup(node.run, "rm", "-r", "-f", taken)
        for hosts, says in ("n1,n2,n3", "n2"), ("n1,nowhere", "nowhere"):
            done = self.kvctl("start", "--hosts", hosts, "--memory", "128MiB", "--nvm-dir", taken, "--nvm-size",
                              "64MiB", check=False)
            self.assertEqual(done.returncode, 1 if says == "n2" else 5, done)
            self.assertIn(says, done.stderr)
            self.assertEqual([name for name, node in self.slurm.machines.nodes.items() if node.processes("kvd")], [])

    def test_this_machine_may_be_among_them(self):
        self.assertIn("started 2 daemons",
                      self.kvctl("start", "--hosts", "login,n2", "--memory", "128MiB").stdout)
        self.kvctl("ping")
        self.kvctl("stop")
        self.assert_nothing_left()
        self.assertEqual(processes("kvd"), 0)


if __name__ == "__main__":
    slurm_support.main()
