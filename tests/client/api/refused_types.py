#!/usr/bin/python3
"""Programs with types that cannot be keys or values do not compile, and are told why.

  refused_types.py COMPILER SOURCE_FOLDER
"""

import concurrent.futures
import subprocess
import sys

PROGRAM = """
#include <tidepool/tidepool.h>
struct Particle { double x[3], v[3]; };
struct Named { int id; const char* name; };
struct Owner { std::string name; };
struct Padded { char c; int i; };
void Use(tidepool::Client& client) {
  (void)client.OpenOrCreate<%s>("x");
}
"""
NO_CODEC = "no value: this type needs a Codec"
# The type of the handle, and what the compiler must say; empty: it compiles.
CASES = (
    ("tidepool::HashMap<std::string, Particle>", ""),
    ("tidepool::HashMap<std::pair<int, std::string>, std::vector<Particle>>", ""),
    ("tidepool::HashMap<std::string, Named>", NO_CODEC),
    ("tidepool::HashMap<std::string, Owner>", NO_CODEC),
    ("tidepool::HashMap<std::string, Particle*>", NO_CODEC),
    ("tidepool::HashMap<std::string, std::string_view>", NO_CODEC),
    ("tidepool::HashMap<Owner, int>", "no key: this type needs a Codec"),
    ("tidepool::HashMap<Padded, int>", "no key: equal values of this type may differ in their bytes"),
    ("tidepool::HashSet<Particle>", "no key: equal values of this type may differ in their bytes"),
    ("tidepool::HashMap<int, int, Particle>", "Placement needs kName and Tag"),
    ("tidepool::OrderedMap<std::pair<std::string, double>, Particle>", ""),
    ("tidepool::OrderedSet<std::vector<int>>", ""),
    ("tidepool::OrderedMap<Particle, int>", "no key in order: this type needs an OrderedCodec"),
    ("tidepool::OrderedSet<Owner>", "no key in order: this type needs an OrderedCodec"),
    ("tidepool::OrderedMap<int, Named>", NO_CODEC),
)


def problem_of(compiler, folder, handle, expected):
    done = subprocess.run(
        [compiler, "-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", f"-I{folder}/client/include", "-x", "c++", "-"],
        input=PROGRAM % handle, capture_output=True, text=True, check=False)
    if not expected:
        return f"{handle} does not compile:\n{done.stderr}" if done.returncode != 0 else None
    if done.returncode == 0:
        return f"{handle} compiles"
    if expected not in done.stderr:
        return f"{handle}: the compiler does not say '{expected}', but\n{done.stderr}"
    return None


def main():
    compiler, folder = sys.argv[1:3]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: problem_of(compiler, folder, *case), CASES))
    problems = [problem for problem in found if problem]
    print("\n".join(problems) or f"{len(CASES)} programs were judged as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
