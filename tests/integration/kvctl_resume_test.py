#!/usr/bin/python3
"""load, dump and keys whose connection is cut, or whose daemon is killed, in the middle.

  kvctl_resume_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading

import kvctl_support

# Of a killed daemon's command. A hang ends here; no command takes nearly as long.
PATIENCE = kvctl_support.PATIENCE_SECONDS


class CuttingProxy:
    """Passes connections on to `target` and resets each of the first `cuts` of them after so many
    bytes in one direction ("up": from the client). A connection without bytes does not count: kvctl
    asks so whether daemons have vanished."""

    def __init__(self, target, direction, after_bytes, cuts):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.direction, self.after_bytes, self.cuts_left = direction, after_bytes, cuts
        self.cuts_made = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        daemon = socket.create_connection(self.target)
        other = {client: daemon, daemon: client}
        counted = client if self.direction == "up" else daemon
        left = None
        is_used = False
        try:
            while True:
                for source in select.select(list(other), [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    if not is_used:
                        is_used = True
                        left = self.after_bytes if self.cuts_left > 0 else None
                        self.cuts_left -= 1
                    if left is not None and source is counted:
                        left -= len(data)
                        if left <= 0:
                            self.cuts_made += 1
                            return
                    other[source].sendall(data)
        except OSError:
            pass
        finally:
            for end in other:
                # A reset, not an orderly end.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()


class Broken(kvctl_support.KvctlTest):
    nodes = 0

    def setUp(self):
        self.cluster.start(self.nodes_of_test())

    def tearDown(self):
        self.cluster.kill()

    def nodes_of_test(self):
        return 1

    def through(self, proxy):
        """A connection file that knows the proxy only."""
        with open(self.cluster.file, encoding="utf-8") as file:
            content = json.load(file)
        content["nodes"] = [{**content["nodes"][0], "control_address": proxy.address}]
        content["token_file"] = os.path.join(os.path.dirname(self.cluster.file),
                                             content["token_file"])
        path = os.path.join(self.cluster.folder, "proxied.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(path, 0o600)
        return path

    def proxy(self, direction, after_bytes, cuts):
        with open(self.cluster.file, encoding="utf-8") as file:
            target = json.load(file)["nodes"][0]["control_address"]
        proxy = CuttingProxy(target, direction, after_bytes, cuts)
        self.addCleanup(proxy.close)
        return proxy

    def lines(self, count, key_bytes, value_bytes):
        """JSON lines for load, and the records."""
        records = {f"{i:06}".ljust(key_bytes, "k"): f"{i}".ljust(value_bytes, "v")
                   for i in range(count)}
        text = "".join(json.dumps({"key": key, "value": value}) + "\n"
                       for key, value in records.items())
        return text.encode(), records

    def fill(self, count, key_bytes, value_bytes):
        text, records = self.lines(count, key_bytes, value_bytes)
        self.good("load", "data", "-", stdin=text)
        return records

    def spawn(self, *arguments):
        # Without buffers here: communicate() would lose what they hold.
        return subprocess.Popen([self.cluster.kvctl_path, *arguments], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                                cwd=self.cluster.folder, env=self.cluster.environment)


class CutConnections(Broken):
    def test_a_dump_goes_on_where_its_connection_was_cut(self):
        records = self.fill(3000, 20, 1000)
        proxy = self.proxy("down", 700_000, 4)
        dumped = self.good("dump", "data", "--cluster", self.through(proxy)).splitlines()
        self.assertEqual(proxy.cuts_made, 4)
        self.assertEqual(len(dumped), len(records))  # None twice.
        self.assertTrue({r["key"]: r["value"] for r in map(json.loads, dumped)} == records)

    def test_a_dump_reads_a_large_value_again_whose_connection_was_cut(self):
        # Read by its key, since a scan leaves out what is so large.
        large = {"key": "large", "value": "L" * 3_000_000}
        self.good("load", "data", "-", stdin=json.dumps(large).encode())
        proxy = self.proxy("down", 700_000, 2)
        dumped = self.good("dump", "data", "--cluster", self.through(proxy)).splitlines()
        self.assertEqual(proxy.cuts_made, 2)
        self.assertTrue([json.loads(line) for line in dumped] == [large])

    def test_keys_go_on_where_their_connection_was_cut(self):
        records = self.fill(5000, 200, 1)
        proxy = self.proxy("down", 150_000, 4)
        listed = self.good("keys", "data", "--cluster", self.through(proxy)).decode().splitlines()
        self.assertEqual(proxy.cuts_made, 4)
        self.assertEqual(sorted(listed), sorted(records))

    def test_a_load_goes_on_where_its_connection_was_cut(self):
        text, records = self.lines(5000, 20, 1000)
        large = {"key": "large", "value": "L" * 3_000_000}
        text = json.dumps(large).encode() + b"\n" + text
        records["large"] = large["value"]
        proxy = self.proxy("up", 1_200_000, 4)
        result = self.kvctl("load", "data", "-", "--cluster", self.through(proxy), "--json",
                            stdin=text)
        self.assertEqual(result.code, 0, result)
        loaded = result.json()["result"]
        self.assertEqual((loaded["loaded"], loaded["failed"]), (len(records), 0))
        self.assertEqual(proxy.cuts_made, 4)
        dumped = map(json.loads, self.good("dump", "data").splitlines())
        self.assertTrue({record["key"]: record["value"] for record in dumped} == records)

    def test_connections_that_are_cut_again_and_again_end_it(self):
        self.fill(3000, 20, 1000)
        proxy = self.proxy("down", 20_000, 1_000_000)
        path = self.through(proxy)
        self.assertIn(self.kvctl("dump", "data", "--cluster", path).code, (4, 5))
        text, _ = self.lines(5000, 20, 1000)
        proxy = self.proxy("up", 20_000, 1_000_000)
        path = self.through(proxy)
        self.assertIn(self.kvctl("load", "data", "-", "--cluster", path, stdin=text).code, (4, 5))


class KilledDaemons(Broken):
    def feed(self, process, text):
        while text:
            text = text[process.stdin.write(text):]

    def end(self, process):
        """Exit code, the rest of the output, and the one line on stderr."""
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err.decode()

    def broken_list(self, *command):
        """What a listing has printed when its daemon is killed in the middle."""
        process = self.spawn(*command)
        begin = process.stdout.read(100_000)
        os.kill(self.cluster.pids[0], signal.SIGKILL)
        code, rest, err = self.end(process)
        self.assertEqual(code, 5, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertTrue(err.startswith("kvctl: "), err)
        return (begin + rest).decode()

    def test_a_dump_ends_as_unreachable(self):
        # More than what pipe and streams hold.
        records = self.fill(5000, 20, 8000)
        text = self.broken_list("dump", "data")
        self.assertTrue(text.endswith("\n"))
        dumped = [json.loads(line) for line in text.splitlines()]
        self.assertLess(len(dumped), len(records))
        self.assertEqual(len({record["key"] for record in dumped}), len(dumped))
        for record in dumped:
            self.assertTrue(record["value"] == records[record["key"]], record["key"])

    def test_keys_end_as_unreachable(self):
        records = self.fill(10_000, 3000, 1)
        listed = self.broken_list("keys", "data").splitlines()
        self.assertLess(len(listed), len(records))
        self.assertEqual(len(set(listed)), len(listed))
        self.assertEqual(len(set(listed) - set(records)), 0)

    def test_a_load_ends_as_partial_and_says_what_it_has_done(self):
        text, records = self.lines(20_000, 20, 500)
        process = self.spawn("load", "data", "-", "--json")
        self.feed(process, text[:len(text) // 2])
        kvctl_support.wait_until(lambda: self.kvctl("count", "data").out not in (b"", b"0\n"))
        os.kill(self.cluster.pids[0], signal.SIGKILL)
        try:
            self.feed(process, text[len(text) // 2:])
        except BrokenPipeError:
            pass
        process.stdin.close()
        process.stdin = None
        code, out, err = self.end(process)
        self.assertEqual(code, 6, err)
        envelope = json.loads(out)
        self.assertEqual(envelope["code"], "PARTIAL")
        self.assertFalse(envelope["ok"])
        self.assertNotEqual(envelope["error"], "")
        self.assertGreater(envelope["result"]["loaded"], 0)
        self.assertLess(envelope["result"]["loaded"], len(records))


class KilledOwners(Broken):
    def nodes_of_test(self):
        return 3

    def kill_owner(self):
        """Kills a node that kvctl does not talk to."""
        nodes = self.kvctl("status", "--json").json()["result"]["nodes"]
        os.kill(nodes[2]["pid"], signal.SIGKILL)
        return nodes[2]["node_id"]

    def test_a_dump_names_the_node_that_is_away(self):
        self.fill(500, 20, 100)
        node = self.kill_owner()
        result = self.kvctl("dump", "data")
        self.assertEqual(result.code, 6, result)
        self.assertIn(f"node {node}".encode(), result.err)

    def test_a_load_stores_what_the_others_own_and_lists_the_rest(self):
        self.fill(1, 20, 1)
        text, records = self.lines(500, 20, 100)
        self.kill_owner()
        result = self.kvctl("load", "data", "-", "--json", stdin=text)
        self.assertEqual(result.code, 6, result)
        loaded = result.json()["result"]
        self.assertEqual(loaded["loaded"] + loaded["failed"], len(records))
        self.assertGreater(loaded["loaded"], len(records) // 3)
        self.assertGreater(loaded["failed"], len(records) // 6)
        kept = sum(self.kvctl("exists", "data", key).code == 0 for key in list(records)[:60])
        self.assertGreater(kept, 20)


if __name__ == "__main__":
    kvctl_support.main()
