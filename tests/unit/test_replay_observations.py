"""What the replay observes: every contract's accounts wherever a chart can show them."""

import asyncio
from itertools import pairwise

import pytest

from barograph.kit.clock import Clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import nearest
from barograph.markets.samples import DAYS, STEPS, on_grid
from barograph.venues.records import MAJORS
from barograph_demo.replay.observations import (
    _DECODER,
    MarketObservation,
    observe,
    observe_batch,
    steps,
)
from barograph_demo.replay.replay import moments
from barograph_demo.world.contracts import live_symbols
from barograph_demo.world.world import World
from support.clock import START, HandClock

FULL_DAY = START // DAY * DAY


@pytest.mark.parametrize("later", [0, 1, HOUR - 1, HOUR, 3 * HOUR + 20 * MINUTE, 4 * HOUR])
@pytest.mark.parametrize("days", DAYS)
def test_accounts_are_read_for_every_hour_that_a_chart_shows(days: int, later: int) -> None:
    now = FULL_DAY + later
    epoch = now // HOUR * HOUR - 60 * DAY
    in_full = {at for _, at, full, _ in steps(epoch, list(moments(epoch, now))) if full}

    shown = {point.at for point in on_grid({}, days, STEPS[days], now) if point.at > epoch}

    assert len(shown) >= min(days * DAY // STEPS[days], 24)
    assert shown <= in_full


def test_accounts_are_not_read_for_most_other_hours() -> None:
    epoch = FULL_DAY - 60 * DAY
    todo = steps(epoch, list(moments(epoch, FULL_DAY)))

    assert sum(full for _, _, full, _ in todo) < 0.4 * len(todo)


@pytest.mark.parametrize("minute", [0, 1, 14, 59])
def test_five_minute_steps_begin_before_the_time_of_24_hours_ago(minute: int) -> None:
    now = FULL_DAY + minute * MINUTE
    times = list(moments(now - 2 * DAY, now))
    fine = next(at for before, at in pairwise(times) if at - before == 5 * MINUTE)

    assert fine <= now - DAY - 5 * MINUTE


def test_the_first_time_is_observed_in_full_and_no_times_give_no_steps() -> None:
    epoch = FULL_DAY - DAY
    todo = steps(epoch, list(moments(epoch, FULL_DAY)))

    assert todo[0] == (epoch, epoch + 5 * MINUTE, True, True)
    assert [full for _, _, full, _ in todo[1:11]] == [False] * 10
    assert steps(epoch, []) == []


def test_accounts_are_those_of_all_contracts_or_of_the_majors() -> None:
    epoch = FULL_DAY - 2 * HOUR
    seen = asyncio.run(_seen(World(5, epoch), epoch, HandClock(FULL_DAY)))
    shares = {each.at: {share.contract for share in each.shares} for each in seen}

    for at in (epoch + HOUR, FULL_DAY):
        assert shares[at] == live_symbols(at)
    assert shares[epoch + HOUR + 5 * MINUTE] == {f"{base}USDT" for base in MAJORS}
    assert all(share.sampled_at == each.at for each in seen for share in each.shares)


def test_contracts_are_listed_and_delisted_in_the_past() -> None:
    epoch = FULL_DAY - 60 * DAY
    days = [epoch + day * DAY for day in range(1, 61)]
    batch = [(at - HOUR, at, False, False) for at in days]
    seen = _DECODER.decode(observe_batch(5, epoch, batch))

    listed = [{each.contract for each in one.perpetuals} for one in seen]
    assert listed == [live_symbols(at) for at in days]
    changes = [(after - before, before - after) for before, after in pairwise(listed)]
    assert sum(len(new) for new, _ in changes) >= 3
    assert sum(len(gone) for _, gone in changes) >= 3
    assert all(
        each.contract in names
        for one, names in zip(seen, listed, strict=True)
        for each in one.liquidations
    )


def test_bitcoin_and_all_prices_are_observed_between_the_hours_of_the_recent_past() -> None:
    epoch = FULL_DAY - 12 * DAY
    todo = steps(epoch, [FULL_DAY - 9 * DAY, *range(FULL_DAY - DAY, FULL_DAY + 1, HOUR)])
    old, seen = (_DECODER.decode(observe_batch(5, epoch, [step]))[0] for step in todo[:3:2])

    assert (old.between, old.frames) == ([], [])
    since, minutes = FULL_DAY - DAY, [each * MINUTE for each in range(5, 60, 5)]
    assert [at - since for at, _ in seen.between] == minutes
    assert [frame.at - since for frame in seen.frames] == [
        each * MINUTE for each in range(10, 60, 10)
    ]
    # As the exchange itself answers.
    for at, bitcoin in seen.between[1::2]:
        answered = observe_batch(5, epoch, [(at - MINUTE, at, False, False)])
        whole = {each.contract: each for each in _DECODER.decode(answered)[0].perpetuals}
        listed = whole["BTCUSDT"]
        assert bitcoin.funding_rate_pct == listed.funding_rate_pct
        assert bitcoin.open_interest_coins == listed.open_interest_coins
        frame = nearest(seen.frames, at)
        assert frame.at == at
        assert {name: past.last_price for name, past in frame.contracts.items()} == {
            name: each.last_price for name, each in whole.items()
        }


async def _seen(world: World, epoch: int, clock: Clock) -> list[MarketObservation]:
    instants = list(moments(epoch, clock()))
    return [each async for _, newest in observe(world, epoch, instants, clock) for each in newest]
