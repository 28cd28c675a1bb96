#!/usr/bin/python3
"""Installed files and Debian packages: made by cpack, unpacked, used; completion in real shells; units, modulefile and
recipes by the tools that read them.

  package_test.py BUILD_FOLDER [unittest arguments]

A build with tests makes packages here, too, which cpack refuses to others. `tests/package/fresh` makes those of the preset
`package`, and installs them with their dependencies in a fresh system.
"""

import ast
import glob
import gzip
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_SECONDS = 120


def run(*command, check=True, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Folder(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tidepool-package-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEPOOL_", "SLURM_"))}
        cls.environment["XDG_RUNTIME_DIR"] = cls.folder

    def needs(self, program, package):
        path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if path is None:
            self.skipTest(f"apt-get install {package}")
        return path

    def use(self, programs, compile_hello, environment):
        """A start in two commands from the programs in a folder, and a program on the SDK."""
        hello = f"{ROOT}/tests/package/hello.cc"
        binary = os.path.join(self.folder, "hello")
        compile_hello(hello, binary)
        environment = {**environment, "PATH": f"{programs}:{environment['PATH']}"}
        start = run("kvctl", "start", "--local", "1", "--memory", "64MiB", "--", "--wait", "block", env=environment)
        try:
            self.assertIn("started 1 daemon", start.stdout)
            run("kvctl", "put", "default", "greeting", "hello", env=environment)
            self.assertEqual(run("kvctl", "get", "default", "greeting", env=environment).stdout, "hello")
            self.assertEqual(run(binary, env=environment).stdout, "42\n")
            self.assertIn("0 problems", run("kvctl", "doctor", env=environment).stdout)
        finally:
            run("kvctl", "stop", "--discard", env=environment)


def listed(prefix):
    """Path below the prefix -> package, by tests/package/installed.txt. Debian keeps libraries in a folder of the architecture."""
    rows = [line.split() for line in read(f"{ROOT}/tests/package/installed.txt").splitlines() if not line.startswith("#")]
    cache = read(f"{Folder.build}/CMakeCache.txt")
    rows = [row[:2] for row in rows if len(row) == 2 or f"TIDEPOOL_{row[2].upper()}:INTERNAL=ON" in cache]
    libraries = os.path.relpath(os.path.dirname(glob.glob(f"{prefix}/lib/**/libtidepool.so", recursive=True)[0]), prefix)
    return {re.sub("^lib/(?=libtidepool|cmake|fortran|pkgconfig)", libraries + "/", path): package for package, path in rows}


class Packages(Folder):
    """Packages of one cpack."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if shutil.which("dpkg-shlibdeps") is None:
            raise unittest.SkipTest("apt-get install dpkg-dev")
        debs = os.path.join(cls.folder, "debs")
        run("cpack", "-G", "DEB", "-B", debs, "-D", "CPACK_TIDEPOOL_UNFIT=", cwd=cls.build)
        cls.debs = {run("dpkg-deb", "-f", path, "Package").stdout.strip(): path
                    for path in glob.glob(os.path.join(debs, "*.deb"))}
        cls.system = os.path.join(cls.folder, "system")
        for deb in cls.debs.values():
            run("dpkg-deb", "-x", deb, cls.system)

    def fields(self, package):
        return dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", self.debs[package]).stdout.splitlines()
                    if line and not line.startswith(" "))

    def files(self, package):
        return [line.split()[5][1:] for line in run("dpkg-deb", "-c", self.debs[package]).stdout.splitlines()
                if not line.endswith("/")]

    def has_tests(self):
        return "TIDEPOOL_TESTS:BOOL=ON" in read(f"{self.build}/CMakeCache.txt")

    def test_each_has_its_files(self):
        """Those of the list, in the forms that Debian wants."""
        expected = set()
        for path, package in listed(f"{self.system}/usr").items():
            if package == "-":
                continue
            path = re.sub(r"^(share/man/.*)", r"\1.gz", path)
            path = path.replace("CHANGELOG.md", "CHANGELOG.md.gz")
            path = path.replace("share/tidepool/examples/", "share/doc/libtidepool-dev/examples/")
            expected.add((package, "/usr/" + path))
        expected |= {(package, f"/usr/share/doc/{package}/changelog.gz") for package in self.debs}
        found = {(package, path) for package in self.debs for path in self.files(package)}
        self.assertEqual(sorted(self.debs), ["libtidepool-dev", "libtidepool1", "tidepool"])
        self.assertEqual((sorted(expected - found), sorted(found - expected)), ([], []))

    def test_dependencies_are_those_of_the_programs(self):
        depends = self.fields("tidepool")["Depends"]
        for package in ("libgrpc++1.51", "libucx0", "liburing2", "libpmem2", "libc6", "python3", "python3-grpcio",
                        "python3-protobuf"):
            self.assertRegex(depends, rf"(^|, ){re.escape(package)}( |,|$)")
        self.assertIn("libucx0", self.fields("libtidepool1")["Depends"])
        self.assertRegex(self.fields("libtidepool-dev")["Depends"], r"^libtidepool1 \(= ")

    def test_descriptions_are_a_line_and_more(self):
        for package, deb in self.debs.items():
            lines = run("dpkg-deb", "-f", deb, "Description").stdout.splitlines()
            self.assertGreater(len(lines), 1, package)
            self.assertRegex(lines[0], "^[a-z].{20,78}$", package)

    def test_programs_are_stripped(self):
        programs = [f"{self.system}/usr/bin/kvd", f"{self.system}/usr/bin/kvctl",
                    *glob.glob(f"{self.system}/usr/lib/**/libtidepool*.so.1", recursive=True)]
        self.assertEqual(len(programs), 4)
        for program in programs:
            sections = run("readelf", "-SW", program).stdout
            self.assertIn(".dynsym", sections)
            self.assertNotRegex(sections, r"\.symtab|\.debug_")

    def test_failpoints_are_in_builds_with_tests_alone(self):
        names = re.findall(r'^    "([a-z]+\.[a-z]+)",', read(f"{ROOT}/proto/base/failpoint.h"), re.M)
        self.assertGreater(len(names), 10)
        with open(f"{self.system}/usr/bin/kvd", "rb") as file:
            program = file.read()
        found = [name for name in names if b"\0" + name.encode() + b"\0" in program]
        if self.has_tests():  # Otherwise the search itself is at fault.
            self.assertGreater(len(found), 5)
        else:
            self.assertEqual(found, [])

    def test_cpack_refuses_a_build_with_tests(self):
        if not self.has_tests():
            self.skipTest("a build without tests")
        folder = os.path.join(self.folder, "refused")
        done = run("cpack", "-G", "DEB", "-B", folder, cwd=self.build, check=False)
        self.assertNotEqual(done.returncode, 0)
        message = " ".join(done.stderr.split())
        self.assertIn("failpoints", message)
        self.assertIn("cmake --workflow --preset package", message)
        self.assertEqual(glob.glob(f"{folder}/*.deb"), [])

    def test_cpack_refuses_a_build_without_the_native_python_client(self):
        folder = os.path.join(self.folder, "without_headers")
        run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DTIDEPOOL_TESTS=OFF",
            f"-DTIDEPOOL_PYTHON_INCLUDE={folder}")
        done = run("cpack", "-G", "DEB", "-B", folder + "/debs", cwd=folder, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("apt-get install libpython3-dev", " ".join(done.stderr.split()))

    def test_what_is_unpacked_works(self):
        pc = os.path.dirname(glob.glob(f"{self.system}/usr/lib/**/tidepool.pc", recursive=True)[0])
        library = os.path.dirname(glob.glob(f"{self.system}/usr/lib/**/libtidepool.so", recursive=True)[0])

        def compile_hello(source, binary):
            flags = run("pkg-config", "--cflags", "--libs", "tidepool", env={**os.environ, "PKG_CONFIG_PATH": pc}).stdout.split()
            run("g++", "-std=c++20", source, "-o", binary, *flags)

        self.use(f"{self.system}/usr/bin", compile_hello, {**self.environment, "LD_LIBRARY_PATH": library})

    def test_manual_pages_are_for_troff(self):
        man = self.needs("groff", "groff-base")
        for program in ("kvd", "kvctl"):
            page = gzip.open(f"{self.system}/usr/share/man/man1/{program}.1.gz", "rt", encoding="utf-8").read()
            done = run(man, "-man", "-Tutf8", "-wall", input=page)
            self.assertEqual([line for line in done.stderr.splitlines() if "break" not in line], [])
            self.assertIn(program.upper() + "(1)", done.stdout)


class Installed(Folder):
    """cmake --install to any place."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prefix = os.path.join(cls.folder, "a prefix")
        run("cmake", "--install", cls.build, "--prefix", cls.prefix)

    def test_files_are_those_of_the_list(self):
        found = set()
        for folder, _, names in os.walk(self.prefix):
            found |= {os.path.relpath(os.path.join(folder, name), self.prefix) for name in names}
        expected = set(listed(self.prefix))
        problem = "tests/package/installed.txt has what is not installed, and lacks what is"
        self.assertEqual((sorted(expected - found), sorted(found - expected)), ([], []), problem)

    def compile(self, standard, header, *more):
        return run("g++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-I{self.prefix}/include", "-fsyntax-only", "-x", "c++",
                   "-", *more, check=False, input=f"#include <tidepool/{header}>\nint main() {{}}\n")

    def headers(self):
        folder = f"{self.prefix}/include/tidepool"
        return sorted(glob.glob("**/*.h", root_dir=folder, recursive=True))

    def test_one_include_path_is_enough_for_each_header(self):
        headers = self.headers()
        self.assertGreater(len(headers), 30)
        for header in headers:
            done = self.compile("c++20", header)
            self.assertEqual((done.returncode, done.stderr), (0, ""), header)

    def test_a_compiler_before_cxx20_is_refused_by_a_message(self):
        done = self.compile("c++17", "tidepool.h")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(re.findall("error: .*", done.stderr), [
            'error: #error "Tidepool needs C++20: compile with -std=c++20, by g++ 11 or clang 14 or a newer one"'])
        for header in self.headers():
            done = self.compile("c++17", header)
            if done.returncode != 0:  # The message comes first, whatever else does not compile.
                self.assertIn("Tidepool needs C++20", re.search("error: .*", done.stderr)[0], header)

    def test_c_programs_compile_function_h(self):
        run("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{self.prefix}/include", "-fsyntax-only", "-x", "c", "-",
            input="#include <tidepool/function.h>\nint main(void) { return TIDEPOOL_KEEP; }\n")

    def test_python_finds_its_package_by_pythonpath(self):
        environment = {**self.environment, "PYTHONPATH": f"{self.prefix}/lib/python3/dist-packages", "PYTHONDONTWRITEBYTECODE": "1"}
        done = run("/usr/bin/python3", "-c", "import tidepool, importlib.metadata\n"
                   "print(tidepool.__file__, importlib.metadata.version('tidepool'), tidepool.__version__)", env=environment)
        self.assertEqual(done.stdout, f"{environment['PYTHONPATH']}/tidepool/__init__.py {self.version()} {self.version()}\n")

    def version(self):
        return re.search(r"^project\(tidepool VERSION ([0-9.]+)", read(f"{ROOT}/CMakeLists.txt"), re.M)[1]

    def test_pip_and_cmake_make_the_same_python_package(self):
        """By its sources; python_test installs it by pip."""
        setup = read(f"{ROOT}/client/python/setup.py")
        names = re.search(r"for name in \((.*?)\)\]", setup)[1].replace('"', "").split(", ")
        made = sorted(glob.glob("*_pb2*.py", root_dir=f"{self.prefix}/lib/python3/dist-packages/tidepool/v1"))
        self.assertEqual(made, sorted(name + ending for name in names for ending in ("_pb2.py", "_pb2_grpc.py")))

    def test_protoc_reads_the_installed_files(self):
        folder = f"{self.prefix}/share/tidepool/proto"
        files = glob.glob("tidepool/v1/*.proto", root_dir=folder)
        self.assertGreater(len(files), 5)
        run("protoc", f"--proto_path={folder}", f"--descriptor_set_out={self.folder}/set", *files)

    def test_examples_are_built_from_what_is_installed(self):
        source, build = os.path.join(self.folder, "examples"), os.path.join(self.folder, "examples-build")
        shutil.copytree(f"{self.prefix}/share/tidepool/examples", source)
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build, "--parallel", "2")
        environment = {**self.environment, "PATH": f"{self.prefix}/bin:{self.environment['PATH']}",
                       "PYTHONPATH": f"{self.prefix}/lib/python3/dist-packages", "PYTHONDONTWRITEBYTECODE": "1"}
        run("kvctl", "start", "--local", "1", "--memory", "64MiB", "--", "--wait", "block", env=environment)
        try:
            self.assertIn("p7 is at 3.5", run(f"{build}/hello", "plain", env=environment).stdout)
            self.assertIn("10000 particles", run(f"{build}/particles", env=environment).stdout)
            self.assertEqual(run("/usr/bin/python3", f"{source}/hello/hello.py", env=environment).stdout,
                             "hello 7; this is run 1\n")
        finally:
            run("kvctl", "stop", "--discard", env=environment)

    def test_pkg_config_finds_it_where_it_is_moved_to(self):
        moved = os.path.join(self.folder, "moved")
        shutil.copytree(self.prefix, moved, symlinks=True)
        pc = os.path.dirname(glob.glob(f"{moved}/lib/**/tidepool.pc", recursive=True)[0])
        environment = {**os.environ, "PKG_CONFIG_PATH": pc}
        flags = run("pkg-config", "--cflags", "--libs", "tidepool", env=environment).stdout.split()
        includes = [flag[2:] for flag in flags if flag.startswith("-I")]
        self.assertTrue(os.path.exists(os.path.join(includes[0], "tidepool/tidepool.h")), flags)
        self.assertTrue(all(os.path.realpath(path).startswith(moved) for path in includes), flags)

    def test_the_modulefile_leads_to_it(self):
        command = "/usr/lib/x86_64-linux-gnu/modulecmd.tcl"
        if not os.path.exists(command):
            self.skipTest("apt-get install environment-modules")
        done = run("tclsh", command, "sh", "load", "tidepool",
                   env={"PATH": "/usr/bin:/bin", "HOME": self.folder, "MODULEPATH": f"{self.prefix}/share/modulefiles"})
        self.assertNotIn("ERROR", done.stderr)
        which = run("bash", "-c", done.stdout + "\ncommand -v kvctl kvd; man -w kvctl 2>/dev/null; echo \"$PYTHONPATH\"; echo \"$CMAKE_PREFIX_PATH\"")
        self.assertEqual(which.stdout.splitlines()[-2], f"{self.prefix}/lib/python3/dist-packages")
        self.assertEqual(which.stdout.splitlines()[:2], [f"{self.prefix}/bin/kvctl", f"{self.prefix}/bin/kvd"])
        self.assertEqual(which.stdout.splitlines()[-1], self.prefix)

    def module(self, *words, variables=None):
        """What `module WORDS` makes of the variables and of the manual, by environment modules."""
        command = "/usr/lib/x86_64-linux-gnu/modulecmd.tcl"
        if not os.path.exists(command):
            self.skipTest("apt-get install environment-modules")
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "MODULEPATH": f"{self.prefix}/share/modulefiles",
                       **(variables or {})}
        script = "\n".join(
            [f'eval "$(tclsh {command} bash {word} tidepool)"' for word in words] +
            ["for name in MANPATH PYTHONPATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH LD_LIBRARY_PATH; do",
             'echo "$name=${!name-unset}"; done', "man -w kvctl; man -w ls"])
        done = run("bash", "-c", script, env=environment, check=False)
        self.assertNotIn("ERROR", done.stderr)
        lines = done.stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line), [line for line in lines if "=" not in line]

    def test_the_modulefile_keeps_the_manual_working(self):
        man = self.needs("man", "man-db")
        ours = f"{self.prefix}/share/man/man1/kvctl.1"
        before = run(man, "-w", "ls", check=False, env={"PATH": "/usr/bin:/bin"}).stdout.split()
        if not before:
            self.skipTest("this machine has no manual page of ls")
        for given in (None, "/opt/other/man", "/opt/other/man:"):
            variables = {} if given is None else {"MANPATH": given}
            found, pages = self.module("load", variables=variables)
            self.assertEqual(pages, [ours, *before], given)
            self.assertTrue(found["MANPATH"].startswith(f"{self.prefix}/share/man:"), found)
            found, _ = self.module("load", "unload", variables=variables)
            self.assertEqual(found["MANPATH"], given or "unset")

    def test_the_modulefile_leads_python_cmake_and_pkg_config_to_what_is_installed(self):
        found, _ = self.module("load")
        self.assertEqual(found["CMAKE_PREFIX_PATH"], self.prefix)
        config = os.path.dirname(glob.glob(f"{self.prefix}/lib/**/tidepool.pc", recursive=True)[0])
        self.assertEqual(found["PKG_CONFIG_PATH"], config)
        packages = f"{self.prefix}/lib/python3/dist-packages"
        self.assertEqual(found["PYTHONPATH"], packages if os.path.isdir(packages) else "unset")
        self.assertEqual(set(self.module("load", "unload")[0].values()), {"unset"})

    def test_units_are_for_systemd(self):
        analyze = self.needs("systemd-analyze", "systemd")
        for unit, scope in (("user/tidepool.service", ["--user"]), ("system/tidepool@.service", [])):
            text = read(f"{self.prefix}/lib/systemd/{unit}")
            copy = os.path.join(self.folder, os.path.basename(unit))
            with open(copy, "w", encoding="utf-8") as file:  # kvd is found in /usr/bin, where it is not now.
                file.write(text.replace("ExecStart=kvd", "ExecStart=/bin/true"))
            done = run(analyze, *scope, "--man=no", "verify", copy, check=False, env=self.environment)
            self.assertEqual((done.returncode, done.stderr), (0, ""), unit)


class Completion(Folder):
    def of(self, program, shell):
        """As it is installed."""
        if program == "kvctl":
            return run(f"{self.build}/bin/kvctl", "help", "--completion", shell).stdout
        return read(glob.glob(f"{self.build}/daemon/{'kvd.bash' if shell == 'bash' else '_kvd'}")[0])

    def bash(self, *words, program="kvctl"):
        """What bash offers for the last word."""
        path = os.path.join(self.folder, program + ".bash")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.of(program, "bash"))
        script = (f'source {path}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() {{ :; }}; _{program}; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = run("bash", "-c", script, "-", program, *words, cwd=self.folder,
                   env={**self.environment, "PATH": f"{self.build}/bin:{self.environment['PATH']}"})
        self.assertEqual(done.stderr, "")
        return [word for word in done.stdout.splitlines() if word]

    def test_bash_knows_every_verb_and_option_of_the_help(self):
        help_text = run(f"{self.build}/bin/kvctl", "help").stdout
        rows = re.findall(r"^  ([a-z][a-z-]*(?: [a-z-]+)?)(?:  |$)", help_text.split("Verbs:")[1].split("Options of")[0], re.M)
        self.assertGreater(len(rows), 40)
        self.assertEqual(sorted(set(self.bash(""))), sorted({row.split()[0] for row in rows}))
        for row in rows:
            words = row.split()
            if len(words) == 2:
                self.assertIn(words[1], self.bash(words[0], words[1]))
            text = run(f"{self.build}/bin/kvctl", "help", *words).stdout
            options = re.findall(r"^  (?:-\w )?(--[a-z0-9-]+)", text, re.M)
            self.assertEqual(sorted(set(options) - set(self.bash(*words, "--"))), [], row)

    def test_bash_completes_verbs_options_values_and_paths(self):
        os.makedirs(f"{self.folder}/data/deeper", exist_ok=True)
        self.assertEqual(sorted(self.bash("sta")), ["stage", "start", "status"])
        self.assertEqual(self.bash("namespace", "cre"), ["create"])
        self.assertEqual(self.bash("put", "--tt"), ["--ttl"])
        self.assertEqual(self.bash("--timeout", "5s", "put", "--tt"), ["--ttl"])
        self.assertEqual(self.bash("stage", "in", "da"), ["data"])
        self.assertEqual(self.bash("help", "--completion", ""), ["bash", "zsh"])
        self.assertEqual(self.bash("put", "default", "k", "--", "--tt"), [])

    def test_bash_completes_values_that_are_fixed(self):
        self.assertEqual(self.bash("namespace", "create", "x", "--kind", "o"), ["ordered"])
        self.assertEqual(self.bash("namespace", "create", "x", "--kind", "=", "o"), ["ordered"])
        self.assertEqual(self.bash("namespace", "create", "x", "--durability", ""), ["volatile", "async", "sync"])
        self.assertEqual(self.bash("namespace", "create", "x", "--on-loss", ""), ["error", "empty"])
        self.assertEqual(self.bash("doctor", "--require", ""), ["rdma"])
        self.assertEqual(self.bash("--log-level", "d", program="kvd"), ["debug"])
        self.assertEqual(self.bash("--metrics-port", "", program="kvd"), ["auto", "off"])
        self.assertEqual(self.bash("help", "stage", "o"), ["out"])
        os.makedirs(f"{self.folder}/results", exist_ok=True)
        with open(f"{self.folder}/photo.jpg", "w", encoding="utf-8"):
            pass
        self.assertEqual(self.bash("run", "--stage-out", "space", ":", "res"), ["results"])
        self.assertEqual(self.bash("put", "default", "k", "@", "pho"), ["photo.jpg"])
        self.assertEqual(self.bash("put", "default", "k", "pho"), [])
        self.assertIn("kvctl", self.bash("run", "--local", "--", "kvc"))
        self.assertEqual(self.bash("run", "--local", "--", "cat", "pho"), ["photo.jpg"])

    def test_bash_knows_the_options_of_kvd(self):
        text = run(f"{self.build}/bin/kvd", "--help").stdout
        options = re.findall(r"^  (--[a-z0-9-]+)", text, re.M)
        self.assertGreater(len(options), 30)
        self.assertEqual(sorted(set(options) - set(self.bash("--", program="kvd"))), [])
        self.assertEqual(self.bash("--nvm-d", program="kvd"), ["--nvm-dir"])
        self.assertEqual(self.bash("ch", program="kvd"), ["check"])

    def test_namespaces_are_completed_from_the_cluster(self):
        kvctl = f"{self.build}/bin/kvctl"
        run(kvctl, "start", "--local", "1", "--memory", "64MiB", "--", "--wait", "block", env=self.environment)
        try:
            run(kvctl, "namespace", "create", "measures", env=self.environment)
            self.assertEqual(self.bash("get", "me"), ["measures"])
            self.assertEqual(self.bash("run", "--stage-out", "me"), ["measures:"])
            self.assertEqual(self.bash("run", "--stage-in", "data", ":", "me"), ["measures"])
            self.assertEqual(self.bash("namespace", "migrate", "measures", ""), ["local", "0"])
            self.assertEqual(self.bash("--cluster", "/no/such/file", "get", "me"), [])
            self.zsh("kvctl get mea\t", "kvctl get measures")
            self.zsh("kvctl namespace create x --home \t", "local")
        finally:
            run(kvctl, "stop", "--discard", env=self.environment)
        self.assertEqual(self.bash("get", "me"), [])

    def zsh(self, typed, expected):
        """Types into a real zsh with its completion system, and waits for the text."""
        shell = self.needs("zsh", "zsh")
        functions = os.path.join(self.folder, "functions")
        os.makedirs(functions, exist_ok=True)
        for program in ("kvctl", "kvd"):
            with open(f"{functions}/_{program}", "w", encoding="utf-8") as file:
                file.write(self.of(program, "zsh"))
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(shell, [shell, "-f", "-i"], {**self.environment, "TERM": "dumb", "HOME": self.folder, "COLUMNS": "200",
                                                  "PATH": f"{self.build}/bin:{self.environment['PATH']}"})
        try:
            start = f"PS1='> '; LISTMAX=0; fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; print re''ady\n"
            seen = self.converse(terminal, start, "ready")
            seen = self.converse(terminal, typed, expected)
            self.assertNotIn("error", seen.lower())
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def converse(self, terminal, typed, expected):
        os.write(terminal, typed.encode())
        seen = ""
        deadline = time.monotonic() + PATIENCE_SECONDS / 4
        while expected not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x08", "", seen):
            ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"after {typed!r}: no {expected!r} in {seen!r}")
            seen += os.read(terminal, 4096).decode(errors="replace")
        return seen

    def test_zsh_completes_verbs(self):
        self.zsh("kvctl namespace cre\t", "kvctl namespace create")

    def test_zsh_completes_options_of_a_verb(self):
        self.zsh("kvctl put --tt\t", "kvctl put --ttl")

    def test_zsh_lists_what_verbs_do(self):
        self.zsh("kvctl stage \t", "copy")

    def test_zsh_completes_values(self):
        self.zsh("kvctl help --completion ba\t", "--completion bash")
        self.zsh("kvctl namespace create x --kind ord\t", "--kind ordered")

    def test_zsh_completes_options_of_kvd(self):
        self.zsh("kvd --nvm-d\t", "kvd --nvm-dir")


class Recipes(unittest.TestCase):
    def test_the_one_for_spack_is_python_and_it_and_the_image_have_what_the_build_looks_for(self):
        """Spack itself was not run."""
        text = read(f"{ROOT}/deploy/spack/package.py")
        tree = ast.parse(text)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "depends_on"]
        names = {re.split(r"[@+~ ]", call.args[0].value)[0] for call in calls}
        libraries = {"gRPC": ("grpc", "libgrpc++-dev"), "Protobuf": ("protobuf", "libprotobuf-dev"), "ucx": ("ucx", "libucx-dev"),
                     "spdlog": ("spdlog", "libspdlog-dev"), "CLI11": ("cli11", "libcli11-dev"),
                     "absl": ("abseil-cpp", "libabsl-dev"), "nlohmann_json": ("nlohmann-json", "nlohmann-json3-dev"),
                     "OpenSSL": ("openssl", "libssl-dev"), "libxxhash": ("xxhash", "libxxhash-dev"),
                     "munge": ("munge", "libmunge-dev"), "tomlplusplus": ("tomlplusplus", "libtomlplusplus-dev"),
                     "libisal": ("isa-l", "libisal-dev"), "liburing": ("liburing", "liburing-dev"),
                     "libpmem2": ("pmdk", "libpmem2-dev"), "Boost": ("boost", "libboost-dev"),
                     "prometheus": ("prometheus-cpp", "prometheus-cpp-dev"), "openblas": ("openblas", None), "ZLIB": ("zlib-api", None),
                     "PkgConfig": ("pkgconfig", "pkg-config"),
                     "fuse3": ("libfuse", "libfuse3-dev")}
        packages = read(f"{ROOT}/deploy/packages-build.txt").split()
        build = read(f"{ROOT}/deploy/cmake/TidepoolBuild.cmake") + read(f"{ROOT}/client/CMakeLists.txt") + read(f"{ROOT}/cli/CMakeLists.txt")
        wanted = re.findall(r"^\s*find_package\((\w+)", build, re.M)
        wanted += re.findall(r"pkg_check_modules\(\w+ (?:REQUIRED )?IMPORTED_TARGET (\w+)", build)
        self.assertGreater(len(wanted), 12)
        for name in set(wanted) - {"Threads"}:
            self.assertIn(name, libraries, "a new library: deploy/spack, deploy/packages-build.txt and this test want it")
            in_spack, in_debian = libraries[name]
            self.assertIn(in_spack, names)
            self.assertTrue(in_debian is None or in_debian in packages, in_debian)
        self.assertIn("was not run", text)
        self.assertIn("UNTRIED", text)
        # A compiler is a dependency in Spack 1, and a version without a place cannot be fetched.
        self.assertLessEqual({"c", "cxx"}, names)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        assigned = {target.id for node in classes[0].body if isinstance(node, ast.Assign) for target in node.targets}
        self.assertIn("git", assigned)
        imported = {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
        self.assertLessEqual({base.id for base in classes[0].bases}, imported)

    def test_the_one_for_apptainer_says_that_it_is_untried_and_names_files_that_are_there(self):
        text = read(f"{ROOT}/deploy/apptainer/tidepool.def")
        self.assertIn("UNTRIED", text)
        for path in re.findall(r"\bdeploy/[\w.-]+", text):
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)
        # Neither a build folder nor git's own; all that the build reads is there.
        copied = set(re.findall(r"^    ([\w.]+) /src/\1$", text, re.M))
        self.assertEqual(copied & {".", "build", ".git"}, set())
        wanted = set(re.findall(r"^add_subdirectory\((\w+)\)", read(f"{ROOT}/CMakeLists.txt"), re.M))
        wanted |= {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CHANGELOG.md"}
        self.assertEqual(copied, wanted)

    def test_images_can_use_rdma_devices(self):
        self.assertIn("ibverbs-providers", read(f"{ROOT}/deploy/packages-runtime.txt").split())

    def test_no_package_is_both_for_the_build_and_for_tests(self):
        build, test = (set(re.findall("^[^#\n]+$", read(f"{ROOT}/deploy/packages-{name}.txt"), re.M)) for name in ("build", "test"))
        self.assertEqual(build & test, set())


if __name__ == "__main__":
    Folder.build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
