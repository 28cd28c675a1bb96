"""What the tests of the example programs have in common: a cluster, the programs, and their deaths."""

import hashlib
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
from kvctl_support import PATIENCE_SECONDS, Cluster, Result, wait_until  # pylint: disable=wrong-import-position


class Apps:
    """A cluster and a folder for files."""

    def __init__(self, build, nodes=2, node_mib=128):
        self.build = build
        self.cluster = Cluster(build)
        self.cluster.start(nodes, node_mib)
        self.folder = self.cluster.folder

    def close(self):
        self.cluster.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, program, *arguments):
        return [os.path.join(self.build, "bin", program), "--cluster", self.cluster.file,
                *map(str, arguments)]

    def run(self, program, *arguments, environment=None):
        return Result(subprocess.run(
            self.command(program, *arguments), capture_output=True, check=False,
            timeout=PATIENCE_SECONDS, env={**self.cluster.environment, **(environment or {})}))

    def run_as_tasks(self, size, program, *arguments):
        """As srun starts them. Returns what each printed; all must end well."""
        tasks = [subprocess.Popen(
            self.command(program, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**self.cluster.environment, "SLURM_PROCID": str(rank),
                 "SLURM_STEP_NUM_TASKS": str(size), "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"})
            for rank in range(size)]
        outputs = []
        try:
            for task in tasks:
                out, error = task.communicate(timeout=PATIENCE_SECONDS)
                assert task.returncode == 0, error
                outputs.append(out.decode())
        finally:
            for task in tasks:
                task.kill()
                task.wait()
        return outputs

    def left_over(self, program):
        """Namespaces of runs that are still there."""
        listed = self.cluster.kvctl("namespace", "list", "--json")
        assert listed.code == 0, listed
        names = [each["name"] for each in listed.json()["result"]["namespaces"]]
        return [name for name in names if name.startswith(program + "/")]

    def run_and_kill(self, victim, program, processes, *arguments):
        """Kills one process once the run is under way, that is, when its namespaces are there. Returns
        the launcher's exit code and what it and the others said."""
        command = self.command(program, "--processes", processes, *arguments)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env=self.cluster.environment) as launcher:
            children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"

            def started():
                with open(children, encoding="ascii") as file:
                    return file.read().split()

            wait_until(lambda: len(started()) == processes)
            pid = int(started()[victim])
            wait_until(lambda: len(self.left_over(program)) > 1)
            os.kill(pid, signal.SIGKILL)
            error = launcher.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        return launcher.returncode, error


def digest(data):
    return hashlib.sha256(data).hexdigest()
