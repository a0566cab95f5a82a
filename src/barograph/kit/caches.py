"""A cache whose entries last a minute, and work that concurrent callers share."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from barograph.kit.clock import Clock
from barograph.kit.timestamps import MINUTE

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


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
        """Store a value that was computed for `minute`, which may be over by now."""
        self._entries[key] = (minute, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


class SingleFlight(Generic[K, T]):
    """Runs one piece of work per key at a time; concurrent callers wait for the same result."""

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[T]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether that work is running, so that another caller costs nothing."""
        task = self._running.get(key)
        return task is not None and not task.done()

    async def do(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the work, or wait for it if it is already running.

        It continues when a caller gives up, because others may be waiting. The work needs its own
        timeout.
        """
        task = self._running.get(key)
        if task is None or task.done():
            task = asyncio.create_task(work())
            self._running[key] = task
            task.add_done_callback(partial(self._forget, key))
        return await asyncio.shield(task)

    def _forget(self, key: K, task: "asyncio.Task[T]") -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # mark it as seen, also if every caller has gone
