"""What a call can fail with. The set is closed: each failure is an Error, of the class of its code."""

from __future__ import annotations

from typing import Mapping

import grpc

from .v1 import common_pb2, data_pb2


class Error(Exception):
    """`code` is the status code's name, `what` says what happened, `remedy` what to do (may be empty)."""

    code = "INTERNAL"

    def __init__(self, what: str = "", remedy: str = "", code: str = ""):
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.code = code or type(self).code

    def __str__(self) -> str:
        return self.code + (": " + self.what if self.what else "") + (f" ({self.remedy})" if self.remedy else "")


class NotFound(Error, KeyError):
    """There is no such key, namespace, or cluster."""
    code = "NOT_FOUND"
    __str__ = Error.__str__  # KeyError's would show its argument only.


class Empty(NotFound):
    """The queue has no item that is ready."""


class InvalidArgument(Error, ValueError):
    """The request is wrong, whatever the state of the cluster."""
    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    """Nothing has happened before the deadline."""
    code = "DEADLINE_EXCEEDED"


class UnknownOutcome(Error):
    """The change was sent, and it is not known whether it was made. Never retried by itself."""
    code = "UNKNOWN"


class AlreadyExists(Error):
    """Of the same name with other options, or under if_absent a key that is there."""
    code = "ALREADY_EXISTS"


class PermissionDenied(Error):
    """A file could have been written by another user."""
    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    """Memory, devices or a bound are used up; reads and deletes still work."""
    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """A condition does not hold: another version or value, a lease that has ended, plain gRPC to another machine."""
    code = "FAILED_PRECONDITION"


class DataLoss(Error):
    """Data that was acknowledged is gone; `kvctl namespace accept-loss` goes on."""
    code = "DATA_LOSS"


class Unavailable(Error):
    """The owner cannot be reached; nothing has happened, and it is safe to try again."""
    code = "UNAVAILABLE"


class Unauthenticated(Error):
    """The daemon does not take the job token: it is of another cluster."""
    code = "UNAUTHENTICATED"


class BatchError(Error):
    """Some operations of a batch have failed: `failures` tells by key which, and how. The others are done."""

    def __init__(self, failures: Mapping[bytes, Error], of: int):
        self.failures = dict(failures)
        key, first = next(iter(self.failures.items()))
        self._of = of
        super().__init__(f"{len(self.failures)} of {of} operations failed; the first: {first.what or shown(key)}",
                         first.remedy, first.code)

    def __reduce__(self) -> tuple[type[BatchError], tuple[dict[bytes, Error], int]]:
        """Names the constructor's arguments for pickle, since an exception of a worker process arrives by it."""
        return BatchError, (self.failures, self._of)


_CODES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
          "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
          "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "WRONG_EPOCH", "OVERLOADED", "DEVICE_ERROR")
_CLASSES = {each.code: each for each in (NotFound, InvalidArgument, DeadlineExceeded, UnknownOutcome, AlreadyExists,
                                         PermissionDenied, ResourceExhausted, FailedPrecondition, DataLoss,
                                         Unavailable, Unauthenticated)}
_TEXTS = {"NOT_FOUND": " does not exist", "ALREADY_EXISTS": " exists already",
          "FAILED_PRECONDITION": " is in another state: value, version or lease"}
_KEY_SHOWN_MAX = 200
_OF_ITEMS = (data_pb2.OPERATION_KIND_ACK, data_pb2.OPERATION_KIND_NACK)
_OF_QUEUES = (data_pb2.OPERATION_KIND_PUSH, data_pb2.OPERATION_KIND_POP, data_pb2.OPERATION_KIND_PEEK,
              data_pb2.OPERATION_KIND_QUEUE_LENGTH)


def shown(key: bytes) -> str:
    """Returns a key for messages: quoted text if it is UTF-8, else the bytes as Python writes them."""
    try:
        text = repr(key.decode())
    except UnicodeDecodeError:
        text = repr(key)
    return text if len(text) <= _KEY_SHOWN_MAX else text[:_KEY_SHOWN_MAX] + "..."


def of_operation(status: common_pb2.OperationStatus, namespace: str, operation: data_pb2.Operation) -> Error:
    """Returns the error of an operation. Its text names the key or the item."""
    subject = f"namespace '{namespace}'"
    if operation.kind in _OF_ITEMS:
        subject = f"item {operation.item_id} of {subject}"
    elif operation.kind not in _OF_QUEUES:
        subject = f"key {shown(operation.key)} of {subject}"
    code = _CODES[status.code] if status.code < len(_CODES) else "UNKNOWN"
    return of_code(status.code, subject + (": " + status.message if status.message else _TEXTS.get(code, "")))


def of_code(number: int, what: str, remedy: str = "") -> Error:
    """What an OperationStatus says."""
    code = _CODES[number] if 0 < number < len(_CODES) else "UNKNOWN"
    return _CLASSES.get(code, Error)(what, remedy, code)


def of_native(number: int, what: str, remedy: str, subject: str, is_generic: bool) -> Error:
    """Returns the error of a failure of the C++ library. `subject` names the key, item or namespace; may be empty.
    `is_generic`: `what` has nothing to add to the code."""
    if not subject:
        return of_code(number, what, remedy)
    code = _CODES[number] if 0 < number < len(_CODES) else "UNKNOWN"
    if is_generic and code in _TEXTS:
        return of_code(number, subject + _TEXTS[code], remedy)
    return of_code(number, f"{subject}: {what}" if what else subject, remedy)


def of_rpc(error: grpc.RpcError, address: str) -> tuple[Error, bool]:
    """The error, and whether a daemon has said so: else it is the connection's."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            details = common_pb2.StatusDetails.FromString(value)
            if details.code:
                return of_code(details.code, details.what, details.remedy), True
    number, text = error.code().value[0], error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return Unavailable(f"{address} cannot be reached: {text}", "is the daemon running? see: kvctl status"), False
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"{address} did not answer in time", "give a longer timeout, or see: kvctl status"), False
    return of_code(number, f"{address}: {text}"), False
