"""The settlements of a contract: as they were read before, and as the exchange reported them."""

from collections.abc import Sequence

from barograph.kit.database import Transaction
from barograph.markets.settled import SettledRate, SettlementReport
from barograph.markets.trailing import Settlement


async def record_reports(
    tx: Transaction, rates: Sequence[SettledRate], read_at: int
) -> list[SettlementReport]:
    """Keep what one contract was reported to be settled at and is not known yet; return that.

    A rate equal to the newest revision's is known; another one is the next revision.
    """
    if not rates:
        return []
    first = min(each.at for each in rates)
    rows = await tx.fetch(_SINCE, rates[0].contract, first)
    known = {each.at: each for each in (SettlementReport(*row) for row in rows)}
    added = [
        _following(each, known.get(each.at), read_at)
        for each in rates
        if each.at not in known or known[each.at].funding_rate_pct != each.funding_rate_pct
    ]
    await tx.execute_many(_INSERT, added)
    return added


async def newest_reports(tx: Transaction, contract: str, count: int) -> list[SettlementReport]:
    """The newest revision of each of the newest `count` reports, oldest first."""
    rows = await tx.fetch(_NEWEST_REPORTS, contract, count)
    return [SettlementReport(*row) for row in reversed(rows)]


async def newest_readings(tx: Transaction, contract: str, count: int) -> list[Settlement]:
    """The newest `count` settlements by the service's own readings, oldest first."""
    rows = await tx.fetch(_NEWEST_READINGS, contract, count)
    return [Settlement(*row) for row in reversed(rows)]


def _following(rate: SettledRate, known: SettlementReport | None, read_at: int) -> SettlementReport:
    if known is None:
        return SettlementReport(rate.contract, rate.at, 1, rate.funding_rate_pct, read_at)
    # A clock that was set back must not make a revision older than what it revises.
    since = max(read_at, known.read_at)
    return SettlementReport(
        rate.contract, rate.at, known.revision + 1, rate.funding_rate_pct, since
    )


_INSERT = """
INSERT INTO settlement_reports (contract, at, revision, funding_rate_pct, read_at)
VALUES ($1, $2, $3, $4, $5)
"""
_REPORTS = """
SELECT contract, at, revision, funding_rate_pct, read_at FROM settlement_reports
WHERE contract = $1 AND revision = (
    SELECT max(revision) FROM settlement_reports AS other
    WHERE other.contract = settlement_reports.contract AND other.at = settlement_reports.at)
"""
_SINCE = f"{_REPORTS} AND at >= $2"
_NEWEST_REPORTS = f"{_REPORTS} ORDER BY at DESC LIMIT $2"
_NEWEST_READINGS = """
SELECT contract, at, funding_rate_pct, funding_interval_hours, read_at FROM settlements
WHERE contract = $1 ORDER BY at DESC LIMIT $2
"""
