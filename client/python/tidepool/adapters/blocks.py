"""Blocks of a language model's key-value cache by the hashes of their tokens, as LMCache stores them.

    store = BlockStore(client.create("kv"), model="llama", tokens_per_block=256, shape=(2, 32, 256, 128), dtype="f2")
    store.put(tokens, blocks)                     # blocks[i] belongs to the i-th whole block of tokens.
    count, blocks = store.get(tokens)             # The longest prefix that is stored, in one call.

The hash of a block covers all tokens before it, so equal blocks behind different beginnings are different.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy


class BlockStore:
    """All blocks of a store have one shape and type. `ttl`: seconds that a block stays; None: for ever."""

    def __init__(self, space: Any, model: str, tokens_per_block: int, shape: tuple[int, ...], dtype: Any,
                 ttl: float | None = None):
        self._space = space
        self._tokens = tokens_per_block
        self._shape, self._dtype = tuple(shape), numpy.dtype(dtype)
        self._ttl = ttl
        self._root = hashlib.sha256(repr((model, tokens_per_block, self._shape, self._dtype.str)).encode()).digest()

    def keys(self, tokens: Any) -> list[bytes]:
        """Returns the key of each whole block of tokens."""
        numbers = numpy.ascontiguousarray(tokens, "<i8")
        keys, last = [], self._root
        for begin in range(0, len(numbers) - self._tokens + 1, self._tokens):
            last = hashlib.sha256(last + numbers[begin:begin + self._tokens].tobytes()).digest()
            keys.append(last)
        return keys

    def put(self, tokens: Any, blocks: Any, first: int = 0) -> None:
        """Puts blocks[i] as block first + i of the tokens, in one call."""
        rows = numpy.ascontiguousarray(blocks, self._dtype)
        keys = self.keys(tokens)[first:first + len(rows)]
        if rows.shape[1:] != self._shape or len(keys) != len(rows):
            raise ValueError(f"blocks of shape {rows.shape} are no {len(keys)} blocks of shape {self._shape}")
        if keys:
            self._space.put_many(keys, rows, ttl=self._ttl)

    def contains(self, tokens: Any) -> int:
        """Returns how many tokens from the first on are stored, without reading a block."""
        count = 0
        for key in self.keys(tokens):
            if key not in self._space:
                break
            count += 1
        return count * self._tokens

    def get(self, tokens: Any, out: Any = None) -> tuple[int, Any]:
        """Returns the number of tokens of the longest stored prefix, and its blocks: rows of `out`, an array for all whole
        blocks, or of a new array."""
        keys = self.keys(tokens)
        if out is None:
            out = numpy.empty((len(keys), *self._shape), self._dtype)
        if not keys:
            return 0, out[:0]
        found = self._space.get_many(keys, out=out[:len(keys)])
        count = len(keys) if found.all() else int(numpy.argmin(found))
        return count * self._tokens, out[:count]

    def remove(self, tokens: Any) -> None:
        """Removes all blocks of the tokens."""
        self._space.delete_many(self.keys(tokens))
