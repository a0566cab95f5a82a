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
from barograph.errors import Forbidden, LeaseLost, Throttled
from barograph.kit.database import Database, Row, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import MarketEvidence, TrailingRecord
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.records import Liquidation, LongAccounts, Perpetual, Perpetuals
from barograph.markets.venues import BYBIT, HYPERLIQUID
from barograph.markets.view import LIQUIDATIONS, PERPETUALS, REGIME
from barograph.settings import Settings
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS, Signal, Signals
from support.evidence import AT, Month
from support.markets import BTC, ETH, PEPE, SOL, changed, reading

R = TypeVar("R", bound=msgspec.Struct)

SETTINGS = Settings.model_validate({})
TWO_VENUES = Settings(venues="bybit,hyperliquid")
TABLES = {
    "readings": "SELECT * FROM readings ORDER BY 2, 3, 4",
    "hours": "SELECT * FROM liquidation_hours ORDER BY 2",
    "settlements": "SELECT * FROM settlements ORDER BY 2, 3",
    "signals": "SELECT * FROM signal_changes ORDER BY at, key",
    "briefs": "SELECT slug, version, inputs_digest FROM briefs UNION ALL "
    "SELECT slug, version, inputs_digest FROM brief_versions ORDER BY 1, 2",
    "regimes": "SELECT * FROM regime_changes ORDER BY 2",
}


class Office:
    """Desks that work on one record, one after the other."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._database = database
        self._runner = runner
        self._now = AT
        self._judges = 0
        self.hire()

    def hire(self, now: int = AT, settings: Settings = SETTINGS) -> Judge:
        """Let another judge take over."""
        self._judges += 1
        self._now = now + self._judges * DAY  # the lease of the one before has run out
        self.lease = Lease(
            self._database,
            "desk",
            f"desk {self._judges}",
            clock=lambda: self._now,
            milliseconds=15_000,
        )
        assert self._runner.run(self.lease.acquire())
        self.judge = Judge(settings, regime_dwell=0)
        self._runner.run(self.judge.load(self._database, now))
        return self.judge

    def store(self, *conclusions: Conclusion) -> Conclusion:
        self._runner.run(write_conclusions(self._database, self.lease, conclusions))
        for conclusion in conclusions:
            self.judge.written(conclusion)
        return conclusions[-1]

    def conclude(self, seen: Perpetuals, now: int | None = None) -> Conclusion:
        return self.store(self.judge.conclude(seen, now))

    def rows(self, table: str) -> list[Row]:
        async def work(tx: Transaction) -> list[Row]:
            rows = await tx.fetch(TABLES[table])
            return [row[1:-1] if row[0] == "bybit" else row for row in rows]

        return self._runner.run(self._database.read(work))

    def everything(self) -> dict[str, list[Row]]:
        return {table: self.rows(table) for table in TABLES}

    def latest(self, feed: Feed[R]) -> R | None:
        return self._runner.run(latest_snapshot(self._database, feed))

    def publish_signals(self, signals: Signals) -> None:
        self._runner.run(
            self._database.write(lambda tx: publish(tx, [Publication.of(SIGNALS, signals)]))
        )


@pytest.fixture
def office(database: Database, runner: asyncio.Runner) -> Office:
    return Office(database, runner)


def market(rate: float = 0.01, settles: int = AT + 8 * HOUR) -> tuple[Perpetual, ...]:
    majors = (changed(BTC, funding_rate_pct=rate), ETH, SOL, PEPE)
    return tuple(changed(each, next_funding_time=settles) for each in majors)


def at(instant: int, rate: float = 0.01, settles: int = AT + 8 * HOUR) -> Perpetuals:
    return reading(instant, market(rate, settles))


def evidence_of(conclusion: Conclusion) -> MarketEvidence:
    assert conclusion.market.evidence is not None
    return conclusion.market.evidence


def rules(conclusion: Conclusion) -> list[str]:
    return [brief.rule for brief in conclusion.briefs]


def looked_back_on(trailing: TrailingRecord) -> object:
    return (
        [list(trailing.hours(base)) for base in ("BTC", "ETH", "SOL")],
        trailing.liquidation_hours(0),
        [trailing.settled(contract) for contract in ("BTCUSDT", "ETHUSDT", "SOLUSDT")],
        [trailing.settled_with_a_sign(contract) for contract in ("BTCUSDT", "SOLUSDT")],
    )


def test_a_desk_that_takes_over_looks_back_on_the_same_record(office: Office) -> None:
    month = list(Month().conclusions())
    office.store(*month)
    left = evidence_of(month[-1]).trailing
    last = evidence_of(month[-1]).reading.as_of
    office.hire(last + 20 * MINUTE)

    taken = evidence_of(office.judge.conclude(at(last + 20 * MINUTE))).trailing

    assert looked_back_on(taken) == looked_back_on(left)
    assert taken.volatility("BTC") == left.volatility("BTC")


def test_a_takeover_within_a_minute_writes_nothing_twice(office: Office) -> None:
    office.judge.of("bybit").watched(AT - HOUR, AT)
    office.judge.of("bybit").liquidated([Liquidation(AT - 5, "BTCUSDT", "long", 2.0, 50_000.0)])
    office.conclude(at(AT - 5_000, settles=AT))
    office.conclude(at(AT, -0.04))
    before = office.everything()
    assert all(before.values())

    office.hire(AT + 5_000)
    conclusion = office.conclude(at(AT + 5_000, -0.04), now=AT + 5_000)

    assert office.everything() == before
    assert evidence_of(conclusion).closed_hour is None
    assert rules(conclusion) == []
    assert conclusion.signals is not None
    assert list(conclusion.signals.changes) == []


def test_a_settlement_between_two_desks_is_noted_by_the_second_and_the_flip_told(
    office: Office,
) -> None:
    office.conclude(at(AT - 8 * HOUR - 5_000, 0.01, AT - 8 * HOUR))
    office.conclude(at(AT - 8 * HOUR, -0.001, AT))
    office.conclude(at(AT - 5_000, -0.001, AT))

    office.hire(AT + 5_000)
    conclusion = office.conclude(at(AT + 5_000, 0.02), now=AT + 5_000)

    bitcoin = [row for row in office.rows("settlements") if row[0] == "BTCUSDT"]
    assert [(row[1], row[2]) for row in bitcoin] == [(AT - 8 * HOUR, 0.01), (AT, -0.001)]
    assert "funding-flip" in rules(conclusion)
    office.hire(AT + 10_000)
    again = office.conclude(at(AT + 10_000, 0.02), now=AT + 10_000)
    assert list(again.market.settlements) == []
    assert "funding-flip" not in rules(again)


def test_a_flip_over_a_settlement_of_zero_is_told_also_by_a_desk_that_took_over(
    office: Office,
) -> None:
    rates = {AT - 16 * HOUR: 0.01, AT - 8 * HOUR: 0.0, AT: -0.001}
    for settles, rate in rates.items():
        office.hire(settles - 5_000)
        office.conclude(at(settles - 5_000, rate, settles))

    office.hire(AT + 5_000)
    conclusion = office.conclude(at(AT + 5_000))

    bitcoin = [row[1:3] for row in office.rows("settlements") if row[0] == "BTCUSDT"]
    assert bitcoin == list(rates.items())
    (flip,) = [brief for brief in conclusion.briefs if brief.rule == "funding-flip"]
    assert (flip.window_start, flip.window_end) == (AT - 16 * HOUR, AT)


def test_a_change_of_the_regime_between_two_desks_is_told_once(office: Office) -> None:
    office.conclude(at(AT))
    office.hire(AT + 5_000)

    assert rules(office.conclude(at(AT + 5_000, 0.04))) == ["regime-change"]
    office.hire(AT + 10_000)
    assert rules(office.conclude(at(AT + 10_000, 0.04))) == []
    assert [row[1] for row in office.rows("regimes")] == ["neutral", "long-crowded"]


def test_a_cooldown_lasts_over_a_restart(office: Office) -> None:
    office.judge.of("bybit").watched(AT - HOUR, AT)
    office.conclude(at(AT))
    spoken = []
    for passed in (HOUR, 2 * HOUR, DAY, DAY + HOUR):
        office.hire(AT + passed + MINUTE)
        spoken.append(rules(office.conclude(at(AT + passed + MINUTE))))

    assert spoken == [["liquidation-coverage"], [], [], ["liquidation-coverage"]]


def test_every_outage_is_told_however_soon_after_another_and_whoever_takes_over(
    office: Office,
) -> None:
    office.conclude(at(AT), now=AT)
    spoken = []
    for passed in (MINUTE, 2 * MINUTE, 30 * MINUTE):
        office.hire(AT + passed)
        spoken.append(rules(office.conclude(at(AT + passed), now=AT + passed)))

    assert spoken == [["outage"]] * 3
    assert len(office.rows("briefs")) == 3


def test_hysteresis_lasts_over_a_restart(office: Office) -> None:
    def breadth(instant: int, above: int) -> Perpetuals:
        contracts = [changed(PEPE, contract=str(n), funding_interval_hours=8) for n in range(100)]
        return reading(
            instant,
            tuple(
                changed(each, funding_rate_pct=0.015 if number < above else 0.01)
                for number, each in enumerate(contracts)
            ),
        )

    def label(conclusion: Conclusion) -> str:
        assert conclusion.signals is not None
        return {each.key: each.label for each in conclusion.signals.signals.signals}[
            "funding-breadth"
        ]

    assert label(office.conclude(breadth(AT, 20))) == "longs-pay"
    office.hire(AT + MINUTE)
    assert label(office.conclude(breadth(AT + MINUTE, 18))) == "longs-pay"
    office.hire(AT + 2 * MINUTE)
    assert label(office.conclude(breadth(AT + 2 * MINUTE, 16))) == "balanced"
    assert [row[2] for row in office.rows("signals") if row[0] == "funding-breadth"] == [
        "longs-pay",
        "balanced",
    ]


def test_labels_that_another_version_left_are_gone_on_from_without_harm(office: Office) -> None:
    strange = Signal("funding-breadth", "n", "a label of another version", "v", AT)
    office.publish_signals(Signals(AT, "s", (strange, strange)))
    office.hire(AT)

    conclusion = office.conclude(at(AT))

    assert conclusion.signals is not None
    assert len(conclusion.signals.changes) == len(METHODS)


@pytest.mark.outcome(
    "No collector runs for a while",
    "The first reading afterwards writes a brief that names the gap.",
)
def test_restart_after_a_gap_is_reported_as_a_collector_outage(office: Office) -> None:
    office.conclude(at(AT), now=AT)
    office.hire(AT + 5 * MINUTE)

    conclusion = office.conclude(at(AT + 5 * MINUTE), now=AT + 5 * MINUTE)

    (brief,) = conclusion.briefs
    assert brief.rule == "outage"
    assert (brief.window_start, brief.window_end) == (AT, AT + 5 * MINUTE)
    assert "no failure of the exchange was recorded" in brief.summary


def test_an_outage_of_the_exchange_is_named_so_also_after_a_restart(office: Office) -> None:
    office.conclude(at(AT), now=AT)
    office.store(office.judge.conclude_failure("bybit", Throttled("slow down", 5.0), AT + 5_000))
    office.hire(AT + MINUTE)

    conclusion = office.conclude(at(AT + MINUTE), now=AT + MINUTE)

    assert "the exchange: throttled" in conclusion.briefs[0].summary


def test_a_carried_past_has_no_outage_and_its_continuation_neither(office: Office) -> None:
    office.conclude(at(AT))
    office.conclude(at(AT + HOUR))
    office.hire(AT + HOUR)

    assert rules(office.conclude(at(AT + 2 * HOUR))) == []


def test_hours_that_ended_while_nobody_worked_are_recorded_as_far_as_they_were_watched(
    office: Office,
) -> None:
    office.judge.of("bybit").watched(AT - HOUR, AT + HOUR // 2)
    office.judge.of("bybit").liquidated([Liquidation(AT + 7, "BTCUSDT", "long", 1.0, 100.0)])
    office.conclude(at(AT + HOUR // 2))

    later = AT + 3 * HOUR + MINUTE
    office.hire(later)
    office.conclude(at(later, settles=AT + 8 * HOUR), now=later)

    assert office.rows("hours") == [
        (AT - HOUR, 0.0, 0.0, 100.0),
        (AT, 100.0, 0.0, 50.0),
        (AT + HOUR, 0.0, 0.0, 0.0),
        (AT + 2 * HOUR, 0.0, 0.0, 0.0),
    ]


def test_a_major_that_the_last_reading_did_not_show_is_looked_back_on(office: Office) -> None:
    office.conclude(at(AT))
    office.conclude(reading(AT + 5_000, (ETH,)))
    office.hire(AT + 10_000)

    seen = evidence_of(office.judge.conclude(at(AT + 10_000)))

    assert [each.at for each in seen.trailing.hours("BTC")] == [AT]


def test_a_record_from_a_clock_that_ran_ahead_does_not_hide_the_past(office: Office) -> None:
    office.conclude(at(AT - HOUR, 0.01, AT))
    office.conclude(at(AT + 365 * DAY, 0.02, AT + 366 * DAY))
    office.hire(AT + MINUTE)

    conclusion = office.conclude(at(AT + MINUTE), now=AT + MINUTE)

    seen = evidence_of(conclusion)
    assert [each.at for each in seen.trailing.hours("BTC")] == [AT - HOUR, AT]
    assert seen.closed_hour is not None
    assert seen.closed_hour.at == AT - HOUR


def lost_and_found(office: Office, failing: Sequence[int]) -> dict[str, list[Row]]:
    """What is stored of some minutes in which some writes fail."""
    steps = [
        at(AT - 10_000, 0.01, AT),
        at(AT - 5_000, -0.001, AT),
        at(AT, 0.04, AT + HOUR),
        at(AT + 2 * MINUTE, 0.04, AT + HOUR),
        at(AT + 2 * MINUTE + 5_000, 0.04, AT + HOUR),
    ]
    for number, seen in enumerate(steps):
        office.judge.of("bybit").watched(seen.as_of - HOUR, seen.as_of)
        office.judge.of("bybit").sampled(LongAccounts("BTCUSDT", 50.0, seen.as_of))
        conclusion = office.judge.conclude(seen, seen.as_of)
        if number not in failing:
            office.store(conclusion)
    return office.everything()


@pytest.mark.parametrize("failing", [(), (2,), (3,), (1, 2), (0, 1, 2, 3)])
def test_writes_that_fail_lose_no_brief_settlement_hour_or_change_and_double_none(
    office: Office, failing: tuple[int, ...]
) -> None:
    stored = lost_and_found(office, failing)

    assert [row[0] for row in stored["briefs"]] == [
        "2026-11-06-2100-regime-change-long-crowded",
        "2026-11-06-2102-outage-market-data",
    ]
    assert [row[:3] for row in stored["settlements"] if row[0] == "BTCUSDT"] == [
        ("BTCUSDT", AT, -0.001)
    ]
    assert (AT - HOUR, 0.0, 0.0, 100.0) in stored["hours"]
    assert len({row[0] for row in stored["hours"]}) == len(stored["hours"])
    assert stored["regimes"][-1][1] == "long-crowded"
    labels = [row[2] for row in stored["signals"] if row[0] == "btc-funding-regime"]
    assert labels[-1] == "long-crowded"
    assert len(set(labels)) == len(labels)


def test_a_desk_that_lost_the_lease_leaves_no_brief_and_no_signal(office: Office) -> None:
    old_lease, old = office.lease, office.judge
    office.hire(AT)
    office.lease = old_lease

    with pytest.raises(LeaseLost):
        office.store(old.conclude(at(AT, 0.04)))

    assert not any(office.everything().values())


def elsewhere(instant: int, rate: float = 0.0) -> Perpetuals:
    return replace(at(instant, rate), venue=HYPERLIQUID, source="Hyperliquid")


def switch(office: Office) -> None:
    """Read both venues, then let the primary refuse."""
    office.hire(AT, TWO_VENUES)
    office.judge.of(BYBIT).watched(AT - HOUR, AT)
    office.conclude(at(AT, 0.04), AT)
    office.conclude(elsewhere(AT), AT)
    for number in range(1, 4):
        refused = office.judge.conclude_failure(BYBIT, Forbidden("blocked"), AT + number)
        office.store(refused)


def test_a_judge_that_takes_over_continues_with_the_venue_in_use(office: Office) -> None:
    switch(office)
    before = office.latest(VENUE_IN_USE)
    judge = office.hire(AT + 5_000, TWO_VENUES)
    assert judge.in_use == HYPERLIQUID
    standby = office.conclude(at(AT + 5_000, 0.04), AT + 5_000)
    used = office.conclude(elsewhere(AT + 5_000), AT + 5_000)
    assert (standby.events, used.events) == ([], [])
    newest = office.latest(PERPETUALS)
    assert newest is not None
    assert newest.venue == HYPERLIQUID
    assert office.latest(VENUE_IN_USE) == before


def test_a_venue_in_use_that_was_removed_gives_way_to_the_own_record_of_the_next(
    office: Office,
) -> None:
    switch(office)
    office.hire(AT + 5_000, Settings(venues="bybit"))
    found = office.conclude(at(AT + 5_000, 0.04), AT + 5_000)
    used, regime = office.latest(VENUE_IN_USE), office.latest(REGIME)
    totals = office.latest(LIQUIDATIONS)
    assert used is not None
    assert regime is not None
    assert totals is not None
    assert used.venue == BYBIT
    assert (regime.label, regime.since) == ("long-crowded", AT)
    assert totals.watching_since == AT - HOUR
    assert rules(found) == []


def test_a_venue_that_is_new_to_an_older_database_takes_nothing_from_the_primary(
    office: Office,
) -> None:
    office.judge.of(BYBIT).watched(AT - HOUR, AT)
    office.store(office.judge.conclude(at(AT, 0.04), AT)._replace(in_use=None))
    judge = office.hire(AT + 5_000, TWO_VENUES)
    assert judge.in_use == BYBIT
    office.conclude(elsewhere(AT + 5_000), AT + 5_000)
    office.conclude(at(AT + 5_000, 0.04), AT + 5_000)
    new, totals = office.latest(REGIME.of(HYPERLIQUID)), office.latest(LIQUIDATIONS.of(HYPERLIQUID))
    assert new is not None
    assert totals is not None
    assert (new.label, totals.watching_since) == ("neutral", AT + 5_000)
    kept = office.latest(REGIME)
    assert kept is not None
    assert kept.since == AT
