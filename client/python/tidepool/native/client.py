"""The connection of a program to a cluster, on the C++ library."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from .. import client as grpc_client
from .. import errors, values
from ..files import File
from .connection import Connection
from .filter import Filter
from .group import Group
from .map import Map
from .queue import Queue

_KINDS = ("hash", "ordered", "queue", "priority", "bloom")


def connect(path: str, timeout: float, insecure: bool) -> Client:
    """Connects to the cluster of a connection file. Errors: Unavailable, Unauthenticated, DeadlineExceeded ..."""
    return Client(Connection(path, timeout, insecure))


def _handle(connection: Connection, name: str, kind: str, space: Any) -> Any:
    if kind in ("hash", "ordered"):
        return Map(connection, name, kind, space)
    if kind in ("queue", "priority"):
        return Queue(connection, name, kind, space)
    return Filter(connection, name, space)


def opened(connection: Connection, name: str) -> Any:
    """Opens a namespace as what it is."""
    kind, space = connection.native.open(name)
    return _handle(connection, name, kind, space)


class Client(grpc_client.Client):
    """See tidepool.Client."""

    def __init__(self, connection: Connection):  # pylint: disable=super-init-not-called
        self._calls = connection

    def __repr__(self) -> str:
        return f"<tidepool client of '{self._calls.settings()[0]}', native>"

    def __reduce__(self) -> tuple[Any, ...]:
        return grpc_client.reopen, self._calls.settings()

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"a namespace's name is str, not {type(name).__name__}")
        return opened(self._calls, name)

    def create(self, name: str, kind: str = "hash", *, timeout: float | None = None, **options: Any) -> Any:
        """See tidepool.Client.create. The call has the client's timeout."""
        values.milliseconds(timeout, "timeout")
        if kind not in _KINDS:
            raise errors.InvalidArgument(f"there is no kind '{kind}'", "use one of: " + ", ".join(_KINDS))
        plain = {option: values.plain(value) for option, value in options.items()}
        return _handle(self._calls, name, *self._calls.native.create(name, kind, plain))

    def list_files(self, name: str) -> Iterator[File]:
        for path, size in self._calls.native.files(name):
            yield File(path, size)

    def read_file(self, name: str, path: str | bytes) -> bytes:
        """Returns the content of a staged file by its path; large ones are put together from their parts. NotFound."""
        return self._calls.native.read_file(name, path)

    def open_file(self, name: str, path: str | bytes) -> io.BytesIO:
        """Opens a staged file for reading. It is read as a whole, into memory."""
        return io.BytesIO(self.read_file(name, path))

    def join(self, name: str, size: int, *, rank: int = -1, label: str = "", timeout: float | None = None) -> Group:
        """Joins a group of processes and waits until `size` members have come. `rank` -1: a free one."""
        return Group(self._calls, name, size, rank, label, timeout)

    def persist(self, name: str) -> None:
        """What was answered of a durable namespace before outlives a crash of any daemon when this returns."""
        self._calls.native.persist(name)

    def drop(self, name: str) -> None:
        self._calls.native.drop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls.native.names())
