"""Connections of this process, and what the extension needs of Python: errors, values, durations."""

from __future__ import annotations

import os
import threading
from typing import Any

from .. import arrays, errors, values
from . import _native

# Texts of the library that name no key.
_GENERIC = ("no such key in namespace", "the key exists already in namespace", "the record has another version",
            "the item is not leased", "operation on namespace")


def _error(code: int, what: str, remedy: str, subject: str) -> errors.Error:
    """Returns the exception of a failure. Its text names the key or the item."""
    return errors.of_native(code, what, remedy, subject, what.startswith(_GENERIC))


def _milliseconds(value: Any, name: str) -> int:
    return values.milliseconds(value, name) or 0


def _number(value: Any, name: str) -> int:
    return values.integer(value, name, 0, values.U64_MAX)


_native.set_hooks(_error, arrays.encode, _milliseconds, _number)


class Connection:
    """A connection with its settings. Thread-safe. Calls in a forked child end with
    FailedPrecondition."""

    def __init__(self, path: str, timeout: float, insecure: bool):
        self.timeout = values.seconds(timeout, "timeout")
        self._settings = (path, self.timeout, insecure)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._moving: _native.Connection | None = None
        self.native = self._connect(background=False)

    def _connect(self, background: bool) -> _native.Connection:
        path, timeout, insecure = self._settings
        connection = _native.Connection()
        connection.connect(path, timeout, insecure, background)
        return connection

    def moving(self) -> _native.Connection:
        """Returns a second connection, whose thread makes progress while nobody waits: asyncio needs it. Synchronous
        calls have their own, since each of them would wake that thread."""
        with self._lock:
            if self._closed:
                raise errors.Error("this client is closed", "", "CANCELLED")
            if self._moving is None:
                self._moving = self._connect(background=True)
            return self._moving

    def settings(self) -> tuple[str, float, bool]:
        """Returns connection file, timeout, insecure: the process that has them can connect by itself."""
        return self._settings

    def is_usable(self) -> bool:
        """Returns False once it is closed, and in a forked child."""
        return not self._closed and self._pid == os.getpid()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            moving, self._moving = self._moving, None
        self.native.close()
        if moving is not None:
            moving.close()
