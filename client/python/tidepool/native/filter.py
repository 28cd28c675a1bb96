"""Bloom filters on the C++ library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import filter as grpc_filter
from ..client import reopen_space
from ..values import Key
from . import _native
from .connection import Connection
from .map import Buffered, raise_failures


class Filter(_native.Filter, grpc_filter.Filter):
    """See tidepool.Filter."""

    def __init__(self, connection: Connection, name: str, space: Any):  # pylint: disable=super-init-not-called
        self._calls = connection
        self.name = name
        self._space = space
        self._bind(space)

    def __repr__(self) -> str:
        return f"<tidepool bloom namespace {self.name!r}, native>"

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen_space, (*self._calls.settings(), self.name)

    def add_many(self, items: Iterable[Key], timeout: float | None = None) -> list[bool]:
        return self._all(items, True, timeout)

    def contains_many(self, items: Iterable[Key], timeout: float | None = None) -> list[bool]:
        return self._all(items, False, timeout)

    def estimate(self) -> int:
        return round(self._estimate())

    def buffered(self, timeout: float | None = None) -> Buffered:
        """Returns a handle that collects values and sends them by the hundreds. One thread uses it."""
        return Buffered(self, timeout)

    def _all(self, items: Iterable[Key], inserts: bool, timeout: float | None) -> list[bool]:
        answers, failures = self._ask_many(list(items), inserts, timeout)
        raise_failures(failures, len(answers))
        return answers
