#!/usr/bin/python3
"""What a Slurm job does to daemons and ranks: signals to all of its steps, and mpirun in its script."""

import os
import unittest

import slurm_support

START = "kvctl start --memory 128MiB"


class InAJob(slurm_support.SlurmTest):
    nodes = 2

    def test_signals_to_all_steps_end_no_daemon(self):
        job = self.submit(f"""{START}
kvctl put default precious data
echo READY
until [ $(cat tidepool-$SLURM_JOB_ID.d/logs/kvd-*.log | grep -c 'SIGUSR1 is left alone') = 2 ]; do sleep 0.2; done
echo got $(kvctl get default precious)
kvctl stop --discard
""", "-N2", "--ntasks-per-node=1", "--exclusive")
        job.says("READY")
        job.cancel("--signal=USR1")
        self.assertEqual(job.wait(), 0, job)
        self.assertIn("got data\n", job.text())
        self.assertIn("stopped 2 daemons", job.text())
        self.assert_nothing_left()

    @unittest.skipUnless(os.path.exists("/usr/bin/mpirun"), "no mpirun")
    def test_ranks_of_mpirun_are_not_those_of_the_batch_script(self):
        text = self.done(f"""{START}
mpirun --oversubscribe --bind-to none -n 2 mpi_client $PWD/tidepool-$SLURM_JOB_ID.json
kvctl stop --discard
""", "-N1", "-n2")
        for line in ("rank 0 of 2, place 0 of 2, next 1, one run", "rank 1 of 2, place 1 of 2, next 0, one run"):
            self.assertIn(line, text)


if __name__ == "__main__":
    slurm_support.main()
