#!/usr/bin/python3
"""The programs in C beside this file, on a cluster of real daemons.

  c_api_test.py BUILD_FOLDER [unittest arguments]
"""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
from kvctl_support import PATIENCE_SECONDS, Cluster  # pylint: disable=wrong-import-position

BIG_BYTES = (64 << 20) + 12345  # Stored in parts.


class CApi(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.build)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start(1, 512)

    def start(self, program, *arguments):
        return subprocess.Popen([os.path.join(self.build, "bin", "c_api_" + program), *map(str, arguments)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.cluster.folder,
                                env={**self.cluster.environment, "TIDEPOOL_CLUSTER": self.cluster.file})

    def check(self, *programs):
        """All must end well."""
        try:
            for program in programs:
                out, error = program.communicate(timeout=PATIENCE_SECONDS)
                self.assertEqual(program.returncode, 0, out + error)
        finally:
            for program in programs:
                program.kill()
                program.wait()

    def test_maps(self):
        self.check(self.start("maps"))

    def test_ordered_maps(self):
        self.check(self.start("ordered"))

    def test_queues(self):
        self.check(self.start("queues"))

    def test_filters_and_buffered_handles(self):
        self.check(self.start("filters"))

    def test_chains(self):
        self.check(self.start("chains"))

    def test_bad_arguments(self):
        self.check(self.start("arguments"))

    def test_groups_of_three(self):
        self.check(*[self.start("groups", rank, 3) for rank in range(3)])

    def test_staged_files(self):
        source = os.path.join(self.cluster.folder, "source")
        os.makedirs(os.path.join(source, "run"))
        with open(os.path.join(source, "run", "small"), "wb") as file:
            file.write(b"content")
        with open(os.path.join(source, "big"), "wb") as file:
            file.write(b"b" + os.urandom(BIG_BYTES - 2) + b"e")
        for command in (["namespace", "create", "tree"], ["stage", "in", source, "tree"]):
            done = self.cluster.kvctl(*command)
            self.assertEqual(done.code, 0, done)
        self.check(self.start("files", BIG_BYTES))


if __name__ == "__main__":
    CApi.build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
