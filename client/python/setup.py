"""Builds the package: the messages are made from the repository's proto files, by protoc and gRPC's plugin."""

import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
FILES = [f"tidepool/v1/{name}.proto" for name in ("bulk", "cluster", "common", "data", "namespaces")]


class BuildWithMessages(build_py):
    def run(self):
        super().run()
        plugin, protoc = shutil.which("grpc_python_plugin"), shutil.which("protoc")
        if not plugin or not protoc:
            raise SystemExit("missing: apt-get install protobuf-compiler protobuf-compiler-grpc")
        subprocess.run([protoc, f"-I{PROTO}", f"--plugin=protoc-gen-grpc={plugin}", f"--python_out={self.build_lib}",
                        f"--grpc_out={self.build_lib}", *FILES], check=True)
        (pathlib.Path(self.build_lib) / "tidepool" / "v1" / "__init__.py").touch()


setup(cmdclass={"build_py": BuildWithMessages})
