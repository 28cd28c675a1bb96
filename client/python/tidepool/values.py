"""Keys and values as bytes: text, counters, numpy's arrays."""

from __future__ import annotations

import io
import struct
import sys
from typing import Any, Union

from . import errors
from .v1 import common_pb2

Key = Union[str, bytes]
Value = Union[bytes, int, float]  # As read: counters are numbers.
I64_MIN, I64_MAX, U64_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_SHOWN_BITS_MAX = 128


def key_bytes(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is str or bytes, not {type(key).__name__}")


def plain(value: Any) -> Any:
    """Returns a number of numpy's as int, float or bool, and every other value unchanged."""
    numpy = sys.modules.get("numpy")  # Without its import no such number exists.
    if not isinstance(value, getattr(numpy, "generic", ())) or isinstance(value, numpy.timedelta64):
        return value
    for scalar, python in ((numpy.bool_, bool), (numpy.integer, int), (numpy.floating, float)):
        if isinstance(value, scalar):
            return python(value)
    return value


def integer(value: Any, name: str, least: int, most: int) -> int:
    """Returns `value` as int. TypeError: it is no integer; InvalidArgument, a ValueError: it is out of range."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if not least <= value <= most:
        bits = value.bit_length()
        shown = str(value) if bits <= _SHOWN_BITS_MAX else f"of {bits} bits"
        raise errors.InvalidArgument(f"{name} {shown} is out of range", f"give an integer from {least} to {most}")
    return value


def seconds(value: Any, name: str) -> float:
    """Returns a duration as float. TypeError: it is no number; InvalidArgument, a ValueError: negative or not finite."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
    if not 0 <= value <= I64_MAX // 1000:  # NaN is refused here, too.
        shown = f"of {value.bit_length()} bits" if isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX else value
        raise errors.InvalidArgument(f"{name} {shown} is out of range",
                                     f"give a number of seconds from 0 to {I64_MAX // 1000}")
    return float(value)


def milliseconds(value: Any, name: str) -> int | None:
    """Returns seconds as milliseconds: at least 1 unless they are 0; None for None."""
    if value is None:
        return None
    duration = seconds(value, name)
    return max(1, round(duration * 1000)) if duration > 0 else 0


def encode(value: Any) -> tuple[bytes, int]:
    """Bytes and their kind. An int or float, numpy's included, is a counter, as fetch_add makes it; an array is kept with
    its shape and type, in numpy's format .npy."""
    value = plain(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), common_pb2.VALUE_KIND_BYTES
    if isinstance(value, str):
        return value.encode(), common_pb2.VALUE_KIND_BYTES
    if isinstance(value, bool):
        raise TypeError("a value is bytes, str, int, float or an array, not bool")
    if isinstance(value, int):
        return struct.pack("<q", integer(value, "the counter", I64_MIN, I64_MAX)), common_pb2.VALUE_KIND_I64
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
