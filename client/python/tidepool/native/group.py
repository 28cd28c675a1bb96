"""Groups: processes that work in phases, with barriers, broadcasts and reductions among them."""

from __future__ import annotations

import array
import threading
from types import TracebackType
from typing import Any

from .. import errors, values
from . import _native
from .connection import Connection

_REDUCTIONS = {"sum": 0, "min": 1, "max": 2}


class Group:
    """One member's end. All members make the same calls in the same order. One thread uses it at a time. DeadlineExceeded
    names who is missing, and the same call may be made again; Aborted, an Error, says that a member has gone."""

    def __init__(self, connection: Connection, name: str, size: int, rank: int, label: str, timeout: float | None):
        self._timeout = connection.timeout if timeout is None else values.seconds(timeout, "timeout")
        self._native = _native.Group()
        self._lock = threading.Lock()
        self.name = name
        self.rank, self.size = self._native.join(connection.native, name, values.integer(size, "size", 1, 65_536), rank,
                                                 label, self._timeout)

    def __repr__(self) -> str:
        return f"<tidepool group {self.name!r}, member {self.rank} of {self.size}, native>"

    def barrier(self, timeout: float | None = None) -> None:
        """Returns when all members have come."""
        with self._lock:
            self._native.barrier(self._timeout if timeout is None else timeout)

    def broadcast(self, value: bytes | str = b"", root: int = 0, timeout: float | None = None) -> bytes:
        """Returns the value of member `root`, at most 16 KiB. Those of others do not count."""
        with self._lock:
            return self._native.broadcast(value, root, self._timeout if timeout is None else timeout)

    def all_reduce(self, value: Any, how: str = "sum", timeout: float | None = None) -> Any:
        """Returns the sum, min or max of all members' numbers: int, float, or an array of 64-bit numbers, element by
        element."""
        if how not in _REDUCTIONS:
            raise errors.InvalidArgument(f"there is no reduction '{how}'", "use one of: " + ", ".join(_REDUCTIONS))
        value = values.plain(value)
        timeout = self._timeout if timeout is None else timeout
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            kind = "d" if isinstance(value, float) else "q"
            numbers = array.array(kind, [value])
            with self._lock:
                answer = self._native.all_reduce(numbers, kind, _REDUCTIONS[how], timeout)
            return array.array(kind, answer)[0]
        import numpy  # pylint: disable=import-outside-toplevel
        numbers = numpy.ascontiguousarray(value)
        kind = {"<i8": "q", "<u8": "Q", "<f8": "d"}.get(numbers.dtype.str)
        if kind is None:
            raise errors.InvalidArgument(f"numbers of type {numbers.dtype} are not reduced",
                                         "use int64, uint64 or float64")
        with self._lock:
            answer = self._native.all_reduce(numbers.reshape(-1), kind, _REDUCTIONS[how], timeout)
        return numpy.frombuffer(answer, numbers.dtype).reshape(numbers.shape).copy()

    def leave(self) -> None:
        """Ends the membership."""
        with self._lock:
            self._native.leave()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()
