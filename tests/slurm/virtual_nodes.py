"""Several machines on this one, for tests: each with a host name, an address, processes, a /tmp, a /dev/shm and
a local disk of its own, and one file system that all of them share.

Everything lives in namespaces of this process, which must have been started by enter(): processes, mounts,
network interfaces and host names end with it, however it ends, and nothing of the machine is touched. Needs root.

  the machine: enter() -> [login node: this process, bridge, shared file system] -> node, node, ...
"""

import os
import shutil
import subprocess
import sys
import time

INSIDE = "TIDEPOOL_TEST_INSIDE"
NETWORK = "10.77.0"
LOGIN = "login"
# Folders that each Debian has and nobody needs; one of them becomes the shared file system.
PLACES = ("/mnt", "/media", "/srv", "/opt")

# The first process of a node. It takes in orphans, as any init does, and ends all of the node with itself.
INIT = r"""
set -e
hostname "$1"
mount -t tmpfs -o mode=1777,size=2g tmpfs /dev/shm
mount -t tmpfs -o mode=1777,size=2g tmpfs /tmp
mount -t tmpfs -o mode=1777,size=2g tmpfs "$2/local"
ip link set lo up
echo ready
read -r go
sleep infinity &
wait
"""


def enter(arguments):
    """Starts this program again as the first process of new namespaces; returns there, as `login`."""
    if os.environ.get(INSIDE):
        subprocess.run(["hostname", LOGIN], check=True)
        return
    environment = {**os.environ, INSIDE: "1"}
    command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL",
               "--mount-proc", "--net", "--uts", "--ipc", sys.executable, "-B", *arguments]
    os.execvpe(command[0], command, environment)


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
    return done.stdout


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what() if callable(what) else what}"
        time.sleep(0.02)
    return result


def processes(name, within=()):
    """How many of that name run. One that has ended, and that nobody waits for, does not."""
    text = subprocess.run([*within, "pgrep", "-a", "-x", name], capture_output=True, text=True, check=False).stdout
    return sum(1 for line in text.splitlines() if len(line.split()) > 1 and "<defunct>" not in line)


class Node:
    def __init__(self, number, place):
        self.name = f"n{number}"
        self.address = f"{NETWORK}.{10 + number}"
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL",
             "--mount-proc", "--net", "--uts", "bash", "-c", INIT, "init", self.name, place],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", f"{self.name} has not come up"
        self.pid = self.process.pid
        link = f"to-{self.name}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        run("ip", "link", "set", link, "master", "bridge", "up")
        run("nsenter", "--net", "-t", str(self.pid), "sh", "-c",
            f"ip addr add {self.address}/24 dev eth0 && ip link set eth0 up")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def within(self):
        """The beginning of a command that runs on the node."""
        return ["nsenter", "--net", "--uts", "--mount", "-t", str(self.pid),
                f"--pid=/proc/{self.pid}/ns/pid_for_children"]

    def run(self, *command, **more):
        return run(*self.within(), *command, **more)

    def processes(self, name):
        return processes(name, self.within())

    def crash(self):
        """As when the power fails: all processes are gone at once, and so is the network."""
        self.process.kill()
        self.process.wait()
        subprocess.run(["ip", "link", "del", f"to-{self.name}"], capture_output=True, check=False)


class Machines:
    """The shared file system and `count` nodes. `build` and the checkout `root` are seen below it, so that
    an unprivileged user can read them wherever they are."""

    def __init__(self, count, build, root):
        inside = (os.path.abspath(build), os.path.abspath(root), os.path.realpath(sys.executable))
        self.place = next(place for place in PLACES if os.path.isdir(place) and not any(
            path.startswith(place + "/") for path in inside))
        run("mount", "-t", "tmpfs", "-o", "mode=755,size=4g", "tmpfs", self.place)
        for name in ("local", "shared"):
            os.mkdir(self.path(name))
        self.build, self.root = self.bind("build", build), self.bind("checkout", root)
        hosts = self.path("hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{NETWORK}.250 {LOGIN}\n")
            file.writelines(f"{NETWORK}.{10 + i} n{i}\n" for i in range(1, count + 1))
        run("mount", "--bind", hosts, "/etc/hosts")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "link", "set", "bridge", "up")
        # As the nodes' own: UCX takes no bridge for a network device.
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{LOGIN}")
        run("ip", "link", "set", f"to-{LOGIN}", "master", "bridge", "up")
        run("ip", "addr", "add", f"{NETWORK}.250/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        self.nodes = {f"n{i}": Node(i, self.place) for i in range(1, count + 1)}

    def path(self, *parts):
        return os.path.join(self.place, *parts)

    def bind(self, name, of):
        os.mkdir(self.path(name))
        run("mount", "--bind", os.path.abspath(of), self.path(name))
        return self.path(name)

    def again(self, name):
        """A new machine in the place of one that has crashed."""
        self.nodes[name] = Node(int(name[1:]), self.place)
        return self.nodes[name]


def missing_reason(programs):
    """Why this machine cannot do it, or None."""
    if os.geteuid() != 0:
        return "virtual nodes need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)}; deploy/install-packages test:slurm"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "true"],
                           capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"namespaces are not permitted here: {probe.stderr.strip()}"
