"""The tables of market data: readings, liquidations, regime changes and settled funding."""

from collections.abc import Mapping, Sequence
from sys import maxsize
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from barograph.board.board import latest_snapshot
from barograph.board.feeds import Feed
from barograph.kit.database import Queryable, Statement, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.disputes import Dispute
from barograph.markets.evidence import (
    TRAILING,
    Hour,
    TrailingRecord,
)
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.frames import NEAR, StoredFrame
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.listings import listed_since
from barograph.markets.regime import RegimeChange
from barograph.markets.settlements import (
    LATE_REPORT,
    LONGEST_WINDOW,
    MAX_REVISIONS,
    SHORTEST_WINDOW,
    SettlementReport,
)
from barograph.markets.view import PERPETUALS
from barograph.venues.records import (
    ContractName,
    Liquidation,
    Origin,
    Perpetuals,
    SettledRate,
    eight_hour_rate,
)
from barograph.venues.registry import VENUES
from barograph.venues.spans import Span, WatchedSpans

R = TypeVar("R", bound=Struct)
Resolution = Literal["minute", "hour"]

MINUTE_DAYS = 30
"""How long per-minute readings of BTC, ETH and SOL are kept."""

HOUR_DAYS = 730
"""How long hourly readings and settled funding of all contracts are kept."""

LIQUIDATION_DAYS = 90
"""How long individual liquidations are kept. Their daily files are kept for good."""

FORGET_ROWS = 2_000
"""At most this many rows per transaction, so that a clean-up delays no other write."""

FRAME_MS = 7 * DAY + 2 * NEAR
"""How long frames are kept."""

FORGET_FRAMES = 100
"""Each is as large as a hundred other rows."""


class ReadingRow(NamedTuple):
    """One contract at one minute or hour; None for what is not known."""

    resolution: Resolution
    contract: str
    at: int
    last_price: float
    funding_rate_pct: float | None
    funding_interval_hours: float | None
    open_interest_usd: float | None
    long_account_pct: float | None
    open_interest_coins: float | None = None
    disputed: str = ""
    """The measures that were disputed, with commas between them."""

    mark_price: float | None = None
    index_price: float | None = None
    volume_24h_usd: float | None = None
    volume_24h_coins: float | None = None

    @property
    def funding_8h_pct(self) -> float | None:
        """The funding rate per eight hours."""
        if self.funding_rate_pct is None or self.funding_interval_hours is None:
            return None
        return eight_hour_rate(self.funding_rate_pct, self.funding_interval_hours)


async def newest_of(queryable: Queryable, feed: Feed[R], venue: str) -> R | None:
    """The newest snapshot of a venue, in use or not."""
    in_use = await latest_snapshot(queryable, VENUE_IN_USE)
    is_plain = in_use is None or in_use.venue == venue
    return await latest_snapshot(queryable, feed if is_plain else feed.of(venue))


async def newest_reading(queryable: Queryable, venue: str) -> Perpetuals | None:
    """The newest reading of a venue; None if the snapshot is another venue's."""
    reading = await newest_of(queryable, PERPETUALS, venue)
    return None if reading is None or reading.venue != venue else reading


async def record_rows(
    tx: Transaction,
    venue: str,
    *,
    readings: Sequence[ReadingRow] = (),
    liquidations: Sequence[Liquidation] = (),
    watched: Sequence[Span] = (),
    regime_changes: Sequence[RegimeChange] = (),
    liquidation_hours: Sequence[LiquidationHour] = (),
    frames: Sequence[StoredFrame] = (),
    disputed_sides: Sequence[Span] = (),
    origin: Origin = "measured",
) -> None:
    """Store market data. Known rows stay as they are, with two exceptions.

    A longer span replaces a shorter, and a measured reading replaces a back-filled one. A
    span is known by its start, a reading by its contract and its minute or hour.
    """
    for sql, rows in (
        (_READING, readings),
        (_LIQUIDATION, [astuple(liquidation) for liquidation in liquidations]),
        (_SPAN, watched),
        (_REGIME_CHANGE, regime_changes),
        (_LIQUIDATION_HOUR, liquidation_hours),
    ):
        await tx.execute_many(sql, [(venue, origin, *row) for row in rows])
    await tx.execute_many(_FRAME, [(venue, *frame) for frame in frames])
    await tx.execute_many(_DISPUTED_SIDES, [(venue, *span) for span in disputed_sides])


async def mark_disputed(tx: Transaction, dispute: Dispute) -> None:
    """Mark the readings since an error may have begun, and drop its frames.

    Later readings are stored with the mark, and without frames.
    """
    # Also that of the same minute: it may have been read after the last good comparison.
    since = dispute.since // MINUTE * MINUTE
    for resolution in ("minute", "hour"):
        await tx.execute(_MARK_DISPUTED, dispute.venue, resolution, since, dispute.measure)
    await tx.execute(_DROP_FRAMES, dispute.venue, dispute.since)


async def recent_record(
    tx: Transaction, venue: str, bases: Mapping[str, str], now: int
) -> TrailingRecord:
    """The record that rules look back on; `bases` names the asset of each contract to load.

    It loads one more day than rules see, because the volatility of an hour needs the day before it,
    and all earlier prices, which say what followed after earlier briefs.
    """
    trailing = TrailingRecord()
    since, until = now - TRAILING - DAY - 2 * HOUR, now + MINUTE
    for contract, base in bases.items():
        for at, price in await tx.fetch(_EARLIER_PRICES, venue, contract, since):
            trailing.add_price(base, at, price)
        for hour in await _RECENT_HOURS.fetch(tx, venue, contract, since, until):
            trailing.add_hour(base, hour)
    for summed in await _RECENT_LIQUIDATION_HOURS.fetch(tx, venue, since, until):
        trailing.add_liquidation_hour(summed)
    for span in await disputed_sides(tx, venue, since, until):
        trailing.disputed_sides.add(*span)
    return trailing


async def recent_liquidations(tx: Transaction, venue: str, now: int) -> list[Liquidation]:
    """The liquidations of the last 24 hours."""
    return await _RECENT_LIQUIDATIONS.fetch(tx, venue, now - DAY)


async def recent_watched(tx: Transaction, venue: str, now: int) -> list[Span]:
    """The spans that reach into the last 24 hours."""
    return [(start, end) for start, end in await tx.fetch(_RECENT_SPANS, venue, now - DAY)]


async def disputed_sides(queryable: Queryable, venue: str, start: int, end: int) -> list[Span]:
    """The parts of a span in which the sides of liquidations were disputed, merged."""
    rows = await queryable.fetch(_DISPUTED_BETWEEN, venue, end, start)
    return WatchedSpans((first, last) for first, last in rows).within(start, end)


async def frames_between(tx: Transaction, venue: str, start: int, end: int) -> list[StoredFrame]:
    """The frames of a venue from `start` to `end`, both included, oldest first."""
    return await _FRAMES.fetch(tx, venue, start, end)


async def forget_old(tx: Transaction, now: int) -> None:
    """Delete rows past their retention, a bounded number per transaction."""
    for resolution, days in (("minute", MINUTE_DAYS), ("hour", HOUR_DAYS)):
        await tx.execute(_FORGET_READINGS, resolution, now - days * DAY, FORGET_ROWS)
    await tx.execute(_FORGET_BACKFILLS, now - HOUR_DAYS * DAY)
    oldest = now - LIQUIDATION_DAYS * DAY
    for venue in VENUES:
        await tx.execute(_FORGET_LIQUIDATIONS, venue, oldest, FORGET_ROWS)
        await tx.execute(_FORGET_SPANS, venue, oldest, FORGET_ROWS)
        await tx.execute(_FORGET_FRAMES, venue, now - FRAME_MS, FORGET_FRAMES)


async def hours_to_fill(
    tx: Transaction, venue: str, contract: str, start: int, end: int
) -> list[int]:
    """The hours of a contract from `start` to `end` that are neither measured nor back-filled."""
    known = {at for (at,) in await tx.fetch(_MEASURED_HOURS, venue, contract, start, end)}
    for since, until in await tx.fetch(_BACKFILLS, venue, contract, start):
        known |= {*range(since, until, HOUR)}
    return [at for at in range(start, end, HOUR) if at not in known]


async def record_backfill(
    tx: Transaction, name: ContractName, rows: Sequence[ReadingRow], asked: Span | None, now: int
) -> None:
    """Store hours from an exchange's history, and the span that need not be asked for again."""
    await record_rows(tx, name.venue, readings=rows, origin="backfilled")
    if rows:
        await listed_since(tx, *name, min(row.at for row in rows))
    if asked is not None:
        await tx.execute(_BACKFILL, *name, *asked, now)


async def record_settlement_reports(
    tx: Transaction, venue: str, rates: Sequence[SettledRate], read_at: int
) -> list[SettlementReport]:
    """Store the reported rates of one contract that are new, and return them.

    A rate that equals the newest revision is known; another one is the next revision. Exchanges
    settle at full hours, so a rate of another time is left out. Old ones are forgotten.
    """
    rates = [rate for rate in rates if rate.at % HOUR == 0]
    if not rates:
        return []
    contract, newest = rates[0].contract, max(rate.at for rate in rates)
    kept_from = newest - HOUR_DAYS * DAY
    rates = [rate for rate in rates if rate.at >= kept_from]
    name, first = ContractName(venue, contract), min(rate.at for rate in rates)
    known = {report.at: report for report in await settled_rates(tx, name, first, newest)}
    added = []
    for rate in rates:
        last = known.get(rate.at)
        if last is None:
            added.append(await _first(tx, venue, rate, read_at))
        elif rate.funding_rate_pct != last.funding_rate_pct and last.revision < MAX_REVISIONS:
            added.append(_following(rate, last, read_at))
    await tx.execute_many(_SETTLEMENT_REPORT, [(venue, *report) for report in added])
    await tx.execute(_FORGET_REPORTS, venue, contract, kept_from)
    return added


async def settled_rates(
    tx: Queryable, name: ContractName, start: int, end: int, count: int = maxsize
) -> list[SettlementReport]:
    """The newest revision of each report of a contract, both times included, oldest first."""
    return await _SETTLED_RATES.fetch(tx, *name, start, end, count)


async def settlement_revisions(
    tx: Transaction, name: ContractName, start: int, end: int
) -> list[SettlementReport]:
    """Every revision of the reports from `start` up to, not including, `end`; oldest first."""
    return await _REVISIONS.fetch(tx, *name, start, end)


async def recent_settled_rates(
    tx: Queryable, name: ContractName, now: int, span: int = LONGEST_WINDOW + 2 * SHORTEST_WINDOW
) -> list[SettlementReport]:
    """Those of the longest window, and of the shortest one before it, or of another span."""
    return await settled_rates(tx, name, now - span, now)


async def _first(tx: Transaction, venue: str, rate: SettledRate, read_at: int) -> SettlementReport:
    """The first report of a settlement: measured if we read the venue in the hour before it."""
    own: Sequence[object] = ()
    if read_at - rate.at <= LATE_REPORT:
        own = await tx.fetch(_MEASURED_MINUTE, venue, rate.at - HOUR, rate.at)
    origin: Origin = "measured" if own else "backfilled"
    return SettlementReport(rate.contract, rate.at, 1, rate.funding_rate_pct, read_at, origin)


def _following(rate: SettledRate, known: SettlementReport, read_at: int) -> SettlementReport:
    # A clock that was set back must not make a revision older than what it revises.
    since = max(read_at, known.read_at)
    return known._replace(
        revision=known.revision + 1, funding_rate_pct=rate.funding_rate_pct, read_at=since
    )


_READING = """
INSERT INTO readings (venue, origin, resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours, open_interest_usd, long_account_pct, open_interest_coins, disputed,
    mark_price, index_price, volume_24h_usd, volume_24h_coins)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (venue, resolution, contract, at) DO UPDATE
SET origin = excluded.origin, last_price = excluded.last_price,
    funding_rate_pct = excluded.funding_rate_pct,
    funding_interval_hours = excluded.funding_interval_hours,
    open_interest_usd = excluded.open_interest_usd, long_account_pct = excluded.long_account_pct,
    open_interest_coins = excluded.open_interest_coins, disputed = excluded.disputed,
    mark_price = excluded.mark_price, index_price = excluded.index_price,
    volume_24h_usd = excluded.volume_24h_usd, volume_24h_coins = excluded.volume_24h_coins
WHERE readings.origin = 'backfilled'
"""
_MARK_DISPUTED = """
UPDATE readings SET disputed = CASE WHEN disputed = '' THEN '' ELSE disputed || ',' END || $4
WHERE resolution = $2 AND at >= $3 AND venue = $1 AND origin = 'measured'
    AND disputed NOT LIKE '%' || $4 || '%'
"""


def undisputed(column: str) -> str:
    """SQL for a column of `readings` that is NULL where what it says was disputed."""
    return f"CASE WHEN {DISPUTED[column]} THEN NULL ELSE {column} END"


DISPUTED = {
    "last_price": "disputed LIKE '%price%'",
    "funding_rate_pct": "disputed LIKE '%funding%'",
    "open_interest_coins": "disputed LIKE '%open-interest%'",
    # A value in USD is no better than its price.
    "open_interest_usd": "(disputed LIKE '%open-interest%' OR disputed LIKE '%price%')",
    "long_account_pct": "FALSE",
}
"""By the column of `readings`, SQL for whether what it says was disputed; others are no better than
the price."""

_LIQUIDATION = """
INSERT INTO liquidations (venue, origin, at, contract, side, size, price)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
"""
_SPAN = """
INSERT INTO watched_spans (venue, origin, start_at, end_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (venue, start_at) DO UPDATE
SET end_at = CASE WHEN excluded.end_at > watched_spans.end_at
             THEN excluded.end_at ELSE watched_spans.end_at END
"""
_DISPUTED_SIDES = """
INSERT INTO disputed_sides (venue, start_at, end_at) VALUES ($1, $2, $3)
ON CONFLICT (venue, start_at) DO UPDATE
SET end_at = excluded.end_at WHERE excluded.end_at > disputed_sides.end_at
"""
_DISPUTED_BETWEEN = """
SELECT start_at, end_at FROM disputed_sides WHERE venue = $1 AND start_at < $2 AND end_at > $3
"""
_REGIME_CHANGE = """
INSERT INTO regime_changes (venue, origin, at, label, funding_8h_pct)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""
_LIQUIDATION_HOUR = """
INSERT INTO liquidation_hours (venue, origin, at, long_usd, short_usd, watched_pct)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING
"""
_RECENT_HOURS = Statement(
    Hour,
    """
SELECT {columns} FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND at >= $3 AND at <= $4
    AND disputed NOT LIKE '%price%'
ORDER BY at
""",
    open_interest_usd=undisputed("open_interest_usd"),
    recorded_coins=undisputed("open_interest_coins"),
    is_backfilled="origin = 'backfilled'",
    # As `eight_hour_rate`.
    funding_8h_pct=f"{undisputed('funding_rate_pct')} * 8 / funding_interval_hours",
    volatility_pct="NULL",
)
_EARLIER_PRICES = """
SELECT at, last_price FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND at < $3
    AND disputed NOT LIKE '%price%'
ORDER BY at
"""
_FRAME = "INSERT INTO frames (venue, at, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_DROP_FRAMES = "DELETE FROM frames WHERE venue = $1 AND at >= $2"
_FRAMES = Statement(
    StoredFrame,
    "SELECT {columns} FROM frames WHERE venue = $1 AND at >= $2 AND at <= $3 ORDER BY at",
)
_MEASURED_HOURS = """
SELECT at FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND at >= $3 AND at < $4
    AND origin = 'measured'
"""
_MEASURED_MINUTE = """
SELECT at FROM readings
WHERE venue = $1 AND resolution = 'minute' AND at >= $2 AND at < $3 AND origin = 'measured' LIMIT 1
"""
_BACKFILLS = """
SELECT start_at, end_at FROM backfills WHERE venue = $1 AND contract = $2 AND end_at > $3
"""
_BACKFILL = """
INSERT INTO backfills (venue, contract, start_at, end_at, filled_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (venue, contract, start_at) DO UPDATE
SET end_at = excluded.end_at, filled_at = excluded.filled_at
WHERE excluded.end_at > backfills.end_at
"""
_FORGET_BACKFILLS = "DELETE FROM backfills WHERE end_at < $1"
_RECENT_LIQUIDATION_HOURS = Statement(
    LiquidationHour,
    "SELECT {columns} FROM liquidation_hours WHERE venue = $1 AND at BETWEEN $2 AND $3 ORDER BY at",
)
_RECENT_LIQUIDATIONS = Statement(
    Liquidation, "SELECT {columns} FROM liquidations WHERE venue = $1 AND at >= $2 ORDER BY at"
)
_RECENT_SPANS = """
SELECT start_at, end_at FROM watched_spans WHERE venue = $1 AND end_at >= $2 ORDER BY start_at
"""
_FORGET_READINGS = """
DELETE FROM readings WHERE (venue, resolution, contract, at) IN (
    SELECT venue, resolution, contract, at FROM readings
    WHERE resolution = $1 AND at < $2 LIMIT $3)
"""
_FORGET_LIQUIDATIONS = """
DELETE FROM liquidations WHERE (venue, at, contract, side, size, price) IN (
    SELECT venue, at, contract, side, size, price FROM liquidations
    WHERE venue = $1 AND at < $2 LIMIT $3)
"""
_FORGET_SPANS = """
DELETE FROM watched_spans WHERE (venue, start_at) IN (
    SELECT venue, start_at FROM watched_spans WHERE venue = $1 AND end_at < $2 LIMIT $3)
"""
_FORGET_FRAMES = """
DELETE FROM frames WHERE (venue, at) IN (
    SELECT venue, at FROM frames WHERE venue = $1 AND at < $2 LIMIT $3)
"""
_SETTLEMENT_REPORT = """
INSERT INTO settlement_reports (venue, contract, at, revision, funding_rate_pct, read_at, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_FORGET_REPORTS = "DELETE FROM settlement_reports WHERE venue = $1 AND contract = $2 AND at < $3"
_REVISIONS = Statement(
    SettlementReport,
    """
SELECT {columns} FROM settlement_reports
WHERE venue = $1 AND contract = $2 AND at >= $3 AND at < $4 ORDER BY at, revision
""",
)
_SETTLED_RATES = Statement(
    SettlementReport,
    """
SELECT {columns} FROM settlement_reports
WHERE venue = $1 AND contract = $2 AND at >= $3 AND at <= $4 AND revision = (
    SELECT max(revision) FROM settlement_reports AS other
    WHERE other.venue = settlement_reports.venue
        AND other.contract = settlement_reports.contract AND other.at = settlement_reports.at)
ORDER BY at LIMIT $5
""",
)
