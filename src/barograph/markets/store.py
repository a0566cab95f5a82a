"""The tables of market data: readings, liquidations, regime changes and settlements."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import astuple

from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import TRAILING, FundingSettlement, Hour, TrailingRecord
from barograph.markets.liquidations import LiquidationHour, Span
from barograph.markets.records import Liquidation
from barograph.markets.settlements import SettledRate, SettlementReport
from barograph.settings import Settings

Resolution = Literal["minute", "hour"]

FORGET_ROWS = 2_000
"""At most this many rows per transaction, so that a clean-up delays no other write."""


class ReadingRow(NamedTuple):
    """One contract at one minute or hour, in the order of the table's columns."""

    resolution: Resolution
    contract: str
    at: int
    last_price: float
    funding_rate_pct: float
    funding_interval_hours: float
    open_interest_usd: float | None
    long_account_pct: float | None


class RegimeChange(NamedTuple):
    """A new label and the rate that caused it."""

    at: int
    label: str
    funding_8h_pct: float | None


async def record_rows(
    tx: Transaction,
    *,
    readings: Sequence[ReadingRow] = (),
    liquidations: Sequence[Liquidation] = (),
    watched: Sequence[Span] = (),
    regime_changes: Sequence[RegimeChange] = (),
    liquidation_hours: Sequence[LiquidationHour] = (),
    settlements: Sequence[FundingSettlement] = (),
) -> None:
    """Store market data. Known rows stay as they are, but a longer watched span replaces a shorter.

    A span is known by its start, a reading by its contract and its minute or hour.
    """
    await tx.execute_many(_READING, readings)
    await tx.execute_many(_LIQUIDATION, [astuple(each) for each in liquidations])
    await tx.execute_many(_SPAN, watched)
    await tx.execute_many(_REGIME_CHANGE, regime_changes)
    await tx.execute_many(_LIQUIDATION_HOUR, liquidation_hours)
    await tx.execute_many(_SETTLEMENT, settlements)


async def recent_record(tx: Transaction, bases: Mapping[str, str], now: int) -> TrailingRecord:
    """The record that rules look back on; `bases` names the asset of each contract to load.

    It loads one more day than rules see, because the volatility of an hour needs the day before it.
    """
    trailing = TrailingRecord()
    since, until = now - TRAILING - DAY - 2 * HOUR, now + MINUTE
    for contract, base in bases.items():
        for row in await tx.fetch(_RECENT_HOURS, contract, since, until):
            trailing.add_hour(base, Hour(*row))
        for newest in (_LAST_SIGNED_SETTLEMENT, _LAST_SETTLEMENT):
            for row in await tx.fetch(newest, contract, until):
                trailing.add_settlement(FundingSettlement(*row))
    for row in await tx.fetch(_RECENT_LIQUIDATION_HOURS, since, until):
        trailing.add_liquidation_hour(LiquidationHour(*row))
    return trailing


async def recent_liquidations(tx: Transaction, now: int) -> list[Liquidation]:
    """The liquidations of the last 24 hours."""
    return [Liquidation(*row) for row in await tx.fetch(_RECENT_LIQUIDATIONS, now - DAY)]


async def recent_watched(tx: Transaction, now: int) -> list[Span]:
    """The spans that reach into the last 24 hours."""
    return [(row[0], row[1]) for row in await tx.fetch(_RECENT_SPANS, now - DAY)]


async def forget_old(tx: Transaction, settings: Settings, now: int) -> None:
    """Delete rows past their retention, a bounded number per transaction."""
    for resolution, days in (
        ("minute", settings.minute_history_days),
        ("hour", settings.hour_history_days),
    ):
        await tx.execute(_FORGET_READINGS, resolution, now - days * DAY, FORGET_ROWS)
    await tx.execute(
        _FORGET_LIQUIDATIONS, now - settings.liquidation_history_days * DAY, FORGET_ROWS
    )
    await tx.execute("DELETE FROM watched_spans WHERE end_at < $1", now - 2 * DAY)


async def record_settlement_reports(
    tx: Transaction, rates: Sequence[SettledRate], read_at: int
) -> list[SettlementReport]:
    """Store the reported rates of one contract that are new, and return them.

    A rate that equals the newest revision is known; another one is the next revision.
    """
    if not rates:
        return []
    first = min(each.at for each in rates)
    rows = await tx.fetch(_REPORTS_SINCE, rates[0].contract, first)
    known = {each.at: each for each in (SettlementReport(*row) for row in rows)}
    added = [
        _following(each, known.get(each.at), read_at)
        for each in rates
        if each.at not in known or known[each.at].funding_rate_pct != each.funding_rate_pct
    ]
    await tx.execute_many(_SETTLEMENT_REPORT, added)
    return added


async def newest_settlement_reports(
    tx: Transaction, contract: str, count: int
) -> list[SettlementReport]:
    """The newest revision of each of the newest `count` reports, oldest first."""
    rows = await tx.fetch(_NEWEST_REPORTS, contract, count)
    return [SettlementReport(*row) for row in reversed(rows)]


async def newest_settlements(tx: Transaction, contract: str, count: int) -> list[FundingSettlement]:
    """The newest `count` settlements by our own readings, oldest first."""
    rows = await tx.fetch(_NEWEST_SETTLEMENTS, contract, count)
    return [FundingSettlement(*row) for row in reversed(rows)]


def _following(rate: SettledRate, known: SettlementReport | None, read_at: int) -> SettlementReport:
    if known is None:
        return SettlementReport(rate.contract, rate.at, 1, rate.funding_rate_pct, read_at)
    # A clock that was set back must not make a revision older than what it revises.
    since = max(read_at, known.read_at)
    return SettlementReport(
        rate.contract, rate.at, known.revision + 1, rate.funding_rate_pct, since
    )


_READING = """
INSERT INTO readings (resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours, open_interest_usd, long_account_pct)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
"""
_LIQUIDATION = """
INSERT INTO liquidations (at, contract, side, size, price)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""
_SPAN = """
INSERT INTO watched_spans (start_at, end_at) VALUES ($1, $2) ON CONFLICT (start_at) DO UPDATE
SET end_at = CASE WHEN excluded.end_at > watched_spans.end_at
             THEN excluded.end_at ELSE watched_spans.end_at END
"""
_REGIME_CHANGE = """
INSERT INTO regime_changes (at, label, funding_8h_pct) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
"""
_LIQUIDATION_HOUR = """
INSERT INTO liquidation_hours (at, long_usd, short_usd, watched_pct)
VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""
_SETTLEMENT = """
INSERT INTO settlements (contract, at, funding_rate_pct, funding_interval_hours, read_at)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""
_RECENT_HOURS = """
SELECT at, last_price, open_interest_usd, long_account_pct FROM readings
WHERE resolution = 'hour' AND contract = $1 AND at >= $2 AND at <= $3 ORDER BY at
"""
_LAST_SETTLEMENT = """
SELECT contract, at, funding_rate_pct, funding_interval_hours, read_at FROM settlements
WHERE contract = $1 AND at <= $2 ORDER BY at DESC LIMIT 1
"""
_LAST_SIGNED_SETTLEMENT = """
SELECT contract, at, funding_rate_pct, funding_interval_hours, read_at FROM settlements
WHERE contract = $1 AND at <= $2 AND funding_rate_pct <> 0 ORDER BY at DESC LIMIT 1
"""
_RECENT_LIQUIDATION_HOURS = """
SELECT at, long_usd, short_usd, watched_pct FROM liquidation_hours
WHERE at >= $1 AND at <= $2 ORDER BY at
"""
_RECENT_LIQUIDATIONS = (
    "SELECT at, contract, side, size, price FROM liquidations WHERE at >= $1 ORDER BY at"
)
_RECENT_SPANS = "SELECT start_at, end_at FROM watched_spans WHERE end_at >= $1 ORDER BY start_at"
_FORGET_READINGS = """
DELETE FROM readings WHERE (resolution, contract, at) IN (
    SELECT resolution, contract, at FROM readings WHERE resolution = $1 AND at < $2 LIMIT $3)
"""
_FORGET_LIQUIDATIONS = """
DELETE FROM liquidations WHERE (at, contract, side, size, price) IN (
    SELECT at, contract, side, size, price FROM liquidations WHERE at < $1 LIMIT $2)
"""
_SETTLEMENT_REPORT = """
INSERT INTO settlement_reports (contract, at, revision, funding_rate_pct, read_at)
VALUES ($1, $2, $3, $4, $5)
"""
_REPORTS = """
SELECT contract, at, revision, funding_rate_pct, read_at FROM settlement_reports
WHERE contract = $1 AND revision = (
    SELECT max(revision) FROM settlement_reports AS other
    WHERE other.contract = settlement_reports.contract AND other.at = settlement_reports.at)
"""
_REPORTS_SINCE = f"{_REPORTS} AND at >= $2"
_NEWEST_REPORTS = f"{_REPORTS} ORDER BY at DESC LIMIT $2"
_NEWEST_SETTLEMENTS = """
SELECT contract, at, funding_rate_pct, funding_interval_hours, read_at FROM settlements
WHERE contract = $1 ORDER BY at DESC LIMIT $2
"""
