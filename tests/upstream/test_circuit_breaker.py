"""The circuit breaker: when calls to the exchange stop, and when they resume."""

import asyncio

import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.circuit_breaker import CircuitBreaker
from support.clock import HandClock

ALL_FAILURES = (Unreachable, InvalidReply, Throttled, Forbidden)


def _end(breaker: CircuitBreaker, error: UpstreamError | None = None) -> None:
    with breaker.guard():
        if error is not None:
            raise error


def _fail(breaker: CircuitBreaker, error: UpstreamError, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(type(error)):
            _end(breaker, error)


def _open_seconds(breaker: CircuitBreaker, hand: HandClock) -> float:
    """How long the breaker stays open; leaves the hand at the end of it."""
    for tenths in range(10_000):
        try:
            breaker.check()
        except UpstreamError:
            hand.pass_seconds(0.1)
        else:
            return tenths / 10
    raise AssertionError("it never opens again")


def test_it_opens_at_the_fourth_failure_in_a_row() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Unreachable("down"), times=3)
    _end(breaker)
    _fail(breaker, Unreachable("down"), times=3)
    breaker.check()
    _fail(breaker, InvalidReply("no list"))
    with pytest.raises(InvalidReply, match=r"no list \(circuit breaker open\)"):
        breaker.check()
    assert _open_seconds(breaker, hand) == 5.0


def test_each_failed_try_doubles_the_pause_up_to_six_times() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Unreachable("down"), times=4)
    pauses = [_open_seconds(breaker, hand)]
    for _ in range(5):
        _fail(breaker, Unreachable("down"))
        pauses.append(_open_seconds(breaker, hand))
    assert pauses == [5.0, 10.0, 20.0, 30.0, 30.0, 30.0]
    _end(breaker)
    _fail(breaker, Unreachable("down"), times=3)
    breaker.check()


def test_after_the_pause_one_call_tries_and_the_others_wait() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Unreachable("down"), times=4)
    hand.pass_seconds(5)
    with breaker.guard():
        with pytest.raises(Unreachable):
            breaker.check()
        with pytest.raises(Unreachable):
            _end(breaker)
    breaker.check()


def test_a_cancelled_try_leaves_the_next_call_to_try() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Unreachable("down"), times=4)
    hand.pass_seconds(5)
    with pytest.raises(asyncio.CancelledError), breaker.guard():
        raise asyncio.CancelledError
    _fail(breaker, Unreachable("down"))
    with pytest.raises(Unreachable):
        breaker.check()


def test_being_throttled_opens_it_at_once_for_as_long_as_asked() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Throttled("slow down", 12.0))
    hand.pass_seconds(2)
    with pytest.raises(Throttled) as raised:
        breaker.check()
    assert raised.value.retry_after == 10.0
    assert _open_seconds(breaker, hand) == 10.0


def test_being_refused_three_times_opens_it_for_a_minute() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Forbidden("geography"), times=2)
    breaker.check()
    _fail(breaker, Forbidden("geography"))
    with pytest.raises(Forbidden):
        breaker.check()
    assert _open_seconds(breaker, hand) == 60.0


def test_an_unknown_contract_counts_as_a_success() -> None:
    breaker = CircuitBreaker(HandClock(), 5.0, ALL_FAILURES)
    for _ in range(3):
        _fail(breaker, Unreachable("down"), times=3)
        _fail(breaker, UnknownToUpstream("symbol invalid"))
    breaker.check()


def test_a_call_under_way_neither_closes_nor_shortens_an_open_breaker() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    with breaker.guard():
        _fail(breaker, Throttled("banned", 600.0))
    with pytest.raises(Throttled):
        breaker.check()
    hand.pass_seconds(600)
    with pytest.raises(Throttled), breaker.guard():
        raise Throttled("slow down", 5.0)
    assert _open_seconds(breaker, hand) == 5.0


def test_a_clock_that_is_set_back_does_not_hold_calls_for_hours() -> None:
    hand = HandClock()
    breaker = CircuitBreaker(hand, 5.0, ALL_FAILURES)
    _fail(breaker, Unreachable("down"), times=4)
    hand.pass_seconds(-3600)
    _end(breaker)
    breaker.check()
