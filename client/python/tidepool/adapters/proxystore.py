"""A connector of ProxyStore: `proxystore.store.Store("name", TidepoolConnector("objects"))`.

Has the methods of its protocols Connector and DeferrableConnector. The configuration is the connection file, the
namespace and a time to live, so a proxy is resolved by any process that reads this file.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import tidepool


class TidepoolKey(NamedTuple):
    """Names an object in the connector's namespace."""

    name: str


class TidepoolConnector:
    """`cluster`: the connection file; None as in tidepool.connect. `ttl`: seconds that an object stays; None: for ever."""

    def __init__(self, namespace: str, cluster: str | None = None, ttl: float | None = None, clear: bool = False):
        self._client = tidepool.connect(cluster)
        self._space = self._client.create(namespace)
        self._namespace, self._ttl, self._clear = namespace, ttl, clear

    def __repr__(self) -> str:
        return f"TidepoolConnector(namespace={self._namespace!r})"

    def __enter__(self) -> TidepoolConnector:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self, clear: bool | None = None) -> None:
        """Disconnects. `clear`: all objects of the namespace go; None: as the constructor said."""
        if self._clear if clear is None else clear:
            self._space.clear()
        self._client.close()

    def config(self) -> dict[str, Any]:
        cluster = self._client._calls.settings()[0]  # pylint: disable=protected-access
        return {"namespace": self._namespace, "cluster": cluster, "ttl": self._ttl, "clear": self._clear}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TidepoolConnector:
        return cls(**config)

    def evict(self, key: TidepoolKey) -> None:
        self._space.pop(key.name, None)

    def exists(self, key: TidepoolKey) -> bool:
        return key.name in self._space

    def get(self, key: TidepoolKey) -> bytes | None:
        return self._space.get(key.name)

    def get_batch(self, keys: Sequence[TidepoolKey]) -> list[bytes | None]:
        found = self._space.get_many([key.name for key in keys])
        return [found.get(key.name.encode()) for key in keys]

    def put(self, obj: bytes) -> TidepoolKey:
        key = self.new_key()
        self.set(key, obj)
        return key

    def put_batch(self, objs: Sequence[bytes]) -> list[TidepoolKey]:
        keys = [self.new_key() for _ in objs]
        self._space.put_many(((key.name, obj) for key, obj in zip(keys, objs)), ttl=self._ttl)
        return keys

    def new_key(self, obj: bytes | None = None) -> TidepoolKey:
        """Returns a key whose object `set` puts later."""
        del obj
        return TidepoolKey(uuid.uuid4().hex)

    def set(self, key: TidepoolKey, obj: bytes) -> None:
        self._space.put(key.name, obj, ttl=self._ttl)
