#!/usr/bin/python3
"""deploy/quickstart under bad input: one clear line with the remedy, and nothing left behind.

  quickstart_test.py BUILD_FOLDER [unittest arguments]

Each test has a copy of the checkout, a temporary folder, and a mark in the environment of all its processes. Tests that
need no fresh build install BUILD_FOLDER to build/install and call `deploy/quickstart --no-build`. A whole build and the
packages are tests/docs/after_quickstart's and tests/package/bare_system's.
"""

import glob
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_SECONDS = 240
NOBODY = 65534
COMPILERS = re.compile(r"(.*-)?(c\+\+|g\+\+|gcc|cc|clang|clang\+\+)(-\d+)?")


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {PATIENCE_SECONDS} s: not {what}")
        time.sleep(0.02)


class Case(unittest.TestCase):
    build = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="quickstart-test-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        self.checkout = f"{self.folder}/a checkout"
        shutil.copytree(ROOT, self.checkout, ignore=shutil.ignore_patterns("build", ".git", ".cache", "__pycache__"))
        self.listing = sorted(os.listdir(self.checkout))
        self.temporary = f"{self.folder}/t"
        os.mkdir(self.temporary)
        os.chmod(self.temporary, 0o1777)
        self.data = f"{self.folder}/data"
        os.makedirs(f"{self.data}/sub")
        for i in range(50):
            self.write(f"{self.data}/sub/file{i}.txt", f"line {i}\n" * (i + 1))
        os.symlink("sub/file1.txt", f"{self.data}/link")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TIDEPOOL_", "SLURM_", "CMAKE_"))}
        self.environment.update(TMPDIR=self.temporary, XDG_RUNTIME_DIR=self.temporary, QUICKSTART_TEST=self.folder)

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def install(self):
        subprocess.run(["cmake", "--install", self.build, "--prefix", f"{self.checkout}/build/install"], check=True,
                       stdout=subprocess.DEVNULL)

    def command(self, *arguments, user=None):
        command = ["deploy/quickstart", *arguments]
        if user is not None:
            command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *command]
        return command

    def start(self, *arguments, user=None, **more):
        """Starts it as the leader of a process group, as a shell on a terminal does."""
        more.setdefault("cwd", self.checkout)
        more.setdefault("env", self.environment)
        return subprocess.Popen(self.command(*arguments, user=user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True, **more)

    def call(self, *arguments, **more):
        process = self.start(*arguments, **more)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        self.assert_nothing_left()
        return process.returncode, output

    def processes(self):
        """Returns what has this test's mark in its environment."""
        mark = f"QUICKSTART_TEST={self.folder}\0".encode()
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if mark in file.read():
                        found.append(int(path.split("/")[2]))
            except OSError:
                pass
        return found

    def assert_nothing_left(self):
        wait_until(lambda: not self.processes(), "without its processes")
        self.assertEqual(glob.glob(f"{self.temporary}/**", recursive=True), [f"{self.temporary}/"])
        self.assertEqual(sorted(set(os.listdir(self.checkout)) - {"build"}), self.listing)
        if os.path.exists(f"{self.checkout}/build"):
            self.assertEqual(set(os.listdir(f"{self.checkout}/build")) - {"default", "install"}, set())

    def assert_refused(self, result, *texts, code=1):
        """One line of quickstart's, which is the last one, and no word of a step behind it."""
        returned, output = result
        self.assertEqual(returned, code, output)
        own = [line for line in output.splitlines() if line.startswith("quickstart: ")]
        self.assertEqual([output.splitlines()[-1]], own, output)
        for text in texts:
            self.assertIn(text, own[0])

    def needs_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")


class Refused(Case):
    """Before anything was built."""

    def test_wrong_usage(self):
        for arguments in (["--jobs"], ["a", "b"]):
            self.assert_refused(self.call(*arguments), "--help", code=2)
        self.assertIn("--no-build", self.call("--help")[1])

    def test_a_directory_that_is_not_there_or_none(self):
        self.assert_refused(self.call("nothing"), "there is no ", "/nothing", code=2)
        self.assert_refused(self.call("README.md"), "is no directory", code=2)

    def test_a_directory_that_cannot_be_read(self):
        self.needs_root()
        for mode, path in ((0o000, "sub/deep"), (0o644, "sub"), (0o000, "")):
            with self.subTest(path=path):
                os.makedirs(f"{self.data}/sub/deep", exist_ok=True)
                os.chmod(f"{self.data}/{path}", mode)
                self.assert_refused(self.call(self.data, user=NOBODY), f"{self.data}/{path}".rstrip("/"), "cannot be read by",
                                    "another directory", code=2)
                os.chmod(f"{self.data}/{path}", 0o755)
        os.chmod(f"{self.data}/sub/file3.txt", 0)
        self.assert_refused(self.call(self.data, user=NOBODY), "sub/file3.txt cannot be read", code=2)

    def test_a_directory_with_what_is_no_file(self):
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"{self.data}/socket")
            self.assert_refused(self.call(self.data), "/socket is neither", code=2)

    def test_a_directory_that_holds_the_build_or_the_copy(self):
        for path in (".", self.folder, self.temporary):
            self.assert_refused(self.call(path), "pass another directory", code=2)

    def test_no_compiler(self):
        programs = f"{self.folder}/bin"
        os.mkdir(programs)
        for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
            for name in os.listdir(folder):
                if not COMPILERS.fullmatch(name) and not os.path.lexists(f"{programs}/{name}"):
                    os.symlink(f"{folder}/{name}", f"{programs}/{name}")
        self.environment["PATH"] = programs
        self.assert_refused(self.call("--no-packages", self.data), "no c++ in PATH", "deploy/install-packages")
        os.remove(f"{programs}/cmake")
        self.assert_refused(self.call("--no-packages", self.data), "no cmake in PATH")

    def test_a_compiler_without_its_headers_or_of_another_language(self):
        self.environment["CXX"] = "/usr/bin/false"
        self.assert_refused(self.call("--no-packages", self.data), "/usr/bin/false compiles no C++20", "set CXX")

    def test_no_root_and_a_package_is_missing(self):
        with open(f"{self.checkout}/deploy/packages-build.txt", "a", encoding="utf-8") as file:
            file.write("no-such-package-of-tidepool\n")
        user = NOBODY if os.geteuid() == 0 else None
        os.mkdir(f"{self.checkout}/build")
        os.chmod(f"{self.checkout}/build", 0o777)
        self.assert_refused(self.call(self.data, user=user), "missing packages", "deploy/install-packages")

    def test_a_question_that_is_answered_with_no(self):
        self.needs_root()
        with open(f"{self.checkout}/deploy/packages-build.txt", "a", encoding="utf-8") as file:
            file.write("no-such-package-of-tidepool\n")
        for answer in (b"no\n", b"\n", b"\x04"):
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(self.checkout)
                os.execve("deploy/quickstart", self.command(self.data), self.environment)
            seen = b""
            while b"[yes/no]" not in seen:
                seen += os.read(terminal, 4096)
            os.write(terminal, answer)
            try:
                while part := os.read(terminal, 4096):
                    seen += part
            except OSError:  # The other side is closed.
                pass
            os.close(terminal)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 1)
            self.assertIn(b"minutes", seen)
            self.assertIn(b"nothing was installed", seen)
            self.assert_nothing_left()

    def test_a_checkout_of_another_user(self):
        self.needs_root()
        self.assert_refused(self.call("--no-packages", self.data, user=NOBODY), "cannot write to", "copy of the checkout")
        os.mkdir(f"{self.checkout}/build")
        self.assert_refused(self.call("--no-packages", self.data, user=NOBODY), "cannot write to")
        os.chmod(f"{self.checkout}/build", 0o777)
        os.mkdir(f"{self.checkout}/build/default")
        self.assert_refused(self.call("--no-packages", self.data, user=NOBODY), "build/default cannot be written")

    def test_too_little_memory(self):
        command = ["bash", "-c", 'ulimit -v 800000; exec "$@"', "-", *self.command("--no-packages", self.data)]
        done = subprocess.run(command, cwd=self.checkout, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=PATIENCE_SECONDS)
        self.assert_nothing_left()
        self.assert_refused((done.returncode, done.stdout), "MiB of memory are free", "ulimit -v")

    def test_nothing_was_installed_for_no_build(self):
        self.assert_refused(self.call("--no-build", self.data), "build/install has no kvctl", "without --no-build")


class SmallDisk(Case):
    """Folders on a small file system of their own, which is gone with quickstart's last process."""

    def call_with_disk(self, folder, size, *arguments):
        self.needs_root()
        script = 'mount -t tmpfs -o size=$1,mode=1777 none "$2"; shift 2; exec "$@"'
        process = subprocess.Popen(["unshare", "--mount", "bash", "-euc", script, "-", size, folder, *self.command(*arguments)],
                                   cwd=self.checkout, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return process

    def result(self, process):
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        self.assert_nothing_left()
        return process.returncode, output

    def test_for_the_build(self):
        os.mkdir(f"{self.checkout}/build")
        process = self.call_with_disk(f"{self.checkout}/build", "100m", "--no-packages", self.data)
        self.assert_refused(self.result(process), "MiB free", "the build takes", "on another disk")

    def test_that_gets_full_during_the_build(self):
        os.mkdir(f"{self.checkout}/build")
        process = self.call_with_disk(f"{self.checkout}/build", "2g", "--no-packages", self.data)
        for line in process.stdout:
            if line.startswith("build: "):
                break
        # Its mounts are seen by its root.
        build = f"/proc/{process.pid}/root{self.checkout}/build"
        with open(f"{build}/default/rest", "wb") as file, self.assertRaises(OSError):
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        returned, output = self.result(process)
        self.assertEqual(returned, 1, output)
        self.assertIn("is full", output.splitlines()[-1])

    def test_for_the_copy(self):
        self.install()
        self.write(f"{self.data}/large", "x" * (20 << 20))
        process = self.call_with_disk(self.temporary, "10m", "--no-build", self.data)
        self.assert_refused(self.result(process), "MiB free", "set TMPDIR", code=2)

    def test_without_room_for_anything(self):
        process = self.call_with_disk(self.temporary, "4k,nr_inodes=1", "--no-packages", self.data)
        self.assert_refused(self.result(process), "set TMPDIR", code=2)


class OldBuildFolder(Case):
    """The build itself begins, so it was configured anew; then it is interrupted."""

    def configure(self, *arguments):
        subprocess.run(["cmake", "--preset", "default", *arguments], cwd=self.checkout, env=self.environment, check=True,
                       stdout=subprocess.DEVNULL)

    def assert_begins(self, *texts):
        process = self.start("--no-packages", self.data)
        seen = ""
        for line in process.stdout:
            seen += line
            if line.startswith("build: "):
                break
        os.killpg(process.pid, signal.SIGINT)
        seen += process.communicate(timeout=PATIENCE_SECONDS)[0]
        self.assertEqual(process.returncode, 130, seen)
        self.assertIn("\nbuild: ", seen)
        for text in texts:
            self.assertIn(text, seen)
        self.assert_nothing_left()
        return seen

    def test_of_a_checkout_that_has_moved(self):
        self.configure()
        moved = f"{self.folder}/moved"
        os.rename(self.checkout, moved)
        self.checkout = moved
        self.assert_begins("making it anew")
        self.assertNotIn("making it anew", self.assert_begins())

    def test_of_another_generator_and_other_options(self):
        self.configure("-G", "Unix Makefiles", "-DTIDEPOOL_SANITIZE=thread")
        self.assert_begins("making it anew")

    def test_that_is_damaged(self):
        os.makedirs(f"{self.checkout}/build/default/CMakeFiles")
        self.write(f"{self.checkout}/build/default/CMakeCache.txt", "no cache\n\0\1")
        self.write(f"{self.checkout}/build/default/build.ninja", "rule {")
        self.write(f"{self.checkout}/build/default/.ninja_log", "junk")
        self.assert_begins("making it anew")


class Demonstration(Case):
    """With what build/install has."""

    def setUp(self):
        super().setUp()
        self.install()

    def test_it_works_and_leaves_nothing(self):
        returned, output = self.call("--no-build", self.data)
        self.assertEqual(returned, 0, output)
        self.assertIn("the trees are equal", output)
        lines = [line for line in output.splitlines() if line.startswith("export ")]
        script = "\n".join(["set -eu", *lines, "command -v kvctl", "/usr/bin/python3 -c 'import tidepool; print(tidepool.__file__)'"])
        done = subprocess.run(["bash", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
        install = f"{self.checkout}/build/install"
        self.assertEqual(done.stdout.splitlines(), [f"{install}/bin/kvctl", f"{install}/lib/python3/dist-packages/tidepool/__init__.py"])

    def test_odd_directories(self):
        os.mkdir(f"{self.folder}/empty")
        self.assertEqual(self.call("--no-build", f"{self.folder}/empty")[0], 0)
        odd = f"{self.folder}/-odd 'name'"
        os.mkdir(odd)
        self.write(f"{odd}/a\nb", "1")
        os.symlink("nowhere", f"{odd}/dangling")
        returned, output = self.call("--no-build", odd)
        self.assertEqual(returned, 0, output)

    def test_an_interrupt_at_any_moment(self):
        """After each few of the lines that a whole run prints."""
        returned, output = self.call("--no-build", self.data)
        self.assertEqual(returned, 0, output)
        count = len(output.splitlines())
        signals = [signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        for at in range(0, count - 20, 5):
            number = signals[at // 5 % len(signals)]
            with self.subTest(line=at, signal=number):
                process = self.start("--no-build", self.data)
                seen = "".join(process.stdout.readline() for _ in range(at))
                os.killpg(process.pid, number)
                seen += process.communicate(timeout=PATIENCE_SECONDS)[0]
                if at == 0 and process.returncode == -number:  # It had not begun.
                    self.assert_nothing_left()
                    continue
                self.assertEqual(process.returncode, 128 + number, seen)
                self.assertTrue(seen.splitlines()[-1].startswith("quickstart: interrupted; nothing is left running"), seen)
                self.assert_nothing_left()

    def test_two_at_once(self):
        both = [self.start("--no-build", self.data) for _ in range(2)]
        outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], outputs)
        self.assertEqual(sum("another one is at work" in output for output in outputs), 1, outputs)
        self.assert_nothing_left()

    def test_one_that_waits_is_interrupted(self):
        first = self.start("--no-build", self.data)
        first.stdout.readline()
        os.kill(first.pid, signal.SIGSTOP)
        second = self.start("--no-build", self.data)
        self.assertIn("another one is at work", second.stdout.readline())
        os.killpg(second.pid, signal.SIGINT)
        second.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(second.returncode, 130)
        os.kill(first.pid, signal.SIGCONT)
        output = first.communicate(timeout=PATIENCE_SECONDS)[0]
        self.assertEqual(first.returncode, 0, output)
        self.assert_nothing_left()

    def test_after_a_failure_only_the_logs_of_its_own_daemons_are_shown(self):
        self.write(f"{self.data}/other.log", "of another program\n")
        os.makedirs(f"{self.data}/logs")
        self.write(f"{self.data}/logs/kvd-0.log", "of another program\n")
        process = self.start("--no-build", self.data)
        seen = ""
        for line in process.stdout:
            seen += line
            if "stage in" in line and line.startswith("$"):
                break
        killed = [pid for pid in self.processes() if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "kvd"]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        seen += process.communicate(timeout=PATIENCE_SECONDS)[0]
        self.assertEqual(len(killed), 3, seen)
        self.assertNotEqual(process.returncode, 0, seen)
        self.assertRegex(seen, r"==> .*/logs/kvd-\d.log <==")
        self.assertNotIn("of another program", seen)
        self.assertIn("quickstart: ", seen.splitlines()[-1])
        self.assert_nothing_left()


if __name__ == "__main__":
    Case.build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
