"""The store in memory forgets who is idle, and is bounded."""

from barograph.kit.timestamps import SECOND
from barograph.limits.rate_limits import MAILBOX, RateLimit
from barograph.limits.stores import MemoryStore
from support.clock import HandClock

SMALL = RateLimit("small", 2, 10 * SECOND)


async def test_idle_callers_are_forgotten_as_new_ones_come() -> None:
    clock = HandClock()
    store = MemoryStore(clock)
    for crowd in range(5):
        for number in range(100):
            await store.count(SMALL, f"{crowd}-{number}")
        clock.pass_seconds(10)

    assert len(store) <= 101
    await store.close()
    assert len(store) == 0


async def test_long_window_does_not_keep_the_callers_of_a_short_one() -> None:
    clock = HandClock()
    store = MemoryStore(clock)
    await store.count(MAILBOX, "first")
    for number in range(100):
        await store.count(SMALL, str(number))
        clock.pass_seconds(10)

    assert len(store) <= 3


async def test_caller_idle_longest_is_evicted_past_the_cap() -> None:
    store = MemoryStore(HandClock(), max_callers=3)

    # "a" is refused at the end of the first line, yet seen: it is "b" that has to go.
    remaining = [(await store.count(SMALL, caller)).remaining for caller in "abcaaadab"]

    assert remaining == [1, 1, 1, 0, 0, 0, 1, 0, 1]
    assert len(store) == 3
