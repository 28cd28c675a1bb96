#!/usr/bin/python3 -B
"""The wheel: built against the installed library, installed in a virtual environment, used on real daemons.

  wheel_test.py BUILD_FOLDER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import python_support

PROGRAM = """
import sys, tidepool
with tidepool.connect(sys.argv[1]) as t:
    m = t.create("wheel")
    m["k"] = b"v"
    print(repr(t).rsplit(", ", 1)[1], m["k"], tidepool.__version__)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"failed: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(build, folder):
    prefix, cluster = folder / "prefix", folder / "cluster.json"
    for component in ("library", "sdk"):
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    libraries = next(prefix.rglob("libtidepool.so")).parent
    source = python_support.copy_source(folder)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig"), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                   "XDG_RUNTIME_DIR": str(folder)}
    environment.pop("TIDEPOOL_PYTHON_TRANSPORT", None)
    # The installed .pc file names the prefix of its configuration.
    package = libraries / "pkgconfig/tidepool.pc"
    text = package.read_text(encoding="utf-8")
    package.write_text("\n".join(f"prefix={prefix}" if line.startswith("prefix=") else line for line in text.splitlines()) + "\n",
                       encoding="utf-8")
    run("/usr/bin/python3", "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
        "--wheel-dir", folder, source / "client/python", env=environment)
    wheels = [path.name for path in folder.glob("*.whl")]
    assert len(wheels) == 1 and "-cp311-abi3-linux_" in wheels[0], wheels

    # gRPC and pip are Debian's: a venv with its own pip needs python3-venv.
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", folder / "venv")
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", folder / wheels[0], env=environment)
    extension = next((folder / "venv").rglob("_native.abi3.so"))
    needed = run("readelf", "-d", extension)
    assert "libtidepool.so.1" in needed and "libpython" not in needed, needed
    run(build / "bin/kvctl", "--cluster", cluster, "start", "--local", "1", "--memory", "256MiB", env=environment)
    try:
        used = run(python, "-c", PROGRAM, cluster, env={**environment, "LD_LIBRARY_PATH": str(libraries)})
        assert used.startswith("native> b'v'"), used
        # Another machine has no library: the same wheel works by gRPC.
        shutil.rmtree(libraries)
        used = run(python, "-c", PROGRAM, cluster, env=environment)
        assert used.startswith("grpc> b'v'"), used
    finally:
        subprocess.run([build / "bin/kvctl", "--cluster", cluster, "stop", "--discard"], capture_output=True, check=False,
                       env=environment)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidepool-wheel.") as name:
        check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(name))
