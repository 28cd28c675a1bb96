"""Builds the package: the messages are made from the repository's proto files, by protoc and gRPC's plugin. The version is
the project's, from the CMakeLists.txt at the repository's root. The native client is built where pkg-config finds
Tidepool's library, Python's headers and a compiler of C++20 are there; the wheel then needs this library."""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# Those of setuptools, which comes first for this.
from distutils.ccompiler import new_compiler  # isort: skip
from distutils.sysconfig import customize_compiler  # isort: skip

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTO = ROOT / "proto"
FILES = [f"tidepool/v1/{name}.proto" for name in ("bulk", "cluster", "common", "data", "namespaces", "staging")]


def project_version():
    """Returns VERSION of the project() call."""
    lists = ROOT / "CMakeLists.txt"
    text = lists.read_text(encoding="utf-8") if lists.exists() else ""
    found = re.search(r"^project\(tidepool VERSION ([0-9.]+)", text, re.MULTILINE)
    if not found:
        raise SystemExit(f"{lists} does not say the version: build from a whole checkout of Tidepool")
    return found[1]


class BuildWithMessages(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "tidepool"
        (package / "_version.py").write_text(f'__version__ = "{project_version()}"\n', encoding="ascii")
        plugin, protoc = shutil.which("grpc_python_plugin"), shutil.which("protoc")
        if not plugin or not protoc:
            raise SystemExit("missing: apt-get install protobuf-compiler protobuf-compiler-grpc")
        subprocess.run([protoc, f"-I{PROTO}", f"--plugin=protoc-gen-grpc={plugin}", f"--python_out={self.build_lib}",
                        f"--grpc_out={self.build_lib}", *FILES], check=True)
        (package / "v1" / "__init__.py").touch()


def why_it_fails(flags, sources):
    """Returns what the compiler says against the extension's first file; None: it takes it."""
    compiler = new_compiler()
    customize_compiler(compiler)
    command = [*compiler.compiler_so, "-fsyntax-only", "-I" + sysconfig.get_path("include"), *flags, str(HERE / sources[0])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return f"{command[0]} cannot compile it" + (f": {lines[0].strip()}" if lines else "")


def native_extensions():
    """Returns the extension and None, or nothing and why it cannot be built: the package has its gRPC client then."""
    config, headers = shutil.which("pkg-config"), pathlib.Path(sysconfig.get_path("include"), "Python.h")
    if sys.version_info < (3, 11):
        return [], "Python is older than 3.11"
    if not headers.exists():
        return [], f"{headers} is missing (Debian: libpython3-dev)"
    if not config:
        return [], "pkg-config is missing"
    found = subprocess.run([config, "--cflags", "--libs", "tidepool"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        return [], "pkg-config finds no library 'tidepool' (set PKG_CONFIG_PATH)"
    flags = found.stdout.split()
    compiles = ["-std=c++20", *[flag for flag in flags if flag.startswith("-I")]]
    sources = [str(path.relative_to(HERE)) for path in sorted((HERE / "native").glob("*.cc"))]
    failure = why_it_fails([*compiles, f"-I{ROOT}"], sources)
    if failure:
        return [], failure
    return [Extension("tidepool.native._native", sources, include_dirs=[str(ROOT)], py_limited_api=True,
                      extra_compile_args=compiles,
                      extra_link_args=[flag for flag in flags if not flag.startswith("-I")])], None


EXTENSIONS, WHY_NOT = native_extensions()
if WHY_NOT:
    print(f"tidepool: the package has no native client, it will use gRPC: {WHY_NOT}", file=sys.stderr)
setup(version=project_version(), cmdclass={"build_py": BuildWithMessages}, ext_modules=EXTENSIONS,
      options={"bdist_wheel": {"py_limited_api": "cp311"}} if EXTENSIONS else {})
