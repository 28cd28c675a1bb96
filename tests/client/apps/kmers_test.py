"""The k-mer counter against jellyfish, against a counter of six lines, and against odd inputs.

    kmers_test.py BUILD_FOLDER

The digests are those of `jellyfish count -C -m K` + `jellyfish dump -c`, sorted, on reads that Debian
packages; that of lambda with k = 31 is made anew here so that they cannot drift.
"""

import collections
import gzip
import hashlib
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
from kvctl_support import PATIENCE_SECONDS, Cluster, Result, wait_until  # pylint: disable=wrong-import-position

BUILD = sys.argv.pop(1)
LAMBDA = [f"/usr/share/doc/bowtie2/examples/reads/reads_{i}.fq.gz" for i in (1, 2)]
VELVET = "/usr/share/doc/velvet/examples/test_reads.fa.xz"
LAMBDA_DIGESTS = {  # k: of the table, of its counts of 2 and more.
    21: ("61a7e13f4604d7b27158cb4ac43887b260ea9c88436f4f24023b17a15f75846c",
         "425e5fe0b66713c194ac4e51b8b428ff0bcd9d42ebf6342f07cfc26d1285e9d2"),
    31: ("356ea0cf8f398da2ec3a13a82090c40f3efe56ff7a1d8f77003067f86f6c9669",
         "3df7fb517fb1411b91f25bcd9c348cc712c13edef12dfbc8c1f39662f0fc7b03"),
    51: ("bf8a3235c94f4f18b0b49b213b27c75638441a6846d57895e17df196d3ce8b78",
         "609fd2ab7a06d7cfa2a042a1e9e895e9e41a6a0a8968be50d417441444b610b8"),
}
VELVET_DIGESTS = ("604cb8ae0d998b860855d14ac977e0df121830ac799d4c14590e7cd2ec33a525",
                  "d3ff3fd767777899d3e8f1993057d274f79e9664125a642a8bbdde84484b8a02")

cluster = None


def setUpModule():
    global cluster
    for path in [*LAMBDA, VELVET]:
        assert os.path.exists(path), f"{path} is missing: install bowtie2-examples and velvet-example"
    cluster = Cluster(BUILD)
    cluster.start(2)


def tearDownModule():
    cluster.close()


def kmers_command(*arguments):
    return [os.path.join(BUILD, "bin", "kmers"), "--cluster", cluster.file, *map(str, arguments)]


def kmers(*arguments, environment=None):
    done = subprocess.run(kmers_command(*arguments), capture_output=True, check=False,
                          timeout=PATIENCE_SECONDS,
                          env={**cluster.environment, **(environment or {})})
    return Result(done)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def repeated(table):
    return b"".join(line + b"\n" for line in table.splitlines() if not line.endswith(b" 1"))


def naive(sequences, k):
    """The table by the rules alone."""
    swap = str.maketrans("ACGT", "TGCA")
    counts = collections.Counter()
    for sequence in (text.upper() for text in sequences):
        for at in range(len(sequence) - k + 1):
            window = sequence[at:at + k]
            if not set(window) <= set("ACGT"):
                continue
            counts[min(window, window.translate(swap)[::-1])] += 1
    return "".join(f"{key} {counts[key]}\n" for key in sorted(counts)).encode()


class Case(unittest.TestCase):
    def path(self, name):
        return os.path.join(cluster.folder, f"{self.id().rsplit('.', 1)[1]}-{name}")

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def table(self, k, *reads, processes=1):
        out = self.path("table")
        result = kmers("-k", k, "--processes", processes, "--out", out, *reads)
        self.assertEqual(result.code, 0, result)
        with open(out, "rb") as file:
            return file.read()

    def left_over(self):
        """Namespaces of runs that are still there."""
        listed = cluster.kvctl("namespace", "list", "--json")
        self.assertEqual(listed.code, 0, listed)
        return [line for line in listed.out.decode().split('"') if line.startswith("kmers/")]


class Tables(Case):
    def test_lambda(self):
        for k, digests in LAMBDA_DIGESTS.items():
            with self.subTest(k=k):
                table = self.table(k, *LAMBDA, processes=2)
                self.assertEqual(digest(table), digests[0])
                self.assertEqual(digest(repeated(table)), digests[1])
        self.assertEqual(self.left_over(), [])

    def test_admission_gives_the_counts_of_two_and_more(self):
        for k, digests in LAMBDA_DIGESTS.items():
            with self.subTest(k=k):
                self.assertEqual(digest(self.table(k, "--admit", *LAMBDA, processes=2)), digests[1])
        with lzma.open(VELVET) as packed:
            reads = self.write("reads.fa", packed.read())
        self.assertEqual(digest(self.table(31, "--admit", reads)), VELVET_DIGESTS[1])
        self.assertEqual(self.left_over(), [])

    def test_admission_takes_less_than_half_of_the_memory(self):
        held = {}
        # Admission first: what a run leaves ready for the next one would flatter it.
        for admit in (("--admit",), ()):
            result = kmers("-k", 31, *admit, *LAMBDA)
            self.assertEqual(result.code, 0, result)
            held[admit] = float(re.search(r"hold ([0-9.]+) MB", result.err.decode()).group(1))
        self.assertLess(held["--admit",], held[()] / 2)

    def test_velvet(self):
        with lzma.open(VELVET) as packed:
            reads = self.write("reads.fa", packed.read())
        table = self.table(31, reads)
        self.assertEqual(digest(table), VELVET_DIGESTS[0])
        self.assertEqual(digest(repeated(table)), VELVET_DIGESTS[1])

    def jellyfish(self, k, reads):
        counts = self.path("counts.jf")
        subprocess.run(["jellyfish", "count", "-C", "-m", str(k), "-s", "1M", "-o", counts, reads],
                       check=True, timeout=PATIENCE_SECONDS)
        dump = subprocess.run(["jellyfish", "dump", "-c", counts], check=True, timeout=PATIENCE_SECONDS,
                              capture_output=True).stdout
        return b"".join(line + b"\n" for line in sorted(dump.splitlines()))

    def test_jellyfish_agrees_on_lambda(self):
        reads = self.write("reads.fq", b"".join(gzip.open(path).read() for path in LAMBDA))
        expected = self.jellyfish(31, reads)
        self.assertEqual(digest(expected), LAMBDA_DIGESTS[31][0])
        self.assertEqual(digest(repeated(expected)), LAMBDA_DIGESTS[31][1])
        self.assertEqual(self.table(31, *LAMBDA, processes=2), expected)

    def test_jellyfish_agrees(self):
        generator = random.Random(7)
        text = "".join(f">r{i}\n{''.join(generator.choices('ACGTacgtN', k=200))}\n" for i in range(200))
        reads = self.write("reads.fa", text)
        for k in (5, 33):
            self.assertEqual(self.table(k, reads), self.jellyfish(k, reads))

    def test_every_size_of_k(self):
        generator = random.Random(11)
        sequences = ["".join(generator.choices("ACGTacgtNn-", [9, 9, 9, 9, 1, 1, 1, 1, .2, .1, .1], k=size))
                     for size in (0, 1, 2, 62, 63, 64, 500, 3000)]
        reads = self.write("reads.fa", "".join(f">x\n{text}\n" for text in sequences))
        for k in (1, 3, 29, 31, 33, 61, 63):
            with self.subTest(k=k):
                self.assertEqual(self.table(k, reads), naive(sequences, k))

    def test_histogram(self):
        sequence = "ACGTTGCAAC" * 30 + "GATTACA"
        reads = self.write("reads.fa", f">x\n{sequence}\n")
        out = self.path("histogram")
        result = kmers("-k", 7, "--processes", 3, "--histogram", out, reads)
        self.assertEqual(result.code, 0, result)
        counts = collections.Counter(int(line.split()[1]) for line in naive([sequence], 7).splitlines())
        with open(out, encoding="ascii") as file:
            self.assertEqual(file.read(), "".join(f"{n} {counts[n]}\n" for n in sorted(counts)))

    def test_report(self):
        reads = self.write("reads.fa", ">x\n" + "ACGTTGCAACGGT" * 100 + "\n")
        result = kmers("-k", 11, reads)
        self.assertEqual(result.code, 0, result)
        text = result.err.decode()
        for word in ("1290 windows", "distinct k-mers of 11 letters", "counted in", "messages of",
                     "the daemons hold"):
            self.assertIn(word, text)


class Inputs(Case):
    SEQUENCES = ["ACGTTGCAACGGTAC", "ttgacNacgtaaccgga", "AC", "", "GATTACAGATTACA"]

    def check(self, *contents, k=5):
        reads = [self.write(f"reads{i}", content) for i, content in enumerate(contents)]
        self.assertEqual(self.table(k, *reads, processes=2), naive(self.SEQUENCES, k))

    def fastq(self, sequences=None):
        # Qualities that look like the beginnings of other lines.
        return "".join(f"@r\n{text}\n+\n{('@+>' * 99)[:len(text)]}\n"
                       for text in (self.SEQUENCES if sequences is None else sequences))

    def fasta(self, width=4, end="\n"):
        return "".join(f">r{end}" + "".join(text[i:i + width] + end for i in range(0, len(text), width))
                       for text in self.SEQUENCES)

    def test_fasta_of_several_lines(self):
        self.check(self.fasta())

    def test_line_ends_of_other_systems_and_empty_lines(self):
        self.check("\r\n\r\n" + self.fasta(end="\r\n"))
        self.check("\n" + self.fasta(end="\n\n"))

    def test_no_line_end_at_the_end(self):
        self.check(self.fasta().rstrip("\n"))
        self.check(self.fastq().rstrip("\n"))

    def test_fastq(self):
        self.check(self.fastq())

    def test_fastq_of_several_lines(self):
        self.check("".join(f"@r\n{text[:7]}\n{text[7:]}\n+r\n{'@' * len(text[:3])}\n{'+' * len(text[3:])}\n"
                           for text in self.SEQUENCES))

    def test_several_files_of_both_kinds(self):
        half = len(self.SEQUENCES) // 2
        self.check(self.fastq(self.SEQUENCES[:half]),
                   "".join(f">r\n{text}\n" for text in self.SEQUENCES[half:]))

    def test_gz_of_several_members(self):
        text = self.fasta().encode()
        self.check(gzip.compress(text[:20]) + gzip.compress(text[20:21]) + gzip.compress(text[21:]))

    def test_files_with_nothing_to_count(self):
        for content in (b"", b"\n\n", gzip.compress(b""), b">only a name", b">r\nACGT\n", b"@r\nAC\n+\nII\n"):
            with self.subTest(content=content):
                self.assertEqual(self.table(5, self.write("reads", content), processes=2), b"")

    def test_a_sequence_far_longer_than_a_block_is_shared(self):
        generator = random.Random(3)
        sequence = "".join(generator.choices("ACGT", k=40_000))
        reads = self.write("reads.fa", ">genome\n" + sequence + "\n")
        self.assertEqual(self.table(21, reads, processes=3), naive([sequence], 21))


class Refusals(Case):
    def refused(self, *arguments, code=None, environment=None):
        result = kmers(*arguments, environment=environment)
        self.assertNotEqual(result.code, 0, result)
        if code is not None:
            self.assertEqual(result.code, code, result)
        return result.err.decode()

    def test_k(self):
        reads = self.write("reads.fa", ">x\nACGT\n")
        self.assertIn("odd", self.refused("-k", 30, reads, code=2))
        self.assertIn("at most 63", self.refused("-k", 65, reads, code=2))
        self.refused("-k", 0, reads, code=2)
        self.refused("-k", "many", reads, code=2)
        for histogram in ("t", "./t"):
            self.assertIn("same file",
                          self.refused("-k", 31, "--out", "t", "--histogram", histogram, reads, code=2))
        self.refused(reads, code=2)
        self.refused("-k", 31, code=2)

    def test_a_missing_file_is_named(self):
        for processes in (1, 2):
            error = self.refused("-k", 31, "--processes", processes, "/nowhere/reads.fq")
            self.assertIn("/nowhere/reads.fq", error)
        self.assertEqual(self.left_over(), [])

    def test_damaged_files(self):
        reads = self.write("reads.fa.gz", gzip.compress(b">x\n" + b"ACGTTGCA" * 9000)[:-20])
        self.assertIn("reads.fa.gz", self.refused("-k", 31, reads))
        self.assertIn("FASTA", self.refused("-k", 31, self.write("text", "some text\n")))
        self.assertIn("ends in the middle", self.refused("-k", 3, self.write("half.fq", "@r\nACGT\n+\nII")))
        self.assertIn("unpack it first", self.refused("-k", 3, VELVET))

    def test_what_gives_its_bytes_once_only_is_not_read_twice(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        self.assertIn("no regular file", self.refused("-k", 3, "--admit", pipe))
        self.assertIn("no regular file", self.refused("-k", 3, "--processes", 2, pipe))

    def test_a_second_run_does_not_add_to_the_table_that_a_failed_one_has_left(self):
        reads = self.write("reads.fa", ">x\nACGTACGT\n")
        cluster.kvctl("namespace", "create", "kmers/again/table")
        try:
            self.assertIn("kmers/again/table", self.refused("-k", 3, "--run", "again", reads))
            # The first of several tasks, for which no launcher has looked.
            self.assertIn("counts would add to it", self.refused(
                "-k", 3, "--run", "again", reads, environment={"PMI_RANK": "0", "PMI_SIZE": "2"}))
            self.assertIn("kmers/again/table", self.left_over())
        finally:
            for name in self.left_over():
                cluster.kvctl("namespace", "drop", name)

    def test_a_table_that_cannot_be_written(self):
        reads = self.write("reads.fa", ">x\nACGTACGT\n")
        self.assertIn("/nowhere/table", self.refused("-k", 3, "--out", "/nowhere/table", reads))

    def test_tasks_without_a_common_name(self):
        reads = self.write("reads.fa", ">x\nACGT\n")
        error = self.refused("-k", 3, reads, environment={"PMI_RANK": "0", "PMI_SIZE": "2"})
        self.assertIn("--run", error)


class Processes(Case):
    def test_tasks_of_srun(self):
        reads = self.write("reads.fa", ">x\n" + "ACGTTGCAACGGTACTTAG" * 900 + "\n")
        out = self.path("table")
        tasks = [subprocess.Popen(
            kmers_command("-k", 9, "--out", out, reads), stderr=subprocess.PIPE,
            env={**cluster.environment, "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "3",
                 "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}) for rank in range(3)]
        for task in tasks:
            error = task.communicate(timeout=PATIENCE_SECONDS)[1]
            self.assertEqual(task.returncode, 0, error)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), naive(["ACGTTGCAACGGTACTTAG" * 900], 9))
        self.assertEqual(self.left_over(), [])
        self.assertEqual([name for name in os.listdir(cluster.folder) if ".part-" in name], [])

    def test_a_task_that_is_not_there_is_named(self):
        reads = self.write("reads.fa", ">x\nACGT\n")
        result = kmers("-k", 3, "--silence", 2, reads,
                       environment={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
                                    "PMIX_NAMESPACE": "job.1"})
        self.assertNotEqual(result.code, 0)
        self.assertIn("process 1 of 2 is silent", result.err.decode())

    def test_a_killed_process_ends_all_with_a_clear_error(self):
        reads = self.write("reads.fa", ">x\n" + "".join(random.Random(1).choices("ACGT", k=3_000_000)))
        out = self.path("table")
        command = kmers_command("-k", 31, "--processes", 3, "--out", out, reads)
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=cluster.environment) as launcher:
            children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"

            def started():
                with open(children, encoding="ascii") as file:
                    return file.read().split()

            wait_until(lambda: len(started()) == 3)
            os.kill(int(started()[1]), signal.SIGKILL)
            error = launcher.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        self.assertEqual(launcher.returncode, 1, error)
        self.assertIn("was killed by signal 9", error)
        self.assertFalse(os.path.exists(out))
        self.assertEqual(self.left_over(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
