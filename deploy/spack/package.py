# Copyright (c) 2026, the Tidepool authors
# SPDX-License-Identifier: BSD-3-Clause
#
# A recipe for Spack. Spack itself is not in Debian and was not run on it: tests/package checks it as Python, and
# that it names each library that the build looks for. Please tell us what a real Spack says.
#
#   spack repo create tidepool-repo && mkdir -p tidepool-repo/packages/tidepool
#   cp package.py tidepool-repo/packages/tidepool/ && spack repo add tidepool-repo
#   spack dev-build tidepool@main        # in a checkout

from spack.package import *


class Tidepool(CMakePackage):
    """A distributed key-value service that one user starts inside a batch allocation: one daemon per
    node, which together hold named collections in memory and on node-local disks."""

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0")

    variant("examples", default=False, description="Build the example programs")
    variant("lto", default=True, description="Link-time optimisation (GCC)")

    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("grpc@1.51:")
    depends_on("protobuf@3.21:")
    depends_on("ucx@1.13:")
    depends_on("spdlog@1.10:")
    depends_on("cli11@2.1:")
    depends_on("abseil-cpp@20220623:")
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
    depends_on("openblas", when="+examples")
    depends_on("zlib-api", when="+examples")

    generator("ninja")
    conflicts("%gcc@:11", msg="C++20 as of GCC 12")

    def cmake_args(self):
        return [
            self.define("TIDEPOOL_TESTS", False),
            self.define_from_variant("TIDEPOOL_EXAMPLES", "examples"),
            self.define_from_variant("TIDEPOOL_LTO", "lto"),
        ]
