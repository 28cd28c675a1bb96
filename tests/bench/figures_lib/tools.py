"""What the figures share: programs of the build, a service for our side, interleaved runs."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Open MPI binds each rank to a CPU of its own, which is bad luck on a CPU that is busy; ours are not bound either.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


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
            raise Missing(f"{name} is missing: deploy/packages.txt has its package")
        return name

    def new_folder(self, disk=False):
        return tempfile.mkdtemp(dir=self.disk if disk else self.folder, prefix="tidepool-figures-")


def run(command, **more):
    """stdout and stderr of a command. What it says on stderr is shown when it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if done.returncode != 0:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout.decode(), done.stderr.decode()


def cpu_of(command, **more):
    """CPU seconds of a command with its children, wall seconds, stdout and stderr."""
    before, begin = os.times(), time.monotonic()
    out, error = run(command, **more)
    seconds, after = time.monotonic() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, seconds, out, error


def phases(text):
    """phase -> its numbers, of a program that prints one JSON object for each."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row.pop("phase"): row for row in rows}


class Service:
    """kvds of this build on this machine; `with` ends them."""

    def __init__(self, context, nodes=1, cores=1, memory="4GiB", extra=()):
        self.context = context
        folder = context.new_folder()
        self.file = os.path.join(folder, "cluster.json")
        self.processes = []
        for i in range(nodes):
            own = os.path.join(folder, str(i))
            os.mkdir(own)
            self.processes.append(subprocess.Popen(
                [context.program("kvd"), "--cluster", self.file, "--data-dir", own, "--cores", str(cores),
                 "--memory", memory, "--interface", "lo", "--nodes", str(nodes), "--log-file",
                 os.path.join(own, "kvd.log"), *extra], stdout=subprocess.DEVNULL))
        ping = [context.program("kvctl"), "--cluster", self.file, "ping"]
        for _ in range(400):
            if subprocess.run(ping, check=False, capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("kvd does not answer")

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
