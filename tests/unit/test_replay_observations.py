"""What the replay observes: the whole market where charts show it, and bitcoin more often."""

import asyncio
from itertools import pairwise

import pytest

from barograph.kit.clock import Clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import frame_of, nearest
from barograph.markets.samples import STEPS, on_grid
from barograph.venues.records import MAJORS
from barograph.venues.registry import BYBIT
from barograph_demo.replay.observations import (
    _DECODER,
    FINE_PACE,
    RECENT_PACE,
    MarketObservation,
    Sample,
    Step,
    observe,
    observe_batch,
    observe_samples,
    steps,
)
from barograph_demo.replay.replay import moments
from barograph_demo.world.contracts import live_symbols
from barograph_demo.world.venues import VENUES
from barograph_demo.world.world import World
from support.clock import START, HandClock

FULL_DAY = START // DAY * DAY


@pytest.mark.parametrize("later", [0, 1, HOUR - 1, HOUR, 3 * HOUR + 20 * MINUTE, 4 * HOUR])
@pytest.mark.parametrize("days", [1, 60])
def test_all_contracts_are_observed_at_every_hour_of_the_shortest_and_the_longest_chart(
    days: int, later: int
) -> None:
    now = FULL_DAY + later
    epoch = now // HOUR * HOUR - 60 * DAY
    seen = set(moments(epoch, now))

    shown = {point.at for point in on_grid({}, days, STEPS[days], now) if point.at > epoch}

    assert len(shown) >= 24
    assert shown <= seen


def test_news_are_observed_when_they_come() -> None:
    epoch = FULL_DAY - 60 * DAY
    news = [epoch, FULL_DAY - 9 * DAY + HOUR, FULL_DAY + HOUR]

    assert set(moments(epoch, FULL_DAY, news)) - {*moments(epoch, FULL_DAY)} == {news[1]}


@pytest.mark.parametrize("minute", [0, 1, 14, 59])
def test_five_minute_steps_begin_before_the_time_of_24_hours_ago(minute: int) -> None:
    now = FULL_DAY + minute * MINUTE
    todo = steps(now - 2 * DAY, moments(now - 2 * DAY, now))
    fine = next(step.since for step in todo if step.pace == FINE_PACE)

    assert fine <= now - DAY - 5 * MINUTE


def test_no_times_give_no_steps_and_the_first_time_observes_where_the_contracts_were_listed() -> (
    None
):
    epoch = FULL_DAY - 2 * DAY
    first, second = _observed([*steps(epoch, [epoch + HOUR, FULL_DAY])[:1], *LATER])

    assert steps(epoch, []) == []
    assert {change.at for past in first.others for change in past.listings} == {epoch + HOUR}
    assert not any(past.listings for past in second.others)


def test_accounts_are_those_of_all_contracts() -> None:
    epoch = FULL_DAY - 2 * HOUR
    seen = asyncio.run(_seen(World(5, epoch), epoch, HandClock(FULL_DAY)))

    for each in seen:
        assert {share.contract for share in each.shares} == live_symbols(each.at)
        assert all(share.sampled_at == each.at for share in each.shares)


def test_contracts_are_listed_and_delisted_in_the_past() -> None:
    epoch = FULL_DAY - 60 * DAY
    days = [epoch + day * DAY for day in range(1, 61)]
    seen = _observed([Step(at - HOUR, at, HOUR) for at in days], epoch)

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


def test_bitcoin_is_observed_more_often_the_more_recent_the_past_is() -> None:
    now = FULL_DAY
    epoch = now - 12 * DAY
    ages = (9 * DAY, 2 * DAY, 0)
    todo = [steps(end - 4 * HOUR, [end, now])[0] for end in (now - age for age in ages)]
    old, recent, fine = _observed(todo, epoch)

    for seen, pace in ((old, HOUR), (recent, RECENT_PACE), (fine, FINE_PACE)):
        assert [each.at for each in seen.between] == [*range(seen.since + pace, seen.at, pace)]
    hours = [(row.resolution, row.at) for each in old.between for row in each.rows]
    assert len(hours) == 3 * 2 * len(MAJORS)
    assert {row.at for each in recent.between for row in each.rows} == {
        recent.since + hour * HOUR for hour in (1, 2, 3)
    }
    assert all(each.rows for each in fine.between)
    assert not any(each.frames for seen in (old, recent) for each in seen.between)


def test_between_the_hours_of_the_last_day_the_market_is_as_the_exchange_answers() -> None:
    epoch = FULL_DAY - 2 * DAY
    (seen,) = _observed([Step(FULL_DAY - HOUR, FULL_DAY, FINE_PACE)], epoch)
    frames = [frame for each in seen.between for frame in each.frames]

    assert [frame.at - seen.since for frame in frames] == [
        each * MINUTE for each in range(10, 60, 10)
    ]
    for each in seen.between[1::2]:
        (answered,) = _observed([Step(each.at - MINUTE, each.at, HOUR)], epoch)
        whole = {perpetual.contract: perpetual for perpetual in answered.perpetuals}
        assert each.bitcoin == whole["BTCUSDT"]
        frame = nearest(frames, each.at)
        assert frame == frame_of(each.at, answered.perpetuals)
        (row,) = (row for row in each.rows if row.contract == "ETHUSDT")
        assert (row.resolution, row.at) == ("minute", each.at)
        assert row.last_price == whole["ETHUSDT"].last_price


async def test_older_samples_are_rows_of_the_other_venues_and_prices_of_bybit() -> None:
    epoch = FULL_DAY - 10 * DAY
    at = FULL_DAY - 7 * DAY
    asked = [Sample(at, True), Sample(at, False)]
    (pasts,) = [each async for each in observe_samples(World(5, epoch), asked)]
    (seen,) = _observed([Step(at - HOUR, at, HOUR)], epoch)

    assert [past.venue for past in pasts] == [BYBIT, *VENUES]
    frame = nearest(pasts[0].frames, at)
    assert {name: past.last_price for name, past in frame.contracts.items()} == {
        each.contract: each.last_price for each in seen.perpetuals
    }
    assert all({row.at for row in past.readings} == {at} for past in pasts[1:])


LATER = [Step(FULL_DAY - HOUR, FULL_DAY, HOUR)]


def _observed(batch: list[Step], epoch: int = FULL_DAY - 2 * DAY) -> list[MarketObservation]:
    return _DECODER.decode(observe_batch(5, epoch, batch))


async def _seen(world: World, epoch: int, clock: Clock) -> list[MarketObservation]:
    instants = moments(epoch, clock())
    return [each async for _, newest in observe(world, epoch, instants, clock) for each in newest]
