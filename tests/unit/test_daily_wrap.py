"""A day is wrapped up once, after it ended, with what was recorded of it."""

import json
from typing import Any

import pytest

from barograph.briefs.records import Brief
from barograph.briefs.writer import BriefWriter
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import Hour, MarketEvidence, TrailingRecord
from barograph.markets.liquidations import LiquidationHour
from support.clock import START
from support.evidence import evidence

MIDNIGHT = START // DAY * DAY
"""The end of the day that is wrapped up, 5 November."""

HOURS = range(-48, 1)


def recorded(
    hours: range = HOURS, watched: range = range(-48, 0), watched_pct: float = 100.0
) -> TrailingRecord:
    """Two days in which every number grows with the hours; the second lost half as much."""
    trailing = TrailingRecord()
    for number in hours:
        at, share = MIDNIGHT + number * HOUR, 60 + number / 24
        hour = Hour(at, 1_000.0 + number, 1e9, share, 1e6, funding_8h_pct=0.01 + number / 1e4)
        trailing.add_hour("BTC", hour)
    for number in watched:
        longs = 2e6 if number < -24 else 1e6
        at = MIDNIGHT + number * HOUR
        trailing.add_liquidation_hour(LiquidationHour(at, longs, 0.0, watched_pct))
    return trailing


def seen(at: int = MIDNIGHT + 5 * MINUTE, **fields: Any) -> MarketEvidence:
    return evidence(as_of=at, **{"trailing": recorded(), **fields})


def wraps(*readings: MarketEvidence) -> list[Brief]:
    writer = BriefWriter()
    for each in readings:
        found = writer.conclude(each, NO_FIGURES._replace(at=each.reading.as_of))
    return [each for each in found if each.rule == "daily-wrap"]


def test_a_day_has_three_lines_and_five_numbers_with_their_changes() -> None:
    (brief,) = wraps(seen())

    assert brief.slug == "daily-wrap-2026-11-05"
    assert brief.headline == "5 November: BTC +2.5 %, $24.00M liquidated, 100 % longs"
    assert brief.body.startswith(
        "- BTC 1,000.00 USDT (+2.5 %).\n"
        "- BTC funding +0.0100 % per 8 h (+0.0024 pp); open interest $1.00B (unchanged in coins); "
        "long accounts 60.0 % (+1.0 pp).\n"
        "- $24.00M liquidated, 100 % longs, after $48.00M the day before.\n\n"
    )
    assert "\n| Liquidations | $24.00M | -50.0 % |\n" in brief.body
    trailing = recorded()
    trailing.disputed_sides.add(MIDNIGHT - 2 * HOUR, MIDNIGHT - HOUR)
    (disputed,) = wraps(seen(trailing=trailing))
    assert disputed.headline == "5 November: BTC +2.5 %, $24.00M liquidated"
    assert "- $24.00M liquidated, after $48.00M the day before.\n" in disputed.body
    assert (brief.window_start, brief.window_end) == (MIDNIGHT - DAY, MIDNIGHT)
    assert json.loads(brief.inputs)["hours_recorded"] == 24


@pytest.mark.parametrize(
    ("passed", "is_written"),
    [(0, False), (5 * MINUTE - 1, False), (5 * MINUTE, True), (20 * HOUR, True), (DAY, False)],
)
def test_it_is_written_from_00_05_until_the_day_after_ends(passed: int, is_written: bool) -> None:
    assert bool(wraps(seen(MIDNIGHT + passed))) == is_written


def test_it_waits_for_the_last_hour_of_liquidations_and_is_written_once() -> None:
    late = seen(trailing=recorded(watched=range(-48, -1)))

    assert wraps(late) == []
    assert len(wraps(late, seen(MIDNIGHT + 6 * MINUTE), seen(MIDNIGHT + 10 * HOUR))) == 1
    assert len(wraps(late._replace(lacks_liquidations=True))) == 1


def test_a_part_of_a_day_says_which_and_a_small_part_gets_no_wrap() -> None:
    (part,) = wraps(seen(trailing=recorded(hours=range(-20, -5), watched_pct=50.0)))

    assert "We recorded 15 of 24 hours, 04:00\N{EN DASH}18:00 UTC." in part.summary
    assert "Liquidations unknown: 50 % of the day covered, 95 % needed." in part.summary
    assert part.headline == "5 November (15 of 24 hours): BTC +1.4 %, liquidations unknown"
    assert wraps(seen(trailing=recorded(hours=range(-11, 0)))) == []


def test_what_was_not_recorded_is_a_dash() -> None:
    trailing = recorded()
    bare = TrailingRecord()
    for hour in trailing.hours("BTC"):
        bare.add_hour("BTC", Hour(hour.at, hour.last_price, None, None))

    (brief,) = wraps(seen(trailing=bare, lacks_liquidations=True))

    dash = "\N{EN DASH}"
    assert f"\n| BTC funding | {dash} | {dash} |\n" in brief.body
    assert f"\n| BTC open interest | {dash} | {dash} |\n" in brief.body
    assert "This venue doesn't publish all liquidations." in brief.summary
