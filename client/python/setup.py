"""Builds the package: the messages are made from the repository's proto files, by protoc and gRPC's plugin. The version is
the project's, from the CMakeLists.txt at the repository's root. The native client is built where pkg-config finds
Tidepool's library and Python's headers are there; the wheel then needs this library."""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

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


def native_extensions():
    """Returns the extension, or nothing where it cannot be built: the package has its gRPC client then."""
    config, headers = shutil.which("pkg-config"), pathlib.Path(sysconfig.get_path("include"), "Python.h")
    if not config or sys.version_info < (3, 11) or not headers.exists():
        return []
    found = subprocess.run([config, "--cflags", "--libs", "tidepool"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        return []
    flags = found.stdout.split()
    sources = [str(path.relative_to(HERE)) for path in sorted((HERE / "native").glob("*.cc"))]
    return [Extension("tidepool.native._native", sources, include_dirs=[str(ROOT)], py_limited_api=True,
                      extra_compile_args=["-std=c++20", *[flag for flag in flags if flag.startswith("-I")]],
                      extra_link_args=[flag for flag in flags if not flag.startswith("-I")])]


EXTENSIONS = native_extensions()
setup(version=project_version(), cmdclass={"build_py": BuildWithMessages}, ext_modules=EXTENSIONS,
      options={"bdist_wheel": {"py_limited_api": "cp311"}} if EXTENSIONS else {})
