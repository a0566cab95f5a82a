"""A preview replays the record through the same crossings, so it agrees with what was sent."""

import asyncio
from math import sin
from random import Random

import pytest

from barograph.alerts.preview import Preview, preview
from barograph.alerts.records import Alert
from barograph.alerts.rules import Measure, Rule, When, Within
from barograph.kit.database import Database
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.venues.records import Liquidation
from barograph.venues.registry import BYBIT, HYPERLIQUID
from support.judged_alerts import Watch
from support.markets import BTC, PEPE, changed

pytestmark = pytest.mark.both_engines


@pytest.fixture
def watch(database: Database, runner: asyncio.Runner) -> Watch:
    return Watch(database, runner)


def previewed(watch: Watch, alert: Alert) -> Preview:
    return watch.run(preview(watch.database, alert.rule, watch.at + MINUTE))


def sent(watch: Watch, alert: Alert) -> list[tuple[int, str, str, float]]:
    """What was sent, by the grid of the record."""
    fired = [each.fired for each in reversed(watch.messages) if each.alert == alert.id]
    return [(each.at, each.symbol, each.venue, round(each.value or 0.0, 6)) for each in fired]


@pytest.mark.parametrize(
    "rule",
    [
        ("funding", "above", 0.02, "any", None),
        ("funding", "crosses", 0.02, "bybit", None),
        ("funding", "changes", 0.01, "any", "15m"),
        ("price", "falls", 2.0, "any", "1h"),
        ("open-interest", "below", 5e9, "any", None),
        ("open-interest", "rises", 3.0, "bybit", "15m"),
    ],
)
def test_a_preview_finds_exactly_what_was_sent(
    watch: Watch, rule: tuple[Measure, When, float, str, Within | None]
) -> None:
    alert = watch.add(*rule[:4], within=rule[4])
    chance = Random(7)
    watch.at += 5 * MINUTE - watch.at % (5 * MINUTE)
    for number in range(72):
        for name in (BYBIT, HYPERLIQUID):
            wave = sin(number / 5) + chance.gauss(0, 0.2)
            moved = changed(
                BTC,
                last_price=BTC.last_price * (1 + 0.02 * wave),
                funding_rate_pct=0.02 * wave / (8 if name == HYPERLIQUID else 1),
                open_interest_usd=5e9 * (1 + 0.05 * wave),
                open_interest_coins=80_000 * (1 + 0.05 * wave),
            )
            watch.see(moved, venue=name, after=0)
        watch.at += 5 * MINUTE
    found = previewed(watch, alert)
    times = [(e.at, e.symbol, e.venue, round(e.value or 0.0, 6)) for e in found.times]
    assert len(times) > 3
    assert times == sent(watch, alert)


@pytest.mark.parametrize(
    ("measure", "venue"), [("open-interest", "all"), ("funding", "all"), ("funding-spread", "all")]
)
def test_totals_of_all_exchanges_are_replayed_by_the_hour(
    watch: Watch, measure: Measure, venue: str
) -> None:
    alert = watch.add(measure, value=10.5e9 if measure == "open-interest" else 0.02, venue=venue)
    watch.at += HOUR - watch.at % HOUR
    for number in range(24 * 12):
        is_high = number // 12 % 3 == 2
        moved = changed(BTC, open_interest_usd=6e9, funding_rate_pct=0.05) if is_high else BTC
        watch.see(moved, after=0)
        watch.see(changed(BTC, funding_rate_pct=0.001), venue=HYPERLIQUID, after=0)
        watch.at += 5 * MINUTE
    found = previewed(watch, alert)
    assert len(found.times) == 8
    assert [each.at // HOUR for each in found.times] == [
        at // HOUR for at, *_ in sent(watch, alert)
    ]
    assert "hourly" in found.note


def test_liquidations_are_replayed_by_the_time_they_are_added_up_over(watch: Watch) -> None:
    pepe = changed(PEPE, coin="PEPE", multiplier=1000)
    coin = watch.add("long-liquidations", value=1e6, within="1h", symbols=("PEPE",))
    total = watch.add("liquidations", value=1e6, venue="all", within="4h", symbols=())
    watch.at += HOUR - watch.at % HOUR
    for number in range(13 * 12):
        if number in {30, 32, 100}:
            sold = Liquidation(watch.at, PEPE.contract, "long", 6e5 * (1 + number // 100), 1.0)
            watch.judge.of(BYBIT).liquidated([sold])
        watch.judge.of(BYBIT).watched(watch.at - 5 * MINUTE, watch.at)
        watch.see(BTC, pepe, after=5 * MINUTE)
    for alert in (coin, total):
        found, live = previewed(watch, alert).times, sent(watch, alert)
        assert len(found) == len(live) == 2
        assert all(0 <= each.at - at <= HOUR for each, (at, *_) in zip(found, live, strict=True))


def test_a_coin_without_a_record_has_an_empty_preview(watch: Watch) -> None:
    watch.see(BTC)
    found = previewed(watch, watch.add("price", value=1.0, symbols=("NONE",)))
    assert found.times == []


def test_events_are_replayed_from_their_log(watch: Watch) -> None:
    rule = Rule("regime", label="long-crowded", every="5m")
    for rate in (0.01, 0.04, 0.01, 0.04):
        for _ in range(8):
            watch.rate(rate, after=4 * MINUTE)
    found = watch.run(preview(watch.database, rule, watch.at + MINUTE))
    assert [each.text for each in found.times] == [
        "the market regime is now long-crowded (was neutral)"
    ] * 2


def test_what_just_fired_counts_within_a_minute(watch: Watch) -> None:
    alert = watch.add()
    watch.rate(0.01)
    assert watch.rate(0.06, after=MINUTE) == 1
    assert [each.value for each in previewed(watch, alert).times] == [0.06]
