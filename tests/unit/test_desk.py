"""The desk turns readings into conclusions and forgets only what is stored."""

from typing import TypeVar

import msgspec
import pytest

from barograph.board.snapshots import Feed
from barograph.errors import Throttled, Unreachable
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.desk import Conclusion, MarketDesk
from barograph.markets.feeds import (
    EXCHANGE_HEALTH,
    FEEDS,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
)
from barograph.markets.history import RegimeChange
from barograph.markets.records import ExchangeHealth, Liquidation, LongAccounts, Perpetual
from barograph.settings import Settings
from support.clock import START
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading, shares

R = TypeVar("R", bound=msgspec.Struct)

DWELL = 15 * MINUTE
LONG = Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)
SHORT = Liquidation(START - 900, "ETHUSDT", "short", 1.0, 3_000.0)


@pytest.fixture
def desk() -> MarketDesk:
    return MarketDesk(Settings.model_validate({}))


def published(conclusion: Conclusion, feed: Feed[R]) -> R:
    (payload,) = [each.payload for each in conclusion.publications if each.feed == feed.name]
    record = feed.decode(payload)
    assert record is not None
    return record


def rows(conclusion: Conclusion, resolution: str) -> list[tuple[str, int]]:
    return [
        (each.contract, each.at) for each in conclusion.readings if each.resolution == resolution
    ]


def stored(desk: MarketDesk, conclusion: Conclusion) -> Conclusion:
    desk.written(conclusion)
    return conclusion


def funded(rate: float, *, hours: float = 8) -> tuple[Perpetual, ...]:
    return (changed(BTC, funding_rate_pct=rate, funding_interval_hours=hours), ETH)


def test_a_reading_publishes_every_feed_once(desk: MarketDesk) -> None:
    conclusion = desk.conclude(reading())

    assert sorted(each.feed for each in conclusion.publications) == sorted(
        feed.name for feed in FEEDS
    )
    assert published(conclusion, PERPETUALS) == reading()
    assert published(conclusion, EXCHANGE_HEALTH) == ExchangeHealth(START)


def test_what_was_heard_is_in_the_next_conclusion_and_after_it_is_stored_in_no_other(
    desk: MarketDesk,
) -> None:
    desk.liquidated([LONG, LONG])
    desk.watched(START - MINUTE, START)

    first = stored(desk, desk.conclude(reading()))
    second = desk.conclude(reading(START + 5_000))

    assert first.liquidations == [LONG]
    assert first.watched == [(START - MINUTE, START)]
    assert list(second.liquidations) == []
    assert list(second.watched) == []
    assert list(second.readings) == []
    assert list(second.regime_changes) == []


def test_what_is_heard_while_a_conclusion_is_being_stored_is_in_the_next_one(
    desk: MarketDesk,
) -> None:
    desk.liquidated([LONG])
    desk.watched(START - MINUTE, START)
    conclusion = desk.conclude(reading())
    desk.liquidated([SHORT])
    desk.watched(START, START + 1_000)
    desk.written(conclusion)

    following = desk.conclude(reading(START + 5_000))

    assert following.liquidations == [SHORT]
    assert following.watched == [(START - MINUTE, START + 1_000)]


def test_a_failed_write_keeps_what_was_heard_and_watched_for_the_next(desk: MarketDesk) -> None:
    desk.liquidated([LONG])
    desk.watched(START - MINUTE, START)
    desk.conclude(reading())
    desk.liquidated([SHORT])

    following = desk.conclude(reading(START + 5_000))

    assert following.liquidations == [LONG, SHORT]
    assert following.watched == [(START - MINUTE, START)]


def test_a_failed_write_keeps_the_readings_that_are_due(desk: MarketDesk) -> None:
    failed = desk.conclude(reading())

    following = desk.conclude(reading(START + 5_000))

    assert rows(following, "minute") == rows(failed, "minute")
    assert rows(following, "hour") == rows(failed, "hour")


def test_a_failed_write_keeps_the_change_of_the_regime_for_the_next(desk: MarketDesk) -> None:
    failed = desk.conclude(reading())
    assert len(failed.regime_changes) == 1

    assert desk.conclude(reading(START + 5_000)).regime_changes == failed.regime_changes


def test_a_failed_reading_carries_what_was_heard_too(desk: MarketDesk) -> None:
    desk.liquidated([LONG])
    desk.watched(START - MINUTE, START)

    failure = stored(desk, desk.conclude_failure(Unreachable("down"), START))
    following = desk.conclude(reading(START + 5_000))

    assert failure.liquidations == [LONG]
    assert failure.watched == [(START - MINUTE, START)]
    assert list(following.liquidations) == []
    assert published(following, LIQUIDATIONS).total_usd == 100_000.0


def test_the_majors_are_recorded_by_the_minute_and_everything_by_the_hour(
    desk: MarketDesk,
) -> None:
    conclusion = desk.conclude(reading())

    assert rows(conclusion, "minute") == [(each.contract, START) for each in (BTC, ETH, SOL)]
    hour = START // HOUR * HOUR
    assert rows(conclusion, "hour") == [(each.contract, hour) for each in MARKET]


def test_the_first_reading_of_a_minute_is_the_one_recorded(desk: MarketDesk) -> None:
    due = [
        bool(stored(desk, desk.conclude(reading(START + passed))).readings)
        for passed in (0, 5_000, MINUTE - 1, MINUTE, MINUTE + 5_000, 3 * MINUTE + 1)
    ]

    assert due == [True, False, False, True, False, True]


def test_the_first_reading_of_an_hour_is_the_one_recorded(desk: MarketDesk) -> None:
    next_hour = START // HOUR * HOUR + HOUR

    at = [START, START + MINUTE, next_hour - 1, next_hour + 7, next_hour + MINUTE]
    due = [rows(stored(desk, desk.conclude(reading(each))), "hour") for each in at]

    assert [bool(each) for each in due] == [True, False, False, True, False]
    assert {moment for _, moment in due[3]} == {next_hour}


def test_a_row_holds_the_reading_and_a_share_only_where_one_is_known(desk: MarketDesk) -> None:
    for share in shares():
        desk.sampled(share)
    by_contract = {
        row.contract: row for row in desk.conclude(reading()).readings if row.resolution == "hour"
    }

    assert by_contract["BTCUSDT"][3:] == (67_000.5, 0.01, 8, 5_000_000_000.0, 61.5)
    assert by_contract["SOLUSDT"].long_account_pct == 0.0
    assert by_contract[PEPE.contract].long_account_pct is None


def test_shares_of_delisted_contracts_are_dropped(desk: MarketDesk) -> None:
    for share in shares():
        desk.sampled(share)

    conclusion = desk.conclude(reading(contracts=(BTC, PEPE)))

    assert list(published(conclusion, LONG_ACCOUNTS).shares) == ["BTCUSDT"]


def test_a_newer_share_replaces_the_older(desk: MarketDesk) -> None:
    desk.sampled(LongAccounts("BTCUSDT", 50.0, START - MINUTE))
    desk.sampled(LongAccounts("BTCUSDT", 0.0, START))

    known = published(desk.conclude(reading()), LONG_ACCOUNTS).shares

    assert known == {"BTCUSDT": LongAccounts("BTCUSDT", 0.0, START)}


def test_only_a_change_of_the_regime_is_recorded(desk: MarketDesk) -> None:
    steps = [(0, 0.01), (5_000, 0.012), (10_000, 0.02), (10_000 + DWELL, 0.021), (DAY, 0.02)]

    recorded = [
        stored(desk, desk.conclude(reading(START + passed, funded(rate)))).regime_changes
        for passed, rate in steps
    ]

    assert recorded == [
        [RegimeChange(START, "neutral", 0.01)],
        [],
        [],
        [RegimeChange(START + 10_000 + DWELL, "long-leaning", 0.021)],
        [],
    ]


def test_the_regime_is_judged_by_the_eight_hour_rate_of_bitcoin(desk: MarketDesk) -> None:
    conclusion = desk.conclude(reading(contracts=funded(0.01, hours=2)))

    regime = published(conclusion, REGIME)
    assert (regime.label, regime.funding_8h_pct) == ("long-crowded", 0.04)


def test_without_bitcoin_the_regime_is_unknown(desk: MarketDesk) -> None:
    desk.conclude(reading())

    conclusion = desk.conclude(reading(START + 5_000, (ETH, SOL)))

    assert published(conclusion, REGIME).label == "unknown"
    assert list(conclusion.regime_changes)[-1:] == [RegimeChange(START + 5_000, "unknown", None)]


def test_the_dwell_is_the_one_that_is_set() -> None:
    desk = MarketDesk(Settings.model_validate({"regime_dwell_seconds": 0}))
    desk.conclude(reading())

    conclusion = desk.conclude(reading(START + 5_000, funded(-0.04)))

    assert published(conclusion, REGIME).label == "short-crowded"


def test_totals_name_the_base_and_the_coverage(desk: MarketDesk) -> None:
    desk.liquidated([LONG, SHORT])
    desk.watched(START - DAY // 2, START)

    totals = published(desk.conclude(reading()), LIQUIDATIONS)

    assert (totals.as_of, totals.watched_pct) == (START, 50.0)
    assert (totals.total_usd, totals.top_asset) == (103_000.0, "BTC")


def test_a_failure_publishes_health_and_liquidations_and_no_market(desk: MarketDesk) -> None:
    conclusion = desk.conclude_failure(Throttled("slow down", 5.0), START)

    assert sorted(each.feed for each in conclusion.publications) == [
        EXCHANGE_HEALTH.name,
        LIQUIDATIONS.name,
    ]
    assert published(conclusion, EXCHANGE_HEALTH) == ExchangeHealth(START, "throttled", START)
    assert list(conclusion.readings) == []
    assert list(conclusion.regime_changes) == []


def test_a_lasting_failure_keeps_its_beginning_whatever_its_kind(desk: MarketDesk) -> None:
    desk.conclude(reading())
    desk.conclude_failure(Unreachable("down"), START + 5_000)

    conclusion = desk.conclude_failure(Throttled("slow down", 5.0), START + 10_000)

    health = ExchangeHealth(START + 10_000, "throttled", START + 5_000)
    assert published(conclusion, EXCHANGE_HEALTH) == health


def test_a_failure_after_a_recovery_begins_anew(desk: MarketDesk) -> None:
    desk.conclude_failure(Unreachable("down"), START)
    recovered = desk.conclude(reading(START + 5_000))

    conclusion = desk.conclude_failure(Unreachable("down"), START + 10_000)

    assert published(recovered, EXCHANGE_HEALTH) == ExchangeHealth(START + 5_000)
    health = ExchangeHealth(START + 10_000, "unreachable", START + 10_000)
    assert published(conclusion, EXCHANGE_HEALTH) == health


def test_the_row_count_is_everything_a_conclusion_writes(desk: MarketDesk) -> None:
    desk.liquidated([LONG, SHORT])
    desk.watched(START - MINUTE, START)

    first = stored(desk, desk.conclude(reading()))
    second = desk.conclude(reading(START + 5_000))

    assert first.row_count == 5 + (3 + 4) + 2 + 1 + 1
    assert second.row_count == 5
