"""The connection of a program to a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Union

from . import cluster_file, errors, values
from .calls import Calls, connected
from .files import File, list_files
from .filter import Filter
from .map import Map
from .queue import Queue
from .v1 import common_pb2, namespaces_pb2

Namespace = Union[Map, Queue, Filter]
_KINDS = {"hash": common_pb2.KIND_HASH, "ordered": common_pb2.KIND_ORDERED, "queue": common_pb2.KIND_QUEUE,
          "priority": common_pb2.KIND_PRIORITY, "bloom": common_pb2.KIND_BLOOM}
_TRUE = ("true", "1", "yes", "on")


def connect(cluster: str | os.PathLike[str] | None = None, *, timeout: float = 10.0,
            insecure: bool | None = None) -> Client:
    """Finds the cluster by its connection file: `cluster`, TIDEPOOL_CLUSTER, the Slurm job's, ./tidepool-cluster.json, the
    user's own service. `timeout`: of a call, in seconds. `insecure`: the job token may go over plain connections to
    other machines; None: as TIDEPOOL_INSECURE says. Asks no daemon yet. Errors: NotFound, PermissionDenied,
    InvalidArgument, FailedPrecondition."""
    if insecure is None:
        insecure = os.environ.get("TIDEPOOL_INSECURE", "").lower() in _TRUE
    return Client(Calls(cluster_file.find(cluster), timeout, insecure))


def _reopen(path: str, timeout: float, insecure: bool) -> Client:
    return Client(connected(path, timeout, insecure))


class Client(Mapping[str, Namespace]):
    """A mapping of the cluster's namespaces by their names, and a context manager that closes it. Thread-safe; a child that
    was forked makes its own. Clients and handles can be pickled: the connection file's name travels, and the process
    that unpickles connects by itself."""

    def __init__(self, calls: Calls):
        self._calls = calls

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the settings: an unpickled client has a connection of its own, so its close ends no other handle."""
        return _reopen, self._calls.settings()

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
