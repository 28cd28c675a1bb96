"""What the figures share: programs of the build, a service for our side, interleaved runs."""

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# Open MPI binds each rank to a CPU of its own, which is bad luck on a CPU that is busy; ours are not bound either.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]

# For one run of a program; the longest take minutes (the tree of M = 1000, 10 million entries).
SECONDS_MAX = 1800


class Missing(Exception):
    """A program that a figure needs is not there."""


class Context:
    """What the command line says, and a folder for all that a figure leaves behind."""

    def __init__(self, binaries, quick, rounds, disk):
        self.binaries, self.quick, self.rounds = binaries, quick, rounds
        self.disk = disk  # A folder of a real disk.
        self.folder = tempfile.mkdtemp(prefix="tidepool-figures-")

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def size(self, full, quick):
        return quick if self.quick else full

    def program(self, name):
        path = os.path.join(self.binaries, name)
        if not os.path.exists(path):
            raise Missing(f"{path} is missing: build it first")
        return path

    def tool(self, name):
        if shutil.which(name) is None:
            raise Missing(f"{name} is missing: deploy/packages-test.txt has its package")
        return name

    def new_folder(self, disk=False):
        return tempfile.mkdtemp(dir=self.disk if disk else self.folder, prefix="tidepool-figures-")


def end(process):
    """Ends a process with all of its group; mpirun ends its ranks when it is asked to end."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait()


def run(command, seconds_max=SECONDS_MAX, **more):
    """stdout and stderr of a command. What it says on stderr is shown when it fails."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                          **more) as process:
        try:
            out, error = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            end(process)
            raise RuntimeError(f"{' '.join(command)} did not end within {seconds_max} s") from None
        except BaseException:
            end(process)
            raise
    if process.returncode != 0:
        sys.stderr.write(error.decode(errors="replace"))
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return out.decode(), error.decode()


def cpu_of(command, **more):
    """CPU seconds of a command with its children, wall seconds, stdout and stderr."""
    before, begin = os.times(), time.monotonic()
    out, error = run(command, **more)
    seconds, after = time.monotonic() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, seconds, out, error


def said(pattern, text):
    """What the pattern's group matches in what a program has printed."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"a program has not printed {pattern!r}")
    return match.group(1)


def seconds_said(pattern, text):
    """The time at the end of `pattern`: "in all      0.25 s"."""
    return float(said(pattern + r" +([0-9.]+) s", text))


def phases(text):
    """phase -> its numbers, of a program that prints one JSON object for each."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row.pop("phase"): row for row in rows}


class OtherWork:
    """What the machine's CPUs have done, from now on, for others than this program and those that it has waited for."""

    def __init__(self):
        self.began = time.monotonic()
        self.before = self.seconds()

    @staticmethod
    def seconds():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq = (int(field) for field in file.readline().split()[1:8])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])

    def cpus(self):
        """On the average."""
        return max(0, self.seconds() - self.before) / (time.monotonic() - self.began)


class Service:
    """kvds of this build on this machine; `with` ends them."""

    def __init__(self, context, nodes=1, cores=1, memory="4GiB", extra=()):
        self.context = context
        folder = context.new_folder()
        self.file = os.path.join(folder, "cluster.json")
        self.processes = []
        try:
            self.start(folder, nodes, cores, memory, extra)
        except BaseException:
            self.stop()
            raise

    def start(self, folder, nodes, cores, memory, extra):
        context = self.context
        for i in range(nodes):
            own = os.path.join(folder, str(i))
            os.mkdir(own)
            self.processes.append(subprocess.Popen(
                [context.program("kvd"), "--cluster", self.file, "--data-dir", own, "--cores", str(cores),
                 "--memory", memory, "--interface", "lo", "--nodes", str(nodes), "--log-file",
                 os.path.join(own, "kvd.log"), *extra], stdout=subprocess.DEVNULL))
        ping = [context.program("kvctl"), "--cluster", self.file, "ping"]
        deadline = time.monotonic() + 60
        while subprocess.run(ping, check=False, capture_output=True, timeout=60).returncode != 0:
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                raise RuntimeError("kvd does not answer")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def cpu(self):
        seconds = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds

    def own(self, *arguments, processes=2):
        """Phases of figures_own."""
        daemons = ",".join(str(process.pid) for process in self.processes)
        out, _ = run([self.context.program("figures_own"), "--cluster", self.file, "--processes", str(processes),
                      "--daemons", daemons, *(str(a) for a in arguments)])
        return phases(out)


def imperative(context, over, *arguments, ranks=2):
    """Phases of the imperative client."""
    context.tool("mpirun")
    out, _ = run([*MPIRUN, "-n", str(ranks), context.program("imperative"), "--over", over,
                  *(str(a) for a in arguments)])
    return phases(out)


def plain(context, test, *arguments):
    """The work of an application in the memory of one process: its seconds, and what else it prints."""
    out, _ = run([context.program("plain"), "--test", test, *(str(a) for a in arguments)])
    return phases(out)[test]["seconds"], out


def companion(context, over, *arguments, clients=1):
    """What the companion processes print."""
    context.tool("mpirun")
    # A rank that polls and has no CPU of its own, or waits for a socket, must give it away; otherwise that only costs.
    yields = over == "tcp" or clients + 1 > os.cpu_count()
    command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", *(["--oversubscribe"] if clients >= 2 else []),
               "--mca", "mpi_yield_when_idle", "1" if yields else "0", "--mca", "pml", "ob1", "--mca", "btl",
               "tcp,self" if over == "tcp" else "vader,self"]
    out, _ = run([*command, "-n", str(clients + 1), context.program("companion"), *(str(a) for a in arguments)])
    return phases(out)


def ucx_perftest(context, test, size_bytes, operations):
    """UCX's own bench over TCP on loopback, one client and a target that polls. As phases: {test: {"us"}}."""
    program = context.tool("ucx_perftest")
    environment = {**os.environ, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    client = [program, "127.0.0.1", "-p", port, "-t", test, "-s", str(size_bytes), "-n", str(operations), "-w",
              str(operations // 10), "-f"]
    with subprocess.Popen([program, "-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                          start_new_session=True) as server:
        try:
            deadline = time.monotonic() + 20
            while True:  # Until the server listens.
                done = subprocess.run(client, check=False, capture_output=True, text=True, env=environment,
                                      timeout=SECONDS_MAX)
                # Iterations, median, average of the last report, average of all.
                numbers = re.search(r"^ +[0-9]+ +[0-9.]+ +[0-9.]+ +([0-9.]+)", done.stdout, re.MULTILINE)
                if done.returncode == 0 and numbers is not None:
                    return {test: {"us": float(numbers.group(1))}}
                if time.monotonic() > deadline:
                    sys.stderr.write(done.stderr)
                    raise RuntimeError("ucx_perftest does not run")
                time.sleep(0.05)
        finally:
            end(server)


def interleaved(rounds, contenders):
    """Runs each contender in turn, `rounds` times. contender -> phase -> number -> median."""
    runs = {name: [] for name in contenders}
    for i in range(rounds):
        for name, measure in contenders.items():
            runs[name].append(measure())
        print(f"  round {i + 1} of {rounds}", file=sys.stderr, flush=True)
    return {name: {phase: {field: statistics.median(one[phase][field] for one in of_name)
                           for field in of_name[0][phase]} for phase in of_name[0]}
            for name, of_name in runs.items()}
