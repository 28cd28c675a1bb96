#!/usr/bin/python3
"""kvctl stage, and what kvctl shows of staged files, against a real cluster of three daemons.

  kvctl_stage_test.py BUILD_FOLDER [unittest arguments]
"""

import base64
import filecmp
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import kvctl_support

LARGE_BYTES = (64 << 20) + 12_345  # Stored in parts.


def make_tree(root):
    """Files whose names and kinds have made trouble somewhere."""
    for folder in ("run1", "run2/deep/er", "empty folder"):
        os.makedirs(os.path.join(root, folder))
    files = {
        "run1/a.txt": b"hello\n", "run1/empty": b"", "run2/deep/er/b.bin": bytes(range(256)) * 300,
        "new\nline": b"1", " blanks ": b"2", "-dash": b"3", "*star[1]?": b"4", "gr\u00fc\u00df": b"5",
    }
    for name, content in files.items():
        with open(os.path.join(root, name), "wb") as file:
            file.write(content)
    with open(os.path.join(os.fsencode(root), b"not utf8 \xff"), "wb") as file:
        file.write(b"6")
    with open(os.path.join(root, "large.bin"), "wb") as file:
        block = os.urandom(1 << 20)
        for _ in range(64):
            file.write(block)
        file.write(b"x" * (LARGE_BYTES - (64 << 20)))
    os.symlink("run1/a.txt", os.path.join(root, "link"))
    os.symlink("/nowhere/at all", os.path.join(root, "dangling"))
    os.chmod(os.path.join(root, "run1/a.txt"), 0o640)
    os.chmod(os.path.join(root, "run2/deep"), 0o750)
    os.utime(os.path.join(root, "run1/empty"), ns=(1_000_000_001, 1_000_000_001))


def attributes(root):
    """Of everything below: mode and time of change, which diff does not compare."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in [b"."] + folders + files:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            is_link = stat.S_ISLNK(info.st_mode)
            found[os.path.relpath(path, os.fsencode(root))] = (
                0 if is_link else stat.S_IMODE(info.st_mode), info.st_mtime_ns)
    return found


class StagingTest(kvctl_support.KvctlTest):
    def assert_same_tree(self, source, target):
        done = subprocess.run(["diff", "-r", "--no-dereference", source, target], check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertEqual(attributes(source), attributes(target))


class Staging(StagingTest):
    nodes = 3
    node_mib = 256

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = os.path.join(cls.cluster.folder, "source")
        os.mkdir(cls.source)
        make_tree(cls.source)
        cls.staged = cls.cluster.kvctl("stage", "in", cls.source, "inputs")

    def test_stage_in_says_what_it_did(self):
        self.assertEqual(self.staged.code, 0, self.staged)
        self.assertIn(b"created namespace inputs", self.staged.err)
        self.assertIn(b"moved ", self.staged.out)

    def test_a_second_stage_in_moves_nothing(self):
        again = self.kvctl("stage", "in", self.source, "inputs", "--json")
        self.assertEqual(again.code, 0, again)
        result = again.json()["result"]
        self.assertEqual((result["files_done"], result["created"]), (0, False))
        self.assertGreater(result["files_skipped"], 0)

    def test_staged_files_are_read_and_listed_by_their_names(self):
        self.assertEqual(self.good("get", "inputs", "run1/a.txt"), b"hello\n")
        self.assertEqual(self.good("get", "inputs", b"not utf8 \xff"), b"6")
        self.assertEqual(self.good("get", "inputs", "--", "-dash"), b"3")
        with open(os.path.join(self.source, "large.bin"), "rb") as file:
            self.assertEqual(self.good("get", "inputs", "large.bin"), file.read())
        self.assertEqual(self.good("exists", "inputs", "large.bin"), b"true\n")
        self.bad(3, "get", "inputs", "run1/none", says="does not exist")
        wanted = {b"run1/a.txt", b"run1/empty", b"run2/deep/er/b.bin", b"new\nline", b" blanks ",
                  b"-dash", b"*star[1]?", "gr\u00fc\u00df".encode(), b"not utf8 \xff", b"large.bin"}
        self.assertEqual(set(self.good("keys", "inputs", "--null").split(b"\0")) - {b""}, wanted)
        self.assertEqual(self.good("count", "inputs"), f"{len(wanted)}\n".encode())
        self.assertEqual(self.good("keys", "inputs", "large*"), b"large.bin\n")
        self.assertEqual(self.good("keys", "inputs", "*.bin").split().count(b"large.bin"), 1)
        self.assertEqual(self.good("keys", "inputs", "large.bi?"), b"large.bin\n")
        listed = self.kvctl("keys", "inputs", "large.bin", "--long", "--json").json()
        self.assertEqual(listed["result"]["keys"][0]["value_bytes"], LARGE_BYTES)

    def test_stage_out_gives_the_same_tree(self):
        target = os.path.join(self.cluster.folder, "made/target")
        self.good("stage", "out", "inputs", target)
        done = subprocess.run(["diff", "-r", "--no-dereference", self.source, target], check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        for name in ("run1/a.txt", "run1/empty", "run2/deep", "empty folder"):
            before, after = (os.stat(os.path.join(root, name)) for root in (self.source, target))
            self.assertEqual(stat.S_IMODE(before.st_mode), stat.S_IMODE(after.st_mode), name)
            self.assertEqual(before.st_mtime_ns, after.st_mtime_ns, name)
        self.assertEqual(os.readlink(os.path.join(target, "dangling")), "/nowhere/at all")
        self.assertEqual([name for name in os.listdir(target) if name.startswith(".tidepool")], [])
        again = self.kvctl("stage", "out", "inputs", target, "--json").json()["result"]
        self.assertEqual(again["files_done"], 0)
        self.assertEqual([name for name in os.listdir(target) if name.startswith(".tidepool")], [])

    def test_jobs_are_listed_and_can_be_followed_and_unknown_ones_named(self):
        target = os.path.join(self.cluster.folder, "detached")
        job = self.good("stage", "out", "inputs", target, "--detach").decode().strip()
        followed = self.kvctl("stage", "status", job, "--watch")
        self.assertEqual(followed.code, 0, followed)
        self.assertTrue(filecmp.cmp(os.path.join(target, "large.bin"),
                                    os.path.join(self.source, "large.bin"), shallow=False))
        jobs = self.kvctl("stage", "status", "--json").json()["result"]["jobs"]
        mine = next(item for item in jobs if item["job"] == job)
        self.assertEqual((mine["direction"], mine["done"], mine["failures_total"]), ("out", True, 0))
        self.bad(3, "stage", "cancel", "nosuchjob", says="nosuchjob")
        self.bad(3, "stage", "status", "nosuchjob", says="nosuchjob")

    def test_a_killed_kvctl_leaves_its_job_running(self):
        target = os.path.join(self.cluster.folder, "orphan")
        process = subprocess.Popen([self.cluster.kvctl_path, "stage", "out", "inputs", target],
                                   env=self.cluster.environment, cwd=self.cluster.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        jobs = lambda: [item for item in self.kvctl("stage", "status", "--json").json()["result"]["jobs"]
                        if item.get("directory", "").endswith("/orphan")]
        kvctl_support.wait_until(jobs)
        process.kill()
        process.wait()
        kvctl_support.wait_until(lambda: jobs()[0]["done"])
        done = subprocess.run(["diff", "-r", "--no-dereference", self.source, target], check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_what_was_staged_out_does_not_hinder_stop(self):
        # The check of stop is asked for without stopping: another namespace holds it back.
        target = os.path.join(self.cluster.folder, "saved")
        self.good("stage", "out", "inputs", target)
        self.good("put", "default", "precious", "x")
        losses = self.kvctl("stop", "--json").json()["result"]["losses"]
        self.assertEqual([loss["namespace"] for loss in losses], ["default"])
        self.good("delete", "default", "precious")

    def test_a_large_file_is_deleted_by_its_path(self):
        source = os.path.join(self.cluster.folder, "deleted from")
        target = os.path.join(self.cluster.folder, "left")
        make_tree(source)
        self.addCleanup(self.kvctl, "namespace", "drop", "deleted")
        self.good("stage", "in", source, "deleted")
        records = int(self.good("count", "deleted"))
        self.good("delete", "deleted", "large.bin", "run1/a.txt")
        self.bad(3, "delete", "deleted", "large.bin", says="large.bin")
        self.bad(3, "get", "deleted", "large.bin", says="large.bin")
        self.assertEqual(int(self.good("count", "deleted")), records - 2)
        # No part is left over: what the namespace holds is small again.
        held = self.kvctl("namespace", "describe", "deleted", "--json").json()["result"]
        self.assertLess(held["live_bytes"], 1 << 20, held)
        # Its absence is no loss, and nothing of it is staged out.
        os.remove(os.path.join(source, "large.bin"))
        os.remove(os.path.join(source, "run1/a.txt"))
        self.good("stage", "out", "deleted", target)
        done = subprocess.run(["diff", "-r", "--no-dereference", source, target], check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_a_large_file_is_not_hidden_by_a_record(self):
        source = os.path.join(self.cluster.folder, "hidden from")
        target = os.path.join(self.cluster.folder, "hidden out")
        make_tree(source)
        self.addCleanup(self.kvctl, "namespace", "drop", "hidden")
        self.good("stage", "in", source, "hidden")
        for change in (("append", "large.bin", "x"), ("incr", "large.bin"), ("cas", "large.bin", "a", "b"),
                       ("expire", "large.bin", "1h"), ("put", "large.bin", "x"),
                       ("put", "large.bin", "x", "--if-absent"), ("put", "large.bin", "x", "--if-present")):
            self.bad(1, change[0], "hidden", *change[1:], says="is a staged file of")
        self.assertEqual(self.good("ttl", "hidden", "large.bin"), b"never\n")
        self.good("stage", "out", "hidden", target)
        self.assertTrue(filecmp.cmp(os.path.join(target, "large.bin"), os.path.join(source, "large.bin"),
                                    shallow=False))
        # A program may have stored one all the same: nobody can say which of the two is meant.
        lines = os.path.join(self.cluster.folder, "hiding.tsv")
        with open(lines, "w", encoding="ascii") as file:
            file.write("large.bin\tx\n")
        self.good("load", "hidden", lines)
        other = os.path.join(self.cluster.folder, "hidden again")
        result = self.kvctl("stage", "out", "hidden", other)
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(b"large.bin", result.err)
        self.assertFalse(os.path.exists(os.path.join(other, "large.bin")))
        self.assertTrue(os.path.exists(os.path.join(other, "run1/a.txt")))
        self.good("delete", "hidden", "large.bin")
        self.bad(3, "get", "hidden", "large.bin", says="large.bin")

    def test_directories_and_namespaces_that_cannot_be(self):
        self.bad(3, "stage", "in", "/no/such/folder", "inputs", says="/no/such/folder")
        self.bad(2, "stage", "in", os.path.join(self.source, "-dash"), "inputs", says="not a folder")
        before = set(os.listdir(self.cluster.folder))
        self.bad(3, "stage", "out", "nope", os.path.join(self.cluster.folder, "nope"), says="nope")
        self.assertEqual(set(os.listdir(self.cluster.folder)), before)
        self.bad(2, "stage", "in", self.source)

    def test_a_folder_may_have_any_name(self):
        odd = os.path.join(os.fsencode(self.cluster.folder), b"odd \xff\n")
        os.makedirs(os.path.join(odd, b"in"))
        with open(os.path.join(odd, b"in", b"f"), "wb") as file:
            file.write(b"odd")
        space = "odd-folder"
        for through in ([], ["--through-client"]):
            self.good("stage", "in", *through, os.path.join(odd, b"in"), space)
            self.assertEqual(self.good("get", space, "f"), b"odd")
            target = os.path.join(odd, b"out%d" % len(through))
            out = self.kvctl("stage", "out", *through, space, target, "--json")
            self.assertEqual(out.code, 0, out)
            self.assertEqual(base64.b64decode(out.json()["result"]["directory_base64"]), target)
            with open(os.path.join(target, b"f"), "rb") as file:
                self.assertEqual(file.read(), b"odd")
        jobs = self.kvctl("stage", "status", "--json").json()["result"]["jobs"]
        self.assertIn(os.path.join(odd, b"in"),
                      [base64.b64decode(job.get("directory_base64", "")) for job in jobs])
        self.assertIn(b"odd \\xff", self.good("stage", "status"))
        self.good("namespace", "drop", space)

    def test_a_file_in_the_way_is_named_and_the_others_are_written(self):
        target = os.path.join(self.cluster.folder, "blocked")
        os.makedirs(os.path.join(target, "run1/a.txt"))
        with open(os.path.join(target, "run1/a.txt/keep"), "wb") as file:
            file.write(b"not ours")
        result = self.kvctl("stage", "out", "inputs", target)
        self.assertEqual(result.code, 6, result)
        self.assertIn(b"run1/a.txt", result.err)
        self.assertTrue(os.path.exists(os.path.join(target, "run1/a.txt/keep")))
        self.assertTrue(os.path.exists(os.path.join(target, "run2/deep/er/b.bin")))

    def test_kvctl_moves_the_files_itself_when_told_to(self):
        through = "--through-client"
        self.addCleanup(self.kvctl, "namespace", "drop", "by-client")
        result = self.kvctl("stage", "in", through, self.source, "by-client")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.err, b"kvctl: created namespace by-client\n")
        self.assertEqual(self.good("get", "by-client", "run1/a.txt"), b"hello\n")
        # Who goes on, daemons or kvctl, finds everything there.
        for options in ([], [through], ["--checksum", through], ["--checksum"]):
            again = self.kvctl("stage", "in", *options, self.source, "by-client", "--json")
            self.assertEqual(again.json()["result"]["files_done"], 0, (options, again))
        by_daemons = os.path.join(self.cluster.folder, "by daemons")
        self.good("stage", "out", "by-client", by_daemons)
        self.assert_same_tree(self.source, by_daemons)
        by_client = os.path.join(self.cluster.folder, "by client")
        first = self.kvctl("stage", "out", through, "inputs", by_client, "--json").json()["result"]
        self.assert_same_tree(self.source, by_client)
        for options in ([], [through], ["--checksum", through], ["--checksum"]):
            again = self.kvctl("stage", "out", *options, "inputs", by_client, "--json")
            self.assertEqual(again.json()["result"]["files_done"], 0, (options, again))
            self.assertEqual(again.json()["result"]["tree_hash"], first["tree_hash"])

    def test_through_the_client_only_what_is_missing_or_differs_is_moved(self):
        source = os.path.join(self.cluster.folder, "changing")
        target = os.path.join(self.cluster.folder, "changed")
        make_tree(source)
        self.addCleanup(self.kvctl, "namespace", "drop", "changing")
        self.good("stage", "in", source, "changing")
        with open(os.path.join(source, "run1/a.txt"), "ab") as file:
            file.write(b"more\n")
        with open(os.path.join(source, "large.bin"), "r+b") as file:
            file.write(b"another beginning")
        os.chmod(os.path.join(source, "run1/empty"), 0o604)
        moved = self.kvctl("stage", "in", "--through-client", source, "changing", "--json")
        self.assertEqual(moved.json()["result"]["files_done"], 2, moved)
        self.good("put", "changing", "written/by/key", "new")
        self.good("stage", "out", "--through-client", "changing", target)
        with open(os.path.join(target, "written/by/key"), "rb") as file:
            self.assertEqual(file.read(), b"new")
        shutil.rmtree(os.path.join(target, "written"))
        os.utime(target, ns=(0, os.stat(source).st_mtime_ns))
        self.assert_same_tree(source, target)
        # All that there is was staged out: stopping would lose nothing of it.
        self.good("put", "default", "precious", "x")
        losses = self.kvctl("stop", "--json").json()["result"]["losses"]
        self.assertNotIn("changing", [loss["namespace"] for loss in losses])
        self.good("delete", "default", "precious")

    def test_through_the_client_nothing_outside_the_target_is_written(self):
        outside = os.path.join(self.cluster.folder, "outside")
        target = os.path.join(self.cluster.folder, "with a link")
        os.mkdir(outside)
        os.mkdir(target)
        os.symlink(outside, os.path.join(target, "run1"))
        result = self.kvctl("stage", "out", "--through-client", "inputs", target)
        self.assertEqual(result.code, 6, result)
        self.assertIn(b"run1", result.err)
        self.assertEqual(os.listdir(outside), [])
        self.assertTrue(filecmp.cmp(os.path.join(target, "large.bin"),
                                    os.path.join(self.source, "large.bin"), shallow=False))

    def test_through_the_client_and_detached_is_refused(self):
        self.bad(2, "stage", "in", "--through-client", "--detach", self.source, "inputs",
                 says="--detach")


class KilledKvctl(StagingTest):
    """kvctl dies in the middle of a job, while kvctl stage status shows that it runs. Should the job of
    the slowed daemons be over before it is seen, a larger tree has to do."""

    nodes = 3
    node_mib = 256

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A disk that discards took 6 ms for each of 30,000 files that were removed.
        memory = os.statvfs("/dev/shm")
        room = memory.f_bavail * memory.f_frsize >= 1 << 30
        cls.trees = tempfile.mkdtemp(prefix="tidepool-stage-", dir="/dev/shm" if room else None)
        cls.addClassCleanup(shutil.rmtree, cls.trees)

    def jobs(self, directory):
        listed = self.kvctl("stage", "status", "--json").json()["result"]["jobs"]
        return [job for job in listed if job.get("directory") == directory and not job["done"]]

    def again(self, files, *command, directory):
        """The end of a job whose kvctl was killed, as the same command given again shows it. None if
        the job was over too soon."""
        # With a fifth of the time 3,000 files were often moved before the job was seen, and larger trees
        # take minutes to remove.
        with kvctl_support.Slowed(self.cluster.pids, share=0.05) as daemons:
            killed = self.spawn(*command)
            middle = []

            def seen():
                middle[:] = self.jobs(directory)
                return middle or killed.poll() is not None

            kvctl_support.wait_until(seen)
            daemons.freeze()
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
            follower = self.spawn(*command, "--json")
            daemons.thaw()
            text, error = follower.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(follower.returncode, 0, error)
        end = json.loads(text)["result"]
        self.assertEqual(end["files_done"] + end["files_skipped"], files, text)
        return end if middle and end["attached"] else None

    def spawn(self, *command):
        return subprocess.Popen([self.cluster.kvctl_path, *command], cwd=self.cluster.folder,
                                env=self.cluster.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def test_the_same_command_attaches_to_what_a_killed_kvctl_left(self):
        seen_in = seen_out = False
        for files in (3_000, 10_000, 40_000, 120_000):
            source = os.path.join(self.trees, f"many{files}")
            target = os.path.join(self.trees, f"out{files}")
            os.mkdir(source)
            for i in range(files):
                with open(os.path.join(source, f"f{i}"), "wb") as file:
                    file.write(b"%d" % i)
            space = f"many{files}"
            seen_in |= self.again(files, "stage", "in", source, space, directory=source) is not None
            self.good("stage", "in", source, space)
            os.mkdir(target)
            seen_out |= self.again(files, "stage", "out", space, target, directory=target) is not None
            self.good("stage", "out", space, target)
            self.assert_same_tree(source, target)
            self.good("namespace", "drop", space)
            if seen_in and seen_out:
                return
        self.fail("no job was long enough to be seen in its middle")

    def test_what_kvctl_moved_itself_is_gone_on_with_after_it_was_killed(self):
        source = os.path.join(self.trees, "by kvctl")
        target = os.path.join(self.trees, "by kvctl out")
        os.mkdir(source)
        for i in range(10_000):
            with open(os.path.join(source, f"f{i}"), "wb") as file:
                file.write(b"%d" % i)
        through = "--through-client"

        def killed(command, some):
            process = subprocess.Popen([self.cluster.kvctl_path, "stage", *command],
                                       cwd=self.cluster.folder, env=self.cluster.environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            kvctl_support.wait_until(lambda: some() or process.poll() is not None)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertEqual(process.returncode, -signal.SIGKILL)

        self.good("namespace", "create", "by-kvctl")
        killed(["in", through, source, "by-kvctl"],
               lambda: int(self.good("count", "by-kvctl")) > 0)
        # It may still be at work, for all that others know, until it has been silent for 10 s.
        self.bad(1, "stage", "in", through, source, "by-kvctl", says="run by a kvctl on host ")
        self.bad(1, "stage", "in", source, "by-kvctl", says="run by a kvctl on host ")
        rest = self.when_free("stage", "in", through, source, "by-kvctl")
        self.assertGreater(rest["files_done"], 0)
        self.assertGreater(rest["files_skipped"], 0)
        os.mkdir(target)
        killed(["out", through, "by-kvctl", target],
               lambda: any(name.startswith("f") for name in os.listdir(target)))
        rest = self.when_free("stage", "out", through, "by-kvctl", target)
        self.assertGreater(rest["files_done"], 0)
        self.assertGreater(rest["files_skipped"], 0)
        self.assert_same_tree(source, target)

    def when_free(self, *command):
        """What the command says once the job of a killed kvctl is forgotten."""
        results = []

        def done():
            results.append(self.kvctl(*command, "--json"))
            self.assertTrue(results[-1].code == 0 or b"run by a kvctl on host" in results[-1].out,
                            results[-1])
            return results[-1].code == 0
        kvctl_support.wait_until(done)
        return results[-1].json()["result"]

    def test_one_that_stood_still_does_not_go_on_behind_another(self):
        source = os.path.join(self.trees, "still")
        os.mkdir(source)
        for i in range(10_000):
            with open(os.path.join(source, f"f{i}"), "wb") as file:
                file.write(b"%d" % i)
        self.good("namespace", "create", "still")
        process = self.spawn("stage", "in", "--through-client", source, "still")
        kvctl_support.wait_until(lambda: int(self.good("count", "still")) > 0)
        process.send_signal(signal.SIGSTOP)
        self.assertIsNone(process.poll())
        self.when_free("stage", "in", "--through-client", source, "still")
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(b"stood still", errors)
        self.assertEqual(int(self.good("count", "still")), 10_000)


class HiddenFolder(StagingTest):
    """The daemons live in a mount namespace in which another file system hides the caller's folder."""

    nodes = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        probe = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
        if probe.returncode != 0:
            raise unittest.SkipTest("unshare -m is not permitted here: " + probe.stderr.decode())
        cls.hidden = os.path.join(cls.cluster.folder, "hidden")
        cls.source = os.path.join(cls.hidden, "source")
        os.makedirs(cls.source)
        make_tree(cls.source)
        cls.cluster.start(3, node_mib=256, within=["unshare", "-m", "sh", "-c",
                                     'mount -t tmpfs tmpfs "$0" && exec "$@"', cls.hidden])

    def test_kvctl_moves_what_the_daemons_do_not_see_and_says_so(self):
        word = b"this kvctl moves the files (--through-client)"
        result = self.kvctl("stage", "in", self.source, "hidden")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.err.count(b"\n"), 2, result)  # The other one: created namespace.
        self.assertIn(word, result.err)
        back = os.path.join(self.hidden, "back")
        result = self.kvctl("stage", "out", "hidden", back)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.err.count(b"\n"), 1, result)
        self.assertIn(word, result.err)
        self.assert_same_tree(self.source, back)
        # In what they see the daemons go on themselves.
        seen = os.path.join(self.cluster.folder, "seen")
        result = self.kvctl("stage", "out", "hidden", seen)
        self.assertEqual((result.code, result.err), (0, b""), result)
        self.assert_same_tree(self.source, seen)
        result = self.kvctl("stage", "in", seen, "from-daemons")
        self.assertNotIn(word, result.err)
        other = os.path.join(self.hidden, "other")
        self.good("stage", "out", "from-daemons", other)
        self.assert_same_tree(self.source, other)

    def test_what_cannot_go_on_without_kvctl_is_not_detached(self):
        self.good("namespace", "create", "detached")
        self.bad(1, "stage", "in", "--detach", self.source, "detached", says="not every daemon sees")


if __name__ == "__main__":
    kvctl_support.main()
