"""Namespaces of kinds hash and ordered, as mappings of bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from . import arrays, errors, values
from .calls import UNARY_VALUE_BYTES_MAX, Calls
from .fallback import MapFallback
from .v1 import bulk_pb2, common_pb2, data_pb2
from .values import Key, Value

_PART_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Record:
    key: bytes
    value: Value
    version: int       # Grows with each change of the key.
    ttl: float | None  # Seconds that are left; None: for ever, or not asked for.


def scan_pages(calls: Calls, name: str, glob: str = "", keys_only: bool = False,
               limit: int = 0) -> Iterator[bulk_pb2.Record]:
    """The records as they come over the wire. A connection that breaks is made again."""
    cursor, left, failed = b"", limit, False
    while True:
        request = bulk_pb2.ScanRequest(namespace=name, glob=glob, keys_only=keys_only, cursor=cursor, limit=left)
        try:
            for page in calls.stream(lambda node: node.bulk.Scan, request, changes=False):
                yield from page.records
                left = max(left - len(page.records), 0)
                cursor, failed = page.cursor, False
                if page.done or (limit and not left):
                    return
            return
        except errors.Unavailable:
            if failed:
                raise
            failed = True  # Once more from the last cursor; by another node.


class Map(MapFallback, MutableMapping[Key, Value]):  # type: ignore[misc]
    """Keys are bytes, or str as UTF-8, and come back as bytes. Values are bytes (str as UTF-8), counters (int, float), and
    numpy's arrays, which `array` reads. Values of up to 1 GiB. Thread-safe.

    Each call has the client's timeout unless it is given one. Errors: errors.Error; of a key that is not there
    NotFound, which is a KeyError. After UnknownOutcome a change may have been made or not."""

    def __init__(self, calls: Calls, name: str, kind: str):
        self._calls = calls
        self.name = name
        self.kind = kind  # "hash" or "ordered".

    def __repr__(self) -> str:
        return f"<tidepool {self.kind} namespace {self.name!r}, grpc>"

    # ---- One key.

    def __getitem__(self, key: Key) -> Value:
        return self.record(key).value

    def record(self, key: Key, timeout: float | None = None) -> Record:
        """Value and version. The time that it has left is asked for by `ttl`."""
        name = values.key_bytes(key)
        result = self._one(data_pb2.OPERATION_KIND_GET, name, timeout, changes=False)
        if result.value_omitted:
            return self._read_large(name, timeout)
        return Record(name, values.decode(result.value, result.value_kind), result.version, None)

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value)

    def put(self, key: Key, value: Any, *, ttl: float | None = None, if_absent: bool = False,
            if_present: bool = False, if_version: int | None = None, timeout: float | None = None) -> int:
        """Returns the version. `ttl`: seconds from now; 0: for ever; None: the namespace's default. A condition that does
        not hold: AlreadyExists (if_absent), NotFound (if_present), FailedPrecondition (if_version)."""
        condition = (common_pb2.PUT_CONDITION_IF_ABSENT if if_absent else
                     common_pb2.PUT_CONDITION_IF_PRESENT if if_present else
                     common_pb2.PUT_CONDITION_IF_VERSION if if_version is not None else
                     common_pb2.PUT_CONDITION_ALWAYS)
        name = values.key_bytes(key)
        content, kind = values.encode(value)
        version = 0 if if_version is None else values.integer(if_version, "if_version", 0, values.U64_MAX)
        options = {"value_kind": kind, "condition": condition, "version": version,
                   "ttl_ms": values.milliseconds(ttl, "ttl")}
        if len(content) > UNARY_VALUE_BYTES_MAX:
            return self._write_large(name, content, options, timeout)
        return self._one(data_pb2.OPERATION_KIND_PUT, name, timeout, value=content, **options).version

    def __delitem__(self, key: Key) -> None:
        self._one(data_pb2.OPERATION_KIND_DELETE, values.key_bytes(key))

    def __contains__(self, key: object) -> bool:
        try:
            self._one(data_pb2.OPERATION_KIND_CONTAINS, values.key_bytes(key), changes=False)  # type: ignore[arg-type]
            return True
        except errors.NotFound:
            return False

    _REQUIRED = object()

    def pop(self, key: Key, default: Any = _REQUIRED, timeout: float | None = None) -> Any:
        """Removes the record and returns its value, in one step. Values above 1 MiB: errors.Error, and it stays."""
        try:
            result = self._one(data_pb2.OPERATION_KIND_TAKE, values.key_bytes(key), timeout)
            return values.decode(result.value, result.value_kind)
        except errors.NotFound:
            if default is Map._REQUIRED:
                raise
            return default

    def setdefault(self, key: Key, default: Any = b"") -> Value:
        try:
            self.put(key, default, if_absent=True)
        except errors.AlreadyExists:
            pass
        return self[key]

    def fetch_add(self, key: Key, by: int | float = 1, timeout: float | None = None) -> int | float:
        """Adds in one step and returns what was before; a key that is not there counts as 0."""
        by = values.plain(by)
        if isinstance(by, float):
            return self._one(data_pb2.OPERATION_KIND_FETCH_ADD, values.key_bytes(key), timeout, operand_f64=by,
                             value_kind=common_pb2.VALUE_KIND_F64).number_f64
        return self._one(data_pb2.OPERATION_KIND_FETCH_ADD, values.key_bytes(key), timeout,
                         operand=values.integer(by, "by", values.I64_MIN, values.I64_MAX),
                         value_kind=common_pb2.VALUE_KIND_I64).number

    def compare_and_swap(self, key: Key, expected: Any, value: Any, timeout: float | None = None) -> bool:
        """Puts `value` if the key has `expected`, in one step. Both at most 32 KiB. NotFound: there is no such key."""
        content, kind = values.encode(value)
        try:
            self._one(data_pb2.OPERATION_KIND_COMPARE_AND_SWAP, values.key_bytes(key), timeout,
                      expected=values.encode(expected)[0], value=content, value_kind=kind)
            return True
        except errors.FailedPrecondition:
            return False

    def append(self, key: Key, suffix: bytes | str, timeout: float | None = None) -> None:
        """Adds at most 32 KiB to the end of the value, in one step; a key that is not there counts as empty."""
        self._one(data_pb2.OPERATION_KIND_APPEND, values.key_bytes(key), timeout, value=values.encode(suffix)[0])

    def expire(self, key: Key, ttl: float, timeout: float | None = None) -> None:
        """The record goes in so many seconds; 0: never."""
        self._one(data_pb2.OPERATION_KIND_EXPIRE, values.key_bytes(key), timeout, ttl_ms=values.milliseconds(ttl, "ttl"))

    def ttl(self, key: Key, timeout: float | None = None) -> float | None:
        """Seconds that the record has left; None: it stays for ever."""
        left = self._one(data_pb2.OPERATION_KIND_TTL, values.key_bytes(key), timeout, changes=False).number
        return None if left < 0 else left / 1000

    def array(self, key: Key, dtype: Any = None, *, out: Any = None) -> Any:
        """The value as a numpy array: as one was put; or, with `dtype`, as a row of such numbers, as C++ writes them. With
        `out` the numbers are copied to this array of the same type and shape, which is returned."""
        array = values.decode_array(self[key], dtype)
        return array if out is None else arrays.copied(array, out)

    # ---- Many keys.

    def get_many(self, keys: Iterable[Key], timeout: float | None = None, *, out: Any = None) -> Any:
        """Returns what is there of these keys, as a dict. With `out`, an array with a row for each key, the bytes of each
        value are copied to its row, and an array of bools says which keys were found. `keys` may be an array of
        integers or bytes. Others that fail: BatchError."""
        if out is not None:
            return self._get_rows(arrays.keys_of(keys), out, timeout)
        names = arrays.key_list(arrays.keys_of(keys))
        found: dict[bytes, Value] = {}
        failures: dict[bytes, errors.Error] = {}
        wanted = [data_pb2.Operation(kind=data_pb2.OPERATION_KIND_GET, key=name) for name in names]
        for operation, result in zip(wanted, self._calls.execute(self.name, wanted, False, timeout)):
            name = operation.key
            if result.status.code == 0 and result.value_omitted:
                try:
                    found[name] = self.record(name, timeout).value
                except errors.NotFound:
                    pass
            elif result.status.code == 0:
                found[name] = values.decode(result.value, result.value_kind)
            else:
                self._note(failures, operation, result)
        if failures:
            raise errors.BatchError(failures, len(names))
        return found

    def put_many(self, items: Any, rows: Any = None, *, ttl: float | None = None, timeout: float | None = None) -> None:
        """Puts each. Across keys nothing is promised. With `rows`, `items` are keys, and `rows` are their values: a list,
        or an array with a row for each key, whose bytes are put. Those that fail: BatchError."""
        pairs: Iterable[tuple[Key, Any]] = items.items() if isinstance(items, Mapping) else items
        if rows is not None:
            names = arrays.key_list(arrays.keys_of(items))
            if hasattr(rows, "__array__"):
                content = arrays.rows_of(rows, len(names)).tobytes()
                size = len(content) // len(names) if names else 0
                rows = [content[i * size:(i + 1) * size] for i in range(len(names))]
            if len(rows) != len(names):
                raise errors.InvalidArgument(f"there are {len(names)} keys and {len(rows)} values")
            pairs = zip(names, rows)
        ttl_ms = values.milliseconds(ttl, "ttl")
        operations = []
        for key, value in pairs:
            content, kind = values.encode(value)
            if len(content) > UNARY_VALUE_BYTES_MAX:
                self.put(key, value, ttl=ttl, timeout=timeout)
                continue
            operations.append(data_pb2.Operation(kind=data_pb2.OPERATION_KIND_PUT, key=values.key_bytes(key), value=content,
                                                 value_kind=kind, ttl_ms=ttl_ms))
        self._all(operations, timeout)

    def delete_many(self, keys: Iterable[Key], timeout: float | None = None) -> None:
        """Deletes what is there of these keys."""
        self._all([data_pb2.Operation(kind=data_pb2.OPERATION_KIND_DELETE, key=values.key_bytes(key)) for key in keys],
                  timeout)

    def update(self, items: Any = (), /, **more: Any) -> None:  # type: ignore[override]
        self.put_many(dict(items, **more))

    def clear(self) -> None:
        """Deletes what a scan finds."""
        batch: list[Key] = []
        for key in self:
            batch.append(key)
            if len(batch) == 1000:
                self.delete_many(batch)
                batch = []
        self.delete_many(batch)

    # ---- All keys.

    def __len__(self) -> int:
        request = data_pb2.LengthRequest(namespace=self.name)
        return self._calls.call(lambda node: node.data.Length, request, changes=False).records

    def __iter__(self) -> Iterator[bytes]:
        return (record.key for record in self.scan(keys_only=True))

    def items(self) -> Iterator[tuple[bytes, Value]]:  # type: ignore[override]
        return ((record.key, record.value) for record in self.scan())

    def values(self) -> Iterator[Value]:  # type: ignore[override]
        return (record.value for record in self.scan())

    def keys(self) -> Iterator[bytes]:  # type: ignore[override]
        return iter(self)

    def scan(self, glob: str = "", *, keys_only: bool = False, limit: int = 0) -> Iterator[Record]:
        """Records whose keys match (`*` crosses '/'), in the order of keys if the namespace is ordered. What changes
        meanwhile is there or not; what does not comes once. A connection that breaks is made again."""
        limit = values.integer(limit, "limit", 0, values.U64_MAX)
        for record in scan_pages(self._calls, self.name, glob, keys_only, limit):
            value: Value = b""
            if record.value_omitted and not keys_only:
                try:
                    value = self._read_large(record.key, None).value
                except errors.NotFound:
                    continue
            elif not keys_only:
                value = values.decode(record.value, record.value_kind)
            yield Record(record.key, value, record.version, record.ttl_ms / 1000 or None)

    # ---- How.

    def _one(self, kind: int, key: bytes, timeout: float | None = None, changes: bool = True,
             **fields: Any) -> data_pb2.OperationResult:
        return self._calls.execute_one(self.name, data_pb2.Operation(kind=kind, key=key, **fields), changes, timeout)

    def _note(self, failures: dict[bytes, errors.Error], operation: data_pb2.Operation,
              result: data_pb2.OperationResult) -> None:
        error = errors.of_operation(result.status, self.name, operation)
        if not isinstance(error, errors.NotFound):
            failures[operation.key] = error

    def _all(self, operations: list[data_pb2.Operation], timeout: float | None) -> None:
        failures: dict[bytes, errors.Error] = {}
        for operation, result in zip(operations, self._calls.execute(self.name, operations, True, timeout)):
            if result.status.code:
                self._note(failures, operation, result)
        if failures:
            raise errors.BatchError(failures, len(operations))

    def _read_large(self, key: bytes, timeout: float | None) -> Record:
        request = bulk_pb2.ReadValueRequest(namespace=self.name, key=key)
        content, first = bytearray(), None
        for part in self._calls.stream(lambda node: node.bulk.ReadValue, request, changes=False, timeout=timeout):
            first = first or part
            content += part.data
        if first is None or len(content) != first.total_bytes:
            raise errors.Error(f"the value of {key!r} ends early")
        return Record(key, values.decode(bytes(content), first.value_kind), first.version, None)

    def _write_large(self, key: bytes, content: bytes, options: dict[str, Any], timeout: float | None) -> int:
        def parts() -> Iterator[bulk_pb2.WriteValueRequest]:
            yield bulk_pb2.WriteValueRequest(start=bulk_pb2.WriteValueRequest.Start(
                namespace=self.name, key=key, total_bytes=len(content), **options))
            for begin in range(0, len(content), _PART_BYTES):
                yield bulk_pb2.WriteValueRequest(data=content[begin:begin + _PART_BYTES])
        if timeout is None:
            timeout = self._calls.timeout + len(content) / 50e6
        return self._calls.call_with(lambda node: node.bulk.WriteValue, parts, timeout).version
