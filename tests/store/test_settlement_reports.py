"""Reports of settlements: every revision kept, nothing changed, and deleted after two years."""

import asyncio

import pytest

from barograph.kit.database import ConstraintViolated, Database, Row
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.settlements import MAX_REVISIONS, SettlementReport
from barograph.markets.store import (
    HOUR_DAYS,
    ReadingRow,
    record_rows,
    record_settlement_reports,
    settled_rates,
    settlement_revisions,
)
from barograph.venues.records import ContractName, SettledRate
from support.backends import on_engines
from support.clock import START
from support.steps import Steps

BTC = ContractName("bybit", "BTCUSDT")
STEP = 8 * HOUR
AT = START // STEP * STEP


def rate(value: float, at: int = AT, contract: str = "BTCUSDT") -> SettledRate:
    return SettledRate(contract, at, value)


def kept(value: float, at: int = AT, revision: int = 1, read_at: int = START) -> SettlementReport:
    return SettlementReport("BTCUSDT", at, revision, value, read_at, "backfilled")


class Reports(Steps):
    """The verbs of the table, each in a transaction of its own."""

    def record(self, *rates: SettledRate, at: int = START) -> list[SettlementReport]:
        return self.write(lambda tx: record_settlement_reports(tx, "bybit", rates, at))

    def read_market(self, at: int) -> None:
        """Record a reading of our own."""
        row = ReadingRow("minute", "BTCUSDT", at, 9.0, 0.01, 8.0, None, None)
        self.write(lambda tx: record_rows(tx, "bybit", readings=[row]))

    def newest(self) -> list[SettlementReport]:
        return self.read(lambda tx: settled_rates(tx, BTC, 0, AT + STEP))

    def rows(self) -> list[Row]:
        return self.fetch("SELECT * FROM settlement_reports ORDER BY contract, at, revision")


@pytest.fixture
def reports(database: Database, runner: asyncio.Runner) -> Reports:
    return Reports(database, runner)


def test_what_is_reported_is_kept_with_the_instant_it_was_first_read(reports: Reports) -> None:
    newest, oldest = rate(0.01), rate(0.0, AT - 2 * STEP)
    late = rate(0.02, AT - STEP)
    reports.record(rate(0.02, contract="ETHUSDT"))

    assert reports.record(newest, oldest) == [kept(0.01), kept(0.0, AT - 2 * STEP)]
    assert reports.record(newest, late, oldest, at=START + 1) == [
        kept(0.02, AT - STEP, read_at=START + 1)
    ]
    assert reports.record(newest, late, oldest, at=START + HOUR) == reports.record() == []
    assert [report.funding_rate_pct for report in reports.newest()] == [0.0, 0.02, 0.01]


def test_report_read_after_the_next_settlement_is_backfilled(reports: Reports) -> None:
    for back in (1, 2):
        reports.read_market(AT - back * STEP - MINUTE)
    reports.record(rate(0.01, AT - STEP), at=AT)
    reports.record(rate(0.02, AT - 2 * STEP), at=AT)
    reports.record(rate(0.03, AT - STEP), at=AT + STEP)

    found = [(each.revision, each.origin) for each in reports.newest()]
    assert found == [(1, "backfilled"), (2, "measured")]


def test_a_report_is_measured_only_if_we_were_reading_when_it_settled(reports: Reports) -> None:
    reports.read_market(AT - HOUR - MINUTE)  # then the collector stopped
    reports.read_market(AT)
    reports.record(rate(0.01), at=AT + HOUR)
    reports.read_market(AT + STEP - MINUTE)
    reports.record(rate(0.02, AT + STEP), at=AT + STEP + MINUTE)

    assert [each.origin for each in reports.newest()] == ["backfilled", "measured"]


def test_another_rate_is_the_next_revision_also_when_it_is_an_old_one(reports: Reports) -> None:
    reports.record(rate(0.01))
    reports.record(rate(0.012), at=START + HOUR)
    reports.record(rate(0.01), at=START + 2 * HOUR)

    assert reports.newest() == [kept(0.01, revision=3, read_at=START + 2 * HOUR)]
    assert [row[3:5] for row in reports.rows()] == [(1, 0.01), (2, 0.012), (3, 0.01)]


def test_a_revision_is_never_older_than_what_it_revises(reports: Reports) -> None:
    reports.record(rate(0.01))
    reports.record(rate(0.012), at=START - HOUR)

    assert reports.newest() == [kept(0.012, revision=2)]


def test_the_newest_revisions_of_a_span_are_given_oldest_first(reports: Reports) -> None:
    reports.record(*[rate(float(back), AT - back * STEP) for back in range(5)])
    reports.record(rate(9.0, AT - 2 * STEP))
    span = (BTC, AT - 3 * STEP, AT - STEP)

    found = reports.read(lambda tx: settled_rates(tx, *span))
    assert [each.funding_rate_pct for each in found] == [3.0, 9.0, 1.0]
    assert reports.read(lambda tx: settled_rates(tx, *span, 2)) == found[:2]
    every = reports.read(lambda tx: settlement_revisions(tx, *span))
    assert [each.funding_rate_pct for each in every] == [3.0, 2.0, 9.0]


def test_reports_are_kept_for_two_years_before_the_newest_of_their_contract(
    reports: Reports,
) -> None:
    oldest = AT - HOUR_DAYS * DAY
    reports.record(rate(0.01, oldest - STEP), rate(0.01, contract="BTCUSDT", at=oldest))
    assert [each.at for each in reports.newest()] == [oldest - STEP, oldest]

    reports.record(rate(0.02), rate(0.03, oldest - 2 * STEP))

    assert [each.at for each in reports.newest()] == [oldest, AT]


def test_a_report_is_kept_whole_or_not_at_all(reports: Reports) -> None:
    for broken in (float("nan"), float("inf")):
        with pytest.raises(ConstraintViolated):
            reports.record(rate(0.01), rate(broken, AT - STEP))

    assert reports.rows() == []


@pytest.mark.parametrize(
    ("engine", "sql"),
    on_engines(
        "UPDATE settlement_reports SET funding_rate_pct = 9",
        "UPDATE settlement_reports SET origin = 'measured'",
        "DELETE FROM settlement_reports",
        "TRUNCATE settlement_reports",
        f"REPLACE INTO settlement_reports VALUES ('bybit', 'BTCUSDT', {AT}, 1, 9, 0, 'measured')",
        (
            f"INSERT INTO settlement_reports VALUES ('bybit', 'BTCUSDT', {AT}, 1, 9, 0, 'measured')"
            " ON CONFLICT (venue, contract, at, revision) DO UPDATE SET funding_rate_pct = 9"
        ),
        (
            "REPLACE INTO settlement_reports "
            "(rowid, venue, contract, at, revision, funding_rate_pct, read_at, origin) "
            f"VALUES (1, 'bybit', 'BTCUSDT', {AT + STEP}, 1, 9, 0, 'measured')"
        ),
        f"INSERT INTO settlement_reports VALUES ('bybit', 'BTCUSDT', {AT}, 3, 9, 0, 'measured')",
        f"INSERT INTO settlement_reports VALUES ('bybit', 'ETHUSDT', {AT}, 0, 9, 0, 'measured')",
    ),
    indirect=["engine"],
)
def test_database_refuses_what_is_not_the_next_revision(reports: Reports, sql: str) -> None:
    reports.record(rate(0.01))
    before = reports.rows()

    with pytest.raises(ConstraintViolated):
        reports.execute(sql)

    assert reports.rows() == before


def test_an_exchange_that_invents_settlements_writes_a_bounded_number(reports: Reports) -> None:
    between = [rate(0.01, AT + 1), rate(0.01, AT + MINUTE)]
    for number in range(2 * MAX_REVISIONS):
        reports.record(rate(number / 100), *between, at=START + number)

    assert [each.revision for each in reports.newest()] == [MAX_REVISIONS]
    assert len(reports.rows()) == MAX_REVISIONS
