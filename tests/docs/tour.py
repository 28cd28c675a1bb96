#!/usr/bin/python3
"""Executes README.md's tour as a reader would: what it shows is what happens.

  tour.py BUILD_FOLDER     in a folder with links to the checkout, after `cmake --install BUILD_FOLDER`
  tour.py --here           in the checkout, after deploy/quickstart
  tour.py --self-test

All blocks between "## Five-minute tour" and the next heading of that level count, in their order. (Those of "## In a
Slurm job" are tests/slurm's.)

  ```sh                   runs in one shell; a command that fails fails the test
  command   # -> text     its output must be this line
  <!-- file: NAME -->     before a block of another language: the block becomes this file
  <!-- builds in the checkout -->   before a block: BUILD_FOLDER has its programs, so it runs with --here only
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"(?:^<!-- (?:file: (?P<file>\S+)|(?P<builds>builds in the checkout)) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
                   re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^(?P<command>.*?)\s+# -> (?P<output>.*)$")
# Of a stuck command. All of the tour takes well below a minute, and the larger programs some minutes.
TIMEOUT_SECONDS = 500
TIMEOUT_HERE_SECONDS = 3600


def section_of(readme, title="Five-minute tour"):
    match = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    if not match:
        raise ValueError(f"README.md has no '## {title}'")
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


def script_of(tour, here=False):
    """Returns one bash script that does all that the tour shows."""
    parts = [r'''set -euo pipefail
expect() {
  local output
  output=$(eval "$2") || { echo "README: failed: $2" >&2; exit 1; }
  [ "$output" = "$1" ] || { echo "README: $2" >&2; echo "  says: $1" >&2; echo "  but : $output" >&2; exit 1; }
}
trap 'echo "README: failed: $BASH_COMMAND" >&2' ERR''']
    for block in BLOCK.finditer(tour):
        if block["builds"] and not here:
            continue
        if block["file"]:
            folder = os.path.dirname(block["file"])
            if folder:
                parts.append(f"mkdir -p {quoted(folder)}")
            parts.append(f"cat >{quoted(block['file'])} <<'END_OF_README_BLOCK'\n{block['text']}END_OF_README_BLOCK")
        elif block["language"] == "sh":
            parts.append(shell_of(block["text"]))
        else:
            raise ValueError(f"a {block['language']} block of the tour names no file")
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
    environment.update(HOME=home, TMPDIR=home, XDG_RUNTIME_DIR=home, LC_ALL="C.UTF-8")
    adopt_orphans()
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"README: the tour did not end within {seconds} s", file=sys.stderr)
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


def run_tour(build):
    """`build`: None for the tour in the checkout itself."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        script = script_of(section_of(file.read()), here=build is None)
    folder = tempfile.mkdtemp(prefix="tidepool-tour.")
    home = os.path.join(folder, "home")
    try:
        if build is None:
            return run(script, ROOT, home, TIMEOUT_HERE_SECONDS)
        make_checkout(folder, os.path.abspath(build))
        return run(script, folder, home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    try:
        script_of("```cpp\nint main() {}\n```\n")
        raise AssertionError("a block without a file was accepted")
    except ValueError:
        pass
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
    sys.exit(run_tour(None if sys.argv[1] == "--here" else sys.argv[1]))
