"""The client on Tidepool's C++ library: one hop to the owner of a key, or a read of its memory.

The package `tidepool` chooses it by itself where it can, see client/python/NATIVE.md.
"""

from .client import Client, connect
from .group import Group
from .map import Buffered, Map
from .queue import Item, Queue
from .filter import Filter

__all__ = ["Buffered", "Client", "Filter", "Group", "Item", "Map", "Queue", "connect"]
