"""Namespaces of kind bloom: whether a value is new."""

from __future__ import annotations

from collections.abc import Iterable

from . import errors, values
from .calls import Calls
from .v1 import data_pb2, namespaces_pb2
from .values import Key


class Filter:
    """Never forgets, and says of what is not in it "perhaps" as often as it was made for. Thread-safe."""

    kind = "bloom"

    def __init__(self, calls: Calls, name: str):
        self._calls = calls
        self.name = name

    def __repr__(self) -> str:
        return f"<tidepool bloom namespace {self.name!r}, grpc>"

    def add(self, value: Key) -> bool:
        """Whether it is new."""
        return self.add_many([value])[0]

    def add_many(self, items: Iterable[Key], timeout: float | None = None) -> list[bool]:
        """Of each whether it is new."""
        return self._ask(data_pb2.OPERATION_KIND_BLOOM_INSERT, items, timeout)

    def __contains__(self, value: object) -> bool:
        return self.contains_many([value])[0]  # type: ignore[list-item]

    def contains_many(self, items: Iterable[Key], timeout: float | None = None) -> list[bool]:
        """Of each whether it may be in it; False: surely not."""
        return self._ask(data_pb2.OPERATION_KIND_BLOOM_CONTAINS, items, timeout)

    def estimate(self) -> int:
        """About how many values are in it."""
        request = namespaces_pb2.DescribeNamespaceRequest(name=self.name)
        return self._calls.call(lambda node: node.namespaces.Describe, request, changes=False).records

    def _ask(self, kind: int, items: Iterable[Key], timeout: float | None) -> list[bool]:
        names = [values.key_bytes(item) for item in items]
        operations = [data_pb2.Operation(kind=kind, key=name) for name in names]
        answers, failures = [], {}
        inserts = kind == data_pb2.OPERATION_KIND_BLOOM_INSERT
        # To insert twice does no harm, but whether it was new is told the first time only.
        for operation, result in zip(operations, self._calls.execute(self.name, operations, inserts, timeout)):
            answers.append(result.status.code == 0)
            error = errors.of_operation(result.status, self.name, operation) if result.status.code else None
            if error is not None and not isinstance(error, (errors.NotFound, errors.AlreadyExists)):
                failures[operation.key] = error
        if failures:
            raise errors.BatchError(failures, len(names))
        return answers
