#!/usr/bin/python3
"""What kvctl reads and prints: inputs that fail, descriptors that do not block, outputs that take nothing.

  kvctl_input_test.py BUILD_FOLDER [unittest arguments]
"""

import fcntl
import os
import subprocess
import threading

import kvctl_support


def unblock(descriptor):
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK)


class Input(kvctl_support.KvctlTest):
    def begin(self, *arguments, **more):
        return subprocess.Popen([self.cluster.kvctl_path, *arguments], env=self.cluster.environment,
                                cwd=self.cluster.folder, stderr=subprocess.PIPE, **more)

    def file(self, name, content):
        path = os.path.join(self.cluster.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_a_read_that_fails_is_no_end(self):
        self.good("namespace", "create", "failing", "--kind", "queue")
        self.good("namespace", "create", "filter", "--kind", "bloom", "--expected-items", "100")
        for words in (("push", "failing", "-"), ("push", "failing", "--file", "-"), ("bloom", "add", "filter", "-"),
                      ("load", "default", "-"), ("put", "default", "a", "-")):
            folder = os.open("/tmp", os.O_RDONLY)
            with self.subTest(words), self.begin(*words, stdin=folder, stdout=subprocess.PIPE) as failed:
                error = failed.communicate(timeout=kvctl_support.PATIENCE_SECONDS)[1]
                self.assertNotEqual(failed.returncode, 0)
                self.assertIn(b"standard input", error)
            os.close(folder)
        self.assertEqual(self.good("count", "failing"), b"0\n")

    def test_a_read_that_fails_later_loses_no_line_before(self):
        """A terminal whose other side is gone gives EIO."""
        self.good("namespace", "create", "later", "--kind", "queue")
        master, slave = os.openpty()
        attributes = __import__("termios").tcgetattr(slave)
        attributes[3] &= ~__import__("termios").ECHO
        __import__("termios").tcsetattr(slave, 0, attributes)
        os.write(master, b"one\ntwo\n")
        with self.begin("push", "later", "-", stdin=slave, stdout=subprocess.PIPE) as pushing:
            os.close(slave)
            # Read by now, since the terminal has taken them from its buffer.
            kvctl_support.wait_until(lambda: self.waits_in_read(pushing.pid))
            os.close(master)
            pushing.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(self.good("pop", "later", "--all"), b"one\ntwo\n")

    def waits_in_read(self, pid):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            words = file.read().split()
        return words[:2] == ["0", "0x0"]

    def test_an_input_that_does_not_block_is_waited_for(self):
        self.good("namespace", "create", "slow", "--kind", "queue")
        read, write = os.pipe()
        unblock(read)
        os.write(write, b"one\ntwo\nthr")
        with self.begin("push", "slow", "-", stdin=read, stdout=subprocess.PIPE) as pushing:
            os.close(read)
            kvctl_support.wait_until(lambda: self.waits_in_poll(pushing.pid))
            os.write(write, b"ee\nfour")
            os.close(write)
            self.assertEqual(pushing.communicate(timeout=kvctl_support.PATIENCE_SECONDS)[0], b"4\n")
        self.assertEqual(self.good("pop", "slow", "--all"), b"one\ntwo\nthree\nfour\n")

    def waits_in_poll(self, pid):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return file.read().split()[0] in ("7", "271")  # poll, ppoll

    def test_an_output_that_does_not_block_takes_all(self):
        keys = b"".join(b"key%d\tvalue\n" % number for number in range(20000))
        self.good("namespace", "create", "many")
        self.good("load", "many", "-", stdin=keys)
        read, write = os.pipe()
        unblock(write)
        with self.begin("keys", "many", stdout=write) as listing:
            os.close(write)
            kvctl_support.wait_until(lambda: self.waits_in_poll(listing.pid))
            with os.fdopen(read, "rb") as file:
                lines = file.read().splitlines()
            self.assertEqual(listing.wait(timeout=kvctl_support.PATIENCE_SECONDS), 0)
        self.assertEqual(len(lines), 20000)
        self.assertEqual(self.good("delete", "many", *lines[:6000]), b"")
        self.assertEqual(self.good("count", "many"), b"14000\n")
        self.assertEqual(len(self.good("get", "many", *lines[6000:12000]).splitlines()), 6000)

    def test_an_item_that_cannot_be_printed_stays(self):
        self.good("namespace", "create", "kept", "--kind", "queue")
        self.good("namespace", "create", "urgent", "--kind", "priority")
        for name in ("kept", "urgent"):
            self.good("push", name, "a", "b", "c")
            for words in ((), ("-n", "2"), ("--all",), ("--json",), ("--lease", "1h")):
                with self.subTest(words), open("/dev/full", "wb") as full, \
                        self.begin("pop", name, *words, stdout=full) as popping:
                    error = popping.communicate(timeout=kvctl_support.PATIENCE_SECONDS)[1]
                    self.assertEqual(popping.returncode, 1)
                    self.assertIn(b"in the queue again", error)
            read, write = os.pipe()
            os.close(read)
            with self.begin("pop", name, stdout=write) as popping:
                os.close(write)
                self.assertIn(b"Broken pipe", popping.communicate(timeout=kvctl_support.PATIENCE_SECONDS)[1])
            self.assertEqual(self.good("pop", name, "--all"), b"a\nb\nc\n")

    def test_an_item_that_is_printed_is_gone(self):
        self.good("namespace", "create", "gone", "--kind", "queue")
        self.good("push", "gone", "a", "b")
        found = self.kvctl("pop", "gone", "--json").json()["result"]["items"]
        self.assertEqual(found, [{"value": "a", "id": 1, "priority": 0, "deliveries": 0}])
        self.assertEqual(self.good("pop", "gone"), b"b")
        self.bad(3, "pop", "gone")

    def test_a_reader_that_goes_costs_only_what_it_was_given(self):
        self.good("namespace", "create", "cut", "--kind", "queue")
        large = b"x" * 100_000
        for _ in range(8):
            self.good("push", "cut", "--file", "-", stdin=large)
        read, write = os.pipe()
        with self.begin("pop", "cut", "--all", stdout=write) as popping:
            os.close(write)
            got = b""
            while len(got) < 250_000:
                got += os.read(read, 50_000)
            os.close(read)
            popping.communicate(timeout=kvctl_support.PATIENCE_SECONDS)
        left = self.good("pop", "cut", "--all").count(b"\n")
        self.assertGreaterEqual(left + len(got) // (len(large) + 1) + 1, 8 - 1)
        self.assertGreaterEqual(left, 4)

    def test_files_without_a_size_are_read_to_their_end(self):
        self.good("put", "default", "cpu", "@/proc/cpuinfo")
        self.assertIn(b"processor", self.good("get", "default", "cpu"))
        with open("/proc/version", "rb") as file:
            version = file.read()
        for words in (("put", "default", "v", "@/proc/version"), ("append", "default", "w", "@/proc/version")):
            self.good(*words)
            self.assertEqual(self.good("get", "default", words[2]), version)
        path = "/sys/kernel/mm/transparent_hugepage/enabled"
        if os.path.exists(path):
            self.good("put", "default", "page", "@" + path)
            with open(path, "rb") as file:
                self.assertEqual(self.good("get", "default", "page"), file.read())

    def test_a_staged_file_is_as_large_as_it_says(self):
        result = self.kvctl("stage", "in", "/proc/sys/kernel/random", "random")
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(b"more bytes than its size", result.err)

    def test_a_byte_order_mark_belongs_to_no_key(self):
        self.good("load", "default", self.file("a.tsv", b"\xef\xbb\xbffirst\tv\n"))
        self.good("load", "default", "-", stdin=b'\xef\xbb\xbf{"key":"j","value":"v"}\n')
        self.assertEqual(self.good("get", "default", "first"), b"v")
        self.assertEqual(self.good("get", "default", "j"), b"v")
        result = self.kvctl("load", "default", "-", stdin="a\tb\n".encode("utf-16"))
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(b"iconv", result.err)

    def test_numbers_are_exact_or_refused(self):
        for number in ("9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" + "0" * 40):
            with self.subTest(number):
                self.bad(2, "put", "default", "n", "--int", "--", number)
                self.bad(2, "incr", "default", "n", "--", number)
                result = self.kvctl("load", "default", "-", stdin=f'{{"key":"n","value":{number}}}\n'.encode())
                self.assertNotEqual(result.code, 0, result)
                self.assertIn(b"64 bits", result.err)
        self.assertIn("round", self.bad(2, "put", "default", "n", "--f64", "9007199254740993"))
        self.assertIn("round", self.bad(2, "incr", "default", "n", "--f64", "9007199254740993"))
        for number in ("nan", "inf", "-inf"):
            self.bad(2, "incr", "default", "n", "--f64", "--", number)
        self.bad(3, "get", "default", "n")
        self.good("load", "default", "-", stdin=b'{"key":"n","value":9223372036854775807}\n{"key":"f","value":1e20}\n')
        self.assertEqual(self.good("get", "default", "n"), b"9223372036854775807\n")
        self.assertEqual(self.good("get", "default", "f"), b"1e+20\n")


class Both(kvctl_support.KvctlTest):
    def test_a_pipe_that_blocks_neither_side(self):
        """A terminal multiplexer makes both ends non-blocking."""
        read, write = os.pipe()
        unblock(read)
        unblock(write)
        content = os.urandom(3 << 20)
        got = []

        def put():
            with subprocess.Popen([self.cluster.kvctl_path, "put", "default", "large", "-"], stdin=read,
                                  env=self.cluster.environment) as putting:
                got.append(putting.wait(timeout=kvctl_support.PATIENCE_SECONDS))

        path = os.path.join(self.cluster.folder, "content")
        with open(path, "wb") as file:
            file.write(content)
        self.good("put", "default", "source", "@" + path)
        thread = threading.Thread(target=put)
        thread.start()
        with subprocess.Popen([self.cluster.kvctl_path, "get", "default", "source"], stdout=write,
                              env=self.cluster.environment) as getting:
            self.assertEqual(getting.wait(timeout=kvctl_support.PATIENCE_SECONDS), 0)
        os.close(write)
        thread.join()
        os.close(read)
        self.assertEqual(got, [0])
        self.assertEqual(self.good("get", "default", "large"), content)


if __name__ == "__main__":
    kvctl_support.main()
