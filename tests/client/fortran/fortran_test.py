#!/usr/bin/python3
"""The Fortran module: the programs beside this file on real daemons, its interfaces beside the ABI of the C API, the
commands and the programs of client/fortran/README.md with an installed copy, and the coupled example.

  fortran_test.py BUILD_FOLDER COMPILER [unittest arguments]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
from kvctl_support import PATIENCE_SECONDS, Cluster  # pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SOURCES = os.path.join(ROOT, "client", "fortran")
HEAT = os.path.join(ROOT, "client", "examples", "heat")
README = "client/fortran/README.md"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
# The commands of the README. A test replaces the compiler, and gives mpirun its options.
COMPILE = "gfortran program.f90 $(pkg-config --cflags --libs tidepool-fortran)"
COMPILE_SOURCES = """src=$(pkg-config --variable=sourcedir tidepool-fortran)
for name in _c_api _failures _format _records _clients ''; do gfortran -c $src/tidepool$name.f90; done
gfortran program.f90 tidepool*.o $(pkg-config --libs tidepool-c)"""
COMPILE_HEAT = """mpifort heat.f90 -o heat $(pkg-config --cflags --libs tidepool-fortran)
gfortran analysis.f90 -o analysis $(pkg-config --cflags --libs tidepool-fortran)"""
RUN_HEAT = "mpirun -n 4 ./heat & ./analysis 20"
# What a snippet of the README that is no program finds around it.
AROUND = """program snippet
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use tidepool
  implicit none
  type(tidepool_map) :: map
%s
end program snippet
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Interfaces(unittest.TestCase):
    """module tidepool_c_api says what the C API is."""

    ALIASES = {"TIDEPOOL_FIFO": "TIDEPOOL_QUEUE", "TIDEPOOL_OPEN_EXISTING": "TIDEPOOL_OPEN",
               "TIDEPOOL_FOR_EVER": None}
    BYTES = {"integer(c_size_t)": 8, "integer(c_int64_t)": 8, "real(c_double)": 8, "type(c_ptr)": 8,
             "integer(c_int)": 4, "integer(c_int32_t)": 4, "type(tidepool_bytes)": 16}

    @classmethod
    def setUpClass(cls):
        cls.text = read(os.path.join(SOURCES, "tidepool_c_api.f90"))
        cls.abi = read(os.path.join(ROOT, "client", "c", "abi.txt")).splitlines()

    def test_constants(self):
        lines = [line for line in self.text.splitlines() if "parameter ::" in line]
        found = [pair for line in lines for pair in re.findall(r"(tidepool_\w+) = (-?\d+)", line)]
        self.assertGreater(len(found), 30)
        for name, number in found:
            name = self.ALIASES.get(name.upper(), name.upper())
            if name is not None:
                self.assertIn(f"constant {name} {number}", self.abi)

    def test_types(self):
        types = re.findall(r"type, bind\(c\) :: (\w+)\n(.*?)\n  end type", self.text, re.DOTALL)
        self.assertGreater(len(types), 8)
        for name, body in types:
            offset, rows = 0, []
            for kind, field in re.findall(r"^    (\S+) :: (\w+)", body, re.MULTILINE):
                size = self.BYTES[kind]
                align = min(size, 8)
                offset = -(-offset // align) * align
                rows.append(f"field {name}.{field} {offset}")
                offset += size
            self.assertEqual(rows, [line for line in self.abi if line.startswith(f"field {name}.")])
            self.assertIn(f"struct {name} {-(-offset // 8) * 8}", self.abi)

    def test_functions_have_the_arguments_of_the_headers(self):
        headers = "".join(read(os.path.join(ROOT, "client/include/tidepool/c", name))
                          for name in os.listdir(os.path.join(ROOT, "client/include/tidepool/c")))
        declared = dict(re.findall(r"TIDEPOOL_C_API\s[^;(]*?\b(tidepool_\w+)\(([^;]*?)\);", headers))
        found = re.findall(r"^    (?:function|subroutine) (tidepool_\w+)\((.*?)\) bind\(c\)(?! *,)", self.text, re.MULTILINE)
        self.assertGreater(len(found), 20)
        for name, arguments in found:
            wanted = 0 if declared[name] == "void" else declared[name].count(",") + 1
            self.assertEqual(len(arguments.split(",")) if arguments else 0, wanted, name)


class Case(unittest.TestCase):
    """Tests of one class share a cluster."""

    build = compiler = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.build)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start(2, 128)
        cls.environment = {**cls.cluster.environment, "TIDEPOOL_CLUSTER": cls.cluster.file,
                           "PYTHONPATH": os.path.join(cls.build, "python"), "PYTHONDONTWRITEBYTECODE": "1"}


class OnDaemons(Case):
    def program(self, name):
        return os.path.join(self.build, "bin", "fortran_" + name)

    def python(self, text):
        return run("/usr/bin/python3", "-c", text, env=self.environment)

    def test_values_of_all_types(self):
        self.assertIn("all is well", run(self.program("arrays"), env=self.environment))

    def test_queues(self):
        self.assertIn("all is well", run(self.program("queues"), env=self.environment))

    def test_a_failure_without_stat_is_printed_and_ends_the_program(self):
        done = subprocess.run([self.program("failure")], env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^tidepool: NOT_FOUND: .*\n")

    def test_a_program_without_a_cluster_is_told(self):
        environment = {**self.environment, "TIDEPOOL_CLUSTER": "/no/such/file"}
        done = subprocess.run([self.program("queues")], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^tidepool: NOT_FOUND: .*/no/such/file")

    def test_python_reads_what_fortran_puts(self):
        run(self.program("exchange"), "put", env=self.environment)
        self.python("""
import numpy, tidepool
with tidepool.connect() as t:
    m = t["exchange"]
    a = m.array("f8")
    assert a.dtype == "f8" and a.shape == (2, 3) and a.tolist() == [[1, 3, 5], [2, 4, 6]], a
    a = m.array("f4")
    assert a.dtype == "f4" and a.shape == (2, 3, 4) and a[1, 2, 3] == 24 and a[1, 0, 0] == 2 and a[0, 1, 0] == 3, a
    assert m.array("i4").tolist() == [1, 2, 3, 4, 5] and m.array("i4").dtype == "i4"
    assert m.array("i8").tolist() == [2**40] and m.array("i8").dtype == "i8"
    assert m.array("S").tolist() == [b"one  ", b"three"]
    assert m["text"] == b"a text" and m["integer"] == 42 and m["real"] == 0.5
    assert m.array("plain", "f8").tolist() == [1.5, 2.5]
""")

    def test_fortran_reads_what_python_puts(self):
        self.python("""
import io, numpy, tidepool
def npy(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()
with tidepool.connect() as t:
    m = t.create("exchange")
    m["rows"] = numpy.arange(6.0).reshape(2, 3)
    m["columns"] = numpy.asfortranarray(numpy.arange(1, 7, dtype="i4").reshape(2, 3).T)
    m["block"] = numpy.arange(24.0).reshape(2, 3, 4)
    m["words"] = npy(numpy.array([b"ab", b"cdef"]))
    m["text"], m["integer"], m["real"] = "string", -3, 2.5
    m["big-endian"] = npy(numpy.arange(2.0).astype(">f8"))
    m["four"] = npy(numpy.zeros((1, 1, 1, 2)))
    m["fields"] = npy(numpy.zeros(2, [("x", "f8"), ("y", "i4")]))
    m["dates"] = npy(numpy.zeros(2, "M8[s]"))
    m["logical"] = npy(numpy.zeros(2, "?"))
    m["cut"] = npy(numpy.zeros(2))[:-1]
    m["damaged"] = npy(numpy.zeros(2)).replace(b"(2,)", b"(x,)")
    m["bytes"] = b"0123456789abcdef"
""")
        run(self.program("exchange"), "get", env=self.environment)

    def test_the_analysis_follows_the_simulation(self):
        self.couple(self.program("heat"), self.program("analysis"), 2)

    def couple(self, heat, analysis, ranks):
        """Heat stays; the hottest place cools until the analysis stops the simulation."""
        if not os.path.exists(heat):
            self.skipTest("apt-get install libopenmpi-dev openmpi-bin")
        with subprocess.Popen([*MPIRUN, "-n", str(ranks), heat], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.environment) as simulation:
            try:
                lines = run(analysis, "10", env=self.environment).splitlines()
                out, error = simulation.communicate(timeout=PATIENCE_SECONDS)
            finally:
                simulation.kill()
        self.assertEqual(simulation.returncode, 0, error)
        found = [re.fullmatch(r"step (\d+): heat (.*), hottest (.*), coldest (.*)", line).groups() for line in lines]
        self.assertGreater(len(found), 2)
        self.assertEqual([int(step) for step, *_ in found], list(range(10, 10 * len(found) + 1, 10)))
        self.assertTrue(all(abs(float(heat) - 1000) < 1e-3 for _, heat, _, _ in found), found)
        hottest = [float(each) for _, _, each, _ in found]
        self.assertEqual(hottest, sorted(hottest, reverse=True))
        self.assertTrue(hottest[-1] < 10 <= hottest[-2], hottest)
        self.assertEqual(out, f"heat: ended after {found[-1][0]} steps\n")
        return found

    def test_the_number_of_ranks_changes_nothing(self):
        results = [self.couple(self.program("heat"), self.program("analysis"), ranks) for ranks in (1, 3)]
        self.assertEqual(*results)


class Readme(Case):
    """With an installed copy."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = tempfile.mkdtemp(prefix="fortran-test-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        prefix = os.path.join(cls.work, "prefix")
        for component in ("library", "sdk"):
            run("cmake", "--install", cls.build, "--prefix", prefix, "--component", component)
        libraries = next(folder for folder, _, names in os.walk(prefix) if "libtidepool_c.so" in names)
        cls.environment = {**cls.environment, "PKG_CONFIG_PATH": libraries + "/pkgconfig", "LD_LIBRARY_PATH": libraries}

    def sh(self, commands):
        return run("sh", "-ec", commands.replace("gfortran", self.compiler), cwd=self.work, env=self.environment)

    def blocks(self):
        return re.findall(r"^```fortran\n(.*?)^```", read(os.path.join(ROOT, README)), re.MULTILINE | re.DOTALL)

    def write(self, text):
        with open(os.path.join(self.work, "program.f90"), "w", encoding="utf-8") as file:
            file.write(text)

    def test_programs_and_snippets(self):
        self.assertGreater(len(self.blocks()), 2)
        for block in self.blocks():
            is_program = block.startswith("program ")
            self.write(block if is_program else AROUND % block)
            self.sh(COMPILE)
            if is_program:
                self.assertEqual(run("./a.out", cwd=self.work, env=self.environment), "sum 1500.0\n")

    def test_the_module_from_its_sources(self):
        self.write(self.blocks()[0])
        self.sh(COMPILE_SOURCES)
        self.assertEqual(run("./a.out", cwd=self.work, env=self.environment), "sum 1500.0\n")

    def test_the_coupled_example(self):
        if shutil.which("mpifort") is None:
            self.skipTest("apt-get install libopenmpi-dev openmpi-bin")
        for name in ("heat.f90", "analysis.f90"):
            shutil.copy(os.path.join(HEAT, name), self.work)
        self.sh(COMPILE_HEAT)
        text = self.sh(RUN_HEAT.replace("mpirun", " ".join(MPIRUN)) + "; wait")
        self.assertRegex(text, r"(?m)^step 10: heat  1000\.0000, hottest ")
        self.assertRegex(text, r"(?m)^heat: ended after \d+ steps$")


if __name__ == "__main__":
    Case.build, Case.compiler = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)
    unittest.main(verbosity=2)
