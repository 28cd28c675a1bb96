#!/usr/bin/python3 -B
"""Who gets what at the port of metrics and status page, and what strangers can do there.

  listener_test.py BUILD_FOLDER [unittest's arguments]
"""

import os
import random
import socket
import ssl
import time
import urllib.parse

import metrics_support
from metrics_support import basic, get, trusting, wait_for


def place(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port


def ended(connection, seconds=60):
    """Whether the other side has closed within the time; what it said before is read and dropped."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
        return True
    except ConnectionError:
        return True
    except (socket.timeout, TimeoutError):
        return False


class ListenerTest(metrics_support.SeeingTest):
    def serves(self, url):
        """The listener, and the daemon behind it."""
        self.assertEqual(get(url, "metrics").code, 200)
        self.good("put", "default", "k", "v")
        self.assertEqual(self.good("get", "default", "k"), b"v")

    def start(self, *more):
        self.cluster.start(1, more=more)
        [url] = self.urls()
        return url

    def test_on_loopback_anybody_of_the_machine_may_look(self):
        url = self.start()
        self.assertTrue(url.startswith("http://127.0.0.1:"), url)
        self.assertEqual(get(url).headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(get(url, "metrics?x=1").code, 200)
        self.assertEqual(get(url, "status.json").code, 200)
        self.assertEqual(get(url, "nothing").code, 404)
        self.assertEqual(get(url, "../../etc/passwd").code, 404)
        head = get(url, "metrics", method="HEAD")
        self.assertEqual((head.code, head.body), (200, b""))
        self.assertGreater(int(head.headers["Content-Length"]), 1000)
        self.assertEqual(get(url, "metrics", method="POST").code, 405)
        self.assertEqual(get(url, "metrics", method="DELETE").code, 405)

    def test_neither_keys_nor_the_token_are_shown(self):
        url = self.start("--slowlog-us", "1")
        self.good("put", "default", "secret-key", "secret-value")
        for path in ("", "page.js", "status.json", "metrics"):
            body = get(url, path).text()
            self.assertNotIn("secret", body)
            self.assertNotIn(self.token(), body)

    def test_a_foreign_name_is_refused_on_loopback(self):
        url = self.start()
        port = place(url)[1]
        for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example"):
            self.assertEqual(get(url, "status.json", headers={"Host": name}).code, 403, name)
        for name in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            self.assertEqual(get(url, "status.json", headers={"Host": name}).code, 200, name)

    def test_the_page_takes_nothing_from_elsewhere(self):
        url = self.start()
        headers = get(url).headers
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        for path in ("", "page.js", "page.css"):
            text = get(url, path).text().replace("http://www.w3.org/2000/svg", "")
            self.assertNotIn("http://", text)
            self.assertNotIn("https://", text)

    def test_beyond_loopback_it_needs_the_token(self):
        url = self.start("--tls", "--metrics-remote")
        tls = trusting(self.connection_file()["tls"]["ca"])
        token = self.token()
        right = [{"Authorization": "Bearer " + token}, {"authorization": "bearer " + token}, basic("", token),
                 basic("anybody", token)]
        wrong = [{}, {"Authorization": token}, {"Authorization": "Bearer"}, {"Authorization": "Bearer " + token[:-1]},
                 {"Authorization": "Bearer " + token + "0"}, {"Authorization": "Basic !!!"},
                 {"Authorization": "Basic " + token}, basic(token, ""), {"Authorization": "Bearer " + "0" * 64}]
        for path in ("", "page.js", "metrics", "status.json", "nothing"):
            for headers in wrong:
                answer = get(url, path, headers=headers, tls=tls)
                self.assertEqual(answer.code, 401, headers)
                self.assertIn("WWW-Authenticate", answer.headers)
                self.assertNotIn(b"tidepool_", answer.body)
        for headers in right:
            self.assertEqual(get(url, "metrics", headers=headers, tls=tls).code, 200, headers)
        with self.assertRaises(ssl.SSLError):
            get(url, "metrics", headers=right[0], tls=ssl.create_default_context())
        # In plain text there is no answer, so nobody sends the token by mistake a second time.
        with socket.create_connection(place(url)) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            plain.settimeout(60)
            self.assertNotIn(b"HTTP/1.1 200", plain.recv(4096))

    def test_a_port_that_is_taken_is_said(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            result = self.kvctl("start", "--local=1", "--memory", "128MiB", "--", "--metrics-port", port)
            self.assertNotEqual(result.code, 0)
            self.assertIn(port, result.err.decode())

    def test_it_can_be_left_out(self):
        self.cluster.start(1, more=("--metrics-port", "off"))
        self.assertEqual(self.urls(), [None])
        self.assertNotIn("status page", self.good("status").decode())

    def test_two_daemons_of_a_machine_have_their_own(self):
        self.cluster.start(2)
        urls = self.urls()
        self.assertEqual(len(set(urls)), 2)
        for node, url in enumerate(urls):
            self.assertIn(f'node="{node}"', get(url, "metrics").text())
            self.assertEqual(len(metrics_support.json.loads(get(url, "status.json").body)["nodes"]), 2)

    def test_junk_does_no_harm(self):
        url = self.start()
        chance = random.Random(7)
        junk = [b"", b"\0" * 1000, b"\r\n" * 2000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n",
                b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000,
                b"POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 100_000,
                b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)]
        junk += [chance.randbytes(chance.randrange(1, 5000)) for _ in range(50)]
        for each in junk:
            with socket.create_connection(place(url)) as connection:
                try:
                    connection.sendall(each)
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    continue  # It has had enough before the end.
                self.assertTrue(ended(connection), each[:40])
        self.serves(url)

    def test_who_sends_slowly_or_never_keeps_nobody_out(self):
        url = self.start()
        silent = [socket.create_connection(place(url)) for _ in range(300)]
        try:
            for connection in silent[::2]:
                try:
                    connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                except OSError:
                    pass  # Ended already, as one of the oldest.
            self.serves(url)
            # A byte now and then does not prolong it.
            slow = socket.create_connection(place(url))
            silent.append(slow)
            slow.settimeout(0.2)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    slow.sendall(b"x")
                    if slow.recv(1) == b"":
                        break
                except (socket.timeout, TimeoutError):
                    continue
                except OSError:
                    break
            self.assertLess(time.monotonic(), end, "a slow request went on")
            for connection in silent:
                self.assertTrue(ended(connection))
        finally:
            for connection in silent:
                connection.close()
        self.serves(url)

    def test_who_does_not_read_is_left(self):
        url = self.start()
        readers = []
        try:
            for _ in range(100):
                connection = socket.socket()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                connection.connect(place(url))
                connection.sendall(b"GET /page.js HTTP/1.1\r\n\r\n")
                readers.append(connection)
            self.serves(url)
        finally:
            for connection in readers:
                connection.close()

    def test_junk_at_the_port_with_tls_does_no_harm(self):
        url = self.start("--tls", "--metrics-remote")
        tls = trusting(self.connection_file()["tls"]["ca"])
        connections = [socket.create_connection(place(url)) for _ in range(150)]
        try:
            for i, connection in enumerate(connections):
                try:
                    connection.sendall([b"GET / HTTP/1.1\r\n\r\n", os.urandom(300), b"\x16\x03\x01\x02\x00"][i % 3])
                except OSError:
                    pass
            answer = get(url, "metrics", headers={"Authorization": "Bearer " + self.token()}, tls=tls)
            self.assertEqual(answer.code, 200)
            for connection in connections:
                self.assertTrue(ended(connection))
        finally:
            for connection in connections:
                connection.close()

    def test_nothing_is_left_of_it(self):
        url = self.start()
        pid = self.cluster.pids[0]
        before = len(os.listdir(f"/proc/{pid}/fd"))
        for _ in range(200):
            self.assertEqual(get(url).code, 200)
        wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before)


if __name__ == "__main__":
    metrics_support.main()
