"""Namespaces of kinds queue and priority."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from . import errors, values
from .calls import Calls
from .fallback import QueueFallback
from .v1 import data_pb2

# Between two looks at an empty queue: gRPC has no pop that waits in the daemon.
_PAUSE_FIRST_S = 0.002
_PAUSE_MAX_S = 0.1


def _priority(value: int) -> int:
    return values.integer(value, "priority", 0, values.U64_MAX)


class Item:
    """What a pop has given out. Under a lease it comes back to the queue unless `ack` is called in time; as a context
    manager it is acked at the end, and given back (`nack`) if there was an exception."""

    def __init__(self, queue: Queue, item: data_pb2.Item):
        self._queue = queue
        self.id = item.id
        self.value = item.value
        self.priority = item.priority
        self.deliveries = item.deliveries  # This one included; 0: without a lease.

    def __repr__(self) -> str:
        return f"<tidepool item {self.id} of {self._queue.name!r}>"

    def ack(self) -> None:
        """It is done. FailedPrecondition: the lease has ended, and another may have it; NotFound: it is gone."""
        self._end(data_pb2.OPERATION_KIND_ACK)

    def nack(self) -> None:
        """It goes back at once, for another."""
        self._end(data_pb2.OPERATION_KIND_NACK)

    def _end(self, kind: int) -> None:
        self._queue._one(kind, item_id=self.id, deliveries=self.deliveries)  # pylint: disable=protected-access

    def __enter__(self) -> Item:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.deliveries == 0:
            return
        if kind is None:
            self.ack()
            return
        try:
            self.nack()
        except errors.Error:
            pass  # The exception matters more, and the lease ends by itself.


class Queue(QueueFallback):
    """Items are handed out once, in the order in which they came, or the least priority first. Thread-safe. Errors:
    errors.Error; UnknownOutcome of a pop: an item may be gone, unless it was under a lease."""

    def __init__(self, calls: Calls, name: str, kind: str):
        self._calls = calls
        self.name = name
        self.kind = kind  # "queue" or "priority".

    def __repr__(self) -> str:
        return f"<tidepool {self.kind} namespace {self.name!r}, grpc>"

    def push(self, value: Any, priority: int = 0, timeout: float | None = None) -> int:
        """Returns the item's id. ResourceExhausted: the queue is at its capacity, or there is no memory."""
        return self._one(data_pb2.OPERATION_KIND_PUSH, timeout, value=values.encode(value)[0],
                         priority=_priority(priority)).number

    def push_many(self, items: Iterable[Any], priority: int = 0, timeout: float | None = None) -> list[int]:
        """Their ids. The first that fails ends it; those before it are in the queue, and of those behind some may be."""
        number = _priority(priority)
        operations = [data_pb2.Operation(kind=data_pb2.OPERATION_KIND_PUSH, value=values.encode(value)[0], priority=number)
                      for value in items]
        ids, failure = [], None
        for operation, result in zip(operations, self._calls.execute(self.name, operations, True, timeout)):
            if result.status.code and failure is None:
                failure = errors.of_operation(result.status, self.name, operation)
            ids.append(result.number)
        if failure is not None:
            raise failure
        return ids

    def pop(self, *, wait: float = 0, lease: float | None = None) -> Item:
        """The next item; waits for one up to `wait` seconds. Empty: there was none. With `lease`, in seconds, it stays in
        the queue, and comes back if it is not acked by then."""
        return self.pop_many(1, wait=wait, lease=lease)[0]

    def pop_many(self, most: int, *, wait: float = 0, lease: float | None = None) -> list[Item]:
        """Between one and `most` items, as many as are there. Empty: none."""
        end, pause = time.monotonic() + values.seconds(wait, "wait"), _PAUSE_FIRST_S
        lease_ms = 0 if lease is None else max(1, values.milliseconds(lease, "lease") or 0)
        while True:
            try:
                return self._items(data_pb2.OPERATION_KIND_POP, most, lease_ms)
            except errors.NotFound:
                left = end - time.monotonic()
                if left <= 0:
                    raise errors.Empty(f"queue '{self.name}' has no item") from None
                time.sleep(min(pause, left))
                pause = min(2 * pause, _PAUSE_MAX_S)

    def peek(self, most: int = 1) -> list[Item]:
        """The next items; they stay. Empty: none."""
        try:
            return self._items(data_pb2.OPERATION_KIND_PEEK, most)
        except errors.NotFound:
            raise errors.Empty(f"queue '{self.name}' has no item") from None

    def __len__(self) -> int:
        """Items that are ready: without those under a lease."""
        return self._one(data_pb2.OPERATION_KIND_QUEUE_LENGTH, changes=False).number

    def __bool__(self) -> bool:
        return True  # A queue is there, also when it is empty.

    def _items(self, kind: int, most: int, lease_ms: int = 0) -> list[Item]:
        most = values.integer(most, "most", 1, values.U64_MAX)
        result = self._one(kind, items_max=most, lease_ms=lease_ms, changes=kind == data_pb2.OPERATION_KIND_POP)
        return [Item(self, item) for item in result.items]

    def _one(self, kind: int, timeout: float | None = None, changes: bool = True, **fields: Any) -> data_pb2.OperationResult:
        return self._calls.execute_one(self.name, data_pb2.Operation(kind=kind, **fields), changes, timeout)
