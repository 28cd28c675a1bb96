"""A headless Chromium, driven by its DevTools protocol over a pipe: no port, no driver, no package but the browser."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--mute-audio",
         "--remote-debugging-pipe"]
PATIENCE_SECONDS = 120  # Ends a test that hangs; no test depends on it.


class Browser:
    """Of one page. Ends with `end`, with all of its processes and its folder."""

    def __init__(self, width, height, folder):
        self.profile = tempfile.mkdtemp(prefix="chromium.", dir=folder)
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()

        def take_pipes():
            # The protocol's descriptors are 3 and 4, whatever they are here; through high ones, as they may overlap.
            os.dup2(to_read, 100)
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        with open(os.path.join(self.profile, "log"), "wb") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                ["chromium", *FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=(3, 4, to_read, to_write), preexec_fn=take_pipes,
                start_new_session=True, env={**os.environ, "HOME": self.profile, "XDG_CONFIG_HOME": self.profile})
        os.close(to_read)
        os.close(to_write)
        self.unread = b""
        self.number = 0
        self.session = None
        self.said = []  # What the page wrote to its console, and its errors.
        try:
            self.attach(width, height)
        except BaseException:
            self.end()
            raise

    def attach(self, width, height):
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.receive(end)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                self.said.append(answer["params"])

    def receive(self, end):
        while b"\0" not in self.unread:
            assert time.monotonic() < end, "the browser does not answer"
            part = os.read(self.read_fd, 1 << 20)
            assert part, "the browser has ended: " + self.log()
            self.unread += part
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def log(self):
        with open(os.path.join(self.profile, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def open(self, url):
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, failed
        self.wait_for("document.readyState === 'complete'")

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script):
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            value = self.run(script)
            if value:
                return value
            assert time.monotonic() < end, f"waited in vain for {script}; the page said last {self.said[-5:]}"
            time.sleep(0.1)

    def dark(self, is_dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for descriptor in (self.write_fd, self.read_fd):
            os.close(descriptor)
        shutil.rmtree(self.profile, ignore_errors=True)
