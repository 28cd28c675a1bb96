"""The virtual machine of dax_vm: its kernel and initial RAM disk, and qemu, which loses power when it is killed."""

import ctypes
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # Where Debian has half of these.
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "ndctl": "ndctl",
            "mkfs.ext4": "e2fsprogs", "modprobe": "kmod", "strip": "binutils", "protoc": "protobuf-compiler",
            "grpc_python_plugin": "protobuf-compiler-grpc"}  # And their packages.
MODULES = ("virtio_pci", "virtio_net", "ext4", "nfit", "nd_pmem", "crc32c_generic")
DEVICE_MIB, NVM_SIZE, MEMORY = 384, "256MiB", "128MiB"
BOOT_SECONDS = 240  # Of a machine that hangs.


class Failure(Exception):
    pass


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH})
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def find_kernel(folder, package):
    """Image and modules, in the order in which they load, of a kernel with NVDIMMs; None: there is none."""
    root = "/"
    if package:
        root = os.path.join(folder, "kernel")
        run("dpkg-deb", "-x", package, root)
    for modules in sorted(glob.glob(os.path.join(root, "lib/modules/*")), reverse=True):
        version = os.path.basename(modules)
        image = os.path.join(root, "boot/vmlinuz-" + version)
        if not os.access(image, os.R_OK) or not glob.glob(modules + "/kernel/drivers/nvdimm/nd_pmem.ko"):
            continue
        if package:
            run("depmod", "-b", root, version)
        listed = [line for module in MODULES
                  for line in run("modprobe", "-C", "/dev/null", "-d", root, "-S", version, "-D", module).splitlines()]
        return image, list(dict.fromkeys(line.split()[1] for line in listed if line.startswith("insmod")))
    return None


def make_initrd(path, kvd, modules):
    """An archive of cpio's format newc: the programs, what they link, the modules, and dax_vm_init."""
    stripped = os.path.join(os.path.dirname(path), "kvd")  # A fifth of it, or less.
    run("strip", "-g", "-o", stripped, kvd)
    programs = [stripped] + [shutil.which(name, path=PATH) for name in ("busybox", "ndctl", "mkfs.ext4")]
    files = {"init": os.path.join(ROOT, "tests/fault/dax_vm_init"), "etc/mke2fs.conf": "/etc/mke2fs.conf"}
    files.update({"bin/" + os.path.basename(program): program for program in programs})
    files.update({f"modules/{at:02}.ko": module for at, module in enumerate(modules)})
    for program in programs:
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        files.update({library.strip("/"): library for library in re.findall(r"(/\S+) \(0x", linked)})
    entries = {}
    for name, source in files.items():
        for at, letter in enumerate(name):
            if letter == "/":
                entries[name[:at]] = (0o040755, b"")
        with open(source, "rb") as file:
            entries[name] = (0o100755, file.read())
    for applet in ("sh", "mount", "mkdir", "insmod", "ip", "sleep", "cat", "poweroff"):
        entries["bin/" + applet] = (0o120777, b"busybox")
    entries.update({name: (0o040755, b"") for name in ("proc", "sys", "dev")})
    entries["TRAILER!!!"] = (0, b"")
    with open(path, "wb") as file:
        for number, (name, (mode, data)) in enumerate(sorted(entries.items(), key=lambda e: (not e[1][0], e[0]))):
            head = b"".join(b"%08x" % field for field in (
                number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0))
            head = b"070701" + head + name.encode() + b"\0"
            file.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))


class Machine:
    """A virtual machine that runs, with the device of `folder`."""

    def __init__(self, folder, kernel, make_file_system=False):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.console = os.path.join(folder, "console")
        self.begun = time.monotonic()
        append = (f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check nvm_size={NVM_SIZE} "
                  f"memory={MEMORY}" + (" format=1" if make_file_system else ""))
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                ["qemu-system-x86_64", "-machine", "q35,nvdimm=on", "-accel", "tcg,thread=multi", "-cpu", "max",
                 "-smp", "2", "-m", "768M,slots=1,maxmem=2G", "-nodefaults", "-no-user-config", "-no-reboot",
                 "-display", "none", "-serial", "stdio", "-kernel", kernel, "-append", append,
                 "-initrd", os.path.join(folder, "initrd"),
                 "-object", f"memory-backend-file,id=m,share=on,size={DEVICE_MIB}M,mem-path={folder}/device",
                 "-device", "nvdimm,memdev=m", "-device", "virtio-net-pci,netdev=n",
                 "-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:4410"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, env={**os.environ, "PATH": PATH},
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))  # It ends with us.
        self.address = f"127.0.0.1:{port}"

    def wait_for(self, text):
        """What follows `text` on a line of the console."""
        said = ""
        while time.monotonic() < self.begun + BOOT_SECONDS:
            ended = self.process.poll() is not None
            with open(self.console, encoding="utf-8", errors="replace") as file:
                said = file.read()
            match = re.search(rf"^VM {text}(.*)\n", said, re.MULTILINE)
            if match:
                return match.group(1).strip()
            if ended or "VM failed" in said:
                break
            time.sleep(0.05)
        raise Failure(f"the machine does not come to '{text}':\n" + "\n".join(said.splitlines()[-20:]))

    def kill(self):
        self.process.kill()
        self.process.wait()
