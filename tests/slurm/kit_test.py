#!/usr/bin/python3
"""deploy/slurm as a site installs it: batch script template, prolog and epilog, burst-buffer plug-in."""

import os
import shutil
import subprocess

import slurm_support
from virtual_nodes import wait_until

KIT = os.path.join(slurm_support.ROOT, "deploy", "slurm")
FOUR = ("-N4", "--ntasks-per-node=1")


class Kit(slurm_support.SlurmTest):
    @classmethod
    def configure(cls, machines):
        for name in ("burst_buffer.lua", "burst_buffer.conf", "prolog", "epilog"):
            shutil.copy(os.path.join(KIT, name), machines.path(name))
        with open(os.path.join(KIT, "tidepool.conf"), encoding="utf-8") as file:
            text = file.read()
        assert "\nlocal_disk=/local\n" in text
        with open(machines.path("tidepool.conf"), "w", encoding="utf-8") as file:
            file.write(text.replace("local_disk=/local", "local_disk=" + machines.path("local")))
        return (f"BurstBufferType=burst_buffer/lua\nProlog={machines.path('prolog')}\n"
                f"Epilog={machines.path('epilog')}\n")

    def refused(self, lines, says):
        path = self.slurm.write(self.path("job.sh"), f"#!/bin/bash\n{lines}\ntrue\n")
        done = self.slurm.user("sbatch", path, cwd=self.folder, check=False)
        self.assertNotEqual(done.returncode, 0, done)
        self.assertIn(says, done.stderr)

    def test_directives_are_checked_at_submission(self):
        for lines, says in (
                ("#KV memory much", "line 2: #KV memory much: 'much' is no size"),
                ("#KV memory 150%", "is no size"),
                ("#KV memory 50%\n#KV memory 60%", "line 3: #KV memory 60%: 'memory' stands there twice"),
                ("#KV nvm", "is not '#KV NAME VALUE'"),
                ("#KV color red", "'color' is none of memory, nvm, stage_in, stage_out"),
                ("#KV stage_in relative:inputs", "is not DIRECTORY:NAMESPACE"),
                ("#KV stage_in /a/b", "is not DIRECTORY:NAMESPACE"),
                ("#KV stage_out results:/a$(x)", "is not NAMESPACE:DIRECTORY"),
                ("#KV stage_out a;b:/a", "is not NAMESPACE:DIRECTORY")):
            with self.subTest(lines):
                self.refused(lines, says)

    def test_directives_become_options_of_the_job(self):
        text = self.done("""#KV memory 50%
#KV nvm 200GiB
#KV stage_in /scratch/in:inputs
#KV stage_out results:/scratch/out
echo "[$TIDEPOOL_RUN_OPTIONS] $SLURM_JOB_ID"
""")
        job = text.split()[-1]
        disk = self.slurm.machines.path("local", f"tidepool-{job}")
        self.assertIn(f"[--memory 50% --nvm-dir {disk} --nvm-size 200GiB --stage-in /scratch/in:inputs "
                      "--stage-out results:/scratch/out]", text)

    def test_jobs_without_directives_are_left_alone(self):
        self.assertEqual(self.done('echo "[$TIDEPOOL_RUN_OPTIONS]"'), "[]\n")

    def test_each_node_has_a_folder_of_its_disk_for_the_job(self):
        text = self.done(f"""d={self.slurm.machines.path('local')}/tidepool-$SLURM_JOB_ID
srun sh -c "stat -c '%U %a' $d; echo mine >$d/file; ls $d"
""", *FOUR)
        self.assertEqual(sorted(text.split("\n")), sorted(4 * ["nobody 700", "file"] + [""]))
        self.assert_nothing_left()

    def test_a_folder_that_somebody_else_has_put_there_is_not_the_jobs(self):
        """A user may guess the number of the next job, on a disk that all may write to."""
        victim = self.slurm.machines.path("local", "victim")
        node = self.slurm.machines.nodes["n1"]
        node.run("sh", "-c", f"mkdir -m 755 {victim}; touch {victim}/precious")
        self.addCleanup(node.run, "rm", "-rf", victim)
        last = int(self.done("echo $SLURM_JOB_ID"))
        for number in (last + 1, last + 2):
            path = self.slurm.machines.path("local", f"tidepool-{number}")
            node.run("setpriv", "--reuid", "daemon", "--clear-groups", "ln", "-s", victim, path)
            self.addCleanup(node.run, "rm", "-rf", path)
        text = self.done(f"stat -c '%F %U' {self.slurm.machines.path('local')}/tidepool-$SLURM_JOB_ID", "-w", "n1")
        self.assertEqual(text, "directory nobody\n")
        self.assertEqual(node.run("stat", "-c", "%U", victim), "root\n")
        wait_until(lambda: self.slurm.idle_nodes() == self.nodes, "the epilog does not end")
        node.run("test", "-e", f"{victim}/precious")

    def test_what_a_job_leaves_running_is_ended(self):
        """A daemon that Slurm has lost sight of: a process of another one's."""
        text = self.done("kvctl start --memory 128MiB && echo $SLURM_JOB_ID", "-N1")
        self.assertIn("started 1 daemon", text)
        self.assert_nothing_left_but_files()
        # One that Slurm does not know of at all.
        node = self.slurm.machines.nodes["n1"]
        job = self.submit("echo UP; sleep 600", "-w", "n1")
        job.says("UP")
        env = ["env", f"SLURM_JOB_ID={job.number}", "HOME=/tmp"]
        daemon = subprocess.Popen([*node.within(), *self.slurm.as_user(), *env, "kvd", "--memory=64MiB", "--interface",
                                   "lo", "--cluster", self.path("stray.json")], stderr=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(daemon.kill)
        wait_until(lambda: os.path.exists(self.path("stray.json")), "the daemon does not come up")
        job.cancel()
        job.wait()
        self.assertNotEqual(daemon.wait(timeout=60), 0)
        self.assert_nothing_left_but_files()

    def assert_nothing_left_but_files(self):
        """On the nodes; what killed daemons had on the shared file system stays."""
        def left():
            return [line for line in self.left_behind() if line.startswith("n")]
        try:
            wait_until(lambda: not left(), "", 20)
        except AssertionError:
            self.fail(f"left behind: {left()}")

    def test_the_template_stages_in_runs_and_stages_out(self):
        inputs = self.slurm.folder(os.path.join(os.path.basename(self.folder), "in"))
        for number in range(8):
            self.slurm.write(os.path.join(inputs, f"text{number}"), "word " * number)
        self.slurm.write(self.path("simulate"), """#!/bin/bash
kvctl namespace create results >/dev/null
for key in $(kvctl keys inputs | sort | awk -v r=$SLURM_PROCID 'NR % 4 == r'); do
  kvctl get inputs $key | wc -w | kvctl put results $key.words -
done
""")
        with open(os.path.join(KIT, "job.sh"), encoding="utf-8") as file:
            text = file.read()
        changed = text.replace("--memory 50%}", "--memory 128MiB}")
        self.assertNotEqual(text, changed)
        path = self.slurm.write(self.path("job.sh"), changed)
        printed = self.slurm.user("sbatch", "--parsable", f"--output={self.path('out.txt')}", path, "in", "results",
                                  cwd=self.folder)
        job = slurm_support.Job(self.slurm, printed.strip(), self.path("out.txt"))
        self.jobs.append(job)
        self.assertEqual(job.wait(), 0, job)
        self.assertEqual({name: self.read("results", name).strip() for name in os.listdir(self.path("results"))},
                         {f"text{number}.words": str(number) for number in range(8)})
        self.assert_nothing_left()

    def test_the_template_with_directives(self):
        inputs = self.slurm.folder(os.path.join(os.path.basename(self.folder), "in"))
        self.slurm.write(os.path.join(inputs, "a"), "content")
        self.done(f"""#KV memory 128MiB
#KV nvm 300MiB
#KV stage_in {inputs}:inputs
#KV stage_out inputs:{self.path('copy')}
exec kvctl run $TIDEPOOL_RUN_OPTIONS -- sh -c 'kvctl status >status'
""", *FOUR)
        self.assertEqual(self.read("copy", "a"), "content")
        self.assertIn("4 of 4 nodes up", self.read("status"))
        self.assert_nothing_left()


if __name__ == "__main__":
    slurm_support.main()
