"""A bounded cache whose values expire at the end of the clock's minute."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from barograph.kit.clock import Clock
from barograph.kit.timestamps import MINUTE

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MinuteCache(Generic[K, V]):
    """A least-recently-used cache whose entries expire with the minute that they belong to."""

    def __init__(self, clock: Clock, size: int) -> None:
        self._clock = clock
        self._size = size
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()

    @property
    def minute(self) -> int:
        """When the current minute began."""
        return self._clock() // MINUTE * MINUTE

    def get(self, key: K) -> V | None:
        """The value for the current minute, or None."""
        entry = self._entries.get(key)
        if entry is None or entry[0] != self.minute:
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: K, minute: int, value: V) -> None:
        """Store a value that was made for `minute`, which may be over by now."""
        self._entries[key] = (minute, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
