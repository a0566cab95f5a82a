"""The exchange's own record of the past, by the hour."""

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Annotated

from msgspec import Meta

from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.timestamps import DAY
from barograph.venues.binance.decode import Row, decode_rows
from barograph.venues.binance.rest import RestClient
from barograph.venues.kit.cells import Cell, coins, long_pct, parse, price, settled_pct
from barograph.venues.kit.past_pages import (
    Pacer,
    Page,
    PastPages,
    PastSeries,
    check_contract,
    full_hour,
    page_of,
)
from barograph.venues.records import SettledRate

CALLS_PER_SECOND = 1.5
"""450 requests in five minutes. Binance allows 1,000 for statistics, and the live
long-account shares use another 450."""

RATES_PER_SECOND = 1.0
"""300 per five minutes: the exchange allows 500 for settled rates and the funding intervals
together, which every reading asks for."""

MAX_WEIGHT_PER_MINUTE = 450
"""If every call reads 1,000 klines, which have a weight of 5; 1,500 would have 10."""

_MAX_PAGES = 100


def decode_klines(body: bytes, _contract: str) -> Page:
    """Opening prices; the rows don't name their contract."""
    rows = parse(body, list[Annotated[list[Cell], Meta(min_length=2)]], "the klines")
    return page_of(rows, lambda row: row[0], lambda row: price(row[1]))


def _decoder(time: str, value: Callable[[Row], float]) -> Callable[[bytes, str], Page]:
    def decode(body: bytes, contract: str) -> Page:
        rows = decode_rows(body)
        check_contract((row.symbol for row in rows), contract)
        return page_of(rows, attrgetter(time), value)

    return decode


PRICES = PastSeries("/fapi/v1/klines", {"interval": "1h"}, 1000, decode_klines)
OPEN_INTEREST = PastSeries(
    "/futures/data/openInterestHist",
    {"period": "1h"},
    500,
    _decoder("timestamp", lambda row: coins(row.sum_open_interest)),
    30 * DAY,
)
LONG_SHARES = PastSeries(
    "/futures/data/globalLongShortAccountRatio",
    {"period": "1h"},
    500,
    _decoder("timestamp", lambda row: long_pct(row.long_account, row.short_account)),
    30 * DAY,
)
RATES = PastSeries(
    "/fapi/v1/fundingRate",
    {},
    1000,
    _decoder("funding_time", lambda row: settled_pct(row.funding_rate)),
)


class BinanceHistory(PastPages):
    """Also reads settlements."""

    def __init__(self, rest: RestClient, *, clock: Clock, sleep: Sleep) -> None:
        def ask(
            series: PastSeries, params: Mapping[str, str], read: Callable[[bytes], Page]
        ) -> Awaitable[Page]:
            return rest.ask(series.path, params, read, purpose="history")

        super().__init__(ask, Pacer(1 / CALLS_PER_SECOND, clock=clock, sleep=sleep), clock)
        self._rates = Pacer(1 / RATES_PER_SECOND, clock=clock, sleep=sleep)

    async def settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Settled funding rates, oldest page first, as the exchange sends them."""
        rates: dict[int, float | None] = {}
        since = start
        for _ in range(_MAX_PAGES):
            await self._rates.wait()
            page = await self.page(RATES, contract, since, end)
            rates |= page
            if len(page) < RATES.max_rows or max(page) < since:
                break
            since = max(page) + 1
        return [rate for rate in settled(contract, rates) if start <= rate.at < end]


def settled(contract: str, rates: Page) -> list[SettledRate]:
    """Known rates, oldest first. The exchange stamps them a few milliseconds after the hour."""
    by_hour = {full_hour(at): rate for at, rate in rates.items() if rate is not None}
    return [SettledRate(contract, at, by_hour[at]) for at in sorted(by_hour)]
