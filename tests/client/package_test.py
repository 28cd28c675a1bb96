#!/usr/bin/python3
"""What users get: the installed SDK. package_test.py BUILD_FOLDER COMPILER

1. The shared library's dynamic symbols are tidepool::, tidepool_* and nothing else.
2. Each installed header compiles alone, and includes only the standard library and its own.
3. The C file that tidepool/function.h shows compiles against it, as installed.
4. A program builds against the installed copy, by find_package and by pkg-config, without any of the
   libraries that the SDK uses inside, and runs.
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOREIGN = re.compile(r"grpc|protobuf|ucp|ucs|uct|absl|spdlog|nlohmann|xxhash|\.pb\.h")
# No daemon runs: the program must find that out, and say so by the exit code for "not found".
PROGRAM = """
#include <tidepool/tidepool.h>
int main() {
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
  auto map = client->OpenOrCreate<tidepool::BytesMap>("x");
  return tidepool::Report(map.status());
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(tidepool REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE tidepool::tidepool)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def defined_symbols(library):
    lines = run("nm", "-DC", "--defined-only", library).splitlines()
    return [line.split(maxsplit=2)[2] for line in lines]


def foreign_symbols(symbols):
    kinds = ("typeinfo for ", "typeinfo name for ", "vtable for ")
    found = []
    for symbol in symbols:
        name = symbol
        for kind in kinds:
            name = name.removeprefix(kind)
        if not name.startswith(("tidepool::", "tidepool_")):
            found.append(symbol)
    return found


def check_symbols(library):
    symbols = defined_symbols(library)
    assert any("tidepool::Client::Connect" in symbol for symbol in symbols), symbols[:5]
    found = foreign_symbols(symbols)
    assert not found, f"{library} shows {len(found)} symbols that are not tidepool's, e.g. {found[:5]}"
    assert foreign_symbols(["std::foo()", "vtable for grpc::X", "tidepool::Y()", "tidepool_z"]) == \
        ["std::foo()", "vtable for grpc::X"]


def check_headers(prefix, compiler, work):
    include = os.path.join(prefix, "include")
    headers = []
    for folder, _, files in os.walk(include):
        headers += [os.path.join(folder, name) for name in files]
    assert len(headers) >= 8, headers
    assert os.path.join(include, "tidepool", "tidepool.h") in headers
    for header in headers:
        text = open(header, encoding="utf-8").read()
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', text, re.MULTILINE):
            assert not FOREIGN.search(name), f"{header} includes {name}"
        source = os.path.join(work, "alone.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f'#include "{header}"\n')
        run(compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
            f"-I{include}", source)


def check_functions(prefix, work):
    with open(os.path.join(prefix, "include", "tidepool", "function.h"), encoding="utf-8") as file:
        lines = re.findall(r"^ \*   (.*)$", file.read(), re.MULTILINE)
    begin = lines.index("#include <tidepool/function.h>")
    end = next(i for i, line in enumerate(lines) if line.startswith("cc -shared"))
    source = os.path.join(work, "functions.c")
    library = os.path.join(work, "functions.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(lines[begin:end]) + "\n")
    run("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC",
        f"-I{prefix}/include", source, "-o", library)
    assert defined_symbols(library) == ["tidepool_functions"], defined_symbols(library)


def check_program(binary, work):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("TIDEPOOL_", "SLURM_"))}
    environment["XDG_RUNTIME_DIR"] = work
    done = subprocess.run([binary], cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert done.stderr.startswith("tidepool: NOT_FOUND: "), done.stderr


def build_with_cmake(prefix, compiler, folder):
    run("cmake", "-S", folder, "-B", folder + "/build", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", folder + "/build")
    needed = run("readelf", "-d", folder + "/build/user")
    assert "libtidepool.so" in needed
    assert not re.search(r"NEEDED.*(grpc|protobuf|ucp)", needed), needed
    return folder + "/build/user"


def build_with_pkg_config(prefix, compiler, library_folder, folder):
    environment = {**os.environ, "PKG_CONFIG_PATH": library_folder + "/pkgconfig"}
    flags = run("pkg-config", "--define-variable=prefix=" + prefix, "--cflags", "--libs", "tidepool",
                env=environment).split()
    binary = folder + "/user_pc"
    run(compiler, "-std=c++20", folder + "/user.cc", "-o", binary, *flags,
        f"-Wl,-rpath,{library_folder}")
    return binary


# The command of client/c/README.md.
C_COMMAND = "cc program.c $(pkg-config --cflags --libs tidepool-c)"
C_PROGRAM = r'''
#include <tidepool/c/tidepool.h>
int main(void) {
  tidepool_client* client = 0;
  if (tidepool_connect(0, &client) == TIDEPOOL_OK) return 0;
  tidepool_report(tidepool_error_code());
  return 3;
}
'''


def build_c_program(prefix, library_folder, folder):
    with open(os.path.join(folder, "program.c"), "w", encoding="utf-8") as file:
        file.write(C_PROGRAM)
    command = C_COMMAND.replace("pkg-config", f"pkg-config --define-variable=prefix={prefix}")
    done = subprocess.run(["sh", "-c", f"{command} -Wl,-rpath,{library_folder}"], cwd=folder, check=False,
                          env={**os.environ, "PKG_CONFIG_PATH": library_folder + "/pkgconfig"},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return os.path.join(folder, "a.out")


def main():
    build, compiler = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as work:
        prefix = os.path.join(work, "prefix")
        for component in ("library", "sdk"):  # The programs need not be built for this.
            run("cmake", "--install", build, "--prefix", prefix, "--component", component)
        library = next(os.path.join(folder, name) for folder, _, names in os.walk(prefix)
                       for name in names if name == "libtidepool.so")
        check_symbols(library)
        check_headers(prefix, compiler, work)
        check_functions(prefix, work)
        folder = os.path.join(work, "user")
        os.mkdir(folder)
        for name, text in (("user.cc", PROGRAM), ("CMakeLists.txt", CMAKE)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        check_program(build_with_cmake(prefix, compiler, folder), work)
        check_program(build_with_pkg_config(prefix, compiler, os.path.dirname(library), folder), work)
        check_program(build_c_program(prefix, os.path.dirname(library), folder), work)


if __name__ == "__main__":
    main()
