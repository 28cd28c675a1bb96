"""A real Slurm on virtual nodes, and kvctl in its jobs, for the tests beside this file.

slurmctld and munged run on the login node, which is the test's own process; a slurmd on each node. Jobs are
those of the user `nobody`, since most of what can be wrong with rights is not wrong for root. All of it ends with
the test's process (see virtual_nodes.py).
"""

import os
import re
import shlex
import subprocess
import sys
import unittest

import virtual_nodes
from virtual_nodes import run, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "ip", "nsenter", "unshare", "setpriv")
SKIPPED = 77
USER = "nobody"
# Ends what hangs; no test depends on its length.
PATIENCE_SECONDS = 240
NODE_MIB = 8000
USER_FOLDER = re.compile(r"/tmp/tidepool-[0-9]+")

SLURM_CONF = """
ClusterName=tidepool
SlurmctldHost=login({network}.250)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/log/slurmctld.log
SlurmdLogFile={place}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=30
MinJobAge=600
WaitTime=0
PropagateResourceLimits=NONE
PrologFlags=Alloc
SlurmdParameters=config_overrides
NodeName=n[1-{nodes}] NodeAddr={network}.[11-{last}] {topology} RealMemory={mib} State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Job:
    """A batch job that was submitted. What it prints is in `output`."""

    def __init__(self, slurm, number, output):
        self.slurm, self.number, self.output = slurm, number, output

    def field(self, name):
        text = self.slurm.control("show", "job", self.number)
        match = re.search(rf"\b{name}=(\S+)", text)
        return match.group(1) if match else ""

    def state(self):
        return self.field("JobState")

    def seconds(self):
        """Since it has begun."""
        hours, minutes, seconds = self.field("RunTime").split(":")
        return int(hours) * 3600 + int(minutes) * 60 + int(seconds)

    def text(self):
        try:
            with open(self.output, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def says(self, text, seconds=PATIENCE_SECONDS):
        """Waits until the job has printed `text`."""
        wait_until(lambda: text in self.text() or self.ended(),
                   lambda: f"job {self.number} does not say {text!r}: {self.text()}", seconds)
        assert text in self.text(), f"job {self.number} never says {text!r}: {self}"

    def ended(self):
        return self.state() not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")

    def wait(self, seconds=PATIENCE_SECONDS):
        """Until it has ended. Returns the exit code of its script, or a signal's name."""
        wait_until(self.ended, lambda: f"job does not end: {self}", seconds)
        code, _, number = self.field("ExitCode").partition(":")
        return int(code) if number == "0" else f"signal {number}"

    def cancel(self, *options):
        self.slurm.user("scancel", *options, self.number)

    def __repr__(self):
        return f"{self.slurm.control('show', 'job', self.number)}\n{self.text()}"


class Slurm:
    def __init__(self, nodes, build, configure=None):
        """`configure(place)` may put files beside slurm.conf, and returns more lines for it."""
        self.machines = virtual_nodes.Machines(nodes, build, ROOT)
        self.place = self.machines.place
        self.log_count = 0
        os.environ["PATH"] = f"{self.machines.build}/bin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        for name in ("munge", "state", "spool", "log"):
            os.mkdir(self.machines.path(name))
        os.chmod(self.machines.path("munge"), 0o711)
        os.chown(self.machines.path("shared"), 65534, 65534)
        for name in list(os.environ):
            if name.startswith(("TIDEPOOL_", "SLURM_", "SBATCH_")) or name.lower().endswith("_proxy") or \
                    name in ("XDG_RUNTIME_DIR", "TMPDIR"):
                del os.environ[name]
        os.environ.update({
            "SLURM_CONF": self.machines.path("slurm.conf"), "HOME": self.machines.path("shared"),
            # Where the linker has put an absolute path, it may lead through a folder that is root's only.
            "LD_LIBRARY_PATH": f"{self.machines.build}/lib",
            # Nothing spins on a machine with few processors, and a lost node is seen soon.
            "TIDEPOOL_WAIT": "block", "TIDEPOOL_LEASE_MS": "2000", "TIDEPOOL_HEARTBEAT_MS": "300"})
        self.start_munge()
        more = configure(self.machines) if configure else ""
        with open(self.machines.path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(SLURM_CONF.format(network=virtual_nodes.NETWORK, place=self.place, nodes=nodes,
                                         last=10 + nodes, mib=NODE_MIB, topology=topology()) + more)
        self.start_daemon("slurmctld", "-D", "-i")
        for name in self.machines.nodes:
            self.start_slurmd(name)
        wait_until(lambda: self.idle_nodes() == nodes, self.logs)

    def start_munge(self):
        path = self.machines.path
        with open(path("munge", "key"), "wb") as file:
            file.write(os.urandom(128))
        os.chmod(path("munge", "key"), 0o600)
        self.start_daemon("munged", "--foreground", "--force", "--key-file=" + path("munge", "key"),
                          "--socket=" + path("munge", "socket"), "--pid-file=" + path("munge", "pid"),
                          "--log-file=" + path("munge", "log"), "--seed-file=" + path("munge", "seed"))
        wait_until(lambda: os.path.exists(path("munge", "socket")), "munged does not come up")

    def start_daemon(self, *command, within=()):
        self.log_count += 1
        with open(self.machines.path("log", f"{self.log_count}-{command[0]}.out"), "wb") as log:
            return subprocess.Popen([*within, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_slurmd(self, name):
        os.makedirs(self.machines.path("spool", name), exist_ok=True)
        self.start_daemon("slurmd", "-D", "-N", name, within=self.machines.nodes[name].within())

    def idle_nodes(self):
        text = subprocess.run(["sinfo", "-h", "-N", "-o", "%t"], capture_output=True, text=True, check=False).stdout
        return text.split().count("idle")

    def logs(self):
        """The ends of all logs, for a failure's message."""
        folder = self.machines.path("log")
        return "\n".join(f"{name}:\n{run('tail', '-n', '15', os.path.join(folder, name))}"
                         for name in sorted(os.listdir(folder)))

    def control(self, *arguments):
        return run("scontrol", *arguments)

    def as_user(self, user=USER):
        return ["setpriv", "--reuid", user, "--regid", "nogroup", "--clear-groups"]

    def user(self, *command, cwd=None, check=True, user=USER):
        """Runs a command of the user's on the login node; returns what it prints, or with check=False all."""
        done = subprocess.run([*self.as_user(user), *command], cwd=cwd or self.shared(), capture_output=True,
                              text=True, check=False, timeout=PATIENCE_SECONDS)
        if not check:
            return done
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def shared(self, *parts):
        return self.machines.path("shared", *parts)

    def folder(self, name):
        """A new folder of the user's on the shared file system."""
        path = self.shared(name)
        os.mkdir(path)
        os.chown(path, 65534, 65534)
        return path

    def write(self, path, text, mode=0o755):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        os.chown(path, 65534, 65534)
        return path

    def submit(self, folder, script, *options):
        """Submits the lines of a batch script, to run in `folder`."""
        self.log_count += 1
        path = self.write(os.path.join(folder, f"job-{self.log_count}.sh"), "#!/bin/bash\n" + script)
        return self.submit_file(folder, path, *options)

    def submit_file(self, folder, path, *options):
        output = f"{path}.{self.log_count}.out"
        printed = self.user("sbatch", "--parsable", f"--output={output}", *options, path, cwd=folder)
        return Job(self, printed.strip(), output)


def topology():
    """Of each node: that of this machine, since processes are really bound to its processors."""
    words = run("slurmd", "-C").split()
    return " ".join(word for word in words if word.split("=")[0] in
                    ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore"))


class SlurmTest(unittest.TestCase):
    """Tests of one file share a Slurm of `nodes`; each runs in a folder of its own."""

    nodes = 4
    build = None
    slurm = None

    @classmethod
    def configure(cls, machines):
        del machines
        return ""

    @classmethod
    def setUpClass(cls):
        if SlurmTest.slurm is None:
            SlurmTest.slurm = Slurm(cls.nodes, SlurmTest.build, cls.configure)

    def setUp(self):
        self.folder = self.slurm.folder(self.id().rsplit(".", 1)[-1])
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for job in self.jobs:
            if not job.ended():
                job.cancel("--signal=KILL", "--full")
                job.cancel()
        wait_until(lambda: all(job.ended() for job in self.jobs), "jobs do not end", 90)

    def submit(self, script, *options):
        job = self.slurm.submit(self.folder, script, *options)
        self.jobs.append(job)
        return job

    def done(self, script, *options, code=0):
        """A job that must end with `code`. Returns what it prints."""
        job = self.submit(script, *options)
        self.assertEqual(job.wait(), code, job)
        return job.text()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8", errors="replace") as file:
            return file.read()

    def left_behind(self, nodes=None):
        """Processes and files of Tidepool on the nodes, and what lies beside the connection files."""
        found = []
        for name, node in self.slurm.machines.nodes.items():
            if nodes is not None and name not in nodes:
                continue
            found += [f"{name}: {program}" for program in ("kvd", "kvctl", "srun") if node.processes(program)]
            files = node.run("find", "/dev/shm", "/tmp", self.slurm.machines.path("local"), "-mindepth", "1")
            # The user's folder of sockets stays, empty: another daemon may be about to use it.
            found += [f"{name}: {line}" for line in files.splitlines() if not USER_FOLDER.fullmatch(line)]
        found += [name for name in os.listdir(self.folder) if "tidepool" in name]
        return found

    def assert_nothing_left(self, nodes=None):
        try:
            wait_until(lambda: not self.left_behind(nodes), "", 20)
        except AssertionError:
            self.fail(f"left behind: {self.left_behind(nodes)}")


def quoted(*words):
    return shlex.join(words)


def main():
    reason = virtual_nodes.missing_reason(PROGRAMS)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    virtual_nodes.enter(sys.argv)
    SlurmTest.build = os.path.abspath(sys.argv.pop(1))
    # Daemons are not waited for: they end with this process.
    program = unittest.main(verbosity=2, exit=False, warnings="ignore")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if program.result.wasSuccessful() else 1)
