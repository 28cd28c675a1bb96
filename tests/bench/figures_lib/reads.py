"""Debian's reads, and the digest of what is made of them."""

import gzip
import hashlib
import lzma
import os
import shutil

from figures_lib import tools

LAMBDA = [f"/usr/share/doc/bowtie2/examples/reads/reads_{i}.fq.gz" for i in (1, 2)]
VELVET = "/usr/share/doc/velvet/examples/test_reads.fa.xz"
SWAP = str.maketrans("ACGT", "TGCA")


def write(folder, name):
    """The path of a file of plain reads: "lambda" or "velvet"."""
    sources, unpack = (LAMBDA, gzip.open) if name == "lambda" else ([VELVET], lzma.open)
    path = os.path.join(folder, name)
    with open(path, "wb") as out:
        for source in sources:
            if not os.path.exists(source):
                raise tools.Missing(f"{source} is missing: bowtie2-examples and velvet-example have it")
            with unpack(source) as packed:
                shutil.copyfileobj(packed, out)
    return path


def digest(lines):
    """Of lines in any order."""
    return hashlib.sha256("".join(line + "\n" for line in sorted(lines)).encode()).hexdigest()


def digest_of(paths):
    """Of the lines of all files, which are removed."""
    lines = []
    for path in paths:
        with open(path, encoding="ascii") as file:
            lines += file.read().splitlines()
        os.remove(path)
    return digest(lines)


def unitigs(program, path, folder, out):
    """CPU and wall seconds of bcalm on one thread, and the digest of its unitigs: k = 31, MIN 2."""
    cpu, seconds, _, _ = tools.cpu_of(
        [program, "-in", path, "-kmer-size", "31", "-abundance-min", "2", "-nb-cores", "1", "-out", out, "-out-tmp",
         folder], cwd=folder)
    with open(out + ".unitigs.fa", encoding="ascii") as file:
        texts = (line.strip() for line in file if not line.startswith(">"))
        return cpu, seconds, digest(min(text, text.translate(SWAP)[::-1]) for text in texts)
