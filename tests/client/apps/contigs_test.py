"""The unitigs of reads against bcalm's, against a plain version in Python, and on rings.

    contigs_test.py BUILD_FOLDER

The digests are those of `bcalm -kmer-size 31 -abundance-min 2`, each unitig as the smaller of its two
directions, sorted; that of lambda is made anew here so that it cannot drift.
"""

import collections
import gzip
import lzma
import os
import random
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apps_support import PATIENCE_SECONDS, Apps, digest  # pylint: disable=wrong-import-position

BUILD = sys.argv.pop(1)
LAMBDA = [f"/usr/share/doc/bowtie2/examples/reads/reads_{i}.fq.gz" for i in (1, 2)]
VELVET = "/usr/share/doc/velvet/examples/test_reads.fa.xz"
LAMBDA_DIGEST = "26b248f6b5f41f5a6270eb3f004d5e87b65ac6f97c1137adb6522068dc7a3d4b"
VELVET_DIGEST = "bfd41ed59d21462ad38644c55b143d1eff7f3fe91cafb7de0ef7dce712b17899"
SWAP = str.maketrans("ACGT", "TGCA")

apps = None


def setUpModule():
    global apps
    for path in [*LAMBDA, VELVET]:
        assert os.path.exists(path), f"{path} is missing: install bowtie2-examples and velvet-example"
    apps = Apps(BUILD)


def tearDownModule():
    apps.close()


def reverse(text):
    return text.translate(SWAP)[::-1]


def canonical(text):
    return min(text, reverse(text))


def lines(texts):
    return "".join(text + "\n" for text in sorted(texts)).encode()


def plain_unitigs(sequences, k, count_min):
    """By the rules alone, node by node."""
    counts = collections.Counter(
        canonical(text[i:i + k]) for text in sequences for i in range(len(text) - k + 1)
        if set(text[i:i + k]) <= set("ACGT"))
    nodes = {node for node, count in counts.items() if count >= count_min}

    def following(x):
        return [x[1:] + c for c in "ACGT" if canonical(x[1:] + c) in nodes]

    def joined(x):
        """The node that follows x in its unitig, or None."""
        after = following(x)
        if len(after) != 1 or canonical(after[0]) == canonical(x):
            return None
        # What comes before y is what follows its reverse complement.
        return after[0] if len(following(reverse(after[0]))) == 1 else None

    unitigs, seen = [], set()
    for node in sorted(nodes):
        if node in seen:
            continue
        first = node
        while True:
            before = joined(reverse(first))
            if before is None or reverse(before) == node:
                break
            first = reverse(before)
        ring = joined(reverse(first)) is not None
        chain, at = [node if ring else first], joined(node if ring else first)
        while at is not None and at != chain[0]:
            chain.append(at)
            at = joined(at)
        seen.update(map(canonical, chain))
        text = chain[0] + "".join(each[-1] for each in chain[1:])
        if not ring:
            unitigs.append(canonical(text))
            continue
        circle = "".join(each[-1] for each in chain)
        length = len(chain) + k - 1
        unitigs.append(min((strand * (length // len(strand) + 2))[i:i + length]
                           for strand in (circle, reverse(circle)) for i in range(len(strand))))
    return lines(unitigs)


class Case(unittest.TestCase):
    def path(self, name):
        return apps.path(f"{self.id().rsplit('.', 1)[1]}-{name}")

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def fasta(self, sequences):
        return self.write("reads.fa", "".join(f">r\n{text}\n" for text in sequences))

    def unitigs(self, k, count_min, *reads, processes=1):
        out = self.path("unitigs")
        result = apps.run("contigs", "-k", k, "--min", count_min, "--processes", processes, "--out", out,
                          *reads)
        self.assertEqual(result.code, 0, result)
        with open(out, "rb") as file:
            return file.read()

    def bcalm(self, k, count_min, reads):
        subprocess.run(["bcalm", "-in", reads, "-kmer-size", str(k), "-abundance-min", str(count_min),
                        "-nb-cores", "1", "-out", self.path("bcalm"), "-out-tmp", apps.folder],
                       check=True, cwd=apps.folder, timeout=PATIENCE_SECONDS, capture_output=True)
        with open(self.path("bcalm") + ".unitigs.fa", encoding="ascii") as file:
            return lines(canonical(line.strip()) for line in file if not line.startswith(">"))


class Unitigs(Case):
    def test_lambda_by_any_number_of_processes(self):
        for processes in (1, 2, 3):
            with self.subTest(processes=processes):
                unitigs = self.unitigs(31, 2, *LAMBDA, processes=processes)
                self.assertEqual(unitigs.count(b"\n"), 368)
                self.assertEqual(digest(unitigs), LAMBDA_DIGEST)
        self.assertEqual(apps.left_over("contigs"), [])

    def test_velvet(self):
        with lzma.open(VELVET) as packed:
            reads = self.write("reads.fa", packed.read())
        unitigs = self.unitigs(31, 2, reads, processes=2)
        self.assertEqual(unitigs.count(b"\n"), 1640)
        self.assertEqual(digest(unitigs), VELVET_DIGEST)

    def test_bcalm_agrees(self):
        reads = self.write("reads.fq", b"".join(gzip.open(path).read() for path in LAMBDA))
        self.assertEqual(digest(self.bcalm(31, 2, reads)), LAMBDA_DIGEST)
        generator = random.Random(5)
        genome = "".join(generator.choices("ACGT", k=20_000))
        begins = [generator.randrange(len(genome) - 100) for _ in range(2_000)]
        reads = self.fasta("".join(c if generator.random() < 0.99 else generator.choice("ACGT")
                                   for c in genome[i:i + 100]) for i in begins)
        for k, count_min in ((21, 2), (41, 1), (61, 3)):
            with self.subTest(k=k):
                self.assertEqual(self.unitigs(k, count_min, reads, processes=2),
                                 self.bcalm(k, count_min, reads))

    def test_dense_graphs_by_the_rules_alone(self):
        # Few letters of few kinds: every shape that a graph can have, nodes that follow themselves or
        # their own reverse complement among them.
        generator = random.Random(9)
        for k in (3, 5, 7, 33):
            sequences = ["".join(generator.choices("ACGTN", weights, k=size))
                         for size in (0, k, 3 * k, 90)
                         for weights in ([5, 5, 5, 5, .1], [9, 1, 1, 9, 0], [1, 0, 0, 1, 0])]
            for processes in (1, 3):
                with self.subTest(k=k, processes=processes):
                    self.assertEqual(self.unitigs(k, 1, self.fasta(sequences), processes=processes),
                                     plain_unitigs(sequences, k, 1))

    def test_rings(self):
        generator = random.Random(2)
        circles = ["".join(generator.choices("ACGT", k=size)) for size in (40, 333, 2000)]
        # Read around once and k - 1 letters more, a ring has no end anywhere.
        for k in (21, 33):
            sequences = [circle + (circle * 2)[:k - 1] for circle in circles]
            expected = plain_unitigs(sequences, k, 1)
            self.assertEqual([len(line) for line in expected.split(b"\n")[:-1]].count(333 + k - 1), 1)
            for processes in (1, 2, 3):
                with self.subTest(k=k, processes=processes):
                    self.assertEqual(self.unitigs(k, 1, self.fasta(sequences), processes=processes),
                                     expected)

    def test_rings_smaller_than_k(self):
        sequences = ["ACCGT" * 20, "AAC" * 30, "A" * 50, "AT" * 30]
        self.assertEqual(self.unitigs(11, 1, self.fasta(sequences), processes=2),
                         plain_unitigs(sequences, 11, 1))

    def test_a_long_unitig_is_put_together_from_both_ends(self):
        sequence = "".join(random.Random(4).choices("ACGT", k=6_000))
        self.assertEqual(self.unitigs(31, 1, self.fasta([sequence]), processes=3),
                         (canonical(sequence) + "\n").encode())

    def test_nothing(self):
        self.assertEqual(self.unitigs(31, 2, self.fasta(["ACGT"]), processes=2), b"")


class Files(Case):
    def setUp(self):
        self.reads = self.fasta(["ACGTTGCATGCATTTACG"])
        self.expected = plain_unitigs(["ACGTTGCATGCATTTACG"], 5, 1)

    def run_contigs(self, out, *more, reads=None):
        return apps.run("contigs", "-k", 5, "--min", 1, "--out", out, *more, reads or self.reads)

    def refused(self, expected, *arguments, **more):
        result = self.run_contigs(*arguments, **more)
        self.assertEqual(result.code, 2, result)
        self.assertIn(expected, result.err.decode())

    def test_a_link_stays_one_and_the_file_behind_it_is_written(self):
        for processes in (1, 2):
            # The target is made by the first, and replaced by the second.
            target, link = self.path("target"), self.path(f"link-{processes}")
            os.symlink(os.path.basename(target), link)
            result = self.run_contigs(link, "--processes", processes)
            self.assertEqual(result.code, 0, result)
            self.assertTrue(os.path.islink(link))
            self.assertFalse(os.path.islink(target))
            with open(target, "rb") as file:
                self.assertEqual(file.read(), self.expected)

    def test_a_pipe_is_written_as_it_is(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            try:
                result = self.run_contigs(pipe)
                self.assertEqual(result.code, 0, result)
                self.assertEqual(reader.communicate(timeout=PATIENCE_SECONDS)[0], self.expected)
            finally:
                reader.kill()
        self.refused("several processes", pipe, "--processes", 2)

    def test_an_input_is_not_written_over(self):
        self.refused("is an input", self.reads)
        self.assertGreater(os.path.getsize(self.reads), 0)

    def test_what_cannot_be_written_is_said_before_the_work(self):
        self.refused("Is a directory", apps.folder)
        self.refused("Not a directory", self.reads + "/unitigs", reads="/nowhere/reads")
        result = self.run_contigs("/nowhere/unitigs", reads="/nowhere/reads")
        self.assertIn("cannot write /nowhere/unitigs", result.err.decode())

    def test_what_gives_its_bytes_once_only_is_not_verified(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        self.refused("no regular file", self.path("unitigs"), "--verify", reads=pipe)

    def test_a_second_run_does_not_add_to_what_a_killed_one_has_left(self):
        for processes in (1, 2):
            apps.cluster.kvctl("namespace", "create", "contigs/again/table")
            try:
                result = self.run_contigs(self.path("unitigs"), "--run", "again", "--processes", processes)
                self.assertNotEqual(result.code, 0, result)
                self.assertIn("contigs/again/table", result.err.decode())
                # It may be that of another run which still goes on.
                self.assertEqual(apps.left_over("contigs"), ["contigs/again/table"])
            finally:
                apps.cluster.kvctl("namespace", "drop", "contigs/again/table")


class Tasks(Case):
    """Of srun: no launcher looks for what an earlier run has left."""

    def test_one_task_does_not_add_to_what_a_killed_one_has_left(self):
        apps.cluster.kvctl("namespace", "create", "contigs/again/table")
        try:
            result = apps.run("contigs", "-k", 5, "--min", 1, "--out", self.path("unitigs"), "--run", "again",
                              self.fasta(["ACGTTGCATGCATTTACG"]), environment={
                                  "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "7",
                                  "SLURM_STEP_ID": "0"})
            self.assertNotEqual(result.code, 0, result)
            self.assertIn("ALREADY_EXISTS", result.err.decode())
            self.assertIn("contigs/again/table", apps.left_over("contigs"))
        finally:
            for name in apps.left_over("contigs"):
                apps.cluster.kvctl("namespace", "drop", name)


class Processes(Case):
    def test_tasks_of_srun(self):
        sequences = ["ACGTTGCAACGGTACTTAG" * 5 + "".join(random.Random(1).choices("ACGT", k=500))]
        out = self.path("unitigs")
        apps.run_as_tasks(3, "contigs", "-k", 9, "--min", 1, "--out", out, self.fasta(sequences))
        with open(out, "rb") as file:
            self.assertEqual(file.read(), plain_unitigs(sequences, 9, 1))
        self.assertEqual(apps.left_over("contigs"), [])

    def test_a_killed_process_ends_all_with_a_clear_error(self):
        reads = self.fasta(["".join(random.Random(1).choices("ACGT", k=2_000_000))])
        out = self.path("unitigs")
        code, error = apps.run_and_kill(1, "contigs", 3, "-k", 31, "--out", out, reads)
        self.assertEqual(code, 1, error)
        self.assertIn("was killed by signal 9", error)
        self.assertFalse(os.path.exists(out))
        self.assertEqual(apps.left_over("contigs"), [])

    def test_a_missing_file_is_named(self):
        result = apps.run("contigs", "-k", 31, "--processes", 2, "--out", self.path("unitigs"),
                          "/nowhere/reads.fq")
        self.assertNotEqual(result.code, 0)
        self.assertIn("/nowhere/reads.fq", result.err.decode())
        self.assertEqual(apps.left_over("contigs"), [])

    def test_options(self):
        reads = self.fasta(["ACGT"])
        for arguments in (("-k", 30, "--out", "x", reads), ("-k", 31, reads),
                          ("-k", 31, "--min", 0, "--out", "x", reads)):
            self.assertEqual(apps.run("contigs", *arguments).code, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
