#!/usr/bin/python3
"""kvd --auth munge: programs prove whose they are to a real munged, and no file has the job token."""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time

import grpc

import kvctl_support


class Munged:
    """The site's daemon, with a key of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="munge-test-")
        os.chmod(self.folder, 0o711)  # Other users reach the socket, as at a site.
        self.socket = os.path.join(self.folder, "socket")
        key = os.path.join(self.folder, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(secrets.token_bytes(128))
        files = [f"--{name}-file={os.path.join(self.folder, name)}" for name in ("log", "pid", "seed")]
        self.process = subprocess.Popen(["munged", "--foreground", f"--socket={self.socket}", f"--key-file={key}", *files],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            kvctl_support.wait_until(lambda: self.process.poll() is not None or self.answers())
            assert self.process.poll() is None, self.process.stderr.read()
        except BaseException:
            self.close()
            raise

    def answers(self):
        return subprocess.run(["munge", "--no-input", f"--socket={self.socket}"], capture_output=True,
                              check=False).returncode == 0

    def credential(self, payload, *options, within=()):
        return subprocess.run([*within, "munge", f"--socket={self.socket}", "--string", payload, *options], check=True,
                              capture_output=True).stdout.strip()

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()
        shutil.rmtree(self.folder)


class MungeTest(kvctl_support.KvctlTest):
    nodes = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.munged = Munged()
        cls.addClassCleanup(cls.munged.close)
        cls.cluster.environment["TIDEPOOL_MUNGE_SOCKET"] = cls.munged.socket


class ByMunge(MungeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start(2, more=["--auth", "munge"])

    def content(self):
        with open(self.cluster.file, encoding="utf-8") as file:
            return json.load(file)

    def address(self, node=0):
        return self.content()["nodes"][node]["control_address"]

    def login(self, credential, node=0):
        """As anybody may call it: without a token. (the message's code, its text) or the answer's bytes."""
        request = b"\x0a" + bytes([len(credential) & 0x7F | 0x80, len(credential) >> 7]) + credential
        with grpc.insecure_channel(self.address(node)) as channel:
            call = channel.unary_unary("/tidepool.v1.Cluster/Login")
            try:
                return call(request, timeout=kvctl_support.PATIENCE_SECONDS)
            except grpc.RpcError as failure:
                return failure.code(), failure.details()

    def refused(self, credential, code, says, node=0):
        answer = self.login(credential, node)
        self.assertIsInstance(answer, tuple)
        self.assertEqual(answer[0], code, answer)
        self.assertIn(says, answer[1], answer)

    def payload(self, node=0):
        return "tidepool login at " + self.address(node)

    def test_programs_need_nothing_but_the_file(self):
        self.good("put", "default", "k", "v")
        self.assertEqual(self.good("get", "default", "k"), b"v")
        self.good("ping")  # By the SDK.

    def test_python_programs_too(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        source = os.path.join(self.cluster.folder, "source")  # What pip leaves there stays out of the tree.
        for part in ("client/python", "proto/tidepool"):
            shutil.copytree(os.path.join(root, part), os.path.join(source, part))
        shutil.copy(os.path.join(root, "CMakeLists.txt"), source)  # Has the version.
        packages = os.path.join(self.cluster.folder, "packages")
        subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
                        "--no-index", "--target", packages, os.path.join(source, "client/python")], check=True,
                       capture_output=True, timeout=kvctl_support.PATIENCE_SECONDS)
        script = "import tidepool\nwith tidepool.connect() as t: t['default']['p'] = b'v'; print(t['default']['p'].decode())"
        done = subprocess.run(["/usr/bin/python3", "-B", "-c", script], capture_output=True, check=False,
                              env={**self.cluster.environment, "PYTHONPATH": packages},
                              timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(done.stdout, b"v\n", done)

    def test_no_file_that_others_see_has_the_token(self):
        content = self.content()
        self.assertEqual(content["auth"], "munge")
        self.assertNotIn("token_file", content)
        folder = os.path.dirname(self.cluster.file)
        beside = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))]
        self.assertFalse([name for name in beside if name.endswith(".token")], beside)

    def test_a_credential_is_taken_once(self):
        credential = self.munged.credential(self.payload())
        self.assertIsInstance(self.login(credential), bytes)
        self.refused(credential, grpc.StatusCode.UNAUTHENTICATED, "Replayed credential")

    def test_an_expired_one_is_refused(self):
        credential = self.munged.credential(self.payload(), "--ttl=1")
        made = time.time()
        kvctl_support.wait_until(lambda: time.time() > made + 3)  # munged counts in whole seconds.
        self.refused(credential, grpc.StatusCode.UNAUTHENTICATED, "Expired credential")

    def test_one_for_another_daemon_is_refused(self):
        self.refused(self.munged.credential(self.payload(0)), grpc.StatusCode.UNAUTHENTICATED, "not for this daemon", 1)
        self.refused(self.munged.credential(""), grpc.StatusCode.UNAUTHENTICATED, "not for this daemon")

    def test_forged_ones_are_refused(self):
        true = self.munged.credential(self.payload())
        middle = len(true) // 2
        changed = true[:middle] + (b"A" if true[middle:middle + 1] != b"A" else b"B") + true[middle + 1:]
        for credential in (b"", b"junk", b"MUNGE:" + b"A" * 200 + b":", changed):
            answer = self.login(credential)
            self.assertIsInstance(answer, tuple, credential)
            self.assertEqual(answer[0], grpc.StatusCode.UNAUTHENTICATED, answer)

    def test_other_users_are_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        self.refused(self.munged.credential(self.payload(), within=nobody), grpc.StatusCode.PERMISSION_DENIED,
                     "is user 65534's")
        # Theirs cannot be read by us, either.
        self.refused(self.munged.credential(self.payload(), "--restrict-uid=65534"), grpc.StatusCode.PERMISSION_DENIED,
                     "Unauthorized")

    def test_refusals_are_logged_but_do_not_flood(self):
        for _ in range(300):
            self.login(b"junk")
        lines = []
        for name in os.listdir(self.cluster.log_folder):
            with open(os.path.join(self.cluster.log_folder, name), encoding="utf-8") as file:
                lines += [line for line in file if "login refused" in line]
        self.assertTrue(lines)
        self.assertLess(len(lines), 100)

    def test_without_munged_a_program_hears_why(self):
        result = self.kvctl("get", "default", "k", environment={"TIDEPOOL_MUNGE_SOCKET": "/nonexistent/socket"})
        self.assertNotEqual(result.code, 0)
        self.assertIn(b"is munged running", result.err)

    def test_a_daemon_with_a_token_has_no_login(self):
        other = kvctl_support.Cluster(self.build)
        self.addCleanup(other.close)
        other.start(1)
        with open(other.file, encoding="utf-8") as file:
            address = json.load(file)["nodes"][0]["control_address"]
        with grpc.insecure_channel(address) as channel:
            with self.assertRaises(grpc.RpcError) as raised:
                channel.unary_unary("/tidepool.v1.Cluster/Login")(b"", timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)


class Returning(MungeTest):
    def test_a_coordinator_that_was_killed_comes_back_to_its_members(self):
        folder = os.path.join(self.cluster.folder, "nodes")
        file = os.path.join(folder, "cluster.json")
        os.makedirs(folder)
        kvd = os.path.join(self.build, "bin", "kvd")
        daemons = {}

        def start(number, *more):
            with open(os.path.join(folder, f"{number}.log"), "ab") as log:
                daemons[number] = subprocess.Popen(
                    [kvd, "--nodes=2", "--memory=64MiB", "--auth=munge", "--wait=block", "--interface=lo",
                     "--cluster", file, "--data-dir", os.path.join(folder, str(number)), *more],
                    env=self.cluster.environment, stdout=log, stderr=log)

        def end():
            for daemon in daemons.values():
                daemon.kill()
                daemon.wait()

        self.addCleanup(end)
        start(0)
        kvctl_support.wait_until(lambda: os.path.exists(file))
        start(1)
        kvctl_support.wait_until(lambda: self.kvctl("ping", "--cluster", file).code == 0)
        daemons[0].kill()
        daemons[0].wait()
        start(0)
        kvctl_support.wait_until(lambda: self.kvctl("ping", "--cluster", file).code == 0)
        self.good("put", "default", "k", "v", "--cluster", file)


if __name__ == "__main__":
    kvctl_support.main()
