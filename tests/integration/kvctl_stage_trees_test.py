#!/usr/bin/python3
"""kvctl stage with the trees and file systems that users have: what vanishes, changes its type, is in use, sparse, or
cannot be staged.

  kvctl_stage_trees_test.py BUILD_FOLDER [unittest arguments]
"""

import hashlib
import os
import shutil
import socket
import stat
import struct
import subprocess
import threading
import unittest

import kvctl_support

MIB = 1 << 20
LARGE_BYTES = 64 * MIB + 12_345  # Stored in parts.
THROUGH = (), ("--through-client",)


def make(path, kind, content=b"content"):
    """A file, large file (in parts), link, or directory with something in it."""
    if kind == "directory":
        os.makedirs(os.path.join(path, "sub"))
        for name in ("y", "sub/z"):
            make(os.path.join(path, name), "file", content)
    elif kind == "link":
        os.symlink("nowhere", path)
    else:
        with open(path, "wb") as file:
            file.write(content)
            if kind == "large":
                file.truncate(LARGE_BYTES)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def blocks(path):
    return os.stat(path).st_blocks * 512


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Trees(kvctl_support.KvctlTest):
    nodes = 2
    node_mib = 128

    def setUp(self):
        self.space = self.id().rsplit(".", 1)[1][5:40].replace("_", "-")
        self.root = os.path.join(self.cluster.folder, self.space)
        self.source = os.path.join(self.root, "source")
        os.makedirs(self.source)
        self.addCleanup(shutil.rmtree, self.root)
        self.addCleanup(self.kvctl, "namespace", "drop", self.space)

    def path(self, name):
        return os.path.join(self.source, name)

    def stage_in(self, *options):
        result = self.kvctl("stage", "in", *options, self.source, self.space, "--json")
        self.assertEqual(result.code, 0, result)
        return result.json()["result"]

    def stage_out(self, name="out", *options):
        target = os.path.join(self.root, name)
        result = self.kvctl("stage", "out", *options, self.space, target, "--json")
        self.assertEqual(result.code, 0, result)
        return target, result.json()["result"]

    def assert_same_tree(self, source, target):
        done = subprocess.run(["diff", "-r", "--no-dereference", source, target], check=False, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    # ---- Files vanish.

    def make_and_remove(self):
        """A tree is staged, then a file, a large file, a link and a directory vanish from it: 5 files and links."""
        for kind in ("file", "large", "link", "directory"):
            make(self.path("gone " + kind), kind)
            make(self.path("stays " + kind), kind)
        self.stage_in()
        for kind in ("file", "large", "link", "directory"):
            remove(self.path("gone " + kind))

    def test_what_has_vanished_is_counted_and_stays(self):
        self.make_and_remove()
        result = self.kvctl("stage", "in", self.source, self.space)
        self.assertEqual(result.code, 0, result)
        self.assertIn(b"still holds 5 staged files", result.err)
        self.assertIn(b"--delete", result.err)
        self.assertEqual(self.stage_in()["files_stale"], 5)
        target, _ = self.stage_out()
        self.assertTrue(os.path.exists(os.path.join(target, "gone directory/sub/z")))

    def test_delete_makes_the_namespace_what_the_directory_is(self):
        self.make_and_remove()
        for through in THROUGH:
            make(self.path("another"), "file")
            self.stage_in(*through)
            remove(self.path("another"))
            removed = self.stage_in("--delete", *through)
            self.assertEqual(removed["files_removed"], 1 if through else 6)
            again = self.stage_in("--delete", *through)
            self.assertEqual((again["files_removed"], again["files_stale"], again["files_done"]), (0, 0, 0))
            target, _ = self.stage_out("out" + "".join(through))
            self.assert_same_tree(self.source, target)
        keys = self.good("keys", self.space, "--all", "--null").split(b"\0")
        self.assertEqual([key for key in keys if b"gone" in key], [])

    def test_delete_keeps_what_programs_have_written(self):
        make(self.path("a"), "file")
        make(self.path("b"), "file")
        self.stage_in()
        self.good("put", self.space, "result", "by a program")
        self.good("put", self.space, "b", "changed by a program")
        self.stage_out()  # The manifest describes them from now on.
        self.good("put", self.space, "late", "by a program")
        remove(self.path("a"))
        remove(self.path("b"))
        make(self.path("c"), "file")
        self.assertEqual(self.stage_in("--delete")["files_removed"], 1)
        self.assertEqual(set(self.good("keys", self.space).split()), {b"b", b"c", b"late", b"result"})

    # ---- Paths change their type.

    def test_a_path_of_another_type_replaces_what_was_there(self):
        kinds = ("file", "large", "link", "directory")
        changes = [(old, new) for old in kinds for new in kinds if old != new]
        for old, new in changes:
            make(self.path(f"{old} to {new}"), old, b"old")
        self.stage_in()
        for old, new in changes:
            remove(self.path(f"{old} to {new}"))
            make(self.path(f"{old} to {new}"), new, b"new")
        for through in THROUGH:
            self.stage_in(*through)
            target, _ = self.stage_out("out" + "".join(through))
            self.assert_same_tree(self.source, target)

    def test_a_record_below_a_new_file_is_named_and_kept(self):
        make(self.path("a"), "directory")
        self.stage_in()
        self.good("put", self.space, "a/mine", "by a program")
        remove(self.path("a"))
        make(self.path("a"), "link")
        result = self.kvctl("stage", "in", self.source, self.space)
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(b"a/mine: ", result.err)
        self.assertEqual(self.good("get", self.space, "a/mine"), b"by a program")
        self.good("delete", self.space, "a/mine")
        self.stage_in()
        self.assert_same_tree(self.source, self.stage_out()[0])

    # ---- Times.

    def test_a_file_system_of_whole_seconds_gets_only_what_differs(self):
        for kind in ("file", "large", "link", "directory"):
            make(self.path(kind), kind)
        os.utime(self.path("file"), ns=(5, 5_700_000_000))
        self.stage_in()
        target, _ = self.stage_out()
        for folder, folders, files in os.walk(target, topdown=False):
            for name in folders + files:
                path = os.path.join(folder, name)
                second = os.lstat(path).st_mtime_ns // 10**9 * 10**9
                os.utime(path, ns=(second, second), follow_symlinks=False)
        self.assertEqual(self.stage_out()[1]["files_done"], 0)
        self.assertEqual(os.stat(os.path.join(target, "file")).st_mtime_ns, 5_000_000_000)
        # A second less is another time.
        os.utime(os.path.join(target, "file"), ns=(4, 4_000_000_000))
        self.assertEqual(self.stage_out()[1]["files_done"], 1)

    def test_times_beyond_2262_and_before_1970_come_back(self):
        wanted = {"late": 10_423_123_200, "early": -1_893_456_000}  # The years 2300 and 1910.
        for name, second in wanted.items():
            make(self.path(name), "file")
            subprocess.run(["touch", "-d", f"@{second}", self.path(name)], check=True)
            if int(os.stat(self.path(name)).st_mtime) != second:
                self.skipTest("this file system does not keep such times")
        for through in THROUGH:
            self.stage_in(*through)
            target, _ = self.stage_out("out" + "".join(through), *through)
            for name in wanted:
                self.assertEqual(os.stat(os.path.join(target, name)).st_mtime_ns, os.stat(self.path(name)).st_mtime_ns)
            self.assertEqual(self.stage_out("out" + "".join(through), *through)[1]["files_done"], 0)

    # ---- A directory in use.

    def test_daemons_see_a_directory_in_which_files_come_and_go(self):
        make(self.path("file"), "file")
        stop = threading.Event()

        def change():
            while not stop.is_set():
                make(self.path("busy"), "file")
                os.unlink(self.path("busy"))

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for i in range(8):
                result = self.kvctl("stage", "in", "--detach", self.source, f"{self.space}{i}")
                self.addCleanup(self.kvctl, "namespace", "drop", f"{self.space}{i}")
                self.assertEqual(result.code, 0, result)
        finally:
            stop.set()
            thread.join()

    # ---- Holes.

    def test_a_sparse_file_needs_no_memory_for_its_holes_and_stays_sparse(self):
        size = 1024 * MIB + 4321  # The cluster has 256 MiB.
        with open(self.path("sparse"), "wb") as file:
            for at in (0, 100 * MIB + 7, 128 * MIB, size - 5):
                file.seek(at)
                file.write(b"block")
        with open(self.path("small"), "wb") as file:
            file.truncate(8 * MIB)
            file.seek(3 * MIB)
            file.write(b"x" * 8192)
        for through in THROUGH:
            self.stage_in(*through)
            self.assertEqual(self.stage_in(*through)["files_done"], 0)
            target, _ = self.stage_out("out" + "".join(through), *through)
            for name in ("sparse", "small"):
                self.assertEqual(os.stat(os.path.join(target, name)).st_size, os.stat(self.path(name)).st_size)
                self.assertLess(blocks(os.path.join(target, name)), blocks(self.path(name)) + MIB)
                done = subprocess.run(["cmp", self.path(name), os.path.join(target, name)], check=False)
                self.assertEqual(done.returncode, 0)
        self.assertEqual(self.stage_out()[1]["files_done"], 0)
        self.assertEqual(self.stage_in("--checksum")["files_done"], 0)

    def test_a_sparse_file_is_read_by_its_path(self):
        with open(self.path("sparse"), "wb") as file:
            file.truncate(150 * MIB)
            for at in (70 * MIB, 140 * MIB):
                file.seek(at)
                file.write(b"block")
        self.stage_in()
        read = hashlib.sha256(self.good("get", self.space, "sparse")).hexdigest()
        self.assertEqual(read, digest(self.path("sparse")))

    # ---- Files that are left out, and attributes that are kept on demand.

    def test_what_cannot_be_staged_is_a_warning_and_strict_makes_it_a_failure(self):
        make(self.path("file"), "file")
        os.mkfifo(self.path("pipe"))
        make(self.path(".tidepool-stage-mine"), "file")
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.getcwd()
            os.chdir(self.source)  # Names of sockets are short.
            try:
                listener.bind("socket")
            finally:
                os.chdir(here)
        for through in THROUGH:
            result = self.kvctl("stage", "in", *through, self.source, self.space)
            self.assertEqual(result.code, 0, result)
            for name in (b"pipe", b"socket", b".tidepool-stage-mine"):
                lines = [line for line in result.err.splitlines() if b": " + name + b": " in line]
                self.assertEqual(len(lines), 1, result)
                self.assertIn(b"warning: ", lines[0])
            strict = self.kvctl("stage", "in", "--strict", *through, self.source, self.space)
            self.assertNotEqual(strict.code, 0, strict)
            self.assertIn(b"pipe: ", strict.err)
        self.assertEqual(self.stage_in()["warnings_total"], 3)

    def test_hard_links_are_said_once_and_come_out_as_files(self):
        make(self.path("one"), "file")
        os.link(self.path("one"), self.path("two"))
        result = self.kvctl("stage", "in", self.source, self.space)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.err.count(b"2 files have hard links"), 1, result)
        self.assert_same_tree(self.source, self.stage_out()[0])

    def set_attributes(self, path):
        acl = struct.pack("<I", 2)  # POSIX ACL: owner, user 12345, group, mask, others.
        for tag, rights, who in ((1, 6, 0xFFFFFFFF), (2, 4, 12345), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF),
                                 (32, 0, 0xFFFFFFFF)):
            acl += struct.pack("<HHI", tag, rights, who)
        try:
            os.setxattr(path, "user.origin", b"instrument 7")
            os.setxattr(path, "system.posix_acl_access", acl)
        except OSError as error:
            self.skipTest(f"this file system keeps no such attributes: {error}")

    def test_attributes_and_acls_are_kept_if_asked_for(self):
        make(self.path("file"), "file")
        make(self.path("folder"), "directory")
        self.set_attributes(self.path("file"))
        self.set_attributes(self.path("folder"))
        result = self.kvctl("stage", "in", self.source, self.space)
        self.assertEqual(result.err.count(b"keep them with --xattrs"), 1, result)
        for through in THROUGH:
            self.stage_in("--xattrs", *through)
            target, _ = self.stage_out("out" + "".join(through), *through)
            for name in ("file", "folder"):
                for attribute in ("user.origin", "system.posix_acl_access"):
                    self.assertEqual(os.getxattr(os.path.join(target, name), attribute),
                                     os.getxattr(self.path(name), attribute))
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(target, name)).st_mode),
                                 stat.S_IMODE(os.stat(self.path(name)).st_mode))
            self.assertEqual(self.stage_out("out" + "".join(through), *through)[1]["files_done"], 0)
            self.assertEqual(self.stage_in(*through)["files_done"], 0)
        os.removexattr(os.path.join(target, "file"), "user.origin")
        self.stage_out("out--through-client")
        self.assertEqual(os.getxattr(os.path.join(target, "file"), "user.origin"), b"instrument 7")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    kvctl_support.main()
