"""Virtual machines for what this machine's kernel or hardware has not: a Debian kernel, an initial RAM disk with our own
programs, and qemu, emulating the processor too (no KVM, no root)."""

import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # Where Debian has half of these.
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "modprobe": "kmod",
            "strip": "binutils"}  # And their packages.
APPLETS = ("sh", "mount", "mkdir", "insmod", "ip", "sleep", "cat", "poweroff", "kill", "ulimit", "env", "hostname")
BOOT_SECONDS = 240  # Of a machine that hangs.


class Failure(Exception):
    pass


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH})
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def missing_packages(programs):
    return [package for program, package in programs.items() if not shutil.which(program, path=PATH)]


def find_kernel(folder, package, modules):
    """Image and modules, in the order in which they load, of a kernel that has those; None: there is none."""
    root = "/"
    if package:
        root = os.path.join(folder, "kernel")
        run("dpkg-deb", "-x", package, root)
    for installed in sorted(glob.glob(os.path.join(root, "lib/modules/*")), reverse=True):
        version = os.path.basename(installed)
        image = os.path.join(root, "boot/vmlinuz-" + version)
        files = glob.glob(installed + "/kernel/**/*.ko", recursive=True)
        try:
            with open(os.path.join(installed, "modules.builtin"), encoding="ascii") as listed:
                files += listed.read().split()  # Some kernels have one or the other of them in their image.
        except FileNotFoundError:
            pass
        has = {os.path.basename(file)[:-3] for file in files}
        if not os.access(image, os.R_OK) or not set(modules) <= has:
            continue
        if package:
            run("depmod", "-b", root, version)
        listed = [line for module in modules
                  for line in run("modprobe", "-C", "/dev/null", "-d", root, "-S", version, "-D", module).splitlines()]
        return image, list(dict.fromkeys(line.split()[1] for line in listed if line.startswith("insmod")))
    return None


def linked(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def stripped(folder, program):
    """A copy without what is for debuggers: a fifth of it, or less."""
    path = os.path.join(folder, os.path.basename(program))
    run("strip", "-g", "-o", path, program)
    return path


def make_initrd(path, init, programs, modules, files=()):
    """An archive of cpio's format newc: `init`, busybox, the programs in /bin with what they link, the modules in
    /modules, and `files` where they are here; libraries among these bring what they link."""
    programs = list(programs) + [shutil.which("busybox", path=PATH)]
    contents = {"init": init}
    contents.update({"bin/" + os.path.basename(program): program for program in programs})
    contents.update({f"modules/{at:02}.ko": module for at, module in enumerate(modules)})
    contents.update({file.strip("/"): file for file in files})
    for file in programs + [file for file in files if ".so" in file]:
        contents.update({library.strip("/"): library for library in linked(file)})
    entries = {}
    for name, source in contents.items():
        for at, letter in enumerate(name):
            if letter == "/":
                entries[name[:at]] = (0o040755, b"")
        with open(source, "rb") as file:
            entries[name] = (0o100755, file.read())
    for applet in APPLETS:
        entries.setdefault("bin/" + applet, (0o120777, b"busybox"))
    entries.update({name: (0o040755, b"") for name in ("proc", "sys", "dev")})
    entries["TRAILER!!!"] = (0, b"")
    with open(path, "wb") as file:
        for number, (name, (mode, data)) in enumerate(sorted(entries.items(), key=lambda e: (not e[1][0], e[0]))):
            head = b"".join(b"%08x" % field for field in (
                number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0))
            head = b"070701" + head + name.encode() + b"\0"
            file.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))


class Machine:
    """A virtual machine that runs. What it says on its console lies in `folder`, as does its initial RAM disk."""

    def __init__(self, folder, kernel, arguments=(), append="", machine="q35", memory="768M", cpu="max"):
        self.console = os.path.join(folder, "console")
        self.begun = time.monotonic()
        append = f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check {append}"
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                ["qemu-system-x86_64", "-machine", machine, "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", "2",
                 "-m", memory, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
                 "-kernel", kernel, "-append", append, "-initrd", os.path.join(folder, "initrd"), *arguments],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, env={**os.environ, "PATH": PATH},
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))  # It ends with us.

    def said(self):
        with open(self.console, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, text, seconds=BOOT_SECONDS):
        """What follows `text` on a line of the console, at most so long after the start."""
        said = ""
        while time.monotonic() < self.begun + seconds:
            ended = self.process.poll() is not None
            said = self.said()
            match = re.search(rf"^VM {text}(.*)\n", said, re.MULTILINE)
            if match:
                return match.group(1).strip()
            if ended or "VM failed" in said:
                break
            time.sleep(0.05)
        raise Failure(f"the machine does not come to '{text}':\n" + "\n".join(said.splitlines()[-40:]))

    def kill(self):
        self.process.kill()
        self.process.wait()
