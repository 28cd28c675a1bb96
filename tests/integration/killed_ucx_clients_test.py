#!/usr/bin/python3
"""Clients that speak UCX on a daemon's own machine are killed at any moment, where the kernel has few ports to choose
from: no daemon ends.

  killed_ucx_clients_test.py BUILD_FOLDER [--kills N] [--here] [unittest arguments]

A daemon connects to each client. If the client has ended, the kernel may give that connection the client's port for its
own (proto/transport/self_connection.h). Runs in a network namespace of its own; ends with 77 where that is not permitted.
With --here it runs in the present one, with the ports that the kernel has there.
"""

import os
import random
import subprocess
import sys
import time

import kvctl_support

KILLS_AT_ONCE = 4
CONNECTED_SECONDS = 0.25  # A client has connected by then, on an idle machine.
# The smallest range of which data paths take one half, and one that is not halved.
RANGES = ("40000 44003", "40000 41999")
OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "-"]
INSIDE = "--inside"
HERE = "--here"
PORTS_FILE = "/proc/sys/net/ipv4/ip_local_port_range"


class KilledClients(kvctl_support.KvctlTest):
    nodes = 0
    kills = 300
    sets_ports = True

    def client(self):
        command = [self.cluster.kvctl_path, "bench", "storm", "--transport", "ucx", "--no-fill", "--keep", "--keys", "1000",
                   "--reads", "50", "--value-bytes", "20KB", "--duration", "10m"]
        return subprocess.Popen(command, env=self.cluster.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def storm(self, ports, kills):
        if self.sets_ports:
            with open(PORTS_FILE, "w", encoding="ascii") as file:
                file.write(ports)
        self.cluster.start(2, more=["--cores", "4"])  # A client connects with each core.
        self.good("namespace", "create", "storm")
        seed = random.randrange(1 << 30)
        draw = random.Random(seed)
        clients = []
        for kill in range(kills):
            while len(clients) < KILLS_AT_ONCE:
                clients.append((time.monotonic() + draw.uniform(0, CONNECTED_SECONDS), self.client()))
            clients.sort(key=lambda each: each[0])
            due, client = clients.pop(0)
            time.sleep(max(0, due - time.monotonic()))
            client.kill()
            client.wait()
            if kill % 50 == 49 or kill == kills - 1:
                ended = [pid for pid in self.cluster.pids if not kvctl_support.alive(pid)]
                self.assertEqual(ended, [], f"after {kill + 1} kills, seed {seed}, ports {ports}: {self.cluster.log_folder}")
        for _, client in clients:
            client.kill()
            client.wait()
        self.good("put", "storm", "after", "all")
        self.assertEqual(self.good("get", "storm", "after"), b"all")
        with open(PORTS_FILE, encoding="ascii") as file:
            print(f"{kills} clients killed, ports {file.read().split()}", flush=True)

    def test_no_daemon_ends_where_data_paths_have_half_of_the_ports(self):
        self.storm(RANGES[0], self.kills - self.kills // 2)

    def test_no_daemon_ends_where_the_ports_are_too_few_for_halves(self):
        self.storm(RANGES[1], self.kills // 2)


def main():
    KilledClients.sets_ports = HERE not in sys.argv
    if not KilledClients.sets_ports:
        sys.argv.remove(HERE)
    elif INSIDE not in sys.argv:
        if subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False).returncode != 0:
            print("unshare of a network is not permitted here")
            sys.exit(77)
        os.execvp(OWN_NETWORK[0], [*OWN_NETWORK, sys.executable, "-B", *sys.argv, INSIDE])
    else:
        sys.argv.remove(INSIDE)
    if "--kills" in sys.argv:
        at = sys.argv.index("--kills")
        KilledClients.kills = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    kvctl_support.main()


if __name__ == "__main__":
    main()
