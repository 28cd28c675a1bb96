#!/usr/bin/python3
"""Two workflows of several programs: coupled in one job by a queue, and chained jobs by a snapshot."""

import os
import re

import slurm_support

START = "kvctl start --memory 128MiB"
FOUR = ("-N4", "--ntasks-per-node=1")


class Workflows(slurm_support.SlurmTest):
    def test_coupled_an_analysis_that_is_killed_loses_no_frame(self):
        """Its simulation goes on meanwhile, as far as the queue has room; the next analysis takes over."""
        text = self.done(f"""set -e
{START}
srun --overlap -N1 -n1 frames simulate 60 &
simulation=$!
srun --overlap -N1 -n1 -r 1 frames analyse 50 >killed.txt 2>&1 &
analysis=$!
until [ "$(kvctl count results 2>/dev/null || echo 0)" -ge 10 ]; do sleep 0.1; done
srun --overlap -N1 -n1 -r 1 pkill -KILL -x frames
wait $analysis && exit 1
echo left by the first: $(kvctl count results)
srun --overlap -N2 -n2 -r 2 frames analyse 5
wait $simulation
kvctl namespace describe frames --json
kvctl stage out results results.out
kvctl stop --discard
""", *FOUR)
        self.assertIn("simulated 60 frames", text)
        first = int(re.search(r"left by the first: (\d+)", text).group(1))
        self.assertTrue(10 <= first < 60, text)
        counts = [tuple(map(int, found)) for found in re.findall(r"analysed (\d+) frames, (\d+) of them", text)]
        self.assertEqual(len(counts), 2, text)
        # What the killed one had in hand was done again, by one of them.
        self.assertEqual(sum(again for _, again in counts), 1, text)
        results = {name: self.read("results.out", name) for name in self.names("results.out")}
        self.assertEqual(sorted(results), [f"frame-{number:05}" for number in range(60)])
        self.assertEqual(results["frame-00000"], "0.000000\n")
        self.assertEqual(len(set(results.values())), 60)
        self.assert_nothing_left()

    def names(self, folder):
        return os.listdir(self.path(folder))

    def test_chained_jobs_go_on_on_another_number_of_nodes(self):
        first = self.submit(f"""set -e
{START}
srun checkpoint 20 5
kvctl snapshot create checkpoints saved
echo digest $({self.digest()})
kvctl keys checkpoints | grep COMMIT | sort
kvctl stop --discard
""", *FOUR)
        second = self.submit(f"""set -e
{START}
kvctl snapshot restore saved
echo digest $({self.digest()})
srun checkpoint 40 5
kvctl stop --discard
""", "-N2", "--ntasks-per-node=1", f"--dependency=afterok:{first.number}")
        alone = self.submit(f"""set -e
{START}
srun checkpoint 40 5
kvctl stop --discard
""", "-N1", f"--dependency=afterok:{second.number}")
        for job in (first, second, alone):
            self.assertEqual(job.wait(), 0, job)
        digests = [re.search(r"digest (\w+)", job.text()).group(1) for job in (first, second)]
        self.assertEqual(digests[0], digests[1])
        self.assertIn("begins at step 0\n", first.text())
        # The newest two of 5, 10, 15 and 20.
        self.assertIn("{heat}/15/COMMIT\n{heat}/20/COMMIT\n", first.text())
        self.assertNotIn("{heat}/10/COMMIT", first.text())
        self.assertIn("begins at step 20\n", second.text())
        ends = [re.search(r"step 40 checksum (\w+)", job.text()).group(1) for job in (second, alone)]
        self.assertEqual(ends[0], ends[1])
        self.assert_nothing_left()

    @staticmethod
    def digest():
        """Of all records, keys and values."""
        return ("for k in $(kvctl keys checkpoints | sort); do echo $k; kvctl get checkpoints $k; done | sha256sum "
                "| cut -c1-64")

    def test_a_killed_program_goes_on_from_its_newest_checkpoint(self):
        text = self.done(f"""{START} || exit 1
srun checkpoint 100000 5 &
until kvctl get checkpoints '{{heat}}/VERSIONS' >/dev/null 2>&1; do sleep 0.1; done
srun --overlap pkill -KILL -x checkpoint
wait
newest=$(kvctl get checkpoints '{{heat}}/VERSIONS' | tr ' ' '\\n' | tail -n 1)
echo newest $newest
srun checkpoint $((newest + 3)) 5
kvctl keys checkpoints | grep -c COMMIT
kvctl stop --discard
""", *FOUR)
        newest = int(re.search(r"newest (\d+)", text).group(1))
        self.assertIn(f"begins at step {newest}\n", text)
        self.assertIn(f"step {newest + 3} checksum", text)
        self.assertEqual(text.split("\n")[-3:-2], ["2"], text)


if __name__ == "__main__":
    slurm_support.main()
