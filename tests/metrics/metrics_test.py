#!/usr/bin/python3 -B
"""What the daemons count, read by promtool and by a real Prometheus, and the dashboard's queries against that.

  metrics_test.py BUILD_FOLDER [unittest's arguments]
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import urllib.parse

import metrics_support
from metrics_support import get, samples, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GRAFANA = ROOT / "deploy/grafana"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """A server of its own, which scrapes once a second."""

    def __init__(self, folder, scrape):
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}/"
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            # YAML holds JSON.
            json.dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                       "rule_files": [str(GRAFANA / "alerts.yml")], "scrape_configs": scrape}, file)
        self.program = metrics_support.Program(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={urllib.parse.urlsplit(self.url).netloc}"], os.path.join(folder, "prometheus.log"))
        self.end = self.program.end

    def ask(self, query):
        """The result's list; raises if Prometheus does not understand the query."""
        answer = json.loads(get(self.url, "api/v1/query?" + urllib.parse.urlencode({"query": query})).body)
        assert answer["status"] == "success", (query, answer)
        return answer["data"]["result"]

    def ready(self):
        try:
            return get(self.url, "-/ready").code == 200
        except OSError:
            return False

    def log(self):
        with open(os.path.join(self.folder, "prometheus.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]


class MetricsTest(metrics_support.SeeingTest):
    def prometheus(self, scrape):
        server = Prometheus(self.folder(), scrape)
        self.addCleanup(server.end)
        wait_for(server.ready)
        return server

    def scrape(self, url):
        answer = get(url, "metrics")
        self.assertEqual(answer.code, 200, answer.body)
        return samples(answer.text())

    def work(self):
        """Something of each kind, more than memory holds, and read again."""
        self.good("namespace", "create", "kept", "--durability", "async")
        self.good("namespace", "create", "jobs", "--kind", "queue")
        for value in ("a", "b", "c"):
            self.good("push", "jobs", value)
        self.good("pop", "jobs")
        self.good("put", "kept", "greeting", "hello")
        self.bench("--batch", "50")

    def bench(self, *more):
        self.good("bench", "default", "--keys", "25000", "--value-bytes", "4000", "--reads", "90", "--duration", "200ms",
                  *more)

    def start_with_device(self):
        self.cluster.start(1, node_mib=64, more=("--cores", "2", "--nvm-dir", self.folder(), "--nvm-size", "512MiB",
                                                 "--slowlog-us", "1"))

    def test_promtool_finds_nothing_wrong(self):
        self.start_with_device()
        self.work()
        [url] = self.urls()
        text = get(url, "metrics").body
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        for name in ("alerts.yml", "prometheus.yml"):
            what = "rules" if name == "alerts.yml" else "config"
            done = subprocess.run(["promtool", "check", what, GRAFANA / name], capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done)

    def test_what_is_done_is_counted_once(self):
        self.cluster.start(1, more=("--cores", "2"))
        [url] = self.urls()
        name = 'tidepool_operations_total{namespace="default",kind="hash",operation="%s"}'
        # The start has tried the namespace, which does not count.
        before = self.scrape(url)
        self.assertEqual((before.get(name % "get", 0), before['tidepool_core_operations_total{core="0"}']), (0, 0))
        self.good("load", "default", "-", "--format", "tsv", stdin=b"".join(b"k%d\tv\n" % i for i in range(1000)))
        for i in range(7):
            self.good("get", "default", f"k{i}")
        after = wait_for(lambda: (now := self.scrape(url)).get(name % "get", 0) >= before.get(name % "get", 0) + 7 and now)

        def more(series):
            return after[series] - before.get(series, 0)

        self.assertEqual(more(name % "put"), 1000)
        self.assertEqual(more(name % "get"), 7)
        self.assertEqual(after['tidepool_records{namespace="default",kind="hash"}'], 1000)
        self.assertEqual(more('tidepool_reads_total{namespace="default",kind="hash"}'), 7)
        self.assertEqual(more('tidepool_changes_total{namespace="default",kind="hash"}'), 1000)
        self.assertEqual(after['tidepool_resident_bytes{namespace="default",kind="hash",medium="nvm"}'], 0)
        self.assertGreater(after['tidepool_resident_bytes{namespace="default",kind="hash",medium="dram"}'], 1000)
        self.assertEqual(after["tidepool_nodes_expected"], 1)
        self.assertEqual(after['tidepool_core_up{core="1"}'], 1)

    def test_frames_of_the_fast_path_have_a_latency(self):
        self.cluster.start(1)
        [url] = self.urls()
        self.good("bench", "--duration", "200ms", "--keys", "1000", "--batch", "10", "--reads", "0", "--no-fill",
                  "--keep")
        name = 'tidepool_frame_seconds_%s{namespace="bench",kind="hash"%s}'
        found = wait_for(lambda: (now := self.scrape(url)).get(name % ("count", ""), 0) > 0 and now)
        frames = found[name % ("count", "")]
        self.assertEqual(found[name % ("bucket", ',le="+Inf"')], frames)
        self.assertGreater(found[name % ("sum", "")], 0)
        bounds = [value for key, value in found.items()
                  if key.startswith('tidepool_frame_seconds_bucket{namespace="bench"')]
        self.assertGreater(len(bounds), 10)
        self.assertEqual(bounds, sorted(bounds))
        self.assertGreaterEqual(found['tidepool_operations_total{namespace="bench",kind="hash",operation="put"}'], frames)

    def test_a_dropped_namespace_is_gone(self):
        self.cluster.start(1)
        [url] = self.urls()
        self.good("namespace", "create", "short")
        self.good("put", "short", "k", "v")
        wait_for(lambda: 'namespace="short"' in get(url, "metrics").text())
        self.good("namespace", "drop", "short")
        wait_for(lambda: 'namespace="short"' not in get(url, "metrics").text())

    def test_prometheus_scrapes_it_and_the_dashboard_shows_it(self):
        self.start_with_device()
        self.work()
        [url] = self.urls()
        server = self.prometheus([{"job_name": "tidepool", "static_configs": [
            {"targets": [urllib.parse.urlsplit(url).netloc]}]}])
        try:
            wait_for(lambda: server.ask("up == 1"))
            self.check_dashboard(server)
        except AssertionError:
            print(server.log())
            raise
        self.assertEqual(server.ask('ALERTS{alertstate="firing"}'), [])

    def check_dashboard(self, server):
        dashboard = json.loads((GRAFANA / "tidepool.json").read_text(encoding="utf-8"))
        variables = {entry["name"] for entry in dashboard["templating"]["list"]}
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        queries = {}
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                text = target["expr"].replace("$__rate_interval", "10s")
                used = set(re.findall(r"\$(\w+)", text))
                self.assertLessEqual(used, variables, panel["title"])
                queries[panel["title"], target["refId"]] = re.sub(r"\$\w+", ".*", text)
        self.assertGreater(len(queries), 20)
        # Rates and quantiles need two scrapes, with something between them.
        empty = dict(queries)

        def all_have_answered():
            self.bench("--no-fill")
            for name, query in list(empty.items()):
                found = server.ask(query)
                if any(entry["value"][1] != "NaN" for entry in found):
                    del empty[name]
            return not empty

        try:
            wait_for(all_have_answered)
        except AssertionError:
            self.fail(f"no data for {empty}")
        for entry in dashboard["templating"]["list"]:
            if entry["type"] == "query":
                series = re.fullmatch(r"label_values\((.*), \w+\)", entry["query"]["query"]).group(1)
                self.assertTrue(server.ask(re.sub(r"\$\w+", ".*", series)), series)

    def test_prometheus_scrapes_it_by_tls_with_the_token(self):
        self.cluster.start(1, more=("--tls", "--metrics-remote"))
        [url] = self.urls()
        self.assertTrue(url.startswith("https://"), url)
        content = self.connection_file()
        folder = self.folder()
        ca = os.path.join(folder, "ca.pem")
        with open(ca, "w", encoding="utf-8") as file:
            file.write(content["tls"]["ca"])
        one = {"scheme": "https", "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}],
               "tls_config": {"ca_file": ca, "server_name": content["tls"]["name"]}}
        server = self.prometheus([
            {**one, "job_name": "right", "authorization": {"credentials_file": self.token_file()}},
            {**one, "job_name": "without"}])
        wait_for(lambda: server.ask('up{job="right"} == 1'))
        wait_for(lambda: server.ask('up{job="without"} == 0'))
        self.assertEqual(server.ask('tidepool_info{job="without"}'), [])


if __name__ == "__main__":
    metrics_support.main()
