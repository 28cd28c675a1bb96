"""Keys and values as bytes: text, counters, numpy's arrays."""

from __future__ import annotations

import io
import struct
from typing import Any, Union

from . import errors
from .v1 import common_pb2

Key = Union[str, bytes]
Value = Union[bytes, int, float]  # As read: counters are numbers.


def key_bytes(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is str or bytes, not {type(key).__name__}")


def encode(value: Any) -> tuple[bytes, int]:
    """Bytes and their kind. An int or float is a counter, as fetch_add makes it; an array is kept with its shape and
    type, in numpy's format .npy."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), common_pb2.VALUE_KIND_BYTES
    if isinstance(value, str):
        return value.encode(), common_pb2.VALUE_KIND_BYTES
    if isinstance(value, bool):
        raise TypeError("a value is bytes, str, int, float or an array, not bool")
    if isinstance(value, int):
        return struct.pack("<q", value), common_pb2.VALUE_KIND_I64
    if isinstance(value, float):
        return struct.pack("<d", value), common_pb2.VALUE_KIND_F64
    if hasattr(value, "__array__"):
        import numpy  # pylint: disable=import-outside-toplevel  # Most programs need none.
        buffer = io.BytesIO()
        # Objects would be pickled, and a pickle that is read runs code.
        numpy.lib.format.write_array(buffer, numpy.asarray(value), allow_pickle=False)
        return buffer.getvalue(), common_pb2.VALUE_KIND_BYTES
    raise TypeError(f"a value is bytes, str, int, float or an array, not {type(value).__name__}")


def decode(value: bytes, kind: int) -> Value:
    if kind == common_pb2.VALUE_KIND_I64 and len(value) == 8:
        return struct.unpack("<q", value)[0]
    if kind == common_pb2.VALUE_KIND_F64 and len(value) == 8:
        return struct.unpack("<d", value)[0]
    return value


def decode_array(value: Value, dtype: Any) -> Any:
    import numpy  # pylint: disable=import-outside-toplevel
    if not isinstance(value, bytes):
        raise errors.InvalidArgument("a counter is no array")
    try:
        if dtype is not None:
            return numpy.frombuffer(value, dtype=dtype)
        return numpy.lib.format.read_array(io.BytesIO(value), allow_pickle=False)
    except ValueError as error:
        raise errors.InvalidArgument(f"not such an array: {error}", "what C++ wrote has no shape: give its dtype") from None
