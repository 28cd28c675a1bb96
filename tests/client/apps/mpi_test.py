#!/usr/bin/python3
"""Programs that mpirun starts, also inside of a Slurm job, whose batch script has a rank of its own.

  mpi_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import subprocess
import sys
import unittest

from apps_support import PATIENCE_SECONDS, Apps

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
# A batch script's: mpirun hands them on to each of its processes.
BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "batch", "SLURM_PROCID": "0", "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_TASKS": "1"}


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.apps = Apps(build, nodes=1)
        cls.addClassCleanup(cls.apps.close)

    def mpirun(self, program, *arguments, environment=None, inside=()):
        """`inside`: variables that only the processes get."""
        given = [f"{name}={value}" for name, value in inside]
        path = os.path.join(self.apps.build, "bin", program)
        done = subprocess.run([*MPIRUN, "env", *given, path, *map(str, arguments)], capture_output=True, check=False,
                              timeout=PATIENCE_SECONDS, env={**self.apps.cluster.environment, **(environment or {})})
        self.assertEqual(done.returncode, 0, done)
        return done.stdout.decode()

    def test_ranks_of_mpi_have_a_client_each(self):
        lines = sorted(self.mpirun("mpi_client", self.apps.cluster.file).splitlines())
        self.assertEqual(lines, ["rank 0 of 2, place 0 of 2, next 1, one run",
                                 "rank 1 of 2, place 1 of 2, next 0, one run"])

    def test_ranks_are_those_of_mpirun_inside_of_a_job(self):
        # Behind mpirun, which would take the variables for its own allocation.
        lines = sorted(self.mpirun("mpi_client", self.apps.cluster.file, inside=BATCH_SCRIPT.items()).splitlines())
        self.assertEqual(lines, ["rank 0 of 2, place 0 of 2, next 1, one run",
                                 "rank 1 of 2, place 1 of 2, next 0, one run"])

    def test_an_example_in_a_job_is_one_run(self):
        text = self.mpirun("balance", environment={"TIDEPOOL_CLUSTER": self.apps.cluster.file},
                           inside=BATCH_SCRIPT.items())
        self.assertEqual(text.count(" primes\n"), 1, text)
        self.assertEqual(text.count("rank "), 2, text)


if __name__ == "__main__":
    build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
