"""The files of a hash namespace, without the records that staging keeps for itself."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from . import errors
from .calls import Calls
from .map import scan_pages
from .v1 import data_pb2, staging_pb2

# The keys of staged files, as proto/convert/staged_keys.h describes them.
_MANIFEST = b"\0manifest\0"
_LARGE_FILE = b"\0file"
_PART = re.compile(rb"\0[0-9a-f]{16}\0[0-9a-f]{8}\Z")


@dataclasses.dataclass(frozen=True)
class File:
    path: bytes
    size: int  # Bytes.


def list_files(calls: Calls, name: str) -> Iterator[File]:
    """See Client.list_files."""
    for record in scan_pages(calls, name, keys_only=True):
        key = record.key
        if key.startswith(_MANIFEST) or (len(key) > 26 and _PART.search(key)):
            continue
        if len(key) > len(_LARGE_FILE) and key.endswith(_LARGE_FILE):
            size = _size_of_large(calls, name, key)
            if size is not None:
                yield File(key[:-len(_LARGE_FILE)], size)
        else:
            yield File(key, record.value_bytes)


def _size_of_large(calls: Calls, name: str, key: bytes) -> int | None:
    """None: it was removed since the scan saw it."""
    get = data_pb2.Operation(kind=data_pb2.OPERATION_KIND_GET, key=key)
    try:
        return staging_pb2.StageEntry.FromString(calls.execute_one(name, get, False, None).value).size
    except errors.NotFound:
        return None
