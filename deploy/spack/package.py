# Copyright (c) 2026, the Tidepool authors
# SPDX-License-Identifier: BSD-3-Clause
#
# A recipe for Spack 1. UNTRIED: Spack is not in Debian and was not run on it. tests/package checks it as Python, and that it
# names each library of the build. Names, versions and variants were compared with Spack's packages of 2026.
#
#   spack repo create DIR tidepool                   # once; DIR: any new folder
#   mkdir -p DIR/spack_repo/tidepool/packages/tidepool
#   cp package.py DIR/spack_repo/tidepool/packages/tidepool/
#   spack repo add DIR/spack_repo/tidepool
#   export TIDEPOOL_REPOSITORY=file://CHECKOUT       # where Spack clones from
#   spack install tidepool
#
# Slurm's MUNGE must be the site's own: Spack's looks for its socket below its prefix. Name it in packages.yaml as an external,
# or install `munge localstatedir=/var`.

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Tidepool(CMakePackage):
    """A distributed key-value service that one user starts inside a batch allocation: one daemon per
    node, which together hold named collections in memory and on node-local disks."""

    homepage = "https://www.example.com/tidepool"  # There is none yet; Spack wants one.
    git = os.environ.get("TIDEPOOL_REPOSITORY", "")

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("examples", default=False, description="Build the example programs")
    variant("lto", default=True, description="Link-time optimisation (GCC)")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    # Tried with 1.51, which Spack has not. From 1.55 on gRPC needs protobuf 22, which CMake's own module does not link.
    depends_on("grpc@1.50:1.54+shared cxxstd=17")
    depends_on("protobuf@3.21")
    # Tried with 1.13.1 and 1.18.1; verbs and rdmacm are off by default.
    depends_on("ucx@1.13,1.18+verbs+rdmacm")
    depends_on("spdlog@1.10:")
    depends_on("cli11@2.1:")
    depends_on("abseil-cpp@20220623: cxxstd=17")  # That of gRPC: absl::string_view depends on it.
    depends_on("nlohmann-json@3.11:")
    depends_on("openssl@3:")
    depends_on("xxhash@0.8.1:")
    depends_on("munge@0.5:")
    depends_on("boost@1.74:")
    depends_on("prometheus-cpp@1.0:")
    depends_on("tomlplusplus@3.3:")
    depends_on("isa-l@2.30:")
    depends_on("liburing@2.3:")
    depends_on("pmdk@1.12:")
    depends_on("libfuse@3.12:")  # kvctl mount.
    depends_on("openblas", when="+examples")
    depends_on("zlib-api", when="+examples")
    # The example isx also needs pcg_random.hpp (libpcg-cpp-dev in Debian), which no package of Spack has.

    generator("ninja")
    conflicts("%gcc@:11", msg="C++20 as of GCC 12")

    def cmake_args(self):
        return [
            self.define("TIDEPOOL_TESTS", False),
            self.define_from_variant("TIDEPOOL_EXAMPLES", "examples"),
            self.define_from_variant("TIDEPOOL_LTO", "lto"),
        ]
