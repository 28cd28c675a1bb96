#!/usr/bin/python3 -B
"""What kvctl and the daemons show of what is done: status, top, slowlog, hotkeys, and the summary of a stop.

  kvctl_seeing_test.py BUILD_FOLDER [unittest's arguments]
"""

import glob
import json
import os
import pty
import signal
import stat
import subprocess
import threading

import metrics_support
from metrics_support import wait_for


class KvctlSeeingTest(metrics_support.SeeingTest):
    def result(self, *arguments):
        return json.loads(self.good(*arguments, "--json"))["result"]

    def bench(self, *more):
        """Puts by the fast path, which the owner sees whatever clients read by themselves."""
        self.good("bench", "--keys", "1000", "--reads", "0", "--duration", "300ms", "--no-fill", "--keep", *more)

    # ---- status

    def test_status_shows_namespaces_and_where_the_page_is(self):
        self.cluster.start(2)
        self.bench()
        status = self.result("status")
        [bench] = [space for space in status["namespaces"] if space["name"] == "bench"]
        self.assertEqual(bench["kind"], "hash")
        self.assertGreaterEqual(bench["changes"], bench["records"])
        self.assertGreater(bench["p99_ns"], 0)
        self.assertEqual(bench["memory_bytes"], bench["live_bytes"])
        self.assertEqual(bench["device_bytes"], 0)
        text = self.good("status").decode()
        for node in status["nodes"]:
            self.assertIn(f"metrics and status page of node {node['node_id']}: {node['metrics_url']} on {node['host']} "
                          f"(from elsewhere: {node['metrics_tunnel']}, ", text)
            self.assertEqual(sum(core["credit_operations_held"] for core in node["core_list"]), 0)
        self.assertLess(len(text.splitlines()), 24)

    # ---- top

    def test_top_shows_rates_of_what_is_done_meanwhile(self):
        self.cluster.start(2)
        self.bench()
        stop = threading.Event()

        def work():
            while not stop.is_set():
                self.bench("--batch", "10")

        worker = threading.Thread(target=work)
        worker.start()
        try:
            looks = self.result("top", "--interval", "500ms", "--count", "8")["looks"]
            text = self.good("top", "--interval", "300ms", "--count", "2").decode()
        finally:
            stop.set()
            worker.join()
        self.assertEqual(len(looks), 8)
        busiest = max(looks, key=lambda look: look["changes_per_second"])
        self.assertGreater(busiest["changes_per_second"], 0)
        self.assertGreater(busiest["p99_ns"], 0)
        self.assertGreaterEqual(busiest["p99_ns"], busiest["p50_ns"])
        self.assertEqual(len(busiest["nodes"]), 2)
        [bench] = [space for space in busiest["namespaces"] if space["name"] == "bench"]
        self.assertAlmostEqual(bench["changes_per_second"], busiest["changes_per_second"], delta=1e-6 * bench["changes_per_second"])
        self.assertEqual(text.count("NAMESPACE"), 2)
        self.assertNotIn("\x1b", text)

    def test_top_of_nothing_shows_zeros(self):
        self.cluster.start(1)
        [look] = self.result("top", "--interval", "100ms", "--count", "1")["looks"]
        self.assertEqual((look["reads_per_second"], look["hit_rate"], look["p99_ns"]), (0, None, None))
        self.bad(2, "top", "--interval", "1ms", says="--interval")
        self.bad(2, "top", "--count", "0", says="--count")

    def test_top_draws_over_itself_on_a_terminal(self):
        self.cluster.start(1)
        leader, follower = pty.openpty()
        try:
            with subprocess.Popen([self.cluster.kvctl_path, "top", "--interval", "100ms", "--count", "3"], stdout=follower,
                                  env=self.cluster.environment, cwd=self.cluster.folder) as top:
                shown = b""
                os.close(follower)
                while True:
                    try:
                        part = os.read(leader, 65536)
                    except OSError:  # The last one on the other side has gone.
                        break
                    if not part:
                        break
                    shown += part
                self.assertEqual(top.wait(timeout=60), 0)
        finally:
            os.close(leader)
        self.assertEqual(shown.count(b"\x1b[2J"), 1)
        self.assertEqual(shown.count(b"\x1b[H"), 3)
        self.assertEqual(shown.count(b"\x1b[J"), 3)

    # ---- slowlog

    def test_slowlog_tells_what_took_longer_than_allowed(self):
        self.cluster.start(2, more=("--slowlog-us", "1"))
        self.bench("--batch", "64")
        log = self.result("slowlog", "--limit", "1000")
        self.assertEqual(log["threshold_us"], 1)
        self.assertGreater(log["total"], 0)
        self.assertEqual({entry["node_id"] for entry in log["entries"]}, {0, 1})
        entry = next(entry for entry in log["entries"] if entry["namespace"] == "bench")
        self.assertEqual((entry["operation"], entry["reason"]), ("put", "work"))
        self.assertGreater(entry["duration_ns"], 1000)
        self.assertGreaterEqual(entry["operations"], 1)
        self.assertGreater(entry["key_bytes"], 0)
        times = [entry["at_ms"] for entry in log["entries"]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(len(self.result("slowlog", "--limit", "3")["entries"]), 3)
        self.assertIn("took longer than 1 us", self.good("slowlog", "--clear").decode().replace("1.00", "1"))
        self.assertEqual(self.result("slowlog")["total"], 0)

    def test_slowlog_tells_what_waited_for_a_commit(self):
        self.cluster.start(1, more=("--slowlog-us", "1", "--nvm-dir", self.folder(), "--nvm-size", "256MiB"))
        self.good("namespace", "create", "ledger", "--durability", "sync")
        self.good("bench", "ledger", "--keys", "100", "--reads", "0", "--duration", "200ms", "--no-fill")
        reasons = {entry["reason"] for entry in self.result("slowlog", "--limit", "1000")["entries"]
                   if entry["namespace"] == "ledger"}
        self.assertIn("commit", reasons)

    def test_slowlog_can_be_left_out(self):
        self.cluster.start(1, more=("--slowlog-us", "0"))
        self.bench()
        self.assertEqual(self.result("slowlog")["entries"], [])
        self.assertIn("--slowlog-us is 0", self.good("slowlog").decode())

    # ---- hotkeys

    def test_hotkeys_names_the_key_that_is_asked_for_most(self):
        self.cluster.start(2)
        self.good("bench", "--keys", "1000", "--reads", "0", "--duration", "1s", "--zipf", "1.5", "--batch", "16", "--no-fill",
                  "--keep")
        found = wait_for(lambda: self.result("hotkeys")["keys"] or self.bench("--zipf", "1.5", "--batch", "16"))
        self.assertGreater(found[0]["share_of_node"], 0.1)
        self.assertEqual(found[0]["namespace"], "bench")
        shares = [key["samples"] - key["error"] for key in found]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertEqual(found[0]["changes"], found[0]["samples"] - found[0]["error"])
        self.assertIn(found[0]["key"], self.good("hotkeys", "--limit", "1").decode())
        self.assertEqual(len(self.result("hotkeys", "--limit", "1")["keys"]), 1)

    def test_hotkeys_of_nothing_says_so(self):
        self.cluster.start(1)
        self.assertIn("no key stands out", self.good("hotkeys").decode())

    def test_a_node_that_does_not_answer_is_named(self):
        self.cluster.start(2)
        wait_for(lambda: self.status()["nodes"][1]["state"] == "up")
        pid = self.pid_of(1)
        os.kill(pid, signal.SIGSTOP)
        try:
            result = self.kvctl("hotkeys", "--timeout", "2s")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn(result.code, (0, 6), result)  # 0: its lease had run out, so it was not asked.
        if result.code == 6:
            self.assertIn("node 1", result.err.decode())

    # ---- summary

    def stop(self, *more):
        self.good("stop", "--discard", *more)
        wait_for(lambda: not any(metrics_support.kvctl_support.alive(pid) for pid in self.cluster.pids))
        self.cluster.pids = []

    def test_a_stop_leaves_a_summary_in_the_data_folder(self):
        folder = self.folder()
        self.cluster.start(1, more=("--nvm-dir", folder, "--nvm-size", "256MiB"))
        self.bench()
        records = self.result("count", "bench")["records"]
        self.stop()
        [path] = glob.glob(os.path.join(folder, "**", "summary.json"), recursive=True)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(summary["records"], records)
        self.assertGreaterEqual(summary["changes"], records)
        self.assertGreaterEqual(summary["stopped_at_ms"], summary["started_at_ms"])
        [bench] = [space for space in summary["namespaces"] if space["name"] == "bench"]
        self.assertGreater(bench["frames"]["p99_ns"], 0)
        self.assertNotIn("buckets", bench["frames"])

    def test_the_summary_goes_where_it_is_wanted(self):
        path = os.path.join(self.folder(), "of this run.json")
        self.cluster.start(1, more=("--summary-file", path))
        self.good("put", "default", "k", "v")
        self.stop()
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["records"], 1)

    def test_a_summary_that_cannot_be_written_stops_nobody(self):
        self.cluster.start(1, more=("--summary-file", "/proc/no/such/folder.json"))
        self.stop()


if __name__ == "__main__":
    metrics_support.main()
