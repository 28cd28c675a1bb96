#!/usr/bin/python3
"""kvctl mount and umount: a staged tree as programs see it, and how a mount ends.

  kvctl_mount_test.py BUILD_FOLDER [unittest arguments]

Where nothing can be mounted only the tests of refusals run, and the program ends with 77: ctest counts it as skipped.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from kvctl_support import PATIENCE_SECONDS, KvctlTest, alive, wait_until

BIG_BYTES = (64 << 20) + 4321  # Two parts.
SPARSE_BYTES = 80 << 20


def why_no_mount():
    """Returns why this machine cannot mount, or ""."""
    if not os.path.exists("/dev/fuse"):
        return "this machine has no /dev/fuse"
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"no access to /dev/fuse: {error.strerror}"
    try:
        if os.geteuid() != 0:
            return "" if shutil.which("fusermount3") else "apt-get install fuse3"
        # A container may have the device without the right to mount.
        libc = ctypes.CDLL(None, use_errno=True)
        with tempfile.TemporaryDirectory(prefix="mount-test-") as folder:
            options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
            if libc.mount(b"probe", folder.encode(), b"fuse", ctypes.c_ulong(0), options) != 0:
                return f"no mounts here: {os.strerror(ctypes.get_errno())}"
            libc.umount2(folder.encode(), 2)
        return ""
    finally:
        os.close(device)


# The commands of cli/README.md.
COMMANDS = """mkdir inputs.mnt
kvctl mount inputs inputs.mnt
cat inputs.mnt/run1/a.txt
kvctl umount inputs.mnt
"""
NO_MOUNT = why_no_mount()


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return {line.split()[4]: line.split(" - ")[1].split()[0] for line in file}


def servers(point):
    """Processes that serve, or begin to serve, a mount on `point`."""
    done = subprocess.run(["pgrep", "-f", f"mount --foreground .* -- .* {point}$"], capture_output=True, check=False, text=True)
    return done.stdout.split()


class MountTest(KvctlTest):
    node_mib = 512

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mount-test-")
        self.point = os.path.join(self.folder, "mount point")
        os.mkdir(self.point)
        self.addCleanup(self.clean)

    def clean(self):
        if "mount-test-" in "".join(mounts()):
            subprocess.run(["umount", "-l", self.point], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def source(self, name="source"):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, path, content, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)

    def stage(self, source, space):
        self.good("namespace", "create", space)
        self.good("stage", "in", source, space)

    def mount(self, space, *options):
        return self.kvctl("mount", "--json", *options, space, self.point)

    def mounted(self, space, *options):
        """Mounts, and returns the result."""
        result = self.mount(space, *options)
        self.assertEqual(result.code, 0, result)
        return result.json()["result"]

    def read(self, *path):
        with open(os.path.join(self.point, *path), "rb") as file:
            return file.read()

    def unmounted(self):
        """Waits until nothing is mounted."""
        wait_until(lambda: self.point.replace(" ", "\\040") not in mounts())


@unittest.skipIf(NO_MOUNT, NO_MOUNT)
class Mounted(MountTest):
    def test_a_tree_is_what_was_staged(self):
        source = self.source()
        self.write(source + "/a.txt", b"temperature 291\n")
        self.write(source + "/run1/deep/er/b.bin", os.urandom(300_000), 0o755)
        self.write(source + "/run1/private", b"", 0o600)
        self.write(source + "/big", b"b" + os.urandom(BIG_BYTES - 2) + b"e")
        with open(source + "/sparse", "wb") as file:
            file.seek(70 << 20)
            file.write(b"in the middle")
            file.truncate(SPARSE_BYTES)
        for name in (b"n\xc3\xa4me with blanks", b"latin-1 \xe4", b"line\nbreak", b"back\\slash, comma", b"-x", b"'\"*?", b"n" * 255):
            self.write(os.path.join(source.encode(), b"odd", name), name)
        os.makedirs(source + "/empty")
        os.symlink("a.txt", source + "/link")
        os.symlink("/no/such/file", source + "/dangling")
        os.utime(source + "/a.txt", ns=(10**18, 10**18 + 123_456_789))
        self.stage(source, "tree")
        self.mounted("tree")
        done = subprocess.run(["diff", "-r", "--no-dereference", source, self.point], capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b""), done)
        for name in ("a.txt", "run1/private", "run1/deep/er/b.bin", "run1", "link", "big"):
            ours, theirs = os.lstat(f"{self.point}/{name}"), os.lstat(f"{source}/{name}")
            self.assertEqual((ours.st_mode, ours.st_mtime_ns) if name != "link" else ours.st_mode,
                             (theirs.st_mode, theirs.st_mtime_ns) if name != "link" else theirs.st_mode, name)
        self.assertEqual(os.readlink(self.point + "/link"), "a.txt")
        with open(self.point + "/big", "rb") as file, open(source + "/big", "rb") as original:
            for begin in (64 << 20, (64 << 20) - 5, BIG_BYTES - 1):
                self.assertEqual(os.pread(file.fileno(), 1 << 20, begin), os.pread(original.fileno(), 1 << 20, begin), begin)
            for begin in (BIG_BYTES, BIG_BYTES + 1, 1 << 40):  # Beyond the end.
                self.assertEqual(os.pread(file.fileno(), 100, begin), b"", begin)
        self.good("umount", self.point)
        self.unmounted()
        self.assertEqual(os.listdir(self.point), [])

    def test_the_commands_of_the_readme(self):
        source = self.source()
        self.write(source + "/run1/a.txt", b"temperature 291\n")
        self.stage(source, "inputs")
        path = os.path.dirname(self.cluster.kvctl_path) + ":" + os.environ["PATH"]
        done = subprocess.run(["sh", "-ec", COMMANDS], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**self.cluster.environment, "PATH": path}, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("\ntemperature 291\n", done.stdout)

    def test_nothing_can_be_changed(self):
        source = self.source()
        self.write(source + "/file", b"content")
        self.stage(source, "fixed")
        self.mounted("fixed")
        for change in (lambda: open(self.point + "/file", "wb"), lambda: os.mkdir(self.point + "/new"),
                       lambda: os.unlink(self.point + "/file"), lambda: os.chmod(self.point + "/file", 0o600)):
            with self.assertRaisesRegex(OSError, "Read-only"):
                change()
        self.assertEqual(self.read("file"), b"content")

    def test_records_of_programs_are_files(self):
        self.good("namespace", "create", "records")
        self.good("put", "records", "a/b/c", "by key")
        self.good("put", "records", "a/b", "hidden by a folder")
        for key in ("/absolute", "a//b", "x/../y", ".", "long/" + "n" * 300):
            self.good("put", "records", "--", key, "no path")
        self.mounted("records")
        self.assertEqual(self.read("a", "b", "c"), b"by key")
        found = [os.path.join(folder, name)[len(self.point):] for folder, folders, names in os.walk(self.point)
                 for name in folders + names]
        self.assertEqual(sorted(found), ["/a", "/a/b", "/a/b/c"])

    def test_many_files_in_a_folder(self):
        source = self.source()
        for i in range(10_000):
            self.write(f"{source}/many/{i}", str(i).encode())
        self.stage(source, "many")
        self.mounted("many")
        self.assertEqual(sorted(os.listdir(self.point + "/many"), key=int), [str(i) for i in range(10_000)])
        sizes = [entry.stat().st_size for entry in os.scandir(self.point + "/many")]
        self.assertEqual(sum(sizes), sum(len(str(i)) for i in range(10_000)))
        self.assertEqual(self.read("many", "9999"), b"9999")

    def test_a_replaced_file_is_refused_not_mixed(self):
        source = self.source()
        self.write(source + "/file", b"old")
        self.stage(source, "replaced")
        log = self.mounted("replaced")["log"]
        self.good("put", "replaced", "file", "new")
        with self.assertRaises(OSError) as caught:
            self.read("file")
        self.assertEqual(caught.exception.errno, 116)  # ESTALE
        with open(log, encoding="utf-8") as file:
            self.assertIn("kvctl: cannot read 'file': ABORTED: 'file' was replaced or removed after the mount", file.read())

    def test_the_kernel_keeps_pages_and_names(self):
        """Programs read again what was read before while nobody answers the kernel."""
        source = self.source()
        self.write(source + "/folder/data", os.urandom(8 << 20))
        os.symlink("data", source + "/folder/link")
        self.stage(source, "kept")
        pid = self.mounted("kept")["pid"]
        script = f"cmp {source}/folder/data '{self.point}/folder/link'; ls -lR '{self.point}'; ls '{self.point}/none'; true"

        def look():
            return subprocess.run(["sh", "-c", script], capture_output=True, check=False, timeout=PATIENCE_SECONDS)
        first = look()
        self.assertNotIn(b"differ", first.stdout)
        os.kill(pid, signal.SIGSTOP)
        try:
            again = look()
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual((again.stdout, again.stderr), (first.stdout, first.stderr))

    def test_many_programs_read_a_file_at_once(self):
        source = self.source()
        self.write(source + "/data", os.urandom(8 << 20))
        self.stage(source, "at-once")
        self.mounted("at-once")
        readers = [subprocess.Popen(["cmp", source + "/data", self.point + "/data"]) for _ in range(16)]
        self.assertEqual([reader.wait(PATIENCE_SECONDS) for reader in readers], [0] * 16)

    def test_numpy_is_imported_by_32_processes_without_the_source(self):
        probe = "import numpy, os; print(os.path.dirname(numpy.__file__))"
        found = subprocess.run(["/usr/bin/python3", "-c", probe], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            self.skipTest("apt-get install python3-numpy")
        source = self.source("software")
        shutil.copytree(found.stdout.strip(), source + "/numpy", symlinks=False,
                        ignore=shutil.ignore_patterns("tests"))
        self.stage(source, "software")
        os.rename(source, source + " is gone")  # The source is not there any more.
        self.mounted("software")
        program = ("import numpy, sys; assert numpy.__file__.startswith(sys.argv[1]), numpy.__file__; "
                   "print(int(numpy.arange(10).sum()))")
        environment = {**self.cluster.environment, "PYTHONPATH": self.point, "PYTHONDONTWRITEBYTECODE": "1"}

        def start(i, trace):
            prefix = ["strace", "-f", "-e", "trace=%file", "-o", f"{self.folder}/trace{i}"] if trace else []
            return subprocess.Popen([*prefix, "/usr/bin/python3", "-c", program, self.point], env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end(process):
            out, error = process.communicate(timeout=PATIENCE_SECONDS)
            self.assertEqual((process.returncode, out), (0, "45\n"), error)
        for process in [start(i, False) for i in range(32)]:
            end(process)
        if shutil.which("strace") is not None:
            end(start(0, True))
            with open(f"{self.folder}/trace0", encoding="utf-8", errors="replace") as file:
                text = file.read()
            self.assertIn(self.point + "/numpy", text)
            self.assertNotIn(source, text)
        # Later programs ask no daemon: the kernel has what they read. Python asks each file whether it is a terminal, which
        # kvctl answers.
        daemon = self.cluster.pids[0]
        os.kill(daemon, signal.SIGSTOP)
        processes = [start(i, False) for i in range(32)]
        try:
            for process in processes:
                end(process)
        finally:
            os.kill(daemon, signal.SIGCONT)
            for process in processes:
                process.kill()
                process.communicate()

    def test_a_mount_in_use_is_refused_and_ends_lazily(self):
        source = self.source()
        self.write(source + "/file", b"content")
        self.stage(source, "busy")
        pid = self.mounted("busy")["pid"]
        with open(self.point + "/file", "rb") as file:
            self.bad(1, "umount", self.point, says="is in use (end the programs that use it, or give --lazy)")
            self.assertEqual(file.read(), b"content")
            self.good("umount", "--lazy", self.point)
        wait_until(lambda: not alive(pid))
        self.bad(3, "umount", self.point, says="is no mount of kvctl")

    def test_a_busy_mount_point_is_refused(self):
        self.good("namespace", "create", "twice")
        self.mounted("twice")
        self.bad(1, "mount", "twice", self.point, says="is a mount of 'tidepool/twice' already (end it: kvctl umount")
        self.good("umount", self.point)
        subprocess.run(["mount", "-t", "tmpfs", "none", self.point], check=True)
        try:
            self.bad(1, "mount", "twice", self.point, says="is in use: a file system of type tmpfs is mounted there")
            self.bad(3, "umount", self.point, says="is no mount of kvctl")
        finally:
            subprocess.run(["umount", self.point], check=True)

    def test_a_killed_server_is_named_and_its_mount_ends(self):
        source = self.source()
        self.write(source + "/file", b"content")
        self.stage(source, "killed")
        pid = self.mounted("killed")["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid))
        with self.assertRaisesRegex(OSError, "Transport endpoint"):
            self.read("file")
        self.bad(1, "mount", "killed", self.point, says="is a mount whose kvctl was killed (end it: kvctl umount")
        self.good("umount", self.point)
        self.mounted("killed")
        self.assertEqual(self.read("file"), b"content")

    def test_a_signal_unmounts(self):
        self.good("namespace", "create", "signal")
        for number in (signal.SIGTERM, signal.SIGINT):
            pid = self.mounted("signal")["pid"]
            os.kill(pid, number)
            self.unmounted()
            wait_until(lambda: not alive(pid))  # pylint: disable=cell-var-from-loop

    def test_control_c_ends_a_mount_that_is_not_ready(self):
        self.good("namespace", "create", "interrupted")
        daemon = self.cluster.pids[0]
        os.kill(daemon, signal.SIGSTOP)
        try:
            with subprocess.Popen([self.cluster.kvctl_path, "mount", "interrupted", self.point], env=self.cluster.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
                wait_until(lambda: servers(self.point))
                asked.send_signal(signal.SIGINT)
                out, error = asked.communicate(timeout=PATIENCE_SECONDS)
            self.assertEqual((asked.returncode, out), (130, ""), error)
            self.assertEqual(error, f"kvctl: interrupted: {self.point} is not mounted\n")
        finally:
            os.kill(daemon, signal.SIGCONT)
        wait_until(lambda: not servers(self.point))
        self.unmounted()

    def test_a_reader_beyond_the_cache_gets_what_was_staged(self):
        source = self.source()
        self.write(source + "/large", os.urandom((64 << 20) + 4321))
        self.stage(source, "beyond")
        self.mounted("beyond", "--cache", "1MiB")
        readers = [subprocess.Popen(["cmp", source + "/large", self.point + "/large"]) for _ in range(4)]
        self.assertEqual([reader.wait(PATIENCE_SECONDS) for reader in readers], [0] * 4)


class Refused(MountTest):
    """Without a mount."""

    def test_folders_that_cannot_be_mounted_on(self):
        self.bad(3, "mount", "default", self.folder + "/none", says="cannot open the folder")
        self.write(self.point + "/file", b"x")
        self.bad(1, "mount", "default", self.point, says="is not empty, and a mount would hide what is in it")
        self.bad(2, "mount", "default", self.point + "/file", says="is no folder")
        self.bad(3, "umount", self.point, says="is no mount of kvctl")
        self.bad(3, "umount", self.folder + "/none", says="cannot open the folder")

    @unittest.skipIf(NO_MOUNT, NO_MOUNT)
    def test_namespaces_that_cannot_be_mounted(self):
        self.bad(3, "mount", "no-such-namespace", self.point, says="no-such-namespace")
        self.good("namespace", "create", "a-queue", "--kind", "queue")
        self.bad(2, "mount", "a-queue", self.point, says="namespace 'a-queue' is of kind queue; mount needs hash")
        self.bad(2, "mount", "--cache", "much", "default", self.point, says="--cache")

    def test_a_machine_without_a_device(self):
        hide = ["unshare", "--mount", "sh", "-c",
                'mount -t tmpfs none /dev && exec "$@"', "sh"]
        if os.geteuid() != 0 or subprocess.run([*hide, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("mounts are not allowed here")
        self.bad(1, "mount", "default", self.point, within=hide, says="this machine has no /dev/fuse")

    def test_no_cluster(self):
        if NO_MOUNT:
            self.skipTest(NO_MOUNT)
        self.bad(5, "mount", "default", self.point, "--cluster", "/no/such/file", says="/no/such/file")


@unittest.skipIf(NO_MOUNT, NO_MOUNT)
class Ends(MountTest):
    """Daemons go."""

    nodes = 2

    def test_a_mount_ends_with_the_cluster(self):
        source = self.source()
        self.write(source + "/file", b"content")
        self.stage(source, "ends")
        with subprocess.Popen([self.cluster.kvctl_path, "mount", "--foreground", "ends", self.point],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.cluster.environment) as server:
            try:
                wait_until(lambda: self.point.replace(" ", "\\040") in mounts())
                self.assertEqual(self.read("file"), b"content")
                self.good("stop", "--discard")
                _, error = server.communicate(timeout=PATIENCE_SECONDS)
            finally:
                server.kill()
        self.assertEqual(server.returncode, 5, error)
        self.assertRegex(error.splitlines()[-1], rf"^kvctl: the cluster has ended: .*; {re.escape(self.point)} is unmounted$")
        self.unmounted()
        self.cluster.pids = []
        self.cluster.start(2)

    def test_a_dead_daemon_is_one_line_and_the_rest_is_read(self):
        source = self.source()
        for i in range(40):
            self.write(f"{source}/{i}", str(i).encode())
        self.stage(source, "half")
        self.addCleanup(self.cluster.start, 2)
        log = self.mounted("half", "--timeout", "2s")["log"]
        os.kill(self.cluster.pids[1], signal.SIGKILL)

        def text():
            with open(log, encoding="utf-8") as file:
                return file.read()
        wait_until(lambda: "does not answer: its files cannot be read until it is back" in text())
        good = bad = 0
        for i in range(40):
            try:
                self.assertEqual(self.read(str(i)), str(i).encode())
                good += 1
            except OSError:
                bad += 1
        self.assertGreater(good, 0)
        self.assertGreater(bad, 0)
        self.assertEqual(text().count("does not answer: its files"), 1)
        self.good("umount", self.point)


if __name__ == "__main__":
    KvctlTest.build = os.path.abspath(sys.argv.pop(1))
    ran = unittest.main(verbosity=2, exit=False)
    if not ran.result.wasSuccessful():
        sys.exit(1)
    if NO_MOUNT:
        print("SKIPPED:", NO_MOUNT)
        sys.exit(77)
