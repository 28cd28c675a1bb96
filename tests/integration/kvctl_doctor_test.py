#!/usr/bin/python3
"""kvctl doctor: what it finds without a cluster, in a healthy one, and in ones that are not.

  kvctl_doctor_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import shutil
import signal

import kvctl_support

LEVELS = ["problem", "warning", "note", "ok"]


class DoctorTest(kvctl_support.KvctlTest):
    def doctor(self, *arguments, code=0, **more):
        """Its findings, whose form is checked by the way."""
        result = self.kvctl("doctor", "--json", *arguments, **more)
        self.assertEqual(result.code, code, result)
        envelope = result.json()
        findings = envelope["result"]["findings"]
        for finding in findings:
            self.assertEqual(list(finding), ["level", "topic", "where", "what", "remedy"])
            self.assertIn(finding["level"], LEVELS)
            if finding["level"] in ("warning", "problem"):
                self.assertTrue(finding["remedy"], finding)
        order = [LEVELS.index(finding["level"]) for finding in findings]
        self.assertEqual(order, sorted(order), "the worst stand first")
        self.assertEqual(code == 1, LEVELS[order[0]] == "problem")
        self.assertEqual(envelope["result"]["counts"]["problem"], order.count(0))
        return findings

    def found(self, findings, level, topic, says, where=""):
        fits = [f for f in findings if f["level"] == level and f["topic"] == topic and says in f["what"] and
                where in f["where"]]
        self.assertTrue(fits, (level, topic, says, where, findings))
        return fits[0]

    def missing(self, findings, topic, says):
        self.assertFalse([f for f in findings if f["topic"] == topic and says in f["what"]], findings)


class WithoutACluster(DoctorTest):
    nodes = 0

    def test_only_this_machine_is_looked_at(self):
        findings = self.doctor()
        self.found(findings, "note", "file", "no cluster")
        self.found(findings, "ok", "network", "UCX")
        self.found(findings, "ok", "versions", "kvctl")
        self.assertEqual({f["topic"] for f in findings}, {"limits", "memory", "cpus", "network", "file", "versions"})
        self.assertEqual([f for f in findings if f["where"].startswith("node")], [])

    def test_a_named_file_that_is_not_there_is_a_problem(self):
        findings = self.doctor("--cluster", "none.json", code=1)
        self.found(findings, "problem", "file", "none.json")

    def test_the_text_has_each_finding_with_its_remedy_and_ends_with_the_counts(self):
        text = self.good("doctor").decode()
        self.assertIn("note     file, here: no cluster", " ".join(text.split("\n")))
        self.assertIn("-> ", text)
        self.assertRegex(text.splitlines()[-1], r"^0 problems, \d+ warnings?, \d+ notes?, \d+ ok$")

    def test_few_open_files_are_a_warning(self):
        findings = self.doctor(within=["bash", "-c", 'ulimit -n 512; exec "$@"', "-"])
        finding = self.found(findings, "warning", "limits", "512 open files", "here")
        self.assertIn("ulimit", finding["remedy"])

    def test_rdma_that_is_required_and_not_there_is_a_problem(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("this machine has RDMA")
        result = self.kvctl("doctor", "--require", "rdma")
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"no RDMA", result.err)
        self.assertEqual(len(result.err.splitlines()), 1, result)
        self.found(self.doctor("--require", "rdma", code=1), "problem", "network", "no RDMA", "here")

    def test_something_else_cannot_be_required(self):
        self.bad(2, "doctor", "--require", "luck", says="rdma")

    def test_a_directory_is_measured_and_left_empty(self):
        folder = os.path.join(self.cluster.folder, "nvm")
        os.mkdir(folder)
        findings = self.doctor("--nvm-dir", folder)
        self.found(findings, "ok", "nvm", "/s; 4 KiB made durable in", folder)
        self.assertEqual(os.listdir(folder), [])

    def test_memory_is_no_directory_for_nvm(self):
        folder = f"/dev/shm/kvctl-doctor-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError:
            self.skipTest("no /dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        self.found(self.doctor("--nvm-dir", folder), "warning", "nvm", "is memory", folder)

    def test_a_directory_that_is_not_there_is_a_problem(self):
        self.found(self.doctor("--nvm-dir", "/no/such", code=1), "problem", "nvm", "/no/such")


class Healthy(DoctorTest):
    nodes = 2

    def test_each_node_is_well(self):
        findings = self.doctor()
        for node in ("node 0", "node 1"):
            for topic in ("limits", "memory", "cpus", "network", "clock", "versions", "ports"):
                self.assertTrue([f for f in findings if f["topic"] == topic and f["where"].startswith(node)], (node, topic))
            self.found(findings, "ok", "network", "reached by shared memory", node)
            self.found(findings, "ok", "network", "read without a message", node)
            self.found(findings, "ok", "clock", "that of this machine", node)
            ports = self.found(findings, "ok", "ports", "UCX listens, without authentication", node)
            self.assertIn("on loopback only", ports["what"])
            self.assertIn("127.0.0.1:", ports["what"])
            status = next(each for each in self.kvctl("status", "--json").json()["result"]["nodes"]
                          if f"node {each['node_id']}" == node)
            page = status["metrics_url"].split("/")[2]
            self.found(findings, "ok", "ports", "metrics and status page at " + page, node)
            self.found(findings, "ok", "ports", "gRPC services, which ask for the job token, at " +
                       status["control_address"], node)
            for address in (page, status["control_address"]):
                self.assertNotIn(address, ports["what"])
        self.found(findings, "ok", "file", "mode 0600")
        self.found(findings, "ok", "file", "the job token")
        self.assertEqual([f for f in findings if f["level"] == "problem"], [])


    def test_what_several_nodes_have_in_common_is_one_line(self):
        text = " ".join(self.good("doctor").decode().split())
        self.assertRegex(text, r"network, nodes 0, 1 \(\S+\): is reached by shared memory")
        self.assertEqual(text.count("is reached by shared memory"), 1)


class Slow(DoctorTest):
    nodes = 0

    def test_ucx_where_shared_memory_would_do_is_a_warning(self):
        self.cluster.start(1, more=["--transport", "ucx"])
        finding = self.found(self.doctor(), "warning", "network", "not by shared memory", "node 0")
        self.assertIn("--transport", finding["remedy"])


class Broken(DoctorTest):
    nodes = 0

    def setUp(self):
        self.cluster.start(2)
        with open(self.cluster.file, encoding="utf-8") as file:
            self.content = json.load(file)
        self.token = os.path.join(os.path.dirname(self.cluster.file), self.content["token_file"])

    def test_a_file_whose_daemons_have_died_is_stale(self):
        self.cluster.kill()
        finding = self.found(self.doctor(code=1), "problem", "file", "is stale")
        self.assertIn("kvctl start", finding["remedy"])

    def test_a_token_that_others_can_read_is_a_problem(self):
        os.chmod(self.token, 0o644)
        self.found(self.doctor(code=1), "problem", "file", "open to others (mode 0644)", self.token)

    def test_a_folder_that_others_can_write_to_is_a_warning(self):
        folder = os.path.join(self.cluster.folder, "open")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        copy = os.path.join(folder, "c.json")
        shutil.copy(self.cluster.file, copy)
        shutil.copy(self.token, folder)
        self.found(self.doctor("--cluster", copy), "warning", "file", "others may write to this folder", folder)

    def test_a_dead_node_is_a_problem_and_the_other_is_looked_at(self):
        status = json.loads(self.good("status", "--json"))["result"]
        dead = next(node for node in status["nodes"] if node["node_id"] == 1)
        os.kill(dead["pid"], signal.SIGKILL)
        kvctl_support.wait_until(lambda: not kvctl_support.alive(dead["pid"]))
        findings = self.doctor("--timeout", "5s", code=1)
        self.found(findings, "problem", "network", "does not answer", "node 1")
        self.found(findings, "ok", "network", "reached by shared memory", "node 0")

    def test_a_foreign_token_is_a_problem(self):
        with open(self.token, "r+", encoding="utf-8") as file:
            file.write("0" * 64)
        self.found(self.doctor(code=1), "problem", "network", "cannot be asked")


if __name__ == "__main__":
    kvctl_support.main()
