#!/usr/bin/python3
"""Scripts parse and can be executed; package lists are plain lists in groups; deploy/install-packages names
missing packages and the command that installs them when it is not root."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

SHELL = re.compile(r"#! ?/(usr/)?bin/(env )?(ba)?sh\b")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*|# group: [a-z]+")


def script_problems(paths, root):
    problems = []
    for path in paths:
        full = os.path.join(root, path)
        with open(full, "rb") as file:
            start = file.read(64).decode("utf-8", "replace")
        if not start.startswith("#!"):
            continue
        if not os.access(full, os.X_OK):
            problems.append(f"{path}: has a #! line but is not executable")
        if SHELL.match(start):
            parsed = subprocess.run(["bash", "-n", full], capture_output=True, text=True, check=False)
            if parsed.returncode != 0:
                problems.append(f"{path}: {parsed.stderr.strip()}")
    return problems


def list_problems(path, text):
    names = text.split("\n")
    problems = [f"{path}: '{name}' is not the plain name of a package"
                for name in names[:-1] if not PACKAGE.fullmatch(name)]
    problems += [f"{path}: {name} twice" for name in sorted(set(names)) if names.count(name) > 1]
    if names[-1]:
        problems.append(f"{path}: the last line has no end")
    return problems


def install_problems(root):
    """Runs it as a plain user, with a list of a package that no system has and of bash."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        script = os.path.join(folder, "install-packages")
        shutil.copy(os.path.join(root, "deploy/install-packages"), script)
        wanted = os.path.join(folder, "packages.txt")
        with open(wanted, "w", encoding="utf-8") as file:
            file.write("# group: a\nno-such-package-of-tidepool\nbash\n# group: b\nbash\n")
        plain_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.getuid() == 0 else []

        def call(argument):
            return subprocess.run([*plain_user, script, argument], capture_output=True, text=True, check=False)

        result = call(wanted)
        ok = (result.returncode == 1 and "no-such-package-of-tidepool" in result.stderr and
              "apt-get install" in result.stderr and " bash" not in result.stderr)
        nothing = call(wanted + ":b")
        ok_nothing = nothing.returncode == 0 and not nothing.stdout and not nothing.stderr
        unknown = call(wanted + ":c")
        ok_unknown = unknown.returncode == 2 and unknown.stderr.strip().endswith("are: a b")
    problems = [] if ok else [f"deploy/install-packages, a package missing: {result}"]
    problems += [] if ok_nothing else [f"deploy/install-packages, nothing missing: {nothing}"]
    return problems if ok_unknown else problems + [f"deploy/install-packages, no such group: {unknown}"]


def check():
    problems = script_problems(tree.files(), tree.ROOT) + install_problems(tree.ROOT)
    for path in tree.files():
        if re.fullmatch(r"deploy/packages.*\.txt", path):
            problems += list_problems(path, tree.read(path))
    return problems


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for name, text, mode in (("good", "#!/bin/bash\ntrue\n", 0o755), ("plain", "text\n", 0o644),
                                 ("broken", "#!/bin/bash\nif true\n", 0o755),
                                 ("not_executable", "#!/bin/sh\ntrue\n", 0o644)):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(root, name), mode)
        problems = script_problems(["broken", "good", "not_executable", "plain"], root)
        assert len(problems) == 2, problems
        os.mkdir(os.path.join(root, "deploy"))
        with open(os.path.join(root, "deploy/install-packages"), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\necho installing\n")
        os.chmod(os.path.join(root, "deploy/install-packages"), 0o755)
        assert len(install_problems(root)) == 3
    assert not list_problems("x", "# group: a\ng++\nlibc6-dev\n")
    for text in ("g++\ng++\n", "g++ clang\n", "# note\n", "g++"):
        assert len(list_problems("x", text)) == 1, text


if __name__ == "__main__":
    sys.exit(tree.main(check, self_test))
