"""The judge turns readings into conclusions and forgets only what is stored."""

from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from barograph.board.feeds import Feed
from barograph.collector.judge import Conclusion, Judge
from barograph.errors import Throttled, Unreachable
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.disputes import Dispute
from barograph.markets.evidence import MarketEvidence, Outage
from barograph.markets.judge import MarketConclusion, MarketJudge
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.market_events import LISTINGS
from barograph.markets.regime import Label, RegimeChange
from barograph.markets.view import (
    BACKFILL,
    EXCHANGE_HEALTH,
    LAST_KNOWN,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
    VENUE_FEEDS,
)
from barograph.settings import Settings
from barograph.venues.records import (
    ExchangeHealth,
    Liquidation,
    LongAccounts,
    Perpetual,
    Perpetuals,
)
from support import clock
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading, shares

R = TypeVar("R", bound=msgspec.Struct)

START = clock.START // HOUR * HOUR
DWELL = 15 * MINUTE
BOUND = 30 * MINUTE
"""How long a long-account share is fresh."""

LONG = Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)
SHORT = Liquidation(START - 900, "ETHUSDT", "short", 1.0, 3_000.0)


@pytest.fixture
def judge() -> MarketJudge:
    return MarketJudge(Settings.model_validate({}))


def published(conclusion: MarketConclusion, feed: Feed[R]) -> R:
    (payload,) = [each.payload for each in conclusion.publications if each.feed == feed.name]
    record = feed.decode(payload)
    assert record is not None
    return record


def rows(conclusion: MarketConclusion, resolution: str) -> list[tuple[str, int]]:
    return [
        (each.contract, each.at) for each in conclusion.readings if each.resolution == resolution
    ]


def stored(judge: MarketJudge, conclusion: MarketConclusion) -> MarketConclusion:
    judge.written(conclusion)
    return conclusion


def funded(rate: float, *, hours: float = 8) -> tuple[Perpetual, ...]:
    return (changed(BTC, funding_rate_pct=rate, funding_interval_hours=hours), ETH)


def test_a_reading_publishes_every_feed_once(judge: MarketJudge) -> None:
    conclusion = judge.conclude(reading(START))

    assert sorted(each.feed for each in conclusion.publications) == sorted(
        feed.name for feed in (*VENUE_FEEDS, LISTINGS) if feed is not BACKFILL
    )
    assert published(conclusion, PERPETUALS) == reading(START)
    assert published(conclusion, EXCHANGE_HEALTH) == ExchangeHealth(START)


@pytest.mark.parametrize("fails", [False, True], ids=["a reading", "a failed reading"])
def test_each_liquidation_is_in_one_stored_conclusion(judge: MarketJudge, fails: bool) -> None:
    judge.liquidated([LONG, LONG])
    judge.watched(START - MINUTE, START)

    failure = Unreachable("down")
    first = judge.conclude_failure(failure, START) if fails else judge.conclude(reading(START))
    judge.written(first)
    second = stored(judge, judge.conclude(reading(START + 5_000)))
    third = judge.conclude(reading(START + 10_000))

    assert first.liquidations == [LONG]
    assert first.watched == [(START - MINUTE, START)]
    assert (list(second.liquidations), list(second.watched)) == ([], [])
    assert (list(third.readings), list(third.regime_changes)) == ([], [])
    assert published(second, LIQUIDATIONS).total_usd == 100_000.0


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "the write fails"])
def test_unstored_data_is_in_the_next_conclusion(judge: MarketJudge, is_stored: bool) -> None:
    judge.liquidated([LONG])
    judge.watched(START - MINUTE, START)
    conclusion = judge.conclude(reading(START))
    judge.liquidated([SHORT])
    judge.watched(START, START + 1_000)
    if is_stored:
        judge.written(conclusion)

    following = judge.conclude(reading(START + 5_000))

    assert following.liquidations == ([SHORT] if is_stored else [LONG, SHORT])
    assert following.watched == [(START - MINUTE, START + 1_000)]
    for resolution in ("minute", "hour"):
        recorded = rows(conclusion, resolution)
        assert recorded
        assert rows(following, resolution) == ([] if is_stored else recorded)


def test_majors_are_recorded_by_the_minute_and_all_by_the_hour(judge: MarketJudge) -> None:
    conclusion = judge.conclude(reading(START))

    assert rows(conclusion, "minute") == [(each.contract, START) for each in (BTC, ETH, SOL)]
    assert rows(conclusion, "hour") == [(each.contract, START) for each in MARKET]


@pytest.mark.parametrize(
    ("passed", "is_recorded"),
    [(0, True), (5 * MINUTE, True), (5 * MINUTE + 1, False), (39 * MINUTE, False)],
)
def test_the_point_of_an_hour_is_a_reading_near_it(
    judge: MarketJudge, passed: int, is_recorded: bool
) -> None:
    recorded = rows(judge.conclude(reading(START + passed)), "hour")

    assert {at for _, at in recorded} == ({START} if is_recorded else set())


@pytest.mark.parametrize(("resolution", "span"), [("minute", MINUTE), ("hour", HOUR)])
def test_a_spans_first_reading_is_recorded(judge: MarketJudge, resolution: str, span: int) -> None:
    start = START // span * span
    recorded = [
        rows(stored(judge, judge.conclude(reading(start + passed))), resolution)
        for passed in (7, 5_000, span - 1, span + 7, span + 5_000, 3 * span)
    ]

    times = [{at for _, at in due} for due in recorded]
    assert times == [{start}, set(), set(), {start + span}, set(), {start + 3 * span}]


def test_a_row_holds_the_reading_and_a_share_only_where_one_is_known(judge: MarketJudge) -> None:
    for share in shares(START):
        judge.sampled(share)
    by_contract = {
        row.contract: row
        for row in judge.conclude(reading(START)).readings
        if row.resolution == "hour"
    }

    assert by_contract["BTCUSDT"][3:8] == (67_000.5, 0.01, 8, 5_000_000_000.0, 61.5)
    assert by_contract["SOLUSDT"].long_account_pct == 0.0
    assert by_contract[PEPE.contract].long_account_pct is None


@pytest.mark.parametrize(
    ("age", "share"), [(0, 61.5), (BOUND - 1, 61.5), (BOUND, None), (-BOUND - 1, None)]
)
def test_a_stale_share_is_in_no_row(judge: MarketJudge, age: int, share: float | None) -> None:
    judge.sampled(LongAccounts("BTCUSDT", 61.5, START - age))

    rows_of_bitcoin = [
        (row.resolution, row.long_account_pct)
        for row in judge.conclude(reading(START)).readings
        if row.contract == "BTCUSDT"
    ]

    assert rows_of_bitcoin == [("minute", share), ("hour", share)]


def test_the_newest_share_of_each_listed_contract_is_published(judge: MarketJudge) -> None:
    for share in (*shares(START - MINUTE), LongAccounts("BTCUSDT", 0.0, START)):
        judge.sampled(share)

    conclusion = judge.conclude(reading(START, (BTC, PEPE)))

    assert published(conclusion, LONG_ACCOUNTS).shares == {
        "BTCUSDT": LongAccounts("BTCUSDT", 0.0, START)
    }


@pytest.mark.parametrize(
    ("contracts", "label", "rate"),
    [
        (funded(-0.04), "short-crowded", -0.04),
        (funded(0.01, hours=2), "long-crowded", 0.04),
        ((ETH, SOL), "unknown", None),
    ],
    ids=["without a dwell", "per eight hours", "without bitcoin"],
)
def test_the_regime_is_judged_by_the_eight_hour_rate_of_bitcoin(
    contracts: tuple[Perpetual, ...], label: Label, rate: float | None
) -> None:
    judge = MarketJudge(Settings.model_validate({}), regime_dwell=0)
    judge.conclude(reading(START))

    conclusion = judge.conclude(reading(START + 5_000, contracts))

    regime = published(conclusion, REGIME)
    assert (regime.label, regime.funding_8h_pct) == (label, rate)
    assert conclusion.regime_changes[-1] == RegimeChange(START + 5_000, label, rate)


def test_only_a_change_of_the_regime_is_recorded(judge: MarketJudge) -> None:
    steps = [(0, 0.01), (5_000, 0.012), (10_000, 0.02), (10_000 + DWELL, 0.021), (DAY, 0.02)]

    recorded = [
        stored(judge, judge.conclude(reading(START + passed, funded(rate)))).regime_changes
        for passed, rate in steps
    ]

    first = RegimeChange(START, "neutral", 0.01)
    second = RegimeChange(START + 10_000 + DWELL, "long-leaning", 0.021)
    assert recorded == [[first], [], [], [second], []]


def test_a_failed_reading_does_not_log_a_change_that_is_not_stored(judge: MarketJudge) -> None:
    judge.conclude(reading(START))

    assert judge.conclude_failure(Unreachable("no reply"), START + 1_000).events == []
    again = judge.conclude(reading(START + 5_000))
    assert [(event.type, event.at) for event in again.events] == [("regime.changed", START)]


def test_totals_name_base_and_coverage_and_leave_out_what_is_not_crypto(judge: MarketJudge) -> None:
    stock = Liquidation(START - 1, "ZSUSDT", "long", 1.0, 1e9)
    delisted = Liquidation(START - 1, "GONEUSDT", "long", 1.0, 100.0)
    judge.liquidated([stock, LONG, delisted])
    judge.watched(START - DAY // 2, START)
    seen = replace(reading(START), left_out={"stock": 1}, not_crypto=["ZSUSDT"])

    totals = published(judge.conclude(seen), LIQUIDATIONS)

    assert (totals.as_of, totals.watched_pct) == (START, 50.0)
    assert (totals.total_usd, totals.top_asset) == (LONG.notional_usd + 100.0, "BTC")


def test_a_failure_publishes_health_and_liquidations_and_no_market(judge: MarketJudge) -> None:
    conclusion = judge.conclude_failure(Throttled("slow down", 5.0), START)

    assert sorted(each.feed for each in conclusion.publications) == [
        EXCHANGE_HEALTH.name,
        LIQUIDATIONS.name,
    ]
    assert published(conclusion, EXCHANGE_HEALTH) == ExchangeHealth(START, "throttled", START)
    assert list(conclusion.readings) == []
    assert list(conclusion.regime_changes) == []


def test_a_failure_of_any_kind_begins_after_the_last_reading(judge: MarketJudge) -> None:
    down, slow = Unreachable("down"), Throttled("slow down", 5.0)
    conclusions = [
        judge.conclude_failure(down, START),
        judge.conclude_failure(slow, START + 5_000),
        judge.conclude(reading(START + 10_000)),
        judge.conclude_failure(down, START + 15_000),
    ]

    assert [published(conclusion, EXCHANGE_HEALTH) for conclusion in conclusions] == [
        ExchangeHealth(START, "unreachable", START),
        ExchangeHealth(START + 5_000, "throttled", START),
        ExchangeHealth(START + 10_000),
        ExchangeHealth(START + 15_000, "unreachable", START + 15_000),
    ]


def test_the_row_count_is_everything_a_conclusion_writes(judge: MarketJudge) -> None:
    judge.liquidated([LONG, SHORT])
    judge.watched(START - MINUTE, START)

    first = stored(judge, judge.conclude(reading(START)))
    second = judge.conclude(reading(START + 5_000))

    assert first.row_count == 7 + (3 + 4) + 2 + 1 + 1 + 1 + 1 + 1 + 4
    assert second.row_count == 5


HOUR_START = START
MIDNIGHT = START // DAY * DAY + DAY


def known(judge: MarketJudge, conclusion: MarketConclusion) -> list[LiquidationHour]:
    """What a conclusion adds to the hours, after it is stored."""
    return list(stored(judge, conclusion).liquidation_hours)


def evidence_of(conclusion: MarketConclusion) -> MarketEvidence:
    assert conclusion.evidence is not None
    return conclusion.evidence


def hour(at: int, long_usd: float = 0.0, watched_pct: float = 0.0) -> LiquidationHour:
    return LiquidationHour(at, long_usd, 0.0, watched_pct)


def test_the_hour_that_ended_is_closed_by_the_first_reading_after_it(judge: MarketJudge) -> None:
    judge.liquidated([Liquidation(HOUR_START - 1, "BTCUSDT", "long", 2.0, 50_000.0)])
    judge.liquidated([Liquidation(HOUR_START, "ETHUSDT", "short", 1.0, 3_000.0)])
    judge.watched(HOUR_START - HOUR // 2, HOUR_START + 1)

    first = judge.conclude(reading(HOUR_START + 1))

    closed = hour(HOUR_START - HOUR, 100_000.0, 50.0)
    seen = evidence_of(first)
    assert (seen.closed_hour, seen.closed_hour_assets) == (closed, [("BTC", 100_000.0)])
    assert known(judge, first) == [closed]
    second = judge.conclude(reading(HOUR_START + 5_000))
    seen = evidence_of(second)
    assert (seen.closed_hour, seen.closed_hour_assets) == (None, [])
    assert known(judge, second) == []


def test_the_assets_of_an_hour_come_largest_first_and_by_name(judge: MarketJudge) -> None:
    at = HOUR_START - 5
    for contract, size in (("ETHUSDT", 1.0), ("BTCUSDT", 1.0), ("GONEUSDT", 9.0), ("SOLUSDT", 0.5)):
        judge.liquidated([Liquidation(at, contract, "long", size, 10.0)])
    judge.liquidated([Liquidation(at, "SOLUSDT", "short", 0.1, 10.0)])
    judge.watched(HOUR_START - HOUR, HOUR_START)

    seen = evidence_of(judge.conclude(reading(HOUR_START)))

    assert seen.closed_hour_assets == [("GONEUSDT", 90.0), ("BTC", 10.0), ("ETH", 10.0), ("SOL", 6)]


@pytest.mark.parametrize(("passed", "is_closed"), [(0, False), (MINUTE - 1, False), (MINUTE, True)])
def test_an_unwatched_hour_closes_late(judge: MarketJudge, passed: int, is_closed: bool) -> None:
    judge.watched(HOUR_START - 2 * HOUR, HOUR_START - HOUR)
    known(judge, judge.conclude(reading(HOUR_START - HOUR)))
    judge.watched(HOUR_START - HOUR, HOUR_START - HOUR // 2)

    seen = judge.conclude(reading(HOUR_START + passed))

    closed = [hour(HOUR_START - HOUR, watched_pct=50.0)] if is_closed else []
    assert known(judge, seen) == closed
    assert evidence_of(seen).closed_hour == (closed[0] if closed else None)


@pytest.mark.parametrize(
    ("proved", "waits", "watched_pct"),
    [(HOUR_START, 5_000, 100.0), (HOUR_START - 1, MINUTE, 100 * (HOUR - 1) / HOUR)],
)
def test_a_late_liquidation_counts(
    judge: MarketJudge, proved: int, waits: int, watched_pct: float
) -> None:
    judge.watched(HOUR_START - 2 * HOUR, HOUR_START - HOUR)
    known(judge, judge.conclude(reading(HOUR_START - HOUR)))
    assert known(judge, judge.conclude(reading(HOUR_START))) == []

    judge.liquidated([Liquidation(HOUR_START - 1, "BTCUSDT", "long", 1.0, 100.0)])
    judge.watched(HOUR_START - HOUR, proved)

    closed = known(judge, judge.conclude(reading(HOUR_START + waits)))
    assert closed == [hour(HOUR_START - HOUR, 100.0, watched_pct)]


@pytest.mark.outcome(
    "The database or the exchange is down when an hour ends",
    "Every hour of liquidations that is still in memory is recorded later.",
)
def test_hours_that_ended_during_a_storage_failure_are_recorded_later(judge: MarketJudge) -> None:
    known(judge, judge.conclude(reading(HOUR_START + MINUTE)))
    judge.liquidated([Liquidation(HOUR_START + 5, "BTCUSDT", "long", 1.0, 100.0)])
    judge.watched(HOUR_START, HOUR_START + HOUR)
    judge.conclude(reading(HOUR_START + HOUR))

    later = judge.conclude(reading(HOUR_START + 3 * HOUR + MINUTE))

    assert evidence_of(later).closed_hour == hour(HOUR_START + 2 * HOUR)
    assert known(judge, later) == [
        hour(HOUR_START, 100.0, 100.0),
        hour(HOUR_START + HOUR),
        hour(HOUR_START + 2 * HOUR),
    ]


def test_hours_that_are_not_in_memory_are_not_recorded(judge: MarketJudge) -> None:
    known(judge, judge.conclude(reading(HOUR_START)))
    at = HOUR_START + 10 * DAY + MINUTE

    recorded = known(judge, judge.conclude(reading(at)))

    assert len(recorded) == 23
    assert recorded[0].at >= at - DAY


def test_the_last_hour_is_the_sixty_whole_minutes_before(judge: MarketJudge) -> None:
    at = START + 30_000
    for passed in (-HOUR - 1, -HOUR, -1, 0):
        judge.liquidated([Liquidation(START + passed, "BTCUSDT", "short", 1.0, 100.0)])
    judge.watched(START - HOUR, START)

    seen = evidence_of(judge.conclude(reading(at)))

    assert seen.last_hour == LiquidationHour(START - HOUR, 0.0, 200.0, 100.0)


@pytest.mark.parametrize(
    ("proved", "end"),
    [(None, -MINUTE), (-90_000, -MINUTE), (-MINUTE, -MINUTE), (-1, -MINUTE), (0, 0), (5_000, 0)],
)
def test_last_hour_ends_as_watched(judge: MarketJudge, proved: int | None, end: int) -> None:
    if proved is not None:
        judge.watched(START - 2 * HOUR, START + proved)

    seen = evidence_of(judge.conclude(reading(START)))

    assert seen.last_hour.at == START + end - HOUR


def outage(judge: MarketJudge, at: int, now: int | None) -> Outage | None:
    return evidence_of(stored(judge, judge.conclude(reading(at), now))).outage


@pytest.mark.parametrize(("seconds", "is_outage"), [(5, False), (29.999, False), (30, True)])
def test_a_long_gap_is_an_outage(judge: MarketJudge, seconds: float, is_outage: bool) -> None:
    assert outage(judge, START, START) is None
    at = START + int(seconds * 1_000)

    assert outage(judge, at, at) == (Outage(START, at, None) if is_outage else None)
    assert outage(judge, at + 5_000, at + 5_000) is None
    assert outage(judge, at + HOUR, None) is None  # a carried past
    assert outage(judge, START, START) is None  # data that go back


def test_an_outage_names_the_last_kind_of_failure(judge: MarketJudge) -> None:
    outage(judge, START, START)
    for passed, error in ((5_000, Unreachable("down")), (60_000, Throttled("slow down", 5.0))):
        stored(judge, judge.conclude_failure(error, START + passed))

    at = START + 65_000
    assert outage(judge, at, at) == Outage(START, at, "throttled")


def test_only_fresh_shares_of_majors_are_evidence_and_zero_is_one(judge: MarketJudge) -> None:
    judge.sampled(LongAccounts("BTCUSDT", 60.0, START - BOUND))
    judge.sampled(LongAccounts("SOLUSDT", 0.0, START - BOUND + 1))
    judge.sampled(LongAccounts("1000PEPEUSDT", 70.0, START))

    seen = evidence_of(judge.conclude(reading(START)))

    assert seen.long_account_pct == {"SOL": 0.0}
    assert list(seen.majors) == ["BTC", "ETH", "SOL"]


def test_rules_look_back_on_an_hour_only_after_it_is_stored(judge: MarketJudge) -> None:
    first = judge.conclude(reading(HOUR_START))
    trailing = evidence_of(first).trailing
    assert list(trailing.hours("BTC")) == []

    judge.written(first)

    assert [stored_hour.at for stored_hour in trailing.hours("BTC")] == [HOUR_START]
    assert list(trailing.hours("1000PEPE")) == []


def test_a_clock_that_was_set_back_does_not_stop_the_record(judge: MarketJudge) -> None:
    ahead = stored(judge, judge.conclude(reading(HOUR_START + 40 * DAY)))

    back = stored(judge, judge.conclude(reading(HOUR_START + MINUTE)))
    following = stored(judge, judge.conclude(reading(HOUR_START + HOUR + MINUTE)))

    assert rows(back, "hour") == [(each.contract, HOUR_START) for each in MARKET]
    assert back.liquidation_hours == [hour(HOUR_START - HOUR)]
    assert following.liquidation_hours == [hour(HOUR_START)]
    kept = evidence_of(ahead).trailing.hours("BTC")
    assert [kept_hour.at for kept_hour in kept] == [HOUR_START, HOUR_START + HOUR]


TWIN = changed(BTC, contract="BTCPERP", last_price=1.0, open_interest_usd=7.0)


def twinned(at: int, rates: tuple[float, float], first: Perpetual = BTC) -> Perpetuals:
    """A reading with two contracts of one major; `rates` are those of BTC and of its twin."""
    twins = [
        changed(each, funding_rate_pct=rate, next_funding_time=at // HOUR * HOUR + HOUR)
        for each, rate in zip((BTC, TWIN), rates, strict=True)
    ]
    return reading(at, tuple(sorted(twins, key=lambda each: each.contract != first.contract)))


def test_of_two_contracts_of_a_major_the_first_is_judged_and_both_are_recorded() -> None:
    judge = Judge(Settings.model_validate({}))
    for share in (LongAccounts(BTC.contract, 60.0, START), LongAccounts(TWIN.contract, 1.0, START)):
        judge.of("bybit").sampled(share)

    conclusion = judge.conclude(twinned(START, (0.01, -9.0)))
    judge.written(conclusion)

    market, seen = conclusion.market, evidence_of(conclusion.market)
    assert [major.contract for major in seen.majors.values()] == ["BTCUSDT"]
    assert seen.long_account_pct == {"BTC": 60.0}
    assert published(market, REGIME).label == "neutral"
    assert [name for name, _ in rows(market, "hour")] == ["BTCUSDT", "BTCPERP"]
    assert [past.last_price for past in seen.trailing.hours("BTC")] == [BTC.last_price]


def test_two_contracts_of_a_major_that_change_places_stop_nothing() -> None:
    judge = Judge(Settings.model_validate({}))

    def concluded(at: int, rates: tuple[float, float], first: Perpetual) -> Conclusion:
        judge.of("bybit").watched(at - HOUR, at)
        conclusion = judge.conclude(twinned(at, rates, first), at)
        judge.written(conclusion)
        return conclusion

    end = HOUR_START + HOUR
    concluded(end - 5_000, (0.01, 0.01), BTC)
    concluded(end, (-0.01, -0.01), BTC)
    concluded(end + HOUR - 5_000, (-0.01, -0.01), BTC)
    turned = concluded(end + HOUR, (-0.01, -0.01), TWIN)

    assert turned.signals is not None
    after = evidence_of(concluded(end + 2 * HOUR, (0.01, 0.01), TWIN).market)
    hours = [past.at for past in after.trailing.hours("BTC")]
    assert hours == [end, end + HOUR, end + 2 * HOUR]


def test_a_jump_is_neither_published_nor_recorded(judge: MarketJudge) -> None:
    stored(judge, judge.conclude(reading(START, (BTC, ETH)), START))
    at = START + MINUTE
    doubled = changed(BTC, open_interest_usd=2 * (BTC.open_interest_usd or 0.0))
    conclusion = stored(judge, judge.conclude(judge.guard(reading(at, (doubled, ETH))), at))

    shown = published(conclusion, PERPETUALS)
    assert [each.open_interest_usd for each in shown.contracts] == [None, ETH.open_interest_usd]
    rows = {row.contract: row.open_interest_usd for row in conclusion.readings}
    assert rows == {"BTCUSDT": None, "ETHUSDT": ETH.open_interest_usd}


def test_last_known_values_are_those_from_before_a_dispute(judge: MarketJudge) -> None:
    def known(at: int, usd: float) -> tuple[int, float]:
        held = reading(at, (changed(BTC, open_interest_usd=usd), ETH))
        conclusion = stored(judge, judge.conclude(held, at))
        feed = LAST_KNOWN.of("bybit")
        if feed.name in dict(conclusion.publications):
            assert published(conclusion, feed) == judge.last_known
        bitcoin = judge.last_known.contracts["BTCUSDT"]
        return bitcoin.at, bitcoin.open_interest_usd

    assert known(START, 5e9) == (START, 5e9)
    assert known(START + 5_000, 6e9) == (START, 5e9), "once per minute"
    assert "SOLUSDT" not in judge.last_known.contracts
    judge.conclude(reading(START + 5_000, (BTC, SOL)), START + 5_000)
    assert "SOLUSDT" in judge.last_known.contracts, "a new contract at once"
    at = START + MINUTE
    assert known(at, 6e9) == (at, 6e9)
    judge.disputed = {"open-interest": Dispute("bybit", "open-interest", at, "it doubled")}
    judge.forget_frames(at)
    assert known(at + MINUTE, 6e9) == (START, 5e9)
