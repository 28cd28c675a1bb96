"""Results of functions in a namespace: a store backend of joblib.Memory, and a cache of dask's tasks.

    joblib.Memory("results", backend="tidepool", backend_options={"client": client}).cache(function)
    with TaskCache(client["results"]): dask.compute(graph)

The namespace is made if it is not there. What is read is unpickled: share it with those only who may run code as you.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import pickle
from typing import Any

import joblib
from joblib._store_backends import CacheItemInfo, StoreBackendBase, StoreBackendMixin

import tidepool


class _Item(io.BytesIO):
    def __init__(self, space: Any, key: str):
        super().__init__()
        self._space, self._key = space, key

    def close(self) -> None:
        if not self.closed:
            self._space.put(self._key, self.getvalue())
        super().close()


class StoreBackend(StoreBackendBase, StoreBackendMixin):
    """Keys are joblib's paths. An item appears with its last byte, so no temporary name is needed."""

    def configure(self, location: str, verbose: int = 1, backend_options: Any = None) -> None:
        options = backend_options or {}
        client = options.get("client") or tidepool.connect(options.get("cluster"))
        self.location = location
        self.verbose = verbose
        self.compress = options.get("compress", False)
        self.mmap_mode = None
        self._space = client.create(location.partition("/")[0])

    def _open_item(self, f: str, mode: str) -> Any:
        if mode == "wb":
            return _Item(self._space, f)
        try:
            return io.BytesIO(self._space[f])
        except tidepool.NotFound:
            raise FileNotFoundError(f) from None

    def _item_exists(self, location: str) -> bool:
        return location in self._space or bool(list(self._below(location, 1)))

    def object_exists(self, location: str) -> bool:
        return self._item_exists(location)

    def _move_item(self, src: str, dst: str) -> None:
        self._space.put(dst, self._space.pop(src))

    def _concurrency_safe_write(self, to_write: Any, filename: str, write_func: Any) -> None:
        write_func(to_write, filename)

    def create_location(self, location: str) -> None:
        """Locations are prefixes of keys."""

    def _below(self, location: str, limit: int = 0) -> Any:
        pattern = "".join("\\" + letter if letter in "*?[\\" else letter for letter in location)
        return self._space.scan(pattern + "/*", keys_only=True, limit=limit)

    def clear_location(self, location: str) -> None:
        self._space.delete_many([record.key for record in self._below(location)])

    def get_items(self) -> list[Any]:
        """Sizes of all results. Tidepool knows no time of access, so none is older than another."""
        sizes: dict[str, int] = {}
        for record in self._space.scan():
            folder = record.key.decode().rpartition("/")[0]
            value = record.value
            sizes[folder] = sizes.get(folder, 0) + (len(value) if isinstance(value, bytes) else 8)
        now = datetime.datetime.now()
        return [CacheItemInfo(folder, size, now) for folder, size in sizes.items()]


joblib.register_store_backend("tidepool", StoreBackend)

try:
    from dask.callbacks import Callback
except ImportError:
    Callback = object


class TaskCache(Callback):  # type: ignore[misc, valid-type]
    """Gives tasks that have run the result that they had, by their names. Names must follow from what a task computes, as
    dask.delayed(pure=True) and dask's collections make them. Results above `bytes_max` are computed again."""

    def __init__(self, space: Any, bytes_max: int = 64 << 20):
        super().__init__()
        self._space = space
        self._bytes_max = bytes_max

    @staticmethod
    def _key(task: Any) -> bytes:
        return b"dask/" + hashlib.sha256(repr(task).encode()).digest()

    def _start(self, dsk: dict[Any, Any]) -> None:
        names = {self._key(task): task for task in dsk}
        for key, content in self._space.get_many(list(names)).items():
            dsk[names[key]] = pickle.loads(content)

    def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker_id: Any) -> None:
        content = pickle.dumps(result, protocol=5)
        if len(content) <= self._bytes_max:
            self._space.put(self._key(key), content)
