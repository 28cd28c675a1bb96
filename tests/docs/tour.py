#!/usr/bin/python3
"""Executes the pages that users read as a reader would: what a page shows is what happens.

  tour.py BUILD_FOLDER [PAGE...]   in a folder with links to the checkout, after `cmake --install BUILD_FOLDER`
  tour.py --here [PAGE...]         in the checkout, after deploy/quickstart
  tour.py --self-test

Without PAGE it is README.md; with --here client/examples/README.md, too. All blocks of a page count, in their order. The
shell has the three exports that deploy/quickstart prints. Pages other than README.md find a cluster of two daemons.

  ```sh                   runs in one shell; a command that fails fails the test
  command   # -> text     its output must be this line
  <!-- file: NAME -->     before a block of another language: the block becomes this file
  <!-- in: NAME -->       before a block of C++: the block becomes the body of a function of this program
  <!-- run: NAME -->      between blocks: the program of the blocks above is compiled and run
  <!-- where: PROGRAM --> before a block of commands: it runs where the machine has this program
  <!-- builds in the checkout -->   before a block: BUILD_FOLDER has its programs, so it runs with --here only
  <!-- run by: TEST -->   before a block: another test runs it (tests/docs/blocks.py looks whether it does)
  ```text                 no commands
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from pages import ROOT, text_of

MARKERS = "file|in|where|run by|builds in the checkout"
BLOCK = re.compile(rf"(?:^<!-- (?P<marker>{MARKERS})(?:: (?P<name>\S+))? -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$"
                   r"|^<!-- run: (?P<program>\S+) -->$", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^(?P<command>.*?)\s+# -> (?P<output>.*)$")
# Of a stuck command. All of the tour takes well below a minute, and the larger programs some minutes.
TIMEOUT_SECONDS = 500
TIMEOUT_HERE_SECONDS = 3600
FIRST = "README.md"
EXAMPLES = "client/examples/README.md"
PAGES = (FIRST, EXAMPLES, "client/README.md", "client/python/README.md", "cli/README.md")
EXPORTS = '''export PATH=$PWD/build/install/bin:$PATH
export CMAKE_PREFIX_PATH=$PWD/build/install
export PYTHONPATH=$PWD/build/install/lib/python3/dist-packages
'''
CLUSTER = '''export TIDEPOOL_CLUSTER=$PWD/page.json
kvctl start --local 2 --memory 512MiB >start.log
'''
# mpirun refuses root and machines with fewer CPUs than ranks unless it is told otherwise.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none"}


def section_of(page, title):
    match = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if not match:
        raise ValueError(f"the page has no '## {title}'")
    return match.group(1)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def shell_of(text):
    """Bash lines for one sh block; lines with an expected output compare it."""
    lines = []
    for line in text.splitlines():
        match = EXPECTED.match(line)
        if match:
            lines.append(f"expect {quoted(match['output'])} {quoted(match['command'])}")
        else:
            lines.append(line)
    return "\n".join(lines)


def written(name, text):
    folder = os.path.dirname(name)
    return (f"mkdir -p {quoted(folder)}\n" if folder else "") + f"cat >{quoted(name)} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK"


def program_of(bodies):
    """Returns a C++ program that runs each body, with a client, until one does not return 0."""
    functions = "".join(f"\nint Step{i}(tidepool::Client& client) {{\n{body}  return 0;\n}}\n" for i, body in enumerate(bodies))
    calls = "".join(f"  if (const int code = Step{i}(*client); code != 0) return code;\n" for i in range(len(bodies)))
    return f"""#include <tidepool/tidepool.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>
{functions}
int main() {{
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
{calls}}}
"""


def compiled(name, bodies):
    """Returns the lines that write, compile and run the program of these blocks."""
    if not bodies:
        raise ValueError(f"no block belongs to {name}")
    prefix, output = '"$PWD/build/install', quoted(name + ".out")
    return "\n".join([written(name, program_of(bodies)),
                      f"g++ -std=c++20 -Wall -Werror -I {prefix}/include\" {quoted(name)} -o {output} -L {prefix}/lib\" "
                      f"-ltidepool -Wl,-rpath,{prefix}/lib\"", f"./{output}"])


def script_of(page, here=False):
    """Returns one bash script that does all that the page shows."""
    parts = [r'''set -euo pipefail
expect() {
  local output
  output=$(eval "$2") || { echo "page: failed: $2" >&2; exit 1; }
  [ "$output" = "$1" ] || { echo "page: $2" >&2; echo "  says: $1" >&2; echo "  but : $output" >&2; exit 1; }
}
trap 'echo "page: failed: $BASH_COMMAND" >&2' ERR''']
    programs = {}
    for block in BLOCK.finditer(page):
        marker, name, text = block["marker"], block["name"], block["text"]
        if block["program"]:
            parts.append(compiled(block["program"], programs.pop(block["program"], [])))
        elif marker == "file":
            parts.append(written(name, text))
        elif marker == "in":
            programs.setdefault(name, []).append(text)
        elif marker == "run by" or (marker and not name and not here) or block["language"] == "text":
            continue
        elif block["language"] != "sh":
            raise ValueError(f"a block of language '{block['language']}' names no file")
        elif marker == "where":
            parts.append(f"if command -v {quoted(name)} >/dev/null; then\n{shell_of(text)}\nfi")
        else:
            parts.append(shell_of(text))
    if programs:
        raise ValueError(f"no line '<!-- run: NAME -->' runs {sorted(programs)}")
    return "\n".join(parts) + "\n"


def make_checkout(folder, build):
    """Makes the checkout as links, so that the tour writes to `folder`, and build/ as quickstart leaves it."""
    for name in os.listdir(ROOT):
        if name not in ("build", ".git"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(build, os.path.join(folder, "build", "default"))
    subprocess.run(["cmake", "--install", build, "--prefix", os.path.join(folder, "build", "install")], check=True,
                   stdout=subprocess.DEVNULL)


def run(script, folder, home, seconds=TIMEOUT_SECONDS):
    """Runs the script in a session of its own; whatever it leaves behind is ended."""
    os.makedirs(home, exist_ok=True)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("TIDEPOOL_", "SLURM_")) and "proxy" not in name.lower()}
    environment.update(MPI, HOME=home, TMPDIR=home, XDG_RUNTIME_DIR=home, LC_ALL="C.UTF-8")
    adopt_orphans()
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"page: it did not end within {seconds} s", file=sys.stderr)
        return 1
    finally:
        end_children()


def adopt_orphans():
    """Whatever the tour starts becomes a child of this process when its own parent is gone, whatever session
    it is in by then: no other mark is on a process at each moment (one that is being executed has no
    environment yet)."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def end_children():
    while children := children_of(os.getpid()):
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def children_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                # Behind the name, which may have anything in it.
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry))
        except (OSError, ValueError, IndexError):
            pass
    return found


def run_page(page, build):
    """`build`: None in the checkout itself."""
    cluster = "" if page == FIRST else CLUSTER
    script = EXPORTS + cluster + script_of(text_of(page), here=build is None)
    script += "kvctl stop --discard\n" if cluster else ""
    folder = tempfile.mkdtemp(prefix="tidepool-tour.")
    home = os.path.join(folder, "home")
    try:
        if build is None:
            return run(script, ROOT, home, TIMEOUT_HERE_SECONDS)
        make_checkout(folder, os.path.abspath(build))
        return run(script, folder, home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_pages(pages, build):
    for page in pages:
        print(f"== {page}", flush=True)
        code = run_page(page, build)
        if code != 0:
            print(f"{page}: exit code {code}", file=sys.stderr)
            return 1
    return 0


def self_test():
    def result(tour, here=False):
        with tempfile.TemporaryDirectory() as folder:
            return run(script_of(tour, here), folder, os.path.join(folder, "home"))

    assert result("```sh\necho hello   # -> hello\n```\n") == 0
    assert result("```sh\necho hello   # -> goodbye\n```\n") != 0
    assert result("```sh\nfalse\ntrue\n```\n") != 0
    assert result("```sh\nfalse   # -> \n```\n") != 0
    assert result("<!-- file: a/b.txt -->\n```python\nit's $x\n```\n```sh\ncat a/b.txt  # -> it's $x\n```\n") == 0
    assert result("```sh\nx=1\n```\ntext\n```sh\necho $x   # -> 1\n```\n") == 0
    for refused in ("```cpp\nint x;\n```\n", "<!-- in: a.cc -->\n```cpp\nint x;\n```\n", "<!-- run: a.cc -->\n", "```\nls\n```\n"):
        try:
            script_of(refused)
        except ValueError:
            continue
        raise AssertionError(f"{refused} was accepted")
    assert "Step1(*client)" in script_of(2 * "<!-- in: a.cc -->\n```cpp\n```\n" + "<!-- run: a.cc -->\n")
    assert result("```text\nfalse\n```\n<!-- run by: tests/run -->\n```sh\nfalse\n```\n") == 0
    assert result("<!-- where: no-such-program -->\n```sh\nfalse\n```\n") == 0
    assert result("<!-- where: bash -->\n```sh\nfalse\n```\n") != 0
    for here in (False, True):
        assert (result("<!-- builds in the checkout -->\n```sh\nfalse\n```\n", here) != 0) == here
    # Whatever is left running is ended.
    marker = f"{os.getpid()}.5"
    assert result(f"```sh\nsleep {marker} >/dev/null 2>&1 &\n```\n") == 0
    left = subprocess.run(["pgrep", "-f", f"^sleep {marker}$"], capture_output=True, check=False)
    assert left.returncode == 1, left.stdout


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        print("self-test passed")
        sys.exit(0)
    where, *chosen = sys.argv[1:]
    if where == "--here":
        sys.exit(run_pages(chosen or (FIRST, EXAMPLES), None))
    sys.exit(run_pages(chosen or (FIRST,), where))
