#!/usr/bin/python3
"""The bundle in a job: srun starts the daemons from libexec, on nodes where nothing else is installed."""

import os
import shutil
import subprocess
import sys

import slurm_support

BUNDLE_SECONDS = 300


class Bundle(slurm_support.SlurmTest):
    nodes = 2

    def make(self):
        """Returns the folder of a bundle that was never set up, of the user of the jobs."""
        done = subprocess.run([f"{slurm_support.ROOT}/deploy/bundle", "--no-python", "--build", self.slurm.machines.build,
                               "--output", self.path("made")], capture_output=True, text=True, check=False,
                              timeout=BUNDLE_SECONDS)
        self.assertEqual(done.returncode, 0, done)
        slurm_support.run("chown", "-R", slurm_support.USER, self.path("made"))
        return self.path("made", "tidepool")

    def test_the_first_starts_are_those_of_srun(self):
        folder = self.make()
        text = self.done(f"""set -eu
srun --ntasks-per-node=1 {folder}/libexec/kvd --version
export PATH={folder}/bin:$PATH
kvctl start --memory 128MiB
kvctl put default greeting hello
kvctl get default greeting && echo
srun --overlap --ntasks-per-node=1 sh -c 'readlink /proc/$(pgrep -x kvd)/exe'
kvctl stop --discard
""", "--nodes=2")
        lines = text.splitlines()
        self.assertEqual(len([line for line in lines if line == lines[0]]), 2, text)  # The version, of two nodes.
        self.assertIn("started 2 daemons", text)
        self.assertIn("hello", lines)
        self.assertEqual(lines.count(f"{folder}/libexec/kvd"), 2, text)
        self.assertIn("stopped 2 daemons", text)
        self.assertEqual([name for name in os.listdir(folder) if name.startswith(".setup")], [])
        shutil.rmtree(self.path("made"))
        self.assert_nothing_left()


if __name__ == "__main__":
    if shutil.which("patchelf") is None:
        print("skipped: apt-get install patchelf")
        sys.exit(slurm_support.SKIPPED)
    slurm_support.main()
