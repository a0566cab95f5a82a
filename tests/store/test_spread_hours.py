"""The record of funding spreads comes from the hours of each venue."""

import pytest

from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.evidence import SpreadHour
from barograph.markets.store import ReadingRow, record_rows, spread_hours
from support.clock import START

CONTRACTS = {"bybit": {"BTCUSDT": "BTC"}, "hyperliquid": {"BTC": "BTC"}}
OTHER = """
INSERT INTO readings (venue, origin, resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours) VALUES ('hyperliquid', 'backfilled', 'hour', 'BTC', $1, 1.0, 0.005, 1.0)
"""


@pytest.mark.both_engines
async def test_spreads_are_per_eight_hours_and_of_the_last_thirty_days(database: Database) -> None:
    now = START // HOUR * HOUR
    hours = {now - HOUR: 0.01, now - 2 * HOUR: None, now - 31 * DAY: 0.01}
    rows = [
        ReadingRow("hour", "BTCUSDT", at, 1.0, rate, 4.0, None, None) for at, rate in hours.items()
    ]

    async def record(tx: Transaction) -> None:
        await record_rows(tx, "bybit", readings=rows)
        for at in hours:
            await tx.execute(OTHER, at)

    await database.write(record)
    found = await database.read(lambda tx: spread_hours(tx, CONTRACTS, now))

    assert found.hours("BTC", CONTRACTS) == [SpreadHour(0.04 - 0.02, is_backfilled=True)]
