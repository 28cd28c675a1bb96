"""Maps on the C++ library. What is here and in the extension replaces what the gRPC client does; the rest is inherited."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from .. import arrays, errors, values
from .. import map as grpc_map
from ..client import reopen_space
from ..map import Record
from ..values import Key, Value
from . import _native, aio
from .connection import Connection

_PAGE_RECORDS = 1000
_REQUIRED = object()


def _glob_pattern(glob: str) -> re.Pattern[bytes]:
    """Translates a pattern as the daemons read it: `*`, `?`, sets in brackets, and a backslash before a plain byte."""
    text, pattern, at = glob.encode(), b"", 0
    while at < len(text):
        byte = text[at:at + 1]
        at += 1
        closing = re.match(rb"[!^]?(?:\\.|[^\\])(?:\\.|[^]\\])*]", text[at:], re.DOTALL) if byte == b"[" else None
        if byte == b"*":
            pattern += b".*"
        elif byte == b"?":
            pattern += b"."
        elif closing:
            inside = closing.group()[:-1]
            at += closing.end()
            inverted = inside[:1] in b"!^"
            pattern += b"[" + (b"^" if inverted else b"") + inside[inverted:].replace(b"[", rb"\[").replace(
                b"^", rb"\^").replace(b"]", rb"\]") + b"]"
        else:
            if byte == b"\\" and at < len(text):
                byte, at = text[at:at + 1], at + 1
            pattern += re.escape(byte)
    return re.compile(pattern, re.DOTALL)


def _literal_prefix(glob: str) -> bytes:
    return re.split(r"[*?\[\\]", glob, maxsplit=1)[0].encode()


def _behind(prefix: bytes) -> bytes | None:
    """Returns the least key behind all that begin with `prefix`; None: there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def raise_failures(failures: list[tuple[bytes, errors.Error]], of: int) -> None:
    if failures:
        raise errors.BatchError(dict(failures), of)


class Map(_native.Map, grpc_map.Map):
    """See tidepool.Map. `get`, `put` and the operators are functions of the extension."""

    def __init__(self, connection: Connection, name: str, kind: str, space: Any):  # pylint: disable=super-init-not-called
        self._calls = connection
        self.name = name
        self.kind = kind
        self._space = space
        self._moving: _native.Map | None = None
        self._bind(space)

    def __repr__(self) -> str:
        return f"<tidepool {self.kind} namespace {self.name!r}, native>"

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen_space, (*self._calls.settings(), self.name)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- One key.

    def record(self, key: Key, timeout: float | None = None) -> Record:
        value, version = self._record(key, timeout)
        return Record(values.key_bytes(key), value, version, None)

    def pop(self, key: Key, default: Any = _REQUIRED, timeout: float | None = None) -> Any:
        """Removes the record and returns its value, in one step."""
        try:
            return self._take(key, timeout)
        except errors.NotFound:
            if default is _REQUIRED:
                raise
            return default

    def fetch_add(self, key: Key, by: int | float = 1, timeout: float | None = None) -> int | float:
        by = values.plain(by)
        if not isinstance(by, float):
            by = values.integer(by, "by", values.I64_MIN, values.I64_MAX)
        return self._fetch_add(key, by, timeout)

    def compare_and_swap(self, key: Key, expected: Any, value: Any, timeout: float | None = None) -> bool:
        try:
            self._compare_and_swap(key, expected, value, timeout)
            return True
        except errors.FailedPrecondition:
            return False

    def append(self, key: Key, suffix: bytes | str, timeout: float | None = None) -> None:
        self._append(key, suffix, timeout)

    def expire(self, key: Key, ttl: float, timeout: float | None = None) -> None:
        self._expire(key, ttl, timeout)

    def ttl(self, key: Key, timeout: float | None = None) -> float | None:
        return self._ttl(key, timeout)

    def wait(self, key: Key, timeout: float | None = None) -> Value:
        """Returns the value as soon as the key is there. The owner keeps the wait. DeadlineExceeded: it did not come."""
        return self._wait(key, None, timeout)[0]

    def wait_change(self, key: Key, version: int = 0, timeout: float | None = None) -> Record:
        """Returns the record as soon as its version is another one than `version`; 0: no record. Of several quick changes
        only the last is seen. NotFound: it was removed. DeadlineExceeded: nothing has changed."""
        version = values.integer(version, "version", 0, values.U64_MAX)
        value, new = self._wait(key, version, timeout)
        return Record(values.key_bytes(key), value, new, None)

    def array(self, key: Key, dtype: Any = None, *, out: Any = None) -> Any:
        """Returns the value as a numpy array: as one was put; or, with `dtype`, as a row of such numbers. With `out`
        the numbers are copied to this array of the same type and shape, which is returned."""
        array = arrays.decode(self._buffer(key, None), dtype)
        return array if out is None else arrays.copied(array, out)

    # ---- Many keys.

    def get_many(self, keys: Iterable[Key], timeout: float | None = None, *, out: Any = None) -> Any:
        """Returns what is there of these keys, as a dict. With `out`, an array with a row for each key, the bytes of each
        value are copied to its row, and an array of bools says which keys were found. `keys` may be an array of
        integers or bytes. Others that fail: BatchError."""
        names = arrays.keys_of(keys)
        if out is None:
            found, failures = self._get_many(names, timeout)
            raise_failures(failures, len(names))
            return found
        import numpy  # pylint: disable=import-outside-toplevel
        rows = arrays.writable_rows(out, len(names))
        there = numpy.zeros(len(names), bool)
        if len(names):
            raise_failures(self._get_rows(names, rows, there, timeout), len(names))
        return there

    def put_many(self, items: Any, rows: Any = None, *, ttl: float | None = None, timeout: float | None = None) -> None:
        """Puts each. Where a key stands twice, the last value counts. With `rows`, `items` are keys, and `rows` are their
        values: a list, or an array with a row for each key, whose bytes are put. Those that fail: BatchError."""
        values.milliseconds(ttl, "ttl")
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(rows, numpy.ndarray):
            names = arrays.keys_of(items)
            if len(names):
                raise_failures(self._put_rows(names, arrays.rows_of(rows, len(names)), ttl, timeout), len(names))
            return
        if rows is None:
            pairs = list(items.items() if isinstance(items, Mapping) else items)
            names, contents = [key for key, _ in pairs], [value for _, value in pairs]
        else:
            names, contents = arrays.keys_of(items), list(rows)
        if len(names):
            raise_failures(self._put_many(names, contents, ttl, timeout), len(names))

    def delete_many(self, keys: Iterable[Key], timeout: float | None = None) -> None:
        names = arrays.keys_of(keys)
        if len(names):
            raise_failures(self._delete_many(names, timeout), len(names))

    def buffered(self, timeout: float | None = None) -> Buffered:
        """Returns a handle that collects changes and sends them by the hundreds. One thread uses it."""
        return Buffered(self, timeout)

    # ---- All keys.

    def scan(self, glob: str = "", *, keys_only: bool = False, limit: int = 0, begin: Key = b"", end: Key | None = None,
             reverse: bool = False) -> Iterator[Record]:
        """Records whose keys match (`*` crosses '/'). Of an ordered namespace in the order of keys, from `begin` up to but
        without `end`; `reverse`: downwards."""
        limit = values.integer(limit, "limit", 0, values.U64_MAX)
        first, last = values.key_bytes(begin), None if end is None else values.key_bytes(end)
        if self.kind != "ordered" and (first or last is not None or reverse):
            raise errors.InvalidArgument(f"the keys of '{self.name}' have no order", "make it of kind ordered")
        if glob and not first and last is None:
            first = _literal_prefix(glob)
            last = _behind(first)
        return self._records(glob, keys_only, limit, first, last, reverse)

    def _records(self, glob: str, keys_only: bool, limit: int, first: bytes, last: bytes | None,
                 reverse: bool) -> Iterator[Record]:
        matches = _glob_pattern(glob).fullmatch if glob else None
        walk = _native.Scan()
        walk.begin(self, first, last, keys_only, reverse, 0 if glob else limit)
        left = limit or sys.maxsize
        while page := walk.next(min(_PAGE_RECORDS, left)):
            for key, value, version, ttl in page:
                if matches is not None and not matches(key):
                    continue
                yield Record(key, b"" if keys_only else value, version, ttl)
                left -= 1
                if left == 0:
                    return

    def __iter__(self) -> Iterator[bytes]:
        return (record.key for record in self.scan(keys_only=True))

    # ---- asyncio.

    def _open_moving(self) -> None:
        moving = _native.Map()
        moving._bind(self._calls.moving().open(self.name)[1])  # pylint: disable=protected-access
        self._moving = moving

    async def aget(self, key: Key, default: Any = None, *, timeout: float | None = None) -> Any:
        """As `get`, for asyncio."""
        moving = await aio.opened(self)
        try:
            return await aio.call(moving._start_get, key, timeout)  # pylint: disable=protected-access
        except errors.NotFound:
            return default

    async def aput(self, key: Key, value: Any, *, ttl: float | None = None, timeout: float | None = None) -> int:
        """As `put`, for asyncio."""
        moving = await aio.opened(self)
        return await aio.call(moving._start_put, key, timeout, value, ttl)  # pylint: disable=protected-access

    async def adelete(self, key: Key, *, timeout: float | None = None) -> None:
        """Deletes the record. NotFound: there is none."""
        moving = await aio.opened(self)
        await aio.call(moving._start_delete, key, timeout)  # pylint: disable=protected-access

    async def await_key(self, key: Key, *, timeout: float | None = None) -> Value:
        """As `wait`, for asyncio."""
        moving = await aio.opened(self)
        return await aio.call(moving._start_wait, key, timeout)  # pylint: disable=protected-access


class Buffered:
    """Changes of a map, queue or filter that travel by the hundreds. As a context manager it flushes at the end. Failures
    are told by `flush`."""

    def __init__(self, handle: Any, timeout: float | None = None):
        self._handle = handle
        self._native = _native.Buffered()
        self._native.bind(handle._space, timeout)  # pylint: disable=protected-access
        self._since = 0

    def __repr__(self) -> str:
        return f"<tidepool buffered {self._handle.kind} namespace {self._handle.name!r}, native>"

    def put(self, key: Key, value: Any, *, ttl: float | None = None, if_absent: bool = False) -> None:
        """Of a map. `if_absent`: leaves what is there."""
        self._native.put(key, value, ttl, if_absent)
        self._since += 1

    def fetch_add(self, key: Key, by: int | float = 1) -> None:
        """Adds to a counter of a map; the number before is not told."""
        by = values.plain(by)
        self._native.fetch_add(key, by if isinstance(by, float) else values.integer(by, "by", values.I64_MIN,
                                                                                    values.I64_MAX))
        self._since += 1

    def push(self, value: Any, priority: int = 0) -> None:
        """Of a queue."""
        self._native.push(value, values.integer(priority, "priority", 0, values.U64_MAX))
        self._since += 1

    def add(self, value: Key) -> None:
        """Of a filter."""
        self._native.insert(value)
        self._since += 1

    def flush(self) -> None:
        """Waits until all changes have ended. BatchError names those that failed since the last flush."""
        failures = self._native.flush()  # Ctrl-C in it leaves the failures to the next flush.
        since, self._since = self._since, 0
        raise_failures(failures, since)

    def __len__(self) -> int:
        """Changes that are not known to have ended."""
        return self._native.pending()

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Buffered:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.flush()
        except errors.Error:
            if kind is None:
                raise
