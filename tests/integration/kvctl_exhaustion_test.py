"""Strangers at a daemon's ports, and limits of its process: no daemon ends or grows, and each goes on serving
its owner. Real daemons, real sockets, real limits (setrlimit)."""

import os
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

import kvctl_support
from kvctl_support import alive, wait_until

# Frames of HTTP/2: type, flags.
HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 1, 3, 4, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# What a flood may cost beside --memory, in KiB: less than the share of gRPC (heap_cover.h).
GROWTH_KIB = 64 * 1024
ENDLESS_FRAMES_MIN = 300_000
FLOOD_FRAMES = int(os.environ.get("TIDEPOOL_TEST_FLOOD", "60000"))
# Ends a test that hangs.
PATIENCE_SECONDS = 60


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header of HPACK that enters no table."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request(path):
    return b"".join(literal(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers")))


GET, HEALTH = request(b"/tidepool.v1.Data/Get"), request(b"/grpc.health.v1.Health/Watch")
FLOODS = {
    "calls that never end": lambda i: frame(HEADERS, END_HEADERS, 2 * i + 1, GET),
    "calls that are reset": lambda i: frame(HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, GET) +
                                      frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)),
    "watches of the health": lambda i: frame(HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, HEALTH),
    "windows": lambda i: frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
    "settings": lambda i: frame(SETTINGS, 0, 0),
}
# gRPC keeps such headers as fast as they come, until the connection guard ends their connection. 300,000 frames are 330
# MB, most of which stay in memory if nobody ends the connection.
ENDLESS = {
    "headers without an end": lambda i: frame(HEADERS if i == 0 else CONTINUATION, 0, 1, literal(b"x", b"y" * 100) * 10),
}


class LimitsTest(kvctl_support.KvctlTest):
    nodes = 1

    def address(self):
        node = self.kvctl("status", "--json").json()["result"]["nodes"][0]
        host, port = node["control_address"].rsplit(":", 1)
        return host, int(port)

    def anonymous_kib(self):
        with open(f"/proc/{self.cluster.pids[0]}/status", encoding="utf-8") as file:
            return int(next(line for line in file if line.startswith("RssAnon")).split()[1])


class Floods(LimitsTest):
    def send(self, address, part, frames):
        """Sends frames over as many connections as it takes."""
        sent = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while sent < frames and time.monotonic() < deadline:
            try:
                with socket.create_connection(address, timeout=PATIENCE_SECONDS) as stranger:
                    stranger.settimeout(2)
                    stranger.sendall(PREFACE + frame(SETTINGS, 0, 0))
                    for first in range(0, frames - sent, 500):
                        stranger.sendall(b"".join(part(first + i) for i in range(500)))
                        sent += 500
            except OSError:
                sent += 500  # The daemon has ended the connection, or reads no more.

    def test_a_flood_of_a_stranger_costs_little_memory_and_the_owner_is_served(self):
        self.check_floods(FLOODS, FLOOD_FRAMES)

    def test_headers_without_an_end_are_cut_off(self):
        self.check_floods(ENDLESS, max(FLOOD_FRAMES, ENDLESS_FRAMES_MIN))

    def check_floods(self, floods, frames):
        for name, part in floods.items():
            with self.subTest(name):
                self.cluster.start(1)
                address = self.address()
                self.good("put", "default", "k", "v")
                before = self.anonymous_kib()
                flood = threading.Thread(target=self.send, args=(address, part, frames))
                flood.start()
                peak = 0
                while flood.is_alive():
                    self.assertEqual(self.good("get", "default", "k"), b"v")
                    peak = max(peak, self.anonymous_kib())
                flood.join()
                peak = max(peak, self.anonymous_kib())
                print(f"{name}: {before} -> {peak} KiB")
                self.assertLess(peak - before, GROWTH_KIB)
                self.assertTrue(alive(self.cluster.pids[0]))

    def test_junk_ends_no_daemon(self):
        node = self.kvctl("status", "--json").json()["result"]["nodes"][0]
        metrics = node.get("metrics_url", "")
        targets = [self.address()]
        if metrics:
            host, port = metrics.split("/")[2].rsplit(":", 1)
            targets.append((host, int(port)))
        seed = 4711
        for i in range(FLOOD_FRAMES // 200):
            seed = (seed * 1103515245 + 12345) % 2**31
            junk = (seed.to_bytes(4, "big") * (1 + seed % 97))
            if i % 3 == 0:
                junk = PREFACE + junk
            try:
                with socket.create_connection(targets[i % len(targets)], timeout=PATIENCE_SECONDS) as stranger:
                    stranger.sendall(junk)
            except OSError:
                pass
        self.assertTrue(alive(self.cluster.pids[0]))
        self.good("put", "default", "after-junk", "v")


class Descriptors(LimitsTest):
    nodes = 0

    def test_connections_without_a_word_do_not_take_the_port_away(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limited = ["bash", "-c", 'ulimit -n 128; exec "$@"', "limited"]
        self.assertGreater(hard, 400)
        self.cluster.start(1, within=limited)
        self.good("put", "default", "k", "v")
        address = self.address()
        strangers = [socket.create_connection(address, timeout=PATIENCE_SECONDS) for _ in range(300)]
        try:
            self.assertEqual(self.good("get", "default", "k"), b"v")
        finally:
            for stranger in strangers:
                stranger.close()
        self.assertEqual(self.good("get", "default", "k"), b"v")

    def test_a_moment_without_descriptors_passes(self):
        self.cluster.start(1)
        pid = self.cluster.pids[0]
        self.good("put", "default", "k", "v")
        address = self.address()
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, usual[1]))
        strangers = [socket.create_connection(address, timeout=PATIENCE_SECONDS) for _ in range(40)]
        for stranger in strangers:
            try:
                while stranger.recv(4096):  # Its end comes, where it had a place or not.
                    pass
            except ConnectionResetError:
                pass
            stranger.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        self.assertEqual(self.good("get", "default", "k"), b"v")


class Threads(LimitsTest):
    nodes = 0

    def kvd(self, before):
        folder = os.path.join(self.cluster.folder, "own")
        command = [os.path.join(self.build, "bin", "kvd"), "--cluster", os.path.join(self.cluster.folder, "own.json"),
                   "--memory=256MiB", "--cores=1", "--interface=lo", "--wait=block", "--data-dir", folder]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.cluster.environment, preexec_fn=before)

    def test_too_little_address_space_is_said_at_the_start(self):
        for mib in (300, 700, 1200):
            with self.subTest(mib=mib):
                limit = mib << 20
                daemon = self.kvd(lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                _, error = daemon.communicate(timeout=PATIENCE_SECONDS)
                self.assertEqual(daemon.returncode, 1, error)
                self.assertIn("ulimit -v", error)

    def test_enough_address_space_serves(self):
        limit = 1400 << 20
        daemon = self.kvd(lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.addCleanup(daemon.kill)
        self.assertIn("kvd ready", daemon.stdout.readline())
        target = ["--cluster", os.path.join(self.cluster.folder, "own.json")]
        self.good(*target, "put", "default", "k", "v")
        self.assertEqual(self.good(*target, "get", "default", "k"), b"v")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(daemon.returncode, 0)

    def test_a_job_without_a_thread_is_refused_and_leaves_no_claim(self):
        if os.getuid() != 0:
            self.skipTest("only root can be a user of whom all threads are known")
        user = 54242
        os.chown(self.cluster.folder, user, user)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        source = os.path.join(self.cluster.folder, "source")
        os.mkdir(source)
        with open(os.path.join(source, "file"), "w", encoding="utf-8") as file:
            file.write("content")
        self.cluster.start(2, within=as_user)
        pids = self.cluster.pids
        threads = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
        usual = resource.getrlimit(resource.RLIMIT_NPROC)[0]

        def limit(number):
            for pid in pids:
                subprocess.run([*as_user, "prlimit", "--pid", str(pid), f"--nproc={number}:"], check=True)

        for spare in (5, 9, 11, 13, 16):
            with self.subTest(spare=spare):
                limit(threads + spare)
                self.kvctl("--timeout", "5s", "stage", "in", source, "s", within=as_user)
                limit("unlimited" if usual == resource.RLIM_INFINITY else usual)
                self.assertTrue(all(alive(pid) for pid in pids))
                result = self.kvctl("stage", "in", source, "s", within=as_user)
                self.assertEqual(result.code, 0, result)
                self.assertNotIn(b"goes on", result.out)


if __name__ == "__main__":
    kvctl_support.main()
