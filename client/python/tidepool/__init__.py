"""Tidepool from Python, over gRPC: any node's daemon passes each operation on to the owner of its key.

    import tidepool
    with tidepool.connect() as t:
        t["default"]["greeting"] = b"hello"

C++ programs reach the owner in one hop, or read its memory; see the README for what that makes of speed.
"""

from .client import Client, connect
from .errors import (AlreadyExists, BatchError, DataLoss, DeadlineExceeded, Empty, Error, FailedPrecondition,
                     InvalidArgument, NotFound, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable,
                     UnknownOutcome)
from .files import File
from .filter import Filter
from .map import Map, Record
from .queue import Item, Queue
from .version import __version__

__all__ = ["AlreadyExists", "BatchError", "Client", "DataLoss", "DeadlineExceeded", "Empty", "Error",
           "FailedPrecondition", "File", "Filter", "InvalidArgument", "Item", "Map", "NotFound", "PermissionDenied",
           "Queue", "Record", "ResourceExhausted", "Unauthenticated", "Unavailable", "UnknownOutcome", "__version__",
           "connect"]
