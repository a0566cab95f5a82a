"""A collector that takes over continues where the other ended: nothing twice, nothing lost."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Feed, Publication
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.errors import Forbidden, LeaseLost, Throttled, Unreachable
from barograph.kit.database import Database, Row
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import MarketEvidence, TrailingRecord
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.store import record_settlement_reports
from barograph.markets.view import LIQUIDATIONS, PERPETUALS, REGIME
from barograph.settings import Settings
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS, Signal, Signals
from barograph.venues.records import Liquidation, LongAccounts, Perpetuals, SettledRate
from barograph.venues.registry import BYBIT, HYPERLIQUID
from support.evidence import AT, Month
from support.markets import BTC, ETH, PEPE, SOL, changed, reading, shares
from support.steps import Steps

R = TypeVar("R", bound=msgspec.Struct)

SETTINGS = Settings.model_validate({})
LONG = Liquidation(AT - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)
TWO_VENUES = Settings(venues="bybit,hyperliquid")
TABLES = {
    "readings": "SELECT * FROM readings ORDER BY 2, 3, 4",
    "hours": "SELECT * FROM liquidation_hours ORDER BY 2",
    "signals": "SELECT * FROM signal_changes ORDER BY at, key",
    "briefs": "SELECT slug, version, inputs_digest FROM briefs UNION ALL "
    "SELECT slug, version, inputs_digest FROM brief_versions ORDER BY 1, 2",
    "regimes": "SELECT * FROM regime_changes ORDER BY 2",
}


class Office(Steps):
    """Desks that work on one record, one after the other."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self._judges = 0
        self.hire()

    def hire(self, now: int = AT, settings: Settings = SETTINGS) -> Judge:
        """Let another judge take over."""
        self._judges += 1
        self.clock.now = now + self._judges * DAY  # the lease of the one before has run out
        name = f"desk {self._judges}"
        self.lease = Lease(self.database, "desk", name, clock=self.clock, milliseconds=15_000)
        assert self.run(self.lease.acquire())
        self.judge = Judge(settings, regime_dwell=0)
        self.run(self.judge.load(self.database, now))
        return self.judge

    def watch(self, start: int, end: int) -> None:
        self.judge.of(BYBIT).watched(start, end)

    def store(self, *conclusions: Conclusion) -> Conclusion:
        self.run(write_conclusions(self.database, self.lease, conclusions))
        for conclusion in conclusions:
            self.judge.written(conclusion)
        return conclusions[-1]

    def conclude(self, seen: Perpetuals, now: int | None = None) -> Conclusion:
        return self.store(self.judge.conclude(seen, now))

    def take_over(self, at: int, rate: float = 0.01, settles: int = AT + 8 * HOUR) -> Conclusion:
        """Let another judge take over, and conclude."""
        self.hire(at)
        return self.conclude(seen_at(at, rate, settles), now=at)

    def rows(self, table: str) -> list[Row]:
        rows = self.fetch(TABLES[table])
        return [row[1:-1] if row[0] == "bybit" else row for row in rows]

    def count(self, table: str) -> int:
        return int(self.fetch(f"SELECT count(*) FROM {table}")[0][0])

    def report(self, at: int, rate: float, read_at: int | None = None) -> None:
        """Record what the exchange reports that Bitcoin settled."""
        rates, now = [SettledRate("BTCUSDT", at, rate)], at + MINUTE if read_at is None else read_at
        self.write(lambda tx: record_settlement_reports(tx, BYBIT, rates, now))

    def refresh(self, at: int) -> None:
        self.run(self.judge.refresh(self.database, at))

    def everything(self) -> dict[str, list[Row]]:
        return {table: self.rows(table) for table in TABLES}

    def latest(self, feed: Feed[R]) -> R:
        snapshot = self.run(latest_snapshot(self.database, feed))
        assert snapshot is not None
        return snapshot


@pytest.fixture
def office(database: Database, runner: asyncio.Runner) -> Office:
    return Office(database, runner)


def seen_at(instant: int, rate: float = 0.01, settles: int = AT + 8 * HOUR) -> Perpetuals:
    majors = (changed(BTC, funding_rate_pct=rate), ETH, SOL, PEPE)
    market = tuple(changed(each, next_funding_time=settles) for each in majors)
    return reading(instant, market)


def evidence_of(conclusion: Conclusion) -> MarketEvidence:
    assert conclusion.market.evidence is not None
    return conclusion.market.evidence


def rules(conclusion: Conclusion) -> list[str]:
    return [brief.rule for brief in conclusion.briefs]


def published_totals(conclusion: Conclusion) -> LiquidationTotals:
    (payload,) = (
        each.payload for each in conclusion.market.publications if each.feed == LIQUIDATIONS.name
    )
    totals = LIQUIDATIONS.decode(payload)
    assert totals is not None
    return totals


def looked_back_on(trailing: TrailingRecord) -> object:
    return (
        [list(trailing.hours(base)) for base in ("BTC", "ETH", "SOL")],
        trailing.liquidation_hours(0),
    )


def test_a_desk_that_takes_over_looks_back_on_the_same_record(office: Office) -> None:
    month = list(Month().conclusions())
    office.store(*month)
    left = evidence_of(month[-1]).trailing
    last = evidence_of(month[-1]).reading.as_of
    office.hire(last + 20 * MINUTE)

    taken = evidence_of(office.judge.conclude(seen_at(last + 20 * MINUTE))).trailing

    assert looked_back_on(taken) == looked_back_on(left)
    assert taken.volatility("BTC") == left.volatility("BTC")


def test_a_takeover_within_a_minute_writes_nothing_twice(office: Office) -> None:
    office.watch(AT - HOUR, AT)
    office.judge.of("bybit").liquidated([Liquidation(AT - 5, "BTCUSDT", "long", 2.0, 50_000.0)])
    office.conclude(seen_at(AT - 5_000, settles=AT))
    office.conclude(seen_at(AT, -0.04))
    before = office.everything()
    assert all(before.values())

    conclusion = office.take_over(AT + 5_000, -0.04)

    assert office.everything() == before
    assert evidence_of(conclusion).closed_hour is None
    assert rules(conclusion) == []
    assert conclusion.signals is not None
    assert list(conclusion.signals.changes) == []


def test_a_reported_flip_is_told_once_also_by_the_next_judge(office: Office) -> None:
    for hours, rate in ((16, 0.01), (8, 0.0)):
        office.conclude(seen_at(AT - hours * HOUR - 5_000))
        office.report(AT - hours * HOUR, rate)
    office.conclude(seen_at(AT - 5_000))
    office.report(AT, -0.001)  # the judge ends before it reads this

    office.hire(AT + 2 * MINUTE)
    conclusion = office.conclude(seen_at(AT + 2 * MINUTE))

    (flip,) = [brief for brief in conclusion.briefs if brief.rule == "funding-flip"]
    assert (flip.window_start, flip.window_end) == (AT - 16 * HOUR, AT)
    office.refresh(AT + 3 * MINUTE)
    assert "funding-flip" not in rules(office.conclude(seen_at(AT + 3 * MINUTE)))
    assert "funding-flip" not in rules(office.take_over(AT + 4 * MINUTE))


@pytest.mark.parametrize("rate", [0.01, -0.01])
def test_a_report_of_a_time_without_readings_is_no_brief(office: Office, rate: float) -> None:
    office.report(AT - 8 * HOUR, -rate)
    office.conclude(seen_at(AT + 5_000))
    office.report(AT, rate)
    office.refresh(AT + 2 * MINUTE)

    assert "funding-flip" not in rules(office.conclude(seen_at(AT + 2 * MINUTE)))


def test_a_change_of_the_regime_between_two_desks_is_told_once(office: Office) -> None:
    office.conclude(seen_at(AT))
    assert rules(office.take_over(AT + 5_000, 0.04)) == ["regime-change"]
    assert rules(office.take_over(AT + 10_000, 0.04)) == []
    assert [row[1] for row in office.rows("regimes")] == ["neutral", "long-crowded"]


def test_a_cooldown_lasts_over_a_restart(office: Office) -> None:
    office.watch(AT - HOUR, AT)
    office.conclude(seen_at(AT))
    spoken = []
    for passed in (HOUR, 2 * HOUR, DAY, DAY + HOUR):
        office.hire(AT + passed + MINUTE)
        spoken.append(rules(office.conclude(seen_at(AT + passed + MINUTE))))

    assert spoken == [["liquidation-coverage"], [], [], ["liquidation-coverage"]]


@pytest.mark.outcome(
    "No collector runs for a while",
    "The first reading afterwards writes a brief that names the gap.",
)
def test_every_outage_is_told_however_soon_after_another(office: Office) -> None:
    office.conclude(seen_at(AT), now=AT)
    start = AT
    for passed in (MINUTE, 2 * MINUTE, 30 * MINUTE):
        (brief,) = office.take_over(AT + passed).briefs
        assert (brief.rule, brief.window_start, brief.window_end) == ("outage", start, AT + passed)
        assert "no failure of Bybit was recorded" in brief.summary
        start = AT + passed

    assert len(office.rows("briefs")) == 3


def test_hysteresis_lasts_over_a_restart(office: Office) -> None:
    contracts = [changed(PEPE, contract=str(n), funding_interval_hours=8) for n in range(100)]
    labels = []
    for minute, above in ((0, 20), (1, 18), (2, 16), (62, 16)):
        rates = [0.015] * above + [0.01] * (100 - above)
        market = [
            changed(contract, funding_rate_pct=rate)
            for contract, rate in zip(contracts, rates, strict=True)
        ]
        office.hire(AT + minute * MINUTE)
        signals = office.conclude(reading(AT + minute * MINUTE, tuple(market))).signals
        assert signals is not None
        labels += [each.label for each in signals.signals.signals if each.key == "funding-breadth"]

    assert labels == ["longs-pay", "longs-pay", "longs-pay", "balanced"]
    changes = [row[2] for row in office.rows("signals") if row[0] == "funding-breadth"]
    assert changes == ["longs-pay", "balanced"]


def test_labels_that_another_version_left_are_gone_on_from_without_harm(office: Office) -> None:
    strange = Signal("funding-breadth", "n", "a label of another version", "v", AT)
    left = Publication.of(SIGNALS, Signals(AT, "s", (strange, strange)))
    office.write(lambda tx: publish(tx, [left]))

    conclusion = office.take_over(AT)

    assert conclusion.signals is not None
    assert len(conclusion.signals.changes) == len(METHODS)


def test_an_outage_of_the_exchange_is_named_so_also_after_a_restart(office: Office) -> None:
    office.conclude(seen_at(AT), now=AT)
    office.store(office.judge.conclude_failure("bybit", Throttled("slow down", 5.0), AT + 5_000))

    conclusion = office.take_over(AT + MINUTE)

    assert "Bybit: throttled" in conclusion.briefs[0].summary


def test_a_carried_past_has_no_outage_and_its_continuation_neither(office: Office) -> None:
    office.conclude(seen_at(AT))
    office.conclude(seen_at(AT + HOUR))
    office.hire(AT + HOUR)

    assert rules(office.conclude(seen_at(AT + 2 * HOUR))) == []


def test_hours_without_a_collector_are_recorded_as_far_as_watched(office: Office) -> None:
    office.watch(AT - HOUR, AT + HOUR // 2)
    office.judge.of("bybit").liquidated([Liquidation(AT + 7, "BTCUSDT", "long", 1.0, 100.0)])
    office.conclude(seen_at(AT + HOUR // 2))

    office.take_over(AT + 3 * HOUR + MINUTE)

    assert office.rows("hours") == [
        (AT - HOUR, 0.0, 0.0, 100.0),
        (AT, 100.0, 0.0, 50.0),
        (AT + HOUR, 0.0, 0.0, 0.0),
        (AT + 2 * HOUR, 0.0, 0.0, 0.0),
    ]


def test_a_major_that_the_last_reading_did_not_show_is_looked_back_on(office: Office) -> None:
    office.conclude(seen_at(AT))
    office.conclude(reading(AT + 5_000, (ETH,)))
    office.hire(AT + 10_000)

    seen = evidence_of(office.judge.conclude(seen_at(AT + 10_000)))

    assert [each.at for each in seen.trailing.hours("BTC")] == [AT]


def test_a_record_from_a_clock_that_ran_ahead_does_not_hide_the_past(office: Office) -> None:
    office.conclude(seen_at(AT - HOUR, 0.01, AT))
    office.conclude(seen_at(AT + 365 * DAY, 0.02, AT + 366 * DAY))

    seen = evidence_of(office.take_over(AT + MINUTE))

    assert [each.at for each in seen.trailing.hours("BTC")] == [AT - HOUR, AT]
    assert seen.closed_hour is not None
    assert seen.closed_hour.at == AT - HOUR


def lost_and_found(office: Office, failing: Sequence[int]) -> dict[str, list[Row]]:
    """What is stored of some minutes in which some writes fail."""
    steps = [
        seen_at(AT - 10_000, 0.01, AT),
        seen_at(AT - 5_000, -0.001, AT),
        seen_at(AT, 0.04, AT + HOUR),
        seen_at(AT + 2 * MINUTE, 0.04, AT + HOUR),
        seen_at(AT + 2 * MINUTE + 5_000, 0.04, AT + HOUR),
    ]
    for number, seen in enumerate(steps):
        office.watch(seen.as_of - HOUR, seen.as_of)
        office.judge.of("bybit").sampled(LongAccounts("BTCUSDT", 50.0, seen.as_of))
        conclusion = office.judge.conclude(seen, seen.as_of)
        if number not in failing:
            office.store(conclusion)
    return office.everything()


@pytest.mark.parametrize("failing", [(), (2,), (3,), (1, 2), (0, 1, 2, 3)])
def test_writes_that_fail_lose_no_brief_hour_or_change_and_double_none(
    office: Office, failing: tuple[int, ...]
) -> None:
    stored = lost_and_found(office, failing)

    assert [row[0] for row in stored["briefs"]] == [
        "2026-11-06-2100-regime-change-long-crowded",
        "2026-11-06-2102-outage-market-data",
    ]
    assert (AT - HOUR, 0.0, 0.0, 100.0) in stored["hours"]
    assert len({row[0] for row in stored["hours"]}) == len(stored["hours"])
    assert stored["regimes"][-1][1] == "long-crowded"
    labels = [row[2] for row in stored["signals"] if row[0] == "btc-funding-regime"]
    assert labels[-1] == "long-crowded"
    assert len(set(labels)) == len(labels)


def test_a_desk_that_lost_the_lease_leaves_no_trace(office: Office) -> None:
    old_lease, old = office.lease, office.judge
    office.hire(AT)
    office.lease = old_lease
    old.of(BYBIT).liquidated([LONG])

    with pytest.raises(LeaseLost):
        office.store(old.conclude(seen_at(AT, 0.04)))

    assert not any(office.everything().values())
    assert office.count("liquidations") == office.count("snapshots") == 0


def test_a_conclusion_is_recorded_and_published_together_and_continued(office: Office) -> None:
    venue = office.judge.of(BYBIT)
    venue.liquidated([LONG])
    venue.watched(AT - DAY // 4, AT)
    for share in shares(AT):
        venue.sampled(share)
    office.conclude(seen_at(AT))
    stored = {
        table: office.count(table) for table in ("liquidations", "watched_spans", "snapshots")
    }
    assert stored == {"liquidations": 1, "watched_spans": 1, "snapshots": 10}
    assert [row[0] for row in office.rows("readings")] == ["hour"] * 4 + ["minute"] * 3

    judge = office.hire(AT + 30_000)
    failure = judge.conclude_failure(BYBIT, Unreachable("down"), AT + 30_000)
    assert published_totals(failure).top_asset == "BTC"
    office.watch(AT, AT + 30_000)
    judge.of(BYBIT).liquidated([LONG])
    conclusion = office.conclude(seen_at(AT + 30_000))

    totals = published_totals(conclusion)
    assert (totals.total_usd, totals.watched_pct) == (100_000.0, 25.03)
    assert list(conclusion.market.regime_changes) == []
    assert {row[7] for row in office.rows("readings")} == {61.5, 55.0, 0.0, None}
    assert (office.count("liquidations"), office.count("regime_changes")) == (1, 1)
    assert len(office.rows("readings")) == 7


def elsewhere(instant: int, rate: float = 0.0) -> Perpetuals:
    return replace(seen_at(instant, rate), venue=HYPERLIQUID, source="Hyperliquid")


def switch(office: Office) -> None:
    """Read both venues, then let the primary refuse."""
    office.hire(AT, TWO_VENUES)
    office.watch(AT - HOUR, AT)
    office.conclude(seen_at(AT, 0.04), AT)
    office.conclude(elsewhere(AT), AT)
    for number in range(1, 4):
        refused = office.judge.conclude_failure(BYBIT, Forbidden("blocked"), AT + number)
        office.store(refused)


def test_a_judge_that_takes_over_continues_with_the_venue_in_use(office: Office) -> None:
    switch(office)
    before = office.latest(VENUE_IN_USE)
    judge = office.hire(AT + 5_000, TWO_VENUES)
    assert judge.in_use == HYPERLIQUID
    for seen in (seen_at(AT + 5_000, 0.04), elsewhere(AT + 5_000)):
        assert office.conclude(seen, AT + 5_000).events == []
    assert office.latest(PERPETUALS).venue == HYPERLIQUID
    expected = replace(before, back_at=AT + 5_000 + 15 * MINUTE, back=BYBIT)
    assert office.latest(VENUE_IN_USE) == expected


def test_removed_venue_gives_way_to_the_own_record_of_the_next(office: Office) -> None:
    switch(office)
    conclusion = office.take_over(AT + 5_000, 0.04)
    regime = office.latest(REGIME)
    assert office.latest(VENUE_IN_USE).venue == BYBIT
    assert (regime.label, regime.since) == ("long-crowded", AT)
    assert office.latest(LIQUIDATIONS).watching_since == AT - HOUR
    assert rules(conclusion) == []


def test_venue_new_to_an_older_database_takes_nothing_from_the_primary(office: Office) -> None:
    office.watch(AT - HOUR, AT)
    office.store(office.judge.conclude(seen_at(AT, 0.04), AT)._replace(in_use=None))
    judge = office.hire(AT + 5_000, TWO_VENUES)
    assert judge.in_use == BYBIT
    office.conclude(elsewhere(AT + 5_000), AT + 5_000)
    office.conclude(seen_at(AT + 5_000, 0.04), AT + 5_000)
    assert office.latest(REGIME.of(HYPERLIQUID)).label == "neutral"
    assert office.latest(LIQUIDATIONS.of(HYPERLIQUID)).watching_since == AT + 5_000
    assert office.latest(REGIME).since == AT
