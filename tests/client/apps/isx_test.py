"""The integer sort on real daemons, against the same keys sorted here.

    isx_test.py BUILD_FOLDER
"""

import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apps_support import Apps, digest  # pylint: disable=wrong-import-position

BUILD = sys.argv.pop(1)
KEY_BITS = 28
# Of 2 processes with 2^24 keys each.
LARGE_FIRST = "7846306684dc486eb5efb73bab88a9b151a0380dedf14a57584d5f1fea81e7a3"
LARGE_ALL = "333e10c0dceeb81660a82c5d8a39069ee5894b0b1bdd423043e609ab6b27ee4b"

apps = None


def setUpModule():
    global apps
    apps = Apps(BUILD, nodes=2, node_mib=256)


def tearDownModule():
    apps.close()


def pcg32(state, stream):
    """PCG-XSH-RR as its paper has it."""
    mask = (1 << 64) - 1
    increment = (stream << 1 | 1) & mask
    at = (((state + increment) & mask) * 6364136223846793005 + increment) & mask
    while True:
        shifted = ((at >> 18 ^ at) >> 27) & 0xffffffff
        turn = at >> 59
        yield (shifted >> turn | shifted << (-turn & 31)) & 0xffffffff
        at = (at * 6364136223846793005 + increment) & mask


def expected(processes, keys_each):
    """The digests of the buckets, and of all keys."""
    keys = []
    for rank in range(processes):
        source = pcg32(rank, rank)
        keys += [next(source) & ((1 << KEY_BITS) - 1) for _ in range(keys_each)]
    keys.sort()
    width = -(-(1 << KEY_BITS) // processes)
    buckets = [[key for key in keys if key // width == bucket] for bucket in range(processes)]
    return [digest(struct.pack(f"<{len(bucket)}I", *bucket)) for bucket in buckets], digest(
        struct.pack(f"<{len(keys)}I", *keys))


def lines(text):
    return {" ".join(line.split()[:-1]): line.split()[-1] for line in text.splitlines()}


class Sorted(unittest.TestCase):
    def check(self, processes, keys, *options):
        result = apps.run("isx", "--processes", processes, "--keys", keys, *options)
        self.assertEqual(result.code, 0, result)
        printed = lines(result.out.decode())
        buckets, of_all = expected(processes, keys)
        self.assertEqual([printed[f"bucket {i}"] for i in range(processes)], buckets)
        self.assertEqual(printed["all"], of_all)

    def test_any_number_of_processes_by_both_kinds_of_queue(self):
        for processes, keys in ((1, 5_000), (2, 70_000), (3, 40_000), (5, 3_000)):
            for via in ("queue", "priority"):
                with self.subTest(processes=processes, via=via):
                    self.check(processes, keys, "--via", via)
        self.assertEqual(apps.left_over("isx"), [])

    def test_many_ranges(self):
        self.check(2, 200_000, "--via", "priority", "--verify")

    def test_few_keys_and_none(self):
        self.check(3, 1)
        self.check(2, 0)

    def test_the_size_of_the_papers(self):
        for via in ("queue", "priority"):
            with self.subTest(via=via):
                result = apps.run("isx", "--processes", 2, "--keys", 1 << 24, "--via", via)
                self.assertEqual(result.code, 0, result)
                printed = lines(result.out.decode())
                self.assertEqual(printed["bucket 0"], LARGE_FIRST)
                self.assertEqual(printed["all"], LARGE_ALL)

    def test_tasks_of_srun(self):
        outputs = apps.run_as_tasks(3, "isx", "--keys", 1_000)
        buckets, of_all = expected(3, 1_000)
        self.assertEqual([lines(outputs[i])[f"bucket {i}"] for i in range(3)], buckets)
        self.assertEqual(lines(outputs[0])["all"], of_all)


class Failures(unittest.TestCase):
    def test_a_killed_process_ends_all_with_a_clear_error(self):
        code, error = apps.run_and_kill(1, "isx", 3, "--keys", 1 << 24)
        self.assertEqual(code, 1, error)
        self.assertIn("was killed by signal 9", error)
        self.assertEqual(apps.left_over("isx"), [])

    def test_a_task_that_is_not_there_is_named(self):
        result = apps.run("isx", "--silence", 2, environment={
            "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "job.1"})
        self.assertNotEqual(result.code, 0)
        self.assertIn("process 1 of 2 is silent", result.err.decode())

    def test_options(self):
        self.assertEqual(apps.run("isx", "--via", "pigeon").code, 2)
        self.assertEqual(apps.run("isx", "--processes", 0).code, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
