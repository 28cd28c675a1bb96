"""Calls to the daemons: to one of them after the other, under deadlines, with the job token."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Sequence

import grpc

from . import cluster_file, errors, values
from .cluster_file import ClusterFile, Tls
from .v1 import bulk_pb2_grpc, cluster_pb2, cluster_pb2_grpc, data_pb2, data_pb2_grpc, namespaces_pb2_grpc

MESSAGE_BYTES_MAX = 64 << 20
OPERATIONS_MAX = 1024           # Of one Execute; the daemons take 4,096.
REQUEST_BYTES_MAX = 2 << 20     # Of their values.
UNARY_VALUE_BYTES_MAX = 1 << 20  # Larger ones go in parts.
_PAUSE_S = 0.05
# A daemon bounds the calls of one connection, and gRPC would give all clients of a program the same one.
_OPTIONS = [("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0), ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2000), ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.max_send_message_length", MESSAGE_BYTES_MAX)]


def _is_loopback(address: str) -> bool:
    host = address.rsplit(":", 1)[0].strip("[]")
    return host in ("localhost", "::1") or (host.startswith("127.") and not host.strip("0123456789."))


def _credential(address: str) -> str:
    """For the daemon at `address` alone, and for this user's only."""
    command = ["munge", "--string", "tidepool login at " + address, "--restrict-uid", str(os.geteuid())]
    if os.environ.get("TIDEPOOL_MUNGE_SOCKET"):
        command += ["--socket", os.environ["TIDEPOOL_MUNGE_SOCKET"]]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError) as failure:
        said = (getattr(failure, "stderr", None) or str(failure)).strip()
        raise errors.Unavailable("MUNGE: " + said, "is munged running on this machine, and the package munge there?") from None


class _Node:
    def __init__(self, address: str, tls: Tls | None):
        self.address = address
        if tls is None:
            self.channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            name = [("grpc.ssl_target_name_override", tls.name)] if tls.name else []
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert),
                                               options=_OPTIONS + name)
        self.cluster = cluster_pb2_grpc.ClusterStub(self.channel)
        self.data = data_pb2_grpc.DataStub(self.channel)
        self.bulk = bulk_pb2_grpc.BulkStub(self.channel)
        self.namespaces = namespaces_pb2_grpc.NamespacesStub(self.channel)


class Calls:
    """Thread-safe. Not to be used in a child that was forked after it was made."""

    def __init__(self, cluster: ClusterFile, timeout: float, insecure: bool):
        self.timeout = values.seconds(timeout, "timeout")
        self._cluster = cluster
        self._insecure = insecure
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._closed = False
        self._addresses = self._order(cluster)
        self._metadata = [("authorization", "Bearer " + (cluster.token or self._log_in(timeout)))]

    def _order(self, cluster: ClusterFile) -> list[str]:
        """In which they are asked: this machine's first."""
        for address, _ in cluster.nodes:
            if cluster.tls is None and not self._insecure and not _is_loopback(address):
                raise errors.FailedPrecondition(f"the job token is not sent to {address} over a connection without TLS",
                                                "give insecure=True if the network between the nodes is trusted")
        here = [address for address, host in cluster.nodes if host == socket.gethostname()]
        others = [address for address, host in cluster.nodes if address not in here]
        for addresses in (here, others):
            random.shuffle(addresses)  # Else all programs of a job would ask the same node first.
        return here + others

    def _log_in(self, timeout: float) -> str:
        """The job token of a cluster that was begun with --auth munge."""
        refused: errors.Error = errors.Unavailable("no node of the cluster is known")
        for address in self._addresses:
            node = _Node(address, self._cluster.tls)
            try:
                request = cluster_pb2.LoginRequest(munge_credential=_credential(address))
                return node.cluster.Login(request, timeout=timeout).job_token
            except grpc.RpcError as failure:
                refused, _ = errors.of_rpc(failure, address)
                if not isinstance(refused, (errors.Unavailable, errors.DeadlineExceeded)):
                    raise refused from None
            finally:
                node.channel.close()
        raise refused

    def close(self) -> None:
        with self._lock:
            self._closed = True
            nodes, self._nodes = list(self._nodes.values()), {}
        for node in nodes:
            node.channel.close()

    def _first(self) -> _Node:
        if os.getpid() != self._pid:
            raise errors.FailedPrecondition("this client was made before a fork", "connect in the child", "FAILED_PRECONDITION")
        with self._lock:
            if self._closed:
                raise errors.Error("this client is closed", "", "CANCELLED")
            address = self._addresses[0]
            if address not in self._nodes:
                self._nodes[address] = _Node(address, self._cluster.tls)
            return self._nodes[address]

    def _pass_over(self, node: _Node) -> None:
        """Goes on with the next one; the connection file may know of others by now, or the same at new addresses."""
        try:
            known = self._order(self._cluster.again())
        except errors.Error:
            known = []
        with self._lock:
            if self._addresses[0] == node.address:
                self._addresses.append(self._addresses.pop(0))
            if set(known) - set(self._addresses):
                self._addresses = known

    def __reduce__(self) -> tuple[Callable[..., Calls], tuple[str, float, bool]]:
        """Pickles the connection file's name and the settings, never the job token."""
        return _shared, self.settings()

    def settings(self) -> tuple[str, float, bool]:
        """Connection file, timeout, insecure: the process that has them can connect by itself."""
        return str(self._cluster.path), self.timeout, self._insecure

    def is_usable(self) -> bool:
        """False once it is closed, and in a forked child."""
        return not self._closed and self._pid == os.getpid()

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else values.seconds(timeout, "timeout")

    def call(self, make: Callable[[_Node], Callable[..., Any]], request: Any, changes: bool,
             timeout: float | None = None) -> Any:
        """The answer of the first node that can be reached. What might have been done is not sent again."""
        return self._call(make, lambda: request, changes, timeout)

    def call_with(self, make: Callable[[_Node], Callable[..., Any]], parts: Callable[[], Iterator[Any]],
                  timeout: float | None = None) -> Any:
        """The same for a change that is sent in parts."""
        return self._call(make, parts, True, timeout)

    def _call(self, make: Callable[[_Node], Callable[..., Any]], request: Callable[[], Any], changes: bool,
              timeout: float | None) -> Any:
        end = time.monotonic() + self._seconds(timeout)
        while True:
            node = self._first()
            left = max(end - time.monotonic(), 0.001)
            try:
                return make(node)(request(), timeout=left, metadata=self._metadata)
            except grpc.RpcError as failure:
                error = self._judge(failure, node, changes, end)
                if error is not None:
                    raise error from None

    def _judge(self, failure: grpc.RpcError, node: _Node, changes: bool, end: float) -> errors.Error | None:
        """None: another node may be asked, as nothing has happened."""
        error, is_daemons = errors.of_rpc(failure, node.address)
        if is_daemons:
            return error
        # gRPC says so if it had no connection to send by.
        was_sent = "failed to connect" not in (failure.details() or "")
        if changes and was_sent and isinstance(error, (errors.Unavailable, errors.DeadlineExceeded)):
            return errors.UnknownOutcome(error.what, "look at what is there before you change it again")
        if not isinstance(error, errors.Unavailable) or time.monotonic() + _PAUSE_S > end:
            return error
        self._pass_over(node)
        time.sleep(_PAUSE_S)
        return None

    def stream(self, make: Callable[[_Node], Callable[..., Any]], request: Any, changes: bool,
               timeout: float | None = None) -> Iterator[Any]:
        """The answers, while they come. `timeout` is for all of them; default: none, but the connection is watched."""
        timeout = None if timeout is None else values.seconds(timeout, "timeout")
        node = self._first()
        answers = make(node)(request, timeout=timeout, metadata=self._metadata)
        try:
            yield from answers
        except grpc.RpcError as failure:
            error = self._judge(failure, node, changes, 0) or errors.Unavailable(node.address)
            raise error from None
        finally:
            answers.cancel()

    def execute(self, namespace: str, operations: Sequence[data_pb2.Operation], changes: bool,
                timeout: float | None = None) -> Iterable[data_pb2.OperationResult]:
        """One result per operation, in their order."""
        end = time.monotonic() + self._seconds(timeout)
        begin = 0
        while begin < len(operations):
            bytes_, count = 0, 0
            while begin + count < len(operations) and count < OPERATIONS_MAX and bytes_ < REQUEST_BYTES_MAX:
                bytes_ += len(operations[begin + count].value)
                count += 1
            request = data_pb2.ExecuteRequest(namespace=namespace, operations=operations[begin:begin + count])
            yield from self.call(lambda node: node.data.Execute, request, changes,
                                 max(end - time.monotonic(), 0)).results
            begin += count

    def execute_one(self, namespace: str, operation: data_pb2.Operation, changes: bool,
                    timeout: float | None = None) -> data_pb2.OperationResult:
        """Executes one operation and raises its failure."""
        result, = self.execute(namespace, [operation], changes, timeout)
        if result.status.code:
            raise errors.of_operation(result.status, namespace, operation)
        return result


_SHARED: dict[tuple[str, float, bool], Calls] = {}
_SHARED_LOCK = threading.Lock()
_SHARED_MAX = 16
os.register_at_fork(after_in_child=lambda: globals().update(_SHARED={}, _SHARED_LOCK=threading.Lock()))


def connected(path: str, timeout: float, insecure: bool) -> Calls:
    """Returns calls of their own to the cluster of a connection file."""
    return Calls(cluster_file.find(path), timeout, insecure)


def _shared(path: str, timeout: float, insecure: bool) -> Calls:
    """Returns this process's calls for unpickled handles: a pool's worker unpickles a handle for each task, and a
    connection for each would take its time and a descriptor. The oldest of more than 16 is dropped."""
    key = (path, timeout, insecure)
    with _SHARED_LOCK:
        calls = _SHARED.get(key)
        if calls is None or not calls.is_usable():
            calls = _SHARED[key] = connected(*key)
        while len(_SHARED) > _SHARED_MAX:
            del _SHARED[next(iter(_SHARED))]
        return calls
