"""Every store counts an exact sliding window: the same tests for all of them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.limits.rate_limits import (
    ANONYMOUS,
    PERSONAL,
    LimitStore,
    RateLimit,
    Usage,
    retry_seconds,
)
from barograph.limits.sqlite_store import SQLiteStore
from barograph.limits.stores import MemoryStore
from barograph.limits.valkey_store import SCRIPT, ValkeyStore
from support.clock import HandClock
from support.valkey import Valkey, running_valkey

SMALL = RateLimit("small", 3, 10 * SECOND)
STEPS = st.one_of(
    st.sampled_from([0, 0, 1, 500, SMALL.window - 1, SMALL.window, SMALL.window + 1]),
    st.integers(0, SMALL.window + 1),
)


class Counter:
    """A store, the hand of its clock, and what it accepted."""

    def __init__(self, runner: asyncio.Runner, store: LimitStore, clock: HandClock) -> None:
        self._runner = runner
        self.store = store
        self.clock = clock
        self.accepted: list[int] = []

    def count(self, limit: RateLimit, caller: str = "a") -> Usage:
        usage = self._runner.run(self.store.count(limit, caller))
        if usage.accepted:
            self.accepted.append(self.clock.now)
        return usage

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()


class HandTimedValkey:
    """The Valkey store, whose script reads the manual clock from a key in place of `TIME`."""

    def __init__(self, server: Valkey, clock: HandClock) -> None:
        hand = "redis.call('GET', 'hand')"
        script = SCRIPT.replace(
            "redis.call('TIME')", f"{{math.floor({hand} / 1000), {hand} % 1000 * 1000}}"
        )
        assert script.count(hand) == 2
        self._store = ValkeyStore(f"{server.url}?socket_timeout=30", b"secret", script=script)
        self._client = server.connect()
        self._client.flushall()
        self._clock = clock

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        self._client.set("hand", self._clock.now)
        return await self._store.count(limit, caller)

    async def close(self) -> None:
        self._client.close()
        await self._store.close()


OpenCounter = Callable[[], Counter]


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with running_valkey() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("valkey", marks=pytest.mark.thorough)])
def open_counter(request: pytest.FixtureRequest, tmp_path: Path) -> OpenCounter:
    """Opens an empty store of each kind."""
    number = iter(range(1_000_000))

    def open_store(clock: HandClock) -> LimitStore:
        if request.param == "memory":
            return MemoryStore(clock)
        if request.param == "sqlite":
            return SQLiteStore(tmp_path / f"{next(number)}.sqlite3", clock, b"secret")
        return HandTimedValkey(request.getfixturevalue("valkey"), clock)

    def open_one() -> Counter:
        clock = HandClock()
        return Counter(asyncio.Runner(), open_store(clock), clock)

    return open_one


@pytest.fixture
def counter(open_counter: OpenCounter) -> Iterator[Counter]:
    with closing(open_counter()) as counter:
        yield counter


def assert_exact(accepted: list[int], limit: RateLimit) -> None:
    """No window, wherever it begins, holds more than is allowed."""
    for first, beyond in zip(accepted, accepted[limit.requests :], strict=False):
        assert beyond - first >= limit.window


@pytest.mark.contract(
    "limits.signals.anonymous", "limits.signals.personal-key", "auth.key-raises-allowance"
)
@pytest.mark.parametrize(
    ("limit", "requests", "seconds"), [(ANONYMOUS, 120, 6), (PERSONAL, 1_000, 2)]
)
def test_greedy_caller_gets_exactly_its_limit_in_any_hour(
    counter: Counter, limit: RateLimit, requests: int, seconds: int
) -> None:
    for _ in range(2 * HOUR // (seconds * SECOND)):
        counter.count(limit)
        counter.clock.now += seconds * SECOND
    assert len(counter.accepted) == 2 * requests
    assert_exact(counter.accepted, limit)


def test_callers_and_limits_are_counted_apart(counter: Counter) -> None:
    other = RateLimit("other", 3, 10 * SECOND)
    for _ in range(SMALL.requests):
        counter.count(SMALL, "a")
    assert not counter.count(SMALL, "a").accepted
    assert counter.count(SMALL, "b").remaining == 2
    assert counter.count(other, "a").remaining == 2


def test_who_waits_as_long_as_retry_after_says_is_accepted(counter: Counter) -> None:
    for _ in range(SMALL.requests):
        counter.count(SMALL)
        counter.clock.now += 1_234
    for _ in range(20):
        refused = counter.count(SMALL)
        assert not refused.accepted
        counter.clock.now += retry_seconds(refused) * SECOND
        assert counter.count(SMALL).accepted
        while counter.count(SMALL).accepted:
            pass
    assert_exact(counter.accepted, SMALL)


def test_store_agrees_with_counting_every_stamp(open_counter: OpenCounter) -> None:
    """Usage by usage, beside a list of all accepted requests."""

    @settings(max_examples=60, deadline=None)
    @given(st.lists(STEPS, max_size=40))
    def agree(steps: list[int]) -> None:
        with closing(open_counter()) as counter:
            for step in steps:
                counter.clock.now += step
                now = counter.clock.now
                inside = [stamp for stamp in counter.accepted if stamp > now - SMALL.window]
                usage = counter.count(SMALL)
                assert usage.accepted == (len(inside) < SMALL.requests)
                inside += [now] if usage.accepted else []
                assert usage.remaining == SMALL.requests - len(inside)
                assert usage.resets_in == inside[0] + SMALL.window - now

    agree()


def test_clock_set_back_neither_adds_requests_nor_locks_out(open_counter: OpenCounter) -> None:
    """`passed` is real time; the clock loses some of it at each step back."""
    moves = st.tuples(STEPS, st.sampled_from([0, 0, 0, 1, 700, MINUTE, HOUR]))

    @settings(max_examples=60, deadline=None)
    @given(st.lists(moves, max_size=40))
    def hold(moves: list[tuple[int, int]]) -> None:
        with closing(open_counter()) as counter:
            passed, accepted = 0, []
            for step, back in moves:
                passed += step
                counter.clock.now += step - back
                if counter.count(SMALL).accepted:
                    accepted.append(passed)
            assert_exact(accepted, SMALL)
            counter.clock.now += SMALL.window + SECOND
            assert counter.count(SMALL).accepted

    hold()


def test_short_step_back_does_not_bring_the_stamps_out_of_order(counter: Counter) -> None:
    counter.count(SMALL)
    counter.clock.now += 900
    counter.count(SMALL)
    counter.clock.now -= 800
    counter.count(SMALL)
    assert counter.count(SMALL).resets_in == SMALL.window - 900


def test_steps_back_while_refused_do_not_stop_the_window(counter: Counter) -> None:
    for _ in range(SMALL.requests):
        counter.count(SMALL)
    counter.clock.now -= HOUR
    assert not counter.count(SMALL).accepted
    counter.clock.now += SMALL.window - 1
    assert not counter.count(SMALL).accepted
    counter.clock.now += 1
    assert counter.count(SMALL).accepted
