"""Values and numpy's arrays as bytes. An array travels behind a header in numpy's format .npy, which every client reads."""

from __future__ import annotations

import ast
import functools
import struct
import sys
from typing import Any

from . import errors, values

_MAGIC = b"\x93NUMPY"
_HEADER_MAX = 4096


@functools.lru_cache(maxsize=256)
def _header(descr: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    """Returns the header of version 1.0. Its length is a multiple of 64, so that the data is aligned."""
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    size = len(_MAGIC) + 4 + len(text) + 1
    text += " " * (-size % 64) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


def encode(value: Any) -> tuple[Any, Any]:
    """Returns bytes and their kind, or header and data of an array."""
    numpy = sys.modules.get("numpy")  # Without its import no array exists.
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.hasobject or not value.dtype.isbuiltin:
        return values.encode(value)
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    data = value.T if fortran else numpy.ascontiguousarray(value)
    descr = repr(numpy.lib.format.dtype_to_descr(value.dtype))
    if data.nbytes == 0:
        return _header(descr, fortran, value.shape) + b"", 0
    return _header(descr, fortran, value.shape), data.reshape(-1).view(numpy.uint8)


@functools.lru_cache(maxsize=256)
def _parse(header: bytes) -> tuple[Any, bool, tuple[int, ...]]:
    import numpy  # pylint: disable=import-outside-toplevel
    fields = ast.literal_eval(header.decode("latin1"))
    if set(fields) != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header has other fields")
    dtype = numpy.lib.format.descr_to_dtype(fields["descr"])
    if dtype.hasobject:
        raise ValueError("an array of objects would run code")
    return dtype, bool(fields["fortran_order"]), tuple(fields["shape"])


def decode(content: Any, dtype: Any) -> Any:
    """Returns the array that views `content`: as it was put, or with `dtype` as a row of such numbers."""
    import numpy  # pylint: disable=import-outside-toplevel
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise errors.InvalidArgument("a counter is no array")
    try:
        if dtype is not None:
            return numpy.frombuffer(content, dtype=dtype)
        view = memoryview(content)
        if bytes(view[:6]) != _MAGIC or len(view) < 12:
            raise ValueError("there is no header of an array")
        if view[6] == 1:
            size, begin = struct.unpack("<H", view[8:10])[0], 10
        else:
            size, begin = struct.unpack("<I", view[8:12])[0], 12
        if size > _HEADER_MAX:
            raise ValueError("the header is too long")
        kind, fortran, shape = _parse(bytes(view[begin:begin + size]))
        count = 1
        for extent in shape:
            count *= extent
        array = numpy.frombuffer(content, kind, count, begin + size) if count else numpy.empty(0, kind)
        return array.reshape(shape[::-1]).transpose() if fortran else array.reshape(shape)
    except (ValueError, SyntaxError, struct.error) as error:
        raise errors.InvalidArgument(f"not such an array: {error}", "what C++ wrote has no shape: give its dtype") from None


def copied(array: Any, out: Any) -> Any:
    """Copies an array to `out`, which has the same type and shape, and returns it."""
    if out.dtype != array.dtype or out.shape != array.shape or not out.flags.writeable:
        raise errors.InvalidArgument(f"the array has type {array.dtype} and shape {array.shape}",
                                     "give a writable one of the same type and shape as out")
    out[...] = array
    return out


def keys_of(keys: Any) -> Any:
    """Returns a list of keys, or an array of them with the bytes of each: little-endian, one behind the other."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(keys, numpy.ndarray):
        return keys if isinstance(keys, list) else list(keys)
    if keys.ndim != 1 or keys.dtype.kind not in "iuSV":
        raise errors.InvalidArgument("keys are an array of integers or bytes of one dimension",
                                     "use a list for other keys")
    if keys.dtype.kind in "iu":
        return numpy.ascontiguousarray(keys, keys.dtype.newbyteorder("<"))
    return numpy.ascontiguousarray(keys)


def key_list(keys: Any) -> list[bytes]:
    """Returns the bytes of each key of a list, or of an array as `keys_of` returns it."""
    if isinstance(keys, list):
        return [values.key_bytes(key) for key in keys]
    if keys.dtype.kind == "S":
        return keys.tolist()
    content, size = keys.tobytes(), keys.dtype.itemsize
    return [content[at:at + size] for at in range(0, len(content), size)]


def rows_of(rows: Any, count: int) -> Any:
    """Returns the bytes of an array with a row for each key. Non-contiguous and big-endian arrays are copied."""
    import numpy  # pylint: disable=import-outside-toplevel
    if rows.dtype.hasobject or rows.ndim == 0 or rows.shape[0] != count:
        raise errors.InvalidArgument("values are an array of numbers with a row for each key",
                                     f"its first dimension is {count}")
    return numpy.ascontiguousarray(rows, rows.dtype.newbyteorder("<")).reshape(-1).view(numpy.uint8)


def writable_rows(rows: Any, count: int) -> Any:
    """Returns the memory of `rows` as bytes; refuses what cannot be written to in place."""
    import numpy  # pylint: disable=import-outside-toplevel
    if (not isinstance(rows, numpy.ndarray) or rows.dtype.hasobject or rows.ndim == 0 or rows.shape[0] != count or
            not rows.flags.c_contiguous or not rows.flags.writeable or not rows.dtype.isnative):
        raise errors.InvalidArgument("out is a writable, contiguous array of numbers with a row for each key",
                                     f"its first dimension is {count}")
    return rows.reshape(-1).view(numpy.uint8)
