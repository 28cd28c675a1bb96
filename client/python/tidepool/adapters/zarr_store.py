"""A store of zarr 2 in a namespace. The chunks of a selection come in one call.

    zarr.open(ZarrStore(client.create("field")), "w", shape=(1000, 1000), chunks=(100, 100))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numcodecs.compat import ensure_bytes
from zarr.storage import Store

import tidepool


class ZarrStore(Store):
    """`prefix`: of all keys, so that a namespace holds several groups."""

    def __init__(self, space: Any, prefix: str = ""):
        self._space = space
        self._prefix = prefix

    def _key(self, key: str) -> str:
        return self._prefix + key

    def __getitem__(self, key: str) -> bytes:
        return self._space[self._key(key)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._space.put(self._key(key), ensure_bytes(value))

    def __delitem__(self, key: str) -> None:
        del self._space[self._key(key)]

    def __contains__(self, key: object) -> bool:
        return self._prefix + str(key) in self._space

    def __iter__(self) -> Iterator[str]:
        return self._keys("")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _keys(self, path: str) -> Iterator[str]:
        begin = self._prefix + path
        pattern = "".join("\\" + letter if letter in "*?[\\" else letter for letter in begin)
        for record in self._space.scan(pattern + "*", keys_only=True):
            yield record.key.decode()[len(self._prefix):]

    def getitems(self, keys: Iterable[str], **_: Any) -> Mapping[str, bytes]:
        """Returns those that are there."""
        names = {self._key(key).encode(): key for key in keys}
        return {names[key]: value for key, value in self._space.get_many(list(names)).items()}

    def setitems(self, items: Mapping[str, Any]) -> None:
        self._space.put_many({self._key(key): ensure_bytes(value) for key, value in items.items()})

    def getsize(self, path: str = "") -> int:
        """Bytes of a key, or of what lies directly below a path. -1: there is nothing."""
        try:
            return len(self._space[self._key(path)]) if path else self._size_below("")
        except tidepool.NotFound:
            return self._size_below(path.rstrip("/") + "/")

    def _size_below(self, folder: str) -> int:
        names = [key for key in self._keys(folder) if "/" not in key[len(folder):]]
        return sum(len(value) for value in self.getitems(names).values())

    def rmdir(self, path: str = "") -> None:
        folder = path.strip("/")
        self._space.delete_many([self._key(key) for key in self._keys(folder + "/" if folder else "")])

    def clear(self) -> None:
        self.rmdir()
