"""Outcomes of asynchronous calls in asyncio's event loop: a port of the extension for each loop."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable

from . import _native


class _Port:
    """Takes outcomes from the library's progress thread to the futures of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.native = _native.Port()
        self.native.open()
        loop.add_reader(self.native.fileno(), self.native.drain)


_PORTS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Port] = weakref.WeakKeyDictionary()


def _give(loop: asyncio.AbstractEventLoop, late: Callable[[Any], None], value: Any) -> None:
    """Runs late(value) for a caller that has gone. The loop reports what it raises."""
    try:
        late(value)
    except Exception as error:  # pylint: disable=broad-except
        loop.call_exception_handler({"message": "a value that came too late was not given back", "exception": error})


async def call(start: Callable[..., None], *arguments: Any, late: Callable[[Any], None] | None = None) -> Any:
    """Runs start(port, done, *arguments) and waits for its outcome. A cancelled wait forgets the call, and `late` gets
    the value that comes all the same."""
    loop = asyncio.get_running_loop()
    port = _PORTS.get(loop)
    if port is None:
        port = _PORTS[loop] = _Port(loop)
    future: asyncio.Future[Any] = loop.create_future()

    def done(value: Any, error: BaseException | None) -> None:
        if future.done():  # Cancelled.
            if error is None and late is not None:
                _give(loop, late, value)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    start(port.native, done, *arguments)
    return await future


async def opened(handle: Any) -> Any:
    """Returns the handle of the second connection, which is opened beside the loop the first time."""
    if handle._moving is None:  # pylint: disable=protected-access
        await asyncio.to_thread(handle._open_moving)  # pylint: disable=protected-access
    return handle._moving  # pylint: disable=protected-access
