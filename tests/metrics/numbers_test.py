#!/usr/bin/python3 -B
"""Numbers that can be trusted: kvctl status, the page's JSON and the metrics count each operation of a program once,
however it was made, and nothing that tools do.

  numbers_test.py BUILD_FOLDER [unittest's arguments]
"""

import contextlib
import json
import os
import signal
import subprocess

import metrics_support
from metrics_support import get, samples, wait_for

PATIENCE_SECONDS = 120


class Counted:
    """Counts of all nodes together, at one look."""

    def __init__(self, operations, by_name, direct_reads):
        self.operations = operations      # Of all cores.
        self.by_name = by_name            # {(namespace, operation): count}
        self.direct_reads = direct_reads  # {namespace: count}

    def since(self, before):
        names = {name: count - before.by_name.get(name, 0) for name, count in self.by_name.items()}
        direct = {name: count - before.direct_reads.get(name, 0) for name, count in self.direct_reads.items()}
        return Counted(self.operations - before.operations, {name: count for name, count in names.items() if count},
                       {name: count for name, count in direct.items() if count})

    def __repr__(self):
        return f"{self.operations} operations, {self.by_name}, direct {self.direct_reads}"

    def __eq__(self, other):
        return repr(self) == repr(other)


class NumbersTest(metrics_support.SeeingTest):
    nodes = 0

    def start(self, nodes=2):
        self.cluster.start(nodes, more=("--cores", "2"))
        for name in ("numbers", "other"):
            self.good("namespace", "create", name)

    def by_page(self):
        """Returns counts from a page, which asks all nodes. Its data may be a quarter of a second old."""
        status = json.loads(get(self.urls()[0], "status.json").body)
        operations, by_name, direct = 0, {}, {}
        for node in status["nodes"]:
            operations += sum(core["operations"] for core in node["status"]["cores"])
            for space in node["status"]["namespaces"]:
                direct[space["name"]] = direct.get(space["name"], 0) + space.get("direct_reads", 0)
                for each in space.get("operations", ()):
                    name = space["name"], each["operation"]
                    by_name[name] = by_name.get(name, 0) + each["count"]
        return Counted(operations, by_name, direct)

    def by_metrics(self):
        operations, by_name, direct = 0, {}, {}
        for url in self.urls():
            for series, value in samples(get(url, "metrics").text()).items():
                name, _, rest = series.partition("{")
                labels = dict(label.split("=", 1) for label in rest.rstrip("}").replace('"', "").split(",") if label)
                if name == "tidepool_core_operations_total":
                    operations += int(value)
                elif name == "tidepool_operations_total":
                    key = labels["namespace"], labels["operation"]
                    by_name[key] = by_name.get(key, 0) + int(value)
                elif name == "tidepool_direct_reads_total":
                    direct[labels["namespace"]] = direct.get(labels["namespace"], 0) + int(value)
        return Counted(operations, by_name, direct)

    def by_status(self):
        status = self.status()
        return sum(node["operations"] for node in status["nodes"]), {
            space["name"]: (space["reads"], space["changes"], space["direct_reads"]) for space in status["namespaces"]}

    def settled(self, look):
        """Returns what `look` returns four times in a row: an answer may be a quarter of a second old."""
        seen = []

        def same():
            seen.append(look())
            return len(seen) > 3 and all(each == seen[-1] for each in seen[-4:])

        wait_for(same)
        return seen[-1]

    @contextlib.contextmanager
    def program(self, space, mode, puts, gets):
        """A client that has done its work, and is there until the end of the block."""
        command = [os.path.join(self.build, "bin/numbers_client"), self.cluster.file, space, mode, str(puts), str(gets)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=self.cluster.environment) as process:
            try:
                said = process.stdout.readline()
                self.assertTrue(said, mode)
                yield json.loads(said), process
            finally:
                process.stdin.close()
                if process.wait(timeout=PATIENCE_SECONDS) not in (0, -signal.SIGKILL):
                    self.fail(f"{mode}: exit code {process.returncode}")

    def check(self, mode, puts, gets, space="numbers", names=("put", "get"), least_direct=0):
        before, reads_before = self.settled(self.by_metrics), self.by_status()
        page_before = self.settled(self.by_page)
        with self.program(space, mode, puts, gets) as (said, _):
            self.assertGreaterEqual(said["direct_reads"], least_direct, mode)
            if least_direct == 0:
                self.assertEqual(said["direct_reads"], 0, mode)
            # The client is still there, and says nothing more.
            now = self.by_status()
            self.assertEqual(now[0] - reads_before[0], puts + gets, mode)
            changes = now[1][space][1] - reads_before[1][space][1]
            direct = now[1][space][2] - reads_before[1][space][2]
            self.assertEqual((changes, direct), (puts, said["direct_reads"]), mode)
            if names[1] == "get":
                self.assertEqual(now[1][space][0] - reads_before[1][space][0], gets, mode)
            for was, look in ((before, self.by_metrics), (page_before, self.by_page)):
                more = self.settled(look).since(was)
                self.assertEqual(more.operations, puts + gets, (mode, more))
                self.assertEqual(more.by_name, {(space, names[0]): puts, (space, names[1]): gets}, mode)
                self.assertEqual(more.direct_reads, {space: said["direct_reads"]} if least_direct else {}, mode)
        # Nor does its end change anything.
        self.assertEqual(self.by_status()[0] - reads_before[0], puts + gets, mode)

    def test_each_operation_counts_once_by_each_way(self):
        self.start()
        self.check("ring", 300, 700)
        self.check("batch", 500, 1500)
        self.check("ucx", 200, 300)
        self.check("large", 5, 20)
        self.check("direct", 200, 50_000, least_direct=40_000)
        self.check("threads", 100, 40_000, least_direct=20_000)
        self.good("namespace", "create", "seen", "--kind", "bloom", "--expected-items", "10000")
        self.check("filter", 200, 20_000, "seen", ("bloom-insert", "bloom-contains"), least_direct=10_000)

    def test_operations_by_grpc_count_once(self):
        self.start()
        before = self.settled(self.by_metrics)
        self.good("load", "numbers", "-", "--format", "tsv", stdin=b"".join(b"k%d\tv\n" % i for i in range(1000)))
        for i in range(7):
            self.good("get", "numbers", f"k{i}")
        large = os.urandom(5_000_000)
        self.good("put", "numbers", "large", "-", stdin=large)
        self.good("put", "numbers", "large2", "-", "--if-absent", stdin=large)
        self.good("get", "numbers", "large")
        more = self.settled(self.by_metrics).since(before)
        self.assertEqual(more.by_name, {("numbers", "put"): 1002, ("numbers", "get"): 8})
        self.assertEqual(more.operations, 1010)

    def test_a_killed_client_loses_nothing_that_was_read_by_itself(self):
        self.start(1)
        before = self.by_status()
        with self.program("numbers", "direct", 100, 30_000) as (said, process):
            self.assertGreater(said["direct_reads"], 20_000)
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertEqual(self.by_status()[0] - before[0], 30_100)

    def test_tools_count_for_nothing(self):
        self.start()
        with self.program("numbers", "direct", 100, 5_000):
            before = (self.by_status(), self.settled(self.by_metrics), self.settled(self.by_page))
            self.assertEqual(before[0][0], 5_100)
            for _ in range(30):
                self.good("status")
                self.status()
                self.by_metrics()
                self.by_page()
            self.good("top", "--interval", "100ms", "--count", "10")
            for _ in range(3):
                self.good("ping", "--count", "20")
                self.kvctl("doctor")
                self.good("namespace", "list")
                self.good("namespace", "describe", "numbers")
                self.good("hotkeys")
                self.good("slowlog")
            watch = self.kvctl("watch", "numbers", "nothing", "--timeout", "1s")
            self.assertIn(watch.code, (4, 8), watch)  # On a busy machine the answer that nothing came is late.
            after = (self.by_status(), self.settled(self.by_metrics), self.settled(self.by_page))
        self.assertEqual(before, after)

    def test_bench_and_the_daemons_agree(self):
        self.start()
        for reads, more in (("100", ()), ("95", ()), ("50", ("--batch", "16")), ("90", ("--clients", "3")),
                            ("95", ("--transport", "ucx"))):
            before = (self.by_status(), self.settled(self.by_metrics), self.settled(self.by_page))
            done = json.loads(self.good("bench", "numbers", "--keys", "1000", "--reads", reads, "--duration", "1s", *more,
                                        "--json"))["result"]
            said = done["operations"] + 1000  # Each key was put before.
            status, metrics, page = self.by_status(), self.settled(self.by_metrics), self.settled(self.by_page)
            for counted in (status[0] - before[0][0], metrics.since(before[1]).operations, page.since(before[2]).operations,
                            sum(metrics.since(before[1]).by_name.values())):
                self.assertAlmostEqual(counted / said, 1, delta=0.001, msg=(reads, more, counted, said))

    def test_top_agrees_with_bench_while_it_runs(self):
        self.start()
        top = [self.cluster.kvctl_path, "top", "--interval", "1s", "--count", "4", "--json"]
        with subprocess.Popen([self.cluster.kvctl_path, "bench", "numbers", "--keys", "1000", "--reads", "100", "--duration",
                               "8s", "--json"], stdout=subprocess.PIPE, env=self.cluster.environment) as bench:
            wait_for(lambda: self.by_status()[1]["numbers"][2] > 0)
            looks = json.loads(subprocess.run(top, env=self.cluster.environment, check=True, capture_output=True,
                                              timeout=PATIENCE_SECONDS).stdout)["result"]["looks"]
            said = json.loads(bench.communicate(timeout=PATIENCE_SECONDS)[0])["result"]["operations_per_s"]
        rates = [look["operations_per_second"] for look in looks]
        # The rate of a busy machine varies from second to second.
        self.assertTrue(any(0.5 < rate / said < 2 for rate in rates), (rates, said))
        for look in looks:
            self.assertAlmostEqual(look["operations_per_second"],
                                   look["reads_per_second"] + look["changes_per_second"],
                                   delta=0.05 * look["operations_per_second"] + 1)


main = metrics_support.main

if __name__ == "__main__":
    main()
