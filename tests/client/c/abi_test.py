#!/usr/bin/python3
"""The headers, the ABI and the README of the C API.

  abi_test.py BUILD_FOLDER [unittest arguments]
  abi_test.py BUILD_FOLDER --update     writes client/c/abi.txt

abi.txt has a line for each exported function, each constant, each struct with its size, and each field with its offset.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
INCLUDE = os.path.join(ROOT, "client", "include")
ABI = os.path.join(ROOT, "client", "c", "abi.txt")
README = os.path.join(ROOT, "client/c/README.md")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I" + INCLUDE]
# What a snippet of the README that is no program finds around it.
AROUND = """#include <stdio.h>
#include <stdlib.h>
#include <tidepool/c/tidepool.h>
void Snippet(tidepool_client* client, tidepool_namespace* map, tidepool_namespace* queue);
void Snippet(tidepool_client* client, tidepool_namespace* map, tidepool_namespace* queue) {
  (void)client, (void)map, (void)queue;
%s
}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def headers():
    return sorted(glob.glob(os.path.join(INCLUDE, "tidepool", "c", "*.h")))


def code():
    """All headers without comments."""
    return re.sub(r"/\*.*?\*/", "", "\n".join(map(read, headers())), flags=re.DOTALL)


def declared():
    return set(re.findall(r"^TIDEPOOL_C_API\s[^;(]*?\b(tidepool_\w+)\(", code(), re.MULTILINE))


def constants():
    return [name for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", code(), re.DOTALL)
            for name in re.findall(r"\b(TIDEPOOL_\w+)\s*=", body)]


def structs():
    """Name -> its fields."""
    found = re.findall(r"\bstruct (tidepool_\w+)\s*\{(.*?)\}", code(), re.DOTALL)
    return {name: re.findall(r"(\w+);", body) for name, body in found}


def exported(library):
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[2] for line in lines}


def described(functions):
    """The lines of abi.txt: offsets and numbers are the compiler's."""
    rows = [f'  printf("constant {name} %lld\\n", (long long){name});' for name in constants()]
    for name, fields in structs().items():
        rows.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        rows += [f'  printf("field {name}.{field} %zu\\n", offsetof({name}, {field}));' for field in fields]
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "abi")
        run("cc", "-std=c11", *STRICT, "-x", "c", "-", "-o", binary,
            text="#include <stdio.h>\n#include <tidepool/c/tidepool.h>\nint main(void) {\n" + "\n".join(rows) + "\n}\n")
        lines = run(binary).splitlines()
    return [f"function {name}" for name in sorted(functions)] + lines


class Abi(unittest.TestCase):
    build = None

    def library(self, name):
        return os.path.join(self.build, "lib", name)

    def test_each_header_compiles_alone_in_c_and_in_cxx(self):
        self.assertGreater(len(headers()), 8)
        for header in headers():
            text = f'#include "tidepool/c/{os.path.basename(header)}"\n'
            run("cc", "-std=c11", *STRICT, "-fsyntax-only", "-x", "c", "-", text=text)
            for standard in ("c++11", "c++20"):
                run("c++", "-std=" + standard, *STRICT, "-fsyntax-only", "-x", "c++", "-", text=text)
        broken = "#include <tidepool/c/tidepool.h>\nint x = TIDEPOOL_NO_SUCH_CODE;\n"
        with self.assertRaises(AssertionError):
            run("cc", "-std=c11", *STRICT, "-fsyntax-only", "-x", "c", "-", text=broken)

    def test_headers_include_the_c_library_and_each_other_alone(self):
        for header in headers():
            for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', read(header), re.MULTILINE):
                self.assertRegex(name, r"^(stddef\.h|stdint\.h|tidepool/c/\w+\.h)$", header)

    def test_the_library_for_c_shows_its_functions_alone(self):
        self.assertEqual(exported(self.library("libtidepool_c.so")), declared())

    def test_the_library_for_cxx_shows_the_same_functions(self):
        shown = {name for name in exported(self.library("libtidepool.so")) if name.startswith("tidepool_")}
        self.assertEqual(shown, declared())

    def test_the_list_is_what_headers_and_library_say(self):
        listed = [line for line in read(ABI).splitlines() if not line.startswith("#")]
        self.assertGreater(len(listed), 400)
        self.assertEqual(listed, described(exported(self.library("libtidepool_c.so"))),
                         "a wanted change: tests/client/c/abi_test.py BUILD_FOLDER --update")

    def test_options_begin_with_their_size(self):
        for name, fields in structs().items():
            if name.endswith("_options"):
                self.assertEqual(fields[0], "struct_bytes", name)
                self.assertRegex(code(), rf"TIDEPOOL_OPTIONS_INIT_\({name}\)")

    def test_snippets_of_the_readme_compile(self):
        snippets = re.findall(r"^```c\n(.*?)^```", read(README), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(snippets), 5)
        for snippet in snippets:
            text = snippet if "int main" in snippet else AROUND % snippet
            run("cc", "-std=c11", *STRICT, "-fsyntax-only", "-x", "c", "-", text=text)
        self.assertLessEqual(os.path.getsize(README), 6 * 1024)


if __name__ == "__main__":
    Abi.build = os.path.abspath(sys.argv.pop(1))
    if "--update" in sys.argv[1:]:
        with open(ABI, "w", encoding="utf-8") as out:
            out.write("# The ABI of the C API on x86-64 Linux; tests/client/c/abi_test.py compares and updates it.\n")
            out.write("\n".join(described(exported(os.path.join(Abi.build, "lib", "libtidepool_c.so")))) + "\n")
        sys.exit(0)
    unittest.main(verbosity=2)
