"""The adaptive tree on real daemons, against the same tree in Python, number by number.

    tree_test.py BUILD_FOLDER
"""

import os
import re
import sys
import tempfile
import unittest
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apps_support import Apps  # pylint: disable=wrong-import-position

BUILD = sys.argv.pop(1)
MASK = (1 << 64) - 1
CHILDREN = [(j >> 2 & 1, j >> 1 & 1, j & 1) for j in range(8)]

apps = None


def setUpModule():
    global apps
    apps = Apps(BUILD)


def tearDownModule():
    apps.close()


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def sign(m, j):
    return -1 if bin(m & j).count("1") % 2 else 1


def child(cell, j):
    n, x, y, z = cell
    return (n + 1, 2 * x + CHILDREN[j][0], 2 * y + CHILDREN[j][1], 2 * z + CHILDREN[j][2])


class Plain:
    """By the rules alone, with fractions."""

    def __init__(self, centres, levels, axis):
        self.levels, self.axis = levels, axis
        self.centres = [[splitmix64(3 * i + a) & 0xFFFFF for a in range(3)] for i in range(centres)]
        self.leaves, self.inner, self.differences = {}, {}, {}
        self.project((0, 0, 0, 0), self.centres)
        self.compress((0, 0, 0, 0))
        for cell in self.leaves:
            self.differentiate(cell)

    def project(self, cell, above):
        n, *at = cell
        near = [c for c in above if all(abs((c[a] >> 20 - n) - at[a]) <= 1 for a in range(3))]
        if not (n < 2 or (n < self.levels and near)):
            self.leaves[cell] = splitmix64((n << 60 ^ at[0] << 40 ^ at[1] << 20 ^ at[2]) & MASK) & 0xFFFFF
            return
        for j in range(8):
            self.project(child(cell, j), near)

    def compress(self, cell):
        if cell in self.leaves:
            return Fraction(self.leaves[cell])
        s = [self.compress(child(cell, j)) for j in range(8)]
        self.inner[cell] = [sum(sign(m, j) * s[j] for j in range(8)) / 8 for m in range(8)]
        return self.inner[cell][0]

    def beside(self, cell, by):
        """The value there; None: smaller cells are."""
        n, *at = cell
        at[self.axis] = (at[self.axis] + by) % (1 << n)
        other = (n, *at)
        while other not in self.leaves and other not in self.inner:
            other = (other[0] - 1, *(c // 2 for c in other[1:]))
        return self.leaves.get(other)

    def differentiate(self, cell):
        before, after = self.beside(cell, -1), self.beside(cell, 1)
        if before is not None and after is not None:
            self.differences[cell] = after - before
            return
        for j in range(8):
            self.differentiate(child(cell, j))

    def files(self):
        def lines(form, numbers_of):
            return "".join(sorted(" ".join(map(str, (*cell, *numbers_of(cell, numbers)))) + "\n"
                                  for cell, numbers in form.items()))

        def scaled(cell, c):
            numbers = [each * 8**(self.levels - cell[0]) for each in c]
            assert all(each.denominator == 1 for each in numbers)
            return [int(numbers[0]) if cell[0] == 0 else 0, *map(int, numbers[1:])]

        return {"project": lines(self.leaves, lambda _, value: [value]),
                "compress": lines(self.inner, scaled),
                "diff": lines(self.differences, lambda _, value: [value])}


class Trees(unittest.TestCase):
    def run_tree(self, *arguments):
        result = apps.run("tree", *arguments)
        self.assertEqual(result.code, 0, result)
        return result.out.decode()

    def check(self, processes, centres, levels, axis=0, tasks=False):
        arguments = ("--m", centres, "--nmax", levels, "--axis", axis, "--verify", "--dump")
        with tempfile.TemporaryDirectory(dir=apps.folder) as folder:
            if tasks:
                out = apps.run_as_tasks(processes, "tree", *arguments, folder)[0]
            else:
                out = self.run_tree("--processes", processes, *arguments, folder)
            plain = Plain(centres, levels, axis)
            files = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    files[name] = file.read()
        self.assertEqual(sorted(files), ["compress", "diff", "project"])
        for name, content in plain.files().items():
            self.assertEqual(files[name], content, name)
        self.assertIn(f"{len(plain.leaves) + len(plain.inner)}, of which {len(plain.leaves)} leaves", out)
        self.assertIn("verified", out)
        return out

    def test_any_number_of_processes_gives_the_same_numbers(self):
        for processes in (1, 2, 3):
            with self.subTest(processes=processes):
                self.check(processes, 12, 6)
        self.assertEqual(apps.left_over("tree"), [])

    def test_each_axis(self):
        for axis in (0, 1, 2):
            with self.subTest(axis=axis):
                self.check(2, 5, 5, axis)

    def test_twelve_points_and_eight_levels(self):
        out = self.check(2, 12, 8)
        self.assertRegex(out, r"nodes +11305, of which 9892 leaves")
        look_ups, misses = map(int, re.search(r"look-ups +(\d+), of which (\d+) misses", out).groups())
        self.assertGreater(misses, 0)
        self.assertGreater(look_ups, 2 * 9892)
        self.assertRegex(out, r"messages +[1-9]")

    def test_smallest_trees(self):
        self.check(2, 0, 2)
        self.check(3, 1, 3)

    def test_the_deepest(self):
        self.check(2, 1, 10)

    def test_tasks_of_srun(self):
        self.check(2, 3, 4, tasks=True)


class Failures(unittest.TestCase):
    def test_a_killed_process_ends_all_with_a_clear_error(self):
        code, error = apps.run_and_kill(1, "tree", 3, "--m", 1000, "--nmax", 10)
        self.assertEqual(code, 1, error)
        self.assertIn("was killed by signal 9", error)
        self.assertEqual(apps.left_over("tree"), [])

    def test_a_folder_that_is_not_there_is_named(self):
        result = apps.run("tree", "--m", 1, "--nmax", 3, "--dump", "/nowhere")
        self.assertNotEqual(result.code, 0)
        self.assertIn("/nowhere/project", result.err.decode())

    def test_options(self):
        for arguments in (("--nmax", 11), ("--nmax", 1), ("--axis", 3), ("--m", -1)):
            self.assertEqual(apps.run("tree", *arguments).code, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
