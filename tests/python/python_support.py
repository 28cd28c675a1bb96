"""What the tests of the Python package share: the package, installed by pip from the tree, and a cluster."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

# Which client the tests are of: "native" or "grpc".
TRANSPORT = os.environ.get("TIDEPOOL_PYTHON_TRANSPORT", "grpc")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NODES = 3
build = folder = cluster = tidepool = numpy = None  # Set by main.


def kvctl(*arguments, **options):
    return subprocess.run([build / "bin/kvctl", "--cluster", cluster, *arguments], capture_output=True, text=True,
                          check=True, **options).stdout


def copy_source(to):
    """Returns a copy of what pip needs of the tree: what it leaves beside its sources stays out of ours."""
    source = to / "source"
    shutil.copytree(ROOT / "client/python", source / "client/python")
    shutil.copytree(ROOT / "proto/tidepool", source / "proto/tidepool")
    shutil.copy(ROOT / "CMakeLists.txt", source)  # Has the version.
    return source


def install():
    target = folder / "installed"
    source = copy_source(folder)
    done = subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
                           "--no-index", "--target", target, source / "client/python"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    if done.returncode != 0:
        sys.exit("pip cannot install it:\n" + done.stdout + done.stderr)
    if TRANSPORT == "native":
        shutil.copy(build / "python/tidepool/native/_native.abi3.so", target / "tidepool/native")
    sys.path.insert(0, str(target))


class Case(unittest.TestCase):
    def setUp(self):
        self.t = tidepool.connect(cluster)
        self.addCleanup(self.t.close)
        self.assertIn(TRANSPORT, repr(self.t))

    def make(self, kind="hash", **options):
        name = self.id().rsplit(".", 1)[1].lower()
        space = self.t.create(name, kind, **options)
        self.addCleanup(lambda: self.t.drop(name) if name in self.t else None)
        return space


def main(test):
    """Runs the tests of a module, which gets the names of the package and of the cluster."""
    global build, folder, cluster, tidepool, numpy  # pylint: disable=global-statement
    build = pathlib.Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory(prefix="tidepool-python.") as name:
        folder = pathlib.Path(name)
        cluster = folder / "cluster.json"
        os.environ["XDG_RUNTIME_DIR"] = str(folder)  # Where sockets go.
        os.environ["TIDEPOOL_PYTHON_TRANSPORT"] = TRANSPORT
        install()
        import numpy as imported_numpy  # pylint: disable=import-outside-toplevel
        import tidepool as imported  # pylint: disable=import-outside-toplevel,import-error
        tidepool, numpy = imported, imported_numpy
        vars(test).update(build=build, folder=folder, cluster=cluster, tidepool=tidepool, numpy=numpy)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            kvctl("start", "--local", str(NODES), "--memory", "768MiB")
            ran = unittest.main(argv=[sys.argv[0], *sys.argv[1:]], exit=False, verbosity=1)
        finally:
            subprocess.run([build / "bin/kvctl", "--cluster", cluster, "--timeout", "10s", "stop", "--discard"],
                           capture_output=True, check=False)
            subprocess.run(["pkill", "-KILL", "-f", f"kvd .*{folder}"], check=False)
    return 0 if ran.result.wasSuccessful() else 1
