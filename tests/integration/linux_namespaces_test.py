#!/usr/bin/python3
"""Programs in other PID, IPC and user namespaces than their daemon, as in another container of its machine: they speak to it
by shared memory where they reach its socket, else by UCX. tests/container/run shows it with real containers.

  linux_namespaces_test.py BUILD_FOLDER [unittest arguments]
"""

import json
import os
import subprocess
import unittest

import kvctl_support

PROCESSES = ["--user", "--map-root-user", "--pid", "--ipc", "--fork", "--mount-proc"]


def permitted(*what):
    return subprocess.run(["unshare", *what, "true"], capture_output=True, check=False).returncode == 0


class OtherNamespaces(kvctl_support.KvctlTest):
    @classmethod
    def setUpClass(cls):
        if not permitted(*PROCESSES):
            raise unittest.SkipTest("unshare is not permitted here: " + " ".join(PROCESSES))
        super().setUpClass()

    def path(self, *arguments, **more):
        nodes = json.loads(self.good("ping", "--json", *arguments, **more))["result"]["nodes"]
        return nodes[0]["data_path"]

    def told(self, **more):
        result = self.kvctl("doctor", "--json", **more)
        return json.loads(result.out)["result"]["findings"]

    def reads_by_itself(self, **more):
        return any(f["what"] == "its memory is read without a message" for f in self.told(**more))

    def test_shared_memory_and_direct_reads_work_from_other_process_ipc_and_user_namespaces(self):
        other = ["unshare", *PROCESSES]
        self.assertEqual(self.path("--transport", "ring", within=other), "ring")
        self.good("put", "default", "from", "elsewhere", within=other)
        self.assertEqual(self.good("get", "default", "from"), b"elsewhere")
        self.assertTrue(self.reads_by_itself(within=other))
        told = [f for f in self.told(within=other) if f["topic"] == "containers"]
        self.assertEqual(len(told), 1, told)
        self.assertIn("PID, IPC, user", told[0]["what"])

    def test_the_user_may_have_another_number(self):
        other = ["unshare", "--user", "--map-user=4711"]
        if not permitted(*other[1:]):
            self.skipTest("this unshare has no --map-user")
        self.assertEqual(self.path("--transport", "ring", within=other), "ring")

    def test_a_program_that_does_not_reach_the_socket_goes_by_ucx_and_is_told(self):
        # Its folder is empty there; the connection file lies elsewhere, as in a container.
        sockets = os.path.join(self.cluster.folder, "tidepool")
        copy = os.path.join(self.cluster.folder, "elsewhere")
        os.makedirs(copy, exist_ok=True)
        subprocess.run(["cp", "-a", sockets + "/.", copy], check=True)
        other = ["unshare", *PROCESSES, "--mount", "sh", "-c", f'mount -t tmpfs none {sockets} && exec "$@"', "-"]
        environment = {"TIDEPOOL_CLUSTER": os.path.join(copy, os.path.basename(self.cluster.file))}
        self.assertTrue(self.path(within=other, environment=environment).startswith("ucx tcp/"))
        self.good("put", "default", "k", "v", within=other, environment=environment)
        told = [f for f in self.told(within=other, environment=environment) if f["topic"] == "containers"]
        self.assertEqual([f["level"] for f in told], ["warning"], told)
        self.assertIn("mount it into both containers", told[0]["remedy"])
        self.assertIn("mount", told[0]["what"])

    def test_a_time_namespace_reads_by_message(self):
        # A clock behind the daemon's would take a lease for one that holds when it has ended.
        other = ["unshare", "--user", "--map-root-user", "--time", "--monotonic", "1000000", "--fork"]
        if not permitted(*other[1:]):
            self.skipTest("no time namespaces here")
        self.assertEqual(self.path(within=other), "ring")
        self.assertFalse(self.reads_by_itself(within=other))
        self.assertTrue(self.reads_by_itself())


class Strangers(kvctl_support.KvctlTest):
    """Who is another user outside stays one, whatever number it has inside."""

    def test_another_user_who_calls_itself_by_the_same_number_is_not_let_in(self):
        if os.getuid() != 0:
            self.skipTest("needs root, to become another user")
        other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "--user", "--map-root-user"]
        if subprocess.run([*other, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("unshare is not permitted to others")
        os.chmod(self.cluster.folder, 0o711)
        result = self.kvctl("ping", within=other)
        self.assertNotEqual(result.code, 0, result)


if __name__ == "__main__":
    kvctl_support.main()
