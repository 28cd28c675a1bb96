"""The four calls of SimAI-Bench's data stores, with which its simulations and trainings exchange data.

    store = DataStore(client.create("stage"))
    store.stage_write("sim_0_1", array)
    if store.poll_staged_data("sim_0_1"): array = store.stage_read("sim_0_1")
    store.clean_staged_data("sim_0_1")

An array of numbers travels as it lies in memory, anything else pickled: read only what your own job has written.
`client_id` and `is_local` are taken and mean nothing, since every client reaches every key.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy

_ARRAY, _PICKLE = b"\x93NUMPY", b"\x80"


class DataStore:
    """One namespace as a staging area."""

    def __init__(self, space: Any):
        self._space = space

    def stage_write(self, key: str, data: Any, persistant: bool = True, client_id: int = 0, is_local: bool = False) -> None:
        del persistant, client_id, is_local
        if isinstance(data, numpy.ndarray) and not data.dtype.hasobject:
            self._space.put(key, data)
        else:
            self._space.put(key, pickle.dumps(data, protocol=5))

    def stage_read(self, key: str, client_id: int = 0, is_local: bool = False, timeout: float | None = None) -> Any:
        """Returns what was written. With `timeout` waits for it so many seconds. KeyError, TimeoutError."""
        del client_id, is_local
        if timeout is not None:
            self._space.wait(key, timeout)
        value = self._space.array(key, "u1")  # Bytes of their own, which an array may view.
        content = memoryview(value)
        if bytes(content[:1]) == _PICKLE:
            return pickle.loads(content)
        return self._space.array(key)

    def poll_staged_data(self, key: str, client_id: int = 0, is_local: bool = False) -> bool:
        del client_id, is_local
        return key in self._space

    def clean_staged_data(self, key: str, client_id: int = 0, is_local: bool = False) -> None:
        """Removes it; one that is not there is none."""
        del client_id, is_local
        self._space.pop(key, None)
