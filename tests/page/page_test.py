#!/usr/bin/python3 -B
"""The status page in a real browser: that it shows what is there, that it moves, and that it is not fooled. Leaves
screenshots in BUILD_FOLDER/page: light.png, dark.png, narrow.png.

  page_test.py BUILD_FOLDER [unittest's arguments]
"""

import os
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "metrics"))
import metrics_support  # noqa: E402, pylint: disable=wrong-import-position
from browser import Browser  # noqa: E402, pylint: disable=wrong-import-position

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
TEXT = "document.getElementById('%s').textContent"


class PageTest(metrics_support.SeeingTest):
    node_mib = 64

    def browser(self, width=1280, height=1000):
        browser = Browser(width, height, self.folder())
        self.addCleanup(browser.end)
        return browser

    def start(self, nodes=2):
        """With devices, and more in a namespace than memory holds."""
        self.cluster.start(nodes, node_mib=64, options=("--nvm-dir", self.folder(), "--nvm-size", "512MiB"))

    def keep_busy(self):
        """Works until the test's end, so that there is something to see."""
        stop = threading.Event()

        def work():
            while not stop.is_set():
                self.kvctl("bench", "simulation/frames", "--keys", "30000", "--value-bytes", "4000", "--reads", "70",
                           "--zipf", "0.9", "--batch", "4", "--duration", "2s", "--no-fill")

        worker = threading.Thread(target=work)

        def end():
            stop.set()
            worker.join()

        worker.start()
        self.addCleanup(end)

    def test_it_shows_the_cluster_and_moves(self):
        self.start()
        self.good("namespace", "create", "checkpoints", "--durability", "async")
        self.good("namespace", "create", "jobs", "--kind", "queue")
        self.good("put", "checkpoints", "step", "17")
        self.good("push", "jobs", *[f"job {i}" for i in range(12)])
        self.good("bench", "simulation/frames", "--keys", "30000", "--value-bytes", "4000", "--batch", "50",
                  "--duration", "100ms", "--keep")
        self.keep_busy()
        browser = self.browser()
        browser.open(self.urls()[0])
        browser.wait_for(TEXT % "health" + " === '2 of 2 nodes up'")
        self.assertIn(self.status()["cluster_uuid"], browser.run(TEXT % "cluster"))
        for name in ("simulation/frames", "checkpoints", "jobs", "default"):
            browser.wait_for(TEXT % "namespaces" + f".includes({name!r})")
        rows = browser.run("document.querySelectorAll('#nodes tbody tr').length")
        self.assertEqual(rows, 2)
        browser.wait_for("document.querySelector('#nodes').textContent.includes('of 256 MiB') || "
                         "document.querySelectorAll('#nodes .nvm').length >= 2")
        # Rates appear with the second look, and change with the next ones.
        browser.wait_for("past.length >= 2 && past.some((each) => each.reads > 0 && each.changes > 0)")
        seen = browser.run("document.getElementById('rates').innerHTML")
        browser.wait_for(f"past.length >= 12 && document.getElementById('rates').innerHTML !== {seen!r}")
        browser.wait_for("past.filter((each) => each.p99 !== null).length >= 5")
        browser.wait_for(TEXT % "cards" + ".includes('%')")
        self.take(browser, "light.png")
        browser.dark(True)
        self.take(browser, "dark.png")
        self.assertEqual(browser.said, [])

    def take(self, browser, name):
        folder = os.path.join(BUILD, "page")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        browser.screenshot(path)
        with open(path, "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", head[16:24])
        self.assertGreater(width * height, 300 * 300)

    def test_names_are_text_whatever_they_say(self):
        """No name of a namespace can be HTML; what if a daemon sent one all the same?"""
        self.cluster.start(1)
        browser = self.browser(800, 800)
        browser.open(self.urls()[0])
        browser.wait_for("before !== null")
        evil = "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>'\"&amp;"
        browser.run(f"""(() => {{
            const status = structuredClone(before);
            const evil = {evil!r};
            status.namespaces[0].name = evil;
            status.namespaces[0].durability = evil;
            status.cluster_uuid = evil;
            status.nodes[0].node.host = evil;
            status.nodes[0].error = evil;
            status.nodes[0].status.at_ns += 1e9;
            show(status);
        }})()""")
        self.assertIn(evil, browser.run(TEXT % "namespaces"))
        self.assertIn(evil, browser.run(TEXT % "cluster"))
        self.assertIn(evil, browser.run(TEXT % "nodes"))
        self.assertEqual(browser.run("document.querySelectorAll('img, main script').length"), 0)
        self.assertIsNone(browser.run("window.hit"))
        # Nor would it run: the page's own policy forbids it.
        browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit=1\">')")
        browser.run("new Promise((done) => setTimeout(done, 300))")
        self.assertIsNone(browser.run("window.hit"))

    def test_it_says_when_the_daemon_does_not_answer_any_more(self):
        self.cluster.start(1)
        browser = self.browser(800, 800)
        browser.open(self.urls()[0])
        browser.wait_for(TEXT % "health" + " === '1 of 1 nodes up'")
        self.cluster.kill()
        browser.wait_for(TEXT % "health" + ".startsWith('no answer for')")
        self.assertEqual(browser.run("document.getElementById('health').className"), "pill bad")

    def test_a_lost_node_is_shown(self):
        self.cluster.start(2)
        browser = self.browser(800, 800)
        browser.open(self.urls()[0])
        browser.wait_for(TEXT % "health" + " === '2 of 2 nodes up'")
        os.kill(self.pid_of(1), 9)
        browser.wait_for(TEXT % "health" + " === '1 of 2 nodes up'")
        browser.wait_for("['down', 'silent'].includes(document.querySelectorAll('#nodes .state')[1].textContent)")
        self.assertTrue(browser.run("document.querySelectorAll('#nodes .state')[1].title"))

    def test_a_narrow_window_can_show_it(self):
        self.cluster.start(1)
        browser = self.browser(420, 900)
        browser.open(self.urls()[0])
        browser.wait_for("document.querySelectorAll('#nodes tbody tr').length === 1")
        self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 420)
        self.take(browser, "narrow.png")


if __name__ == "__main__":
    metrics_support.main()
