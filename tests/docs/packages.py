#!/usr/bin/python3
"""deploy/packages-runtime.txt, which the image is made from, names what the programs need to run: each
shared library that kvd, kvctl and libtidepool.so are linked with comes with a package of the list, or
with what it depends on. And the list names no package that deploy/packages-build.txt does not bring.

  packages.py BUILD_FOLDER
  packages.py --self-test
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ["bin/kvd", "bin/kvctl", "lib/libtidepool.so", "lib/libtidepool_c.so"]
# In every Debian that has a shell.
BASE = {"libc6"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def listed(name):
    with open(os.path.join(ROOT, "deploy", name), encoding="utf-8") as file:
        return set(file.read().split())


def libraries(path):
    """Paths of the libraries that are linked directly."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)))
    found = {}
    for line in output("ldd", path).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and match.group(1) in needed:
            found[match.group(1)] = match.group(2)
    return found


def package_of(path):
    """dpkg knows a file by the path that its package has, with or without /usr."""
    bare = path.removeprefix("/usr")
    for candidate in (bare, "/usr" + bare, os.path.realpath(path)):
        done = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return None


def dependencies():
    """Of every installed package: names, without versions, each alternative."""
    found = {}
    for line in output("dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends},${Depends}\n").splitlines():
        package, depends = line.split("\t", 1)
        names = re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", depends)
        found.setdefault(package, set()).update(names)
    return found


def closure(packages, depends):
    known, fresh = set(), set(packages)
    while fresh:
        known |= fresh
        fresh = set().union(*(depends.get(package, set()) for package in fresh)) - known
    return known


def problems(needed, runtime, build, depends):
    """`needed`: library to package (None: of no package)."""
    brought = closure(runtime, depends) | BASE
    found = [f"deploy/packages-runtime.txt brings no {library}: add {package or 'its package'}"
             for library, package in sorted(needed.items()) if package not in brought]
    here = closure(build, depends)
    found += [f"deploy/packages-runtime.txt names {package}, which deploy/packages-build.txt does not bring"
              for package in sorted(runtime - here)]
    return found


def self_test():
    depends = {"libgrpc++1.51": {"libgrpc29"}, "libgrpc++-dev": {"libgrpc++1.51"}}
    needed = {"libgrpc++.so": "libgrpc++1.51", "libgrpc.so": "libgrpc29", "libc.so.6": "libc6"}
    good = ({"libgrpc++1.51"}, {"libgrpc++-dev"}, depends)
    assert not problems(needed, *good)
    assert problems({**needed, "libucp.so.0": "libucx0"}, *good)
    assert problems({**needed, "libother.so": None}, *good)
    assert problems(needed, {"libgrpc++1.51", "libucx0"}, {"libgrpc++-dev"}, depends)
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    build = sys.argv[1]
    needed = {}
    for program in PROGRAMS:
        for library, path in libraries(os.path.join(build, program)).items():
            if not os.path.realpath(path).startswith(os.path.realpath(build)):
                needed[library] = package_of(path)
    assert needed, "no shared libraries: were the programs built?"
    found = problems(needed, listed("packages-runtime.txt"), listed("packages-build.txt"), dependencies())
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
