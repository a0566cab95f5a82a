"""Gathers what stances are judged by, from the service's own record."""

from typing import NamedTuple

from barograph.board.snapshots import latest as latest_snapshot
from barograph.kit.database import Transaction
from barograph.macro.funds import etf_series
from barograph.macro.records import Observation
from barograph.macro.series import EtfSeries
from barograph.macro.store import latest
from barograph.markets.feeds import PERPETUALS
from barograph.markets.settled import Settled, bitcoin_contract, settled
from barograph.markets.settlement_store import newest_readings, newest_reports
from barograph.settings import Settings
from barograph.stances import funding, rates

SETTLEMENTS = funding.WINDOW + 24
"""Enough to look back a day from a contract that settles every hour."""

DAYS = 60


class Gathered(NamedTuple):
    """Everything that the rules of the three kinds look at."""

    settlements: list[Settled]
    """Those of the BTC perpetual whose rates are known, oldest first."""

    venue: str
    rates: dict[str, list[Observation]]
    etf: EtfSeries


async def gather(tx: Transaction, settings: Settings, now: int) -> Gathered:
    """Read the newest evidence."""
    reading = await latest_snapshot(tx, PERPETUALS)
    contract = bitcoin_contract(reading)
    read = await newest_readings(tx, contract, SETTLEMENTS)
    reported = await newest_reports(tx, contract, SETTLEMENTS)
    return Gathered(
        settlements=settled(read, reported, now),
        venue="" if reading is None else reading.source,
        rates={name: await latest(tx, name, DAYS) for name in rates.USED},
        etf=await etf_series(settings, lambda name: latest(tx, name, DAYS)),
    )
