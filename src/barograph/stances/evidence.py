"""Gathers what stances are judged by, from the service's own record."""

from typing import NamedTuple

from barograph.board.snapshots import latest as latest_snapshot
from barograph.kit.database import Transaction
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    FundFigure,
    Observation,
    fund_series,
)
from barograph.macro.series import EtfSeries, issuers_series, operator_series
from barograph.macro.store import latest
from barograph.markets.feeds import PERPETUALS
from barograph.markets.records import majors_of
from barograph.markets.trailing import Settlement
from barograph.stances import funding, rates

SETTLEMENTS = funding.WINDOW + 24
"""Enough to look back a day from a contract that settles every hour."""

DAYS = 60
FIGURES: tuple[FundFigure, ...] = ("shares", "nav", "btc", "aum")
BTC_CONTRACT = "BTCUSDT"


class Gathered(NamedTuple):
    """Everything that the rules of the three kinds look at."""

    settlements: list[Settlement]
    venue: str
    rates: dict[str, list[Observation]]
    etf: EtfSeries


async def gather(tx: Transaction, fund: str) -> Gathered:
    """Read the newest evidence; of ETF flows the operator's own, if there are any."""
    reading = await latest_snapshot(tx, PERPETUALS)
    bitcoin = None if reading is None else majors_of(reading).get("BTC")
    contract = BTC_CONTRACT if bitcoin is None else bitcoin.contract
    rows = await tx.fetch(_SETTLEMENTS, contract, SETTLEMENTS)
    own = {
        name: await latest(tx, name, DAYS) for name in (OPERATOR_FLOW, OPERATOR_AUM, OPERATOR_BTC)
    }
    issued = {
        fund_series(fund, each): await latest(tx, fund_series(fund, each), DAYS) for each in FIGURES
    }
    return Gathered(
        settlements=[Settlement(*row) for row in reversed(rows)],
        venue="" if reading is None else reading.source,
        rates={name: await latest(tx, name, DAYS) for name in rates.USED},
        etf=operator_series(own) if own[OPERATOR_AUM] else issuers_series(issued, [fund]),
    )


_SETTLEMENTS = """
SELECT contract, at, funding_rate_pct, funding_interval_hours, read_at FROM settlements
WHERE contract = $1 ORDER BY at DESC LIMIT $2
"""
