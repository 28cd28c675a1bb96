"""The matrix product on real daemons: results that were computed another way, and what becomes of a run
that cannot end.

    summa_test.py BUILD_FOLDER

The digests are those of a product of integers in three loops.
"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
from kvctl_support import PATIENCE_SECONDS, Cluster, Result, wait_until  # pylint: disable=wrong-import-position

BUILD = sys.argv.pop(1)
# N: trace and digest of C, seed 1.
EXPECTED = {
    1024: (270484, "f535b7c2f8553fb7fe4001ceb0b72219e5a7c3447ccfa6188d54933f6079b164"),
    2048: (1079154, "87f30157eb69e070066a2ebe5fa97029715a3e72eb33536c0a4b28f110ad590d"),
}

cluster = None


def setUpModule():
    global cluster
    cluster = Cluster(BUILD)
    cluster.start(2)


def tearDownModule():
    cluster.close()


def command(*arguments):
    return [os.path.join(BUILD, "bin", "summa"), "--cluster", cluster.file, *map(str, arguments)]


def summa(*arguments):
    return Result(subprocess.run(command(*arguments), capture_output=True, check=False,
                                 timeout=PATIENCE_SECONDS, env=cluster.environment))


def namespaces():
    listed = cluster.kvctl("namespace", "list", "--json")
    assert listed.code == 0, listed
    return [each["name"] for each in listed.json()["result"]["namespaces"]]


def lines(result):
    return dict(line.split(None, 1) for line in result.out.decode().splitlines()[1:])


class Products(unittest.TestCase):
    def check(self, result, n):
        self.assertEqual(result.code, 0, result)
        trace, digest = EXPECTED[n]
        self.assertEqual(lines(result)["trace"], str(trace))
        self.assertEqual(lines(result)["digest"], digest)

    def test_any_number_of_processes_gives_the_same_bits(self):
        for processes in (1, 2, 3):
            with self.subTest(processes=processes):
                self.check(summa("--n", 1024, "--processes", processes), 1024)
        self.check(summa("--n", 2048, "--processes", 3), 2048)
        self.assertFalse([name for name in namespaces() if name.startswith("summa")])

    def test_runs_at_one_time_do_not_meet(self):
        with subprocess.Popen(command("--n", 1024), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=cluster.environment, text=True) as other:
            self.check(summa("--n", 1024, "--processes", 2), 1024)
            out, error = other.communicate(timeout=PATIENCE_SECONDS)
            self.assertEqual(other.returncode, 0, error)
            self.assertIn(f"{EXPECTED[1024][0]}", out)

    def test_more_processes_than_blocks(self):
        self.check(summa("--n", 1024, "--processes", 6), 1024)

    def test_another_seed_gives_another_product(self):
        result = summa("--n", 1024, "--seed", 2)
        self.assertEqual(result.code, 0, result)
        self.assertNotEqual(lines(result)["digest"], EXPECTED[1024][1])

    def test_kept_blocks_are_values_of_two_mebibytes(self):
        self.check(summa("--n", 1024, "--namespace", "kept", "--keep"), 1024)
        got = cluster.kvctl("get", "kept", "C/1/0")
        self.assertEqual(got.code, 0)
        self.assertEqual(len(got.out), 2 << 20)
        # Over what an earlier run has left.
        self.check(summa("--n", 1024, "--namespace", "kept"), 1024)
        self.assertNotIn("kept", namespaces())


class LargerThanMemory(unittest.TestCase):
    def test_blocks_on_a_device_give_the_same_bits(self):
        # 96 MiB of blocks. On the build's disk: the temporary folder may be memory without direct I/O.
        small = Cluster(BUILD)
        try:
            with tempfile.TemporaryDirectory(prefix="nvm-", dir=os.getcwd()) as folder:
                small.start(1, node_mib=64, options=("--nvm-dir", folder, "--nvm-size", "256MiB"))
                result = Result(subprocess.run(
                    [os.path.join(BUILD, "bin", "summa"), "--cluster", small.file, "--n", "2048",
                     "--processes", "2"], capture_output=True, check=False, timeout=PATIENCE_SECONDS,
                    env=small.environment))
                self.assertEqual(result.code, 0, result)
                trace, digest = EXPECTED[2048]
                self.assertEqual(lines(result)["trace"], str(trace))
                self.assertEqual(lines(result)["digest"], digest)
                self.assertGreater(int(lines(result)["read"].split()[0]), 0)
                small.kill()
        finally:
            small.close()


class Failures(unittest.TestCase):
    def test_a_size_that_is_no_multiple_of_a_block(self):
        result = summa("--n", 1000)
        self.assertEqual(result.code, 2, result)
        self.assertIn("multiple of 512", result.err.decode())

    def test_more_than_the_memory_of_the_cluster(self):
        result = summa("--n", 4096, "--namespace", "large")  # 384 MiB.
        self.assertNotIn(result.code, (0, 2), result)
        self.assertIn("RESOURCE_EXHAUSTED", result.err.decode())
        cluster.kvctl("namespace", "drop", "large")

    def test_a_killed_process_ends_the_others(self):
        with subprocess.Popen(command("--n", 2048, "--processes", 3, "--namespace", "killed"),
                              stderr=subprocess.PIPE, env=cluster.environment) as launcher:
            children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"

            def started():
                with open(children, encoding="utf-8") as file:
                    return len(file.read().split()) == 3
            wait_until(started)
            with open(children, encoding="utf-8") as file:
                os.kill(int(file.read().split()[1]), signal.SIGKILL)
            error = launcher.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        self.assertNotEqual(launcher.returncode, 0)
        self.assertIn("killed by signal 9", error)
        cluster.kvctl("namespace", "drop", "killed")


if __name__ == "__main__":
    unittest.main()
