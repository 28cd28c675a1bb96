"""Queues on the C++ library: a pop waits in the daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from .. import errors, values
from .. import queue as grpc_queue
from ..client import reopen_space
from . import _native, aio
from .connection import Connection
from .map import Buffered

# An abandoned wait of asyncio's ends in the daemon after this time.
_SLICE_S = 1.0


class Item(grpc_queue.Item):
    """See tidepool.Item."""

    def __init__(self, queue: Queue, parts: tuple[int, bytes, int, int]):  # pylint: disable=super-init-not-called
        self._queue = queue
        self.id, self.value, self.priority, self.deliveries = parts

    def ack(self) -> None:
        self._queue._end_lease(self.id, self.deliveries, True)  # pylint: disable=protected-access

    def nack(self) -> None:
        self._queue._end_lease(self.id, self.deliveries, False)  # pylint: disable=protected-access


class Queue(_native.Queue, grpc_queue.Queue):
    """See tidepool.Queue."""

    def __init__(self, connection: Connection, name: str, kind: str, space: Any):  # pylint: disable=super-init-not-called
        self._calls = connection
        self.name = name
        self.kind = kind
        self._space = space
        self._moving: _native.Queue | None = None
        self._bind(space)

    def __repr__(self) -> str:
        return f"<tidepool {self.kind} namespace {self.name!r}, native>"

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen_space, (*self._calls.settings(), self.name)

    def push(self, value: Any, priority: int = 0, timeout: float | None = None) -> int:
        return self._push(value, values.integer(priority, "priority", 0, values.U64_MAX), timeout)

    def push_many(self, items: Iterable[Any], priority: int = 0, timeout: float | None = None) -> list[int]:
        return self._push_many(list(items), values.integer(priority, "priority", 0, values.U64_MAX), timeout)

    def pop_many(self, most: int, *, wait: float = 0, lease: float | None = None) -> list[Item]:
        """Between one and `most` items, as many as are there. Empty: none. The daemon keeps the wait."""
        wait = values.seconds(wait, "wait")
        values.milliseconds(lease, "lease")
        items = self._pop(values.integer(most, "most", 1, values.U64_MAX), lease, wait)
        if not items:
            raise errors.Empty(f"queue '{self.name}' has no item")
        return [Item(self, item) for item in items]

    def peek(self, most: int = 1) -> list[Item]:
        items = self._peek(values.integer(most, "most", 1, values.U64_MAX))
        if not items:
            raise errors.Empty(f"queue '{self.name}' has no item")
        return [Item(self, item) for item in items]

    def __len__(self) -> int:
        return self._lengths()[0]

    def buffered(self, timeout: float | None = None) -> Buffered:
        """Returns a handle that collects pushes and sends them by the hundreds. One thread uses it."""
        return Buffered(self, timeout)

    # ---- asyncio.

    def _open_moving(self) -> None:
        moving = _native.Queue()
        moving._bind(self._calls.moving().open(self.name)[1])  # pylint: disable=protected-access
        self._moving = moving

    async def apush(self, value: Any, priority: int = 0, *, timeout: float | None = None) -> int:
        """As `push`, for asyncio."""
        moving = await aio.opened(self)
        number = values.integer(priority, "priority", 0, values.U64_MAX)
        return await aio.call(moving._start_push, value, number, timeout)  # pylint: disable=protected-access

    async def apop(self, *, wait: float = 0, lease: float | None = None) -> Item:
        """As `pop`, for asyncio. An item that comes after the caller was cancelled goes back: by its lease at once, without
        a lease to the end of the queue."""
        moving = await aio.opened(self)
        end = time.monotonic() + values.seconds(wait, "wait")
        while True:
            left = min(max(end - time.monotonic(), 0), _SLICE_S)
            try:
                parts = await aio.call(moving._start_pop, lease, left or None,  # pylint: disable=protected-access
                                       late=self._give_back)
                return Item(self, parts)
            except (errors.NotFound, errors.DeadlineExceeded):
                if time.monotonic() >= end:
                    raise errors.Empty(f"queue '{self.name}' has no item") from None
            except errors.Error as error:
                if error.code != "UNIMPLEMENTED":
                    raise
                # A queue with lanes has no asynchronous pop.
                return await self._pop_lanes(end, lease)

    async def _pop_lanes(self, end: float, lease: float | None) -> Item:
        while True:
            left = min(max(end - time.monotonic(), 0), _SLICE_S)
            pop = asyncio.ensure_future(asyncio.to_thread(self.pop, wait=left, lease=lease))
            try:
                return await asyncio.shield(pop)
            except asyncio.CancelledError:
                pop.add_done_callback(self._return_late)  # The thread's pop goes on to the end of its slice.
                raise
            except errors.Empty:
                if time.monotonic() >= end:
                    raise

    def _return_late(self, pop: asyncio.Future[Item]) -> None:
        if not pop.cancelled() and pop.exception() is None:
            item = pop.result()
            self._give_back((item.id, item.value, item.priority, item.deliveries))

    def _give_back(self, parts: tuple[int, bytes, int, int]) -> None:
        item = Item(self, parts)
        try:
            if item.deliveries:
                item.nack()
            else:
                self.push(item.value, item.priority)
        except errors.Error:
            pass  # Its lease ends by itself; without one the queue or its owner is gone.
