"""Operations of the native client for handles of the gRPC client: a program runs with either. A wait asks again and again,
and asyncio's calls take a thread."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable

from . import arrays, errors, values
from .values import Key, Value

_PAUSE_FIRST_S = 0.002
_PAUSE_MAX_S = 0.1


def _until(ask: Callable[[], Any], timeout: float) -> Any:
    """Returns the first answer of `ask` that is not None."""
    end, pause = time.monotonic() + timeout, _PAUSE_FIRST_S
    while True:
        answer = ask()
        if answer is not None:
            return answer
        left = end - time.monotonic()
        if left <= 0:
            raise errors.DeadlineExceeded("nothing has changed in time", "wait again")
        time.sleep(min(pause, left))
        pause = min(2 * pause, _PAUSE_MAX_S)


class MapFallback:
    """For tidepool.Map."""

    def get(self, key: Key, default: Any = None, *, out: Any = None, timeout: float | None = None) -> Any:
        """Returns the value, or `default`. With `out`, a writable buffer, the value is copied to its front, and its size is
        returned."""
        try:
            value = self.record(key, timeout).value  # type: ignore[attr-defined]
        except errors.NotFound:
            return default
        if out is None:
            return value
        content = values.encode(value)[0]
        try:
            room = memoryview(out).cast("B")
            fits = not room.readonly
        except (TypeError, ValueError, BufferError):
            if not hasattr(out, "__array__"):
                raise
            fits = False
        if not fits:
            raise errors.InvalidArgument("out is read-only, or not one run of bytes",
                                         "give a writable bytearray or a C-contiguous array")
        if len(content) > len(room):
            raise errors.Error(f"the value has {len(content)} bytes, the memory for it {len(room)}",
                               "give as much, or leave out out", "OUT_OF_RANGE")
        room[:len(content)] = content
        return len(content)

    def _get_rows(self, names: Any, rows: Any, timeout: float | None) -> Any:
        import numpy  # pylint: disable=import-outside-toplevel
        keys = arrays.key_list(names)
        content = arrays.writable_rows(rows, len(keys))
        size = len(content) // len(keys) if keys else 0
        found = self.get_many(keys, timeout)  # type: ignore[attr-defined]
        there, failures = numpy.zeros(len(keys), bool), {}
        for i, key in enumerate(keys):
            value = found.get(key)
            if value is None:
                continue
            value = values.encode(value)[0]
            if len(value) != size:
                failures[key] = errors.Error(f"the value has {len(value)} bytes, a row {size}", "read it by its key",
                                             "OUT_OF_RANGE")
                continue
            content[i * size:(i + 1) * size] = numpy.frombuffer(value, numpy.uint8)
            there[i] = True
        if failures:
            raise errors.BatchError(failures, len(keys))
        return there

    def wait(self, key: Key, timeout: float | None = None) -> Value:
        """Returns the value as soon as the key is there. DeadlineExceeded: it did not come."""
        return _until(lambda: self.get(key), self._patience(timeout))

    def wait_change(self, key: Key, version: int = 0, timeout: float | None = None) -> Any:
        """Returns the record as soon as its version is another one than `version`; 0: no record. NotFound: it was removed.
        DeadlineExceeded: nothing has changed."""
        version = values.integer(version, "version", 0, values.U64_MAX)

        def ask() -> Any:
            try:
                record = self.record(key)  # type: ignore[attr-defined]
            except errors.NotFound:
                if version:
                    raise
                return None
            return record if record.version != version else None
        return _until(ask, self._patience(timeout))

    def _patience(self, timeout: float | None) -> float:
        return self._calls.timeout if timeout is None else values.seconds(timeout, "timeout")  # type: ignore[attr-defined]

    async def aget(self, key: Key, default: Any = None, *, timeout: float | None = None) -> Any:
        """As `get`, for asyncio."""
        return await asyncio.to_thread(self.get, key, default, timeout=timeout)

    async def aput(self, key: Key, value: Any, *, ttl: float | None = None, timeout: float | None = None) -> int:
        """As `put`, for asyncio."""
        return await asyncio.to_thread(self.put, key, value, ttl=ttl, timeout=timeout)  # type: ignore[attr-defined]

    async def adelete(self, key: Key, *, timeout: float | None = None) -> None:
        """Deletes the record. NotFound: there is none."""
        del timeout
        await asyncio.to_thread(self.__delitem__, key)  # type: ignore[attr-defined]

    async def await_key(self, key: Key, *, timeout: float | None = None) -> Value:
        """As `wait`, for asyncio."""
        return await asyncio.to_thread(self.wait, key, timeout)


class QueueFallback:
    """For tidepool.Queue."""

    async def apush(self, value: Any, priority: int = 0, *, timeout: float | None = None) -> int:
        """As `push`, for asyncio."""
        return await asyncio.to_thread(self.push, value, priority, timeout)  # type: ignore[attr-defined]

    async def apop(self, *, wait: float = 0, lease: float | None = None) -> Any:
        """As `pop`, for asyncio. A cancelled pop hands nothing back."""
        end, pause = time.monotonic() + values.seconds(wait, "wait"), _PAUSE_FIRST_S
        while True:
            try:
                return await asyncio.to_thread(self.pop, lease=lease)  # type: ignore[attr-defined]
            except errors.Empty:
                left = end - time.monotonic()
                if left <= 0:
                    raise
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSE_MAX_S)
