"""The connection of a program to a cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Union

from . import cluster_file, errors, values
from .calls import Calls
from .files import File, list_files
from .filter import Filter
from .map import Map
from .queue import Queue
from .v1 import common_pb2, namespaces_pb2

Namespace = Union[Map, Queue, Filter]
_KINDS = {"hash": common_pb2.KIND_HASH, "ordered": common_pb2.KIND_ORDERED, "queue": common_pb2.KIND_QUEUE,
          "priority": common_pb2.KIND_PRIORITY, "bloom": common_pb2.KIND_BLOOM}
_TRUE = ("true", "1", "yes", "on")
_TRANSPORTS = ("", "native", "grpc")


def connect(cluster: str | os.PathLike[str] | None = None, *, timeout: float = 10.0,
            insecure: bool | None = None) -> Client:
    """Finds the cluster by its connection file: `cluster`, TIDEPOOL_CLUSTER, the Slurm job's, ./tidepool-cluster.json, the
    user's own service. `timeout`: of a call, in seconds. `insecure`: the job token may go over plain connections to
    other machines; None: as TIDEPOOL_INSECURE says.

    Uses the C++ library where the extension loads and a daemon answers, else gRPC; `repr` of the client says which.
    TIDEPOOL_PYTHON_TRANSPORT=native or grpc forces one. Over gRPC it asks no daemon yet. Errors: NotFound,
    PermissionDenied, InvalidArgument, FailedPrecondition; native alone also Unavailable and Unauthenticated."""
    if insecure is None:
        insecure = os.environ.get("TIDEPOOL_INSECURE", "").lower() in _TRUE
    wanted = os.environ.get("TIDEPOOL_PYTHON_TRANSPORT", "")
    if wanted not in _TRANSPORTS:
        raise errors.InvalidArgument(f"TIDEPOOL_PYTHON_TRANSPORT is '{wanted}'", "set it to native or grpc, or unset it")
    file = cluster_file.find(cluster)
    client = None if wanted == "grpc" else _native(str(file.path), timeout, insecure, wanted == "native")
    return client or Client(Calls(file, timeout, insecure))


def _native(path: str, timeout: float, insecure: bool, must: bool) -> Client | None:
    """Returns the client of the C++ library; None: it cannot be had, and gRPC is to say what is wrong if something is."""
    values.seconds(timeout, "timeout")
    try:
        from . import native  # pylint: disable=import-outside-toplevel,cyclic-import
    except ImportError as error:
        if must:
            raise errors.FailedPrecondition(f"the native client cannot be loaded: {error}",
                                            "install libtidepool, or unset TIDEPOOL_PYTHON_TRANSPORT") from None
        return None
    try:
        return native.connect(path, timeout, insecure)
    except errors.Error:
        if must:
            raise
        return None


def reopen(path: str, timeout: float, insecure: bool) -> Client:
    """Connects the process that unpickles a client, by what it has itself: native, or gRPC."""
    return connect(path, timeout=timeout, insecure=insecure)


_SHARED: dict[tuple[str, float, bool], Client] = {}
_SHARED_LOCK = threading.Lock()
_SHARED_MAX = 16
os.register_at_fork(after_in_child=lambda: globals().update(_SHARED={}, _SHARED_LOCK=threading.Lock()))


def reopen_space(path: str, timeout: float, insecure: bool, name: str) -> Namespace:
    """Opens the namespace of an unpickled handle by this process's connection for them. A pool's worker unpickles a handle
    for each task, and a connection for each would take its time and a descriptor. The oldest of more than 16 is
    dropped."""
    key = (path, timeout, insecure)
    with _SHARED_LOCK:
        client = _SHARED.get(key)
        if client is None or not client._calls.is_usable():
            client = _SHARED[key] = reopen(*key)
        while len(_SHARED) > _SHARED_MAX:
            del _SHARED[next(iter(_SHARED))]
    return client[name]


class Client(Mapping[str, Namespace]):
    """A mapping of the cluster's namespaces by their names, and a context manager that closes it. Thread-safe; a child that
    was forked makes its own. Clients and handles can be pickled: the connection file's name travels, and the process
    that unpickles connects by itself."""

    def __init__(self, calls: Calls):
        self._calls = calls

    def __repr__(self) -> str:
        return f"<tidepool client of '{self._calls.settings()[0]}', grpc>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the settings: an unpickled client has a connection of its own, so its close ends no other handle."""
        return reopen, self._calls.settings()

    def __getitem__(self, name: str) -> Namespace:
        """NotFound: there is none of this name."""
        request = namespaces_pb2.DescribeNamespaceRequest(name=name)
        return self._open(self._calls.call(lambda node: node.namespaces.Describe, request, changes=False).namespace)

    def create(self, name: str, kind: str = "hash", *, timeout: float | None = None, **options: Any) -> Namespace:
        """Makes it, or opens one that is there with the same options: durability="sync", ttl_ms=60000, expected_items=10**6
        (of kind bloom), capacity=100 ... (NamespaceOptions in common.proto, `kvctl help namespace create`). Errors:
        AlreadyExists (with other options), InvalidArgument, Unimplemented."""
        if kind not in _KINDS:
            raise errors.InvalidArgument(f"there is no kind '{kind}'", "use one of: " + ", ".join(_KINDS))
        numbers = {option: values.plain(value) for option, value in options.items()}
        try:
            request = namespaces_pb2.CreateNamespaceRequest(name=name, kind=_KINDS[kind],
                                                            options=common_pb2.NamespaceOptions(**numbers))
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgument(f"options of '{name}': {error}", "see: kvctl help namespace create") from None
        # To create twice does no harm.
        return self._open(self._calls.call(lambda node: node.namespaces.Create, request, False, timeout).namespace)

    def list_files(self, name: str) -> Iterator[File]:
        """Path and size of each file of a hash namespace: staged files, large ones with their whole size, and records that
        programs have put. Records that staging keeps for itself, directories and symbolic links are left out. In no
        useful order. Errors: NotFound, when the first is asked for."""
        return list_files(self._calls, name)

    def drop(self, name: str) -> None:
        """All its data is gone. NotFound."""
        self._calls.call(lambda node: node.namespaces.Drop, namespaces_pb2.DropNamespaceRequest(name=name), changes=True)

    def __iter__(self) -> Iterator[str]:
        request = namespaces_pb2.ListNamespacesRequest()
        answer = self._calls.call(lambda node: node.namespaces.List, request, changes=False)
        return iter(sorted(space.name for space in answer.namespaces))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def close(self) -> None:
        """Later calls fail with CANCELLED."""
        self._calls.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self, space: Any) -> Namespace:
        kind = next((name for name, number in _KINDS.items() if number == space.kind), "")
        if kind in ("hash", "ordered"):
            return Map(self._calls, space.name, kind)
        if kind in ("queue", "priority"):
            return Queue(self._calls, space.name, kind)
        if kind == "bloom":
            return Filter(self._calls, space.name)
        raise errors.Error(f"'{space.name}' is of a kind that this version does not know", "", "UNIMPLEMENTED")
