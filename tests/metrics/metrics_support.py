"""What the tests of metrics and page have in common: a cluster with its metrics' addresses, HTTP, and programs that
end with the test."""

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import kvctl_support  # noqa: E402, pylint: disable=wrong-import-position


class Answer:
    def __init__(self, response):
        self.code, self.headers, self.body = response.status, dict(response.getheaders()), response.read()

    def text(self):
        return self.body.decode()


def get(url, path="", headers=None, method="GET", tls=None, timeout=60):
    """One request; `tls`: an ssl.SSLContext for https."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    more = {"context": tls} if parts.scheme == "https" else {}
    connection = kind(parts.hostname, parts.port, timeout=timeout, **more)
    try:
        connection.request(method, "/" + path, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def trusting(ca_pem):
    """A context that believes certificates of this authority, whatever their name: what is tested is the key."""
    context = ssl.create_default_context(cadata=ca_pem)
    context.check_hostname = False
    return context


def samples(text):
    """name{labels} -> value, of Prometheus' text format."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def wait_for(look, seconds=120):
    """The first true thing that `look` returns."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


class Program:
    """A process that ends with its owner, however that comes about: it is the first of a session of its own, and all
    of that are ended."""

    def __init__(self, command, log_path, **more):
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                command, stdout=log, stderr=log, start_new_session=True, **more)

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(timeout=10)
                if number == signal.SIGTERM:
                    continue  # Those that it has started may still be there.
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()


class SeeingTest(kvctl_support.KvctlTest):
    """Each test starts its cluster."""

    nodes = 0

    def setUp(self):
        self.addCleanup(self.cluster.kill)

    def folder(self):
        """On the build's disk: /tmp may be memory without direct I/O."""
        folder = tempfile.TemporaryDirectory(prefix="seeing.", dir=os.getcwd(), ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        return folder.name

    def status(self):
        return self.kvctl("status", "--json").json()["result"]

    def pid_of(self, node_id):
        """Daemons join in any order, so the cluster's list of them does not say."""
        return next(node["pid"] for node in self.status()["nodes"] if node["node_id"] == node_id)

    def urls(self):
        return [node["metrics_url"] for node in self.status()["nodes"]]

    def connection_file(self):
        with open(self.cluster.file, encoding="utf-8") as file:
            return json.load(file)

    def token_file(self):
        """Named in the connection file, beside which it lies."""
        return os.path.join(os.path.dirname(self.cluster.file), self.connection_file()["token_file"])

    def token(self):
        with open(self.token_file(), encoding="utf-8") as file:
            return file.read().strip()


main = kvctl_support.main
