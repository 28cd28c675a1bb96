"""A journal backend of Optuna: `optuna.storages.JournalStorage(JournalBackend(client.create("study")))`.

Entry n has the key `PREFIX/n`. An entry is put only if its number is free, so entries have no gaps, whichever writer
dies, and writers need no lock.
"""

from __future__ import annotations

import json
from typing import Any

from optuna.storages._journal.base import BaseJournalLogSnapshot, BaseJournalLogStorage

import tidepool

_READ_AT_ONCE = 256


class JournalBackend(BaseJournalLogStorage, BaseJournalLogSnapshot):
    """Pickles with its map's handle. `prefix`: several studies share a namespace."""

    def __init__(self, space: Any, prefix: str = "journal"):
        self._space = space
        self._prefix = prefix
        self._free = 0  # No number below it is free.

    def _key(self, number: int) -> str:
        return f"{self._prefix}/{number}"

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        logs: list[dict[str, Any]] = []
        while True:
            first = log_number_from + len(logs)
            keys = [self._key(number).encode() for number in range(first, first + _READ_AT_ONCE)]
            found = self._space.get_many(keys)
            for key in keys:
                if key not in found:
                    self._free = max(self._free, log_number_from + len(logs))
                    return logs
                logs.append(json.loads(found[key]))

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        for log in logs:
            content = json.dumps(log)
            while True:
                try:
                    self._space.put(self._key(self._free), content, if_absent=True)
                    break
                except tidepool.AlreadyExists:
                    self._free += 1
            self._free += 1

    def save_snapshot(self, snapshot: bytes) -> None:
        self._space.put(f"{self._prefix}/snapshot", snapshot)

    def load_snapshot(self) -> bytes | None:
        return self._space.get(f"{self._prefix}/snapshot")
