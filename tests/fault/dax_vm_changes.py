"""The namespaces of dax_vm: who changes them by gRPC, until the machine loses power, and who reads them back."""

import glob
import os
import random
import shutil
import sys

import grpc

from dax_vm_machine import PATH, ROOT, Failure, run
from dax_vm_model import Items, Records, content

CALL_SECONDS = 60  # Of a call that hangs.
KEYS, LARGE_KEYS, ITEMS_MAX = 3000, 4, 400


def make_stubs(folder):
    run("protoc", "-I" + os.path.join(ROOT, "proto"), "--python_out=" + folder, "--grpc_out=" + folder,
        "--plugin=protoc-gen-grpc=" + shutil.which("grpc_python_plugin", path=PATH),
        *glob.glob(os.path.join(ROOT, "proto/tidepool/v1/*.proto")))
    sys.path.insert(0, folder)


class Daemon:
    """The services of the daemon in a machine, which has read back and serves."""

    def __init__(self, machine):
        from tidepool.v1 import (bulk_pb2, bulk_pb2_grpc, cluster_pb2, cluster_pb2_grpc, common_pb2, data_pb2,
                                 data_pb2_grpc, namespaces_pb2, namespaces_pb2_grpc)
        call = {"metadata": [("authorization", "Bearer " + machine.wait_for("token"))], "timeout": CALL_SECONDS}
        self.call = lambda method, request: method(request, **call)
        self.channel = grpc.insecure_channel(machine.address, options=[
            ("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 64 << 20)])
        self.data, self.data_pb = data_pb2_grpc.DataStub(self.channel), data_pb2
        self.bulk, self.bulk_pb = bulk_pb2_grpc.BulkStub(self.channel), bulk_pb2
        self.namespaces, self.namespaces_pb = namespaces_pb2_grpc.NamespacesStub(self.channel), namespaces_pb2
        self.cluster, self.cluster_pb = cluster_pb2_grpc.ClusterStub(self.channel), cluster_pb2
        self.common_pb = common_pb2


class Namespace:
    """One namespace: what it may hold, and who changes it, with one call under way at any time."""

    def __init__(self, kind, durability, seed):
        self.kind, self.durability, self.name = kind, durability, f"{kind}-{durability}"
        self.random = random.Random(f"{seed}/{self.name}")
        self.model = Items() if kind == "queue" else Records()
        self.acknowledged = 0  # Operations, in this round: answered, and of async persisted.
        self.problems = []

    def create(self, daemon):
        request = daemon.namespaces_pb.CreateNamespaceRequest(
            name=self.name, kind=getattr(daemon.common_pb, "KIND_" + self.kind.upper()),
            options=daemon.common_pb.NamespaceOptions(durability=self.durability))
        return daemon.call(daemon.namespaces.Create, request).created

    def verify(self, daemon):
        """Compares all that is there; returns how many records or items that was."""
        found = self.items(daemon) if self.kind == "queue" else self.records(daemon)
        self.problems += self.model.check(found)
        losses = daemon.call(daemon.namespaces.Describe,
                             daemon.namespaces_pb.DescribeNamespaceRequest(name=self.name)).namespace.losses
        if any(loss.all or self.durability == "sync" for loss in losses):
            self.problems.append(f"says that it has lost something: {losses}")
        return len(found)

    def records(self, daemon):
        found, order = {}, []
        for page in daemon.call(daemon.bulk.Scan, daemon.bulk_pb.ScanRequest(namespace=self.name)):
            if page.unreadable:
                self.problems.append(f"{page.unreadable} records cannot be read")
            for record in page.records:
                value = record.value
                if record.value_omitted:
                    value = b"".join(part.data for part in daemon.call(daemon.bulk.ReadValue, (
                        daemon.bulk_pb.ReadValueRequest(namespace=self.name, key=record.key))))
                found[record.key] = value
                order.append(record.key)
        if len(order) != len(found) or (self.kind == "ordered" and order != sorted(order)):
            self.problems.append("a scan has keys twice, or not in order")
        return found

    def items(self, daemon):
        pb = daemon.data_pb
        answer = daemon.call(daemon.data.Execute, pb.ExecuteRequest(namespace=self.name, operations=[
            pb.Operation(kind=pb.OPERATION_KIND_PEEK, items_max=2 * ITEMS_MAX)])).results[0]
        if answer.status.code not in (0, 5) or answer.more:
            raise Failure(f"peek: {answer.status}, more: {answer.more}")
        return [item.value for item in answer.items]

    def change(self, daemon):
        """One batch; returns how many operations."""
        pb = daemon.data_pb
        if self.kind == "queue":
            there = len(self.model.states[-1])
            if there > ITEMS_MAX or (there and self.random.random() < 0.3):
                count = self.random.randint(1, (there + 1) // 2)
                self.model.begin(popped=count)
                operations = [pb.Operation(kind=pb.OPERATION_KIND_POP) for _ in range(count)]
            else:
                operations = [pb.Operation(kind=pb.OPERATION_KIND_PUSH, value=item)
                              for item in self.model.begin(pushed=self.random.randint(1, 64))]
        else:
            if self.random.random() < 0.1:
                return self.put_large(daemon)
            sizes = {}
            for key in self.random.sample(range(KEYS), self.random.randint(1, 128)):
                size = 65536 if self.random.random() < 0.02 else self.random.randrange(1000)
                sizes[b"key%05d" % key] = None if self.random.random() < 0.25 else size
            expected = [5 if size is None and not self.model.present(key) else 0 for key, size in sizes.items()]
            self.model.begin(sizes)
            operations = [pb.Operation(kind=pb.OPERATION_KIND_DELETE, key=key) if size is None else
                          pb.Operation(kind=pb.OPERATION_KIND_PUT, key=key,
                                       value=content(key.decode(), self.model.batch, size))
                          for key, size in sizes.items()]
        results = daemon.call(daemon.data.Execute, pb.ExecuteRequest(
            namespace=self.name, operations=operations)).results
        codes = [result.status.code for result in results]
        if codes != ([0] * len(operations) if self.kind == "queue" else expected):
            raise Failure(f"answers {[r.status for r in results if r.status.code not in (0, 5)][:3]}")
        return len(operations)

    def put_large(self, daemon):
        key, size = b"large%d" % self.random.randrange(LARGE_KEYS), self.random.randint(1 << 20, 3 << 20)
        self.model.begin({key: size})
        value = content(key.decode(), self.model.batch, size)
        start = daemon.bulk_pb.WriteValueRequest.Start(namespace=self.name, key=key, total_bytes=len(value))
        parts = [daemon.bulk_pb.WriteValueRequest(start=start)] + [
            daemon.bulk_pb.WriteValueRequest(data=value[at:at + (1 << 20)]) for at in range(0, len(value), 1 << 20)]
        daemon.call(daemon.bulk.WriteValue, iter(parts))
        return 1

    def change_until(self, daemon, killed):
        """Until the machine is killed."""
        answered, self.acknowledged = 0, 0
        try:
            while True:
                answered += self.change(daemon)
                if self.durability == "async":
                    if self.random.random() < 0.8:
                        continue
                    daemon.call(daemon.namespaces.Persist, daemon.namespaces_pb.PersistRequest(name=self.name))
                self.model.durable, self.acknowledged = self.model.batch, answered
        except (Failure, grpc.RpcError) as failure:
            if not killed.is_set():
                self.problems.append(f"batch {self.model.batch} failed: {failure}")
