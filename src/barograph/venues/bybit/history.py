"""The exchange's own record of the past, by the hour."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.venues.bybit.decode import MAX_SETTLEMENTS, RatioRow, Rows, SettlementRow
from barograph.venues.bybit.rest import Envelope, RestClient
from barograph.venues.kit.cells import Cell, coins, long_pct, parse, price, settled_pct
from barograph.venues.kit.past_pages import (
    Pacer,
    Page,
    PastPages,
    PastSeries,
    check_contract,
    page_of,
)
from barograph.venues.records import SettledRate

T = TypeVar("T")

_SECONDS_PER_CALL = 1 / 20
"""The exchange allows 120 calls per second in total."""

_MAX_PAGES = 100


class BybitHistory(PastPages):
    """Also reads settlements."""

    def __init__(
        self, rest: RestClient, *, clock: Clock, sleep: Sleep, time_of: Callable[[Envelope], int]
    ) -> None:
        """`time_of` checks the time of a reply."""

        def ask(
            series: PastSeries, params: Mapping[str, str], read: Callable[[bytes], Page]
        ) -> Awaitable[Page]:
            def unwrap(envelope: Envelope) -> Page:
                time_of(envelope)
                return read(envelope.result)

            params = {"category": "linear", **params}
            return rest.ask(series.path, params, unwrap, rest.budget(), "history")

        super().__init__(ask, Pacer(_SECONDS_PER_CALL, clock=clock, sleep=sleep), clock)

    async def settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Settled funding rates. Their interval varies, so each page ends where the last began."""
        rates: dict[int, float] = {}
        until = end
        for _ in range(_MAX_PAGES):
            page = await self.page(_SETTLEMENTS, contract, start, until)
            rates |= {at: rate for at, rate in page.items() if rate is not None}
            oldest = min(page, default=start)
            if len(page) < MAX_SETTLEMENTS or not start < oldest < until:
                break
            until = oldest
        return [SettledRate(contract, at, rates[at]) for at in sorted(rates) if start <= at < end]


class _OfOne(Rows[T], Generic[T]):
    """The rows of a result about one contract."""

    symbol: str


class _OpenInterestRow(Struct, rename="camel"):
    open_interest: Cell
    timestamp: Cell


def decode_klines(result: bytes, contract: str) -> Page:
    """Opening prices: https://bybit-exchange.github.io/docs/v5/market/kline ."""
    klines = parse(result, _OfOne[list[Cell]], "the klines")
    check_contract([klines.symbol] if klines.list else [], contract)
    if any(len(row) < 2 for row in klines.list):  # noqa: PLR2004 -- the start and the open
        raise InvalidReply("a kline has no opening price")
    return page_of(klines.list, lambda row: row[0], lambda row: price(row[1]))


def decode_open_interest(result: bytes, contract: str) -> Page:
    """In coins, as counted: https://bybit-exchange.github.io/docs/v5/market/open-interest ."""
    hours = parse(result, _OfOne[_OpenInterestRow], "the open-interest history")
    check_contract([hours.symbol] if hours.list else [], contract)
    return page_of(hours.list, lambda row: row.timestamp, lambda row: coins(row.open_interest))


def decode_ratios(result: bytes, contract: str) -> Page:
    """Shares in percent: https://bybit-exchange.github.io/docs/v5/market/long-short-ratio ."""
    rows = parse(result, Rows[RatioRow], "the account-ratio history").list
    check_contract((row.symbol for row in rows), contract)
    return page_of(
        rows, lambda row: row.timestamp, lambda row: long_pct(row.buy_ratio, row.sell_ratio)
    )


def decode_rates(result: bytes, contract: str) -> Page:
    """In percent: https://bybit-exchange.github.io/docs/v5/market/history-fund-rate ."""
    rows = parse(result, Rows[SettlementRow], "the funding history").list
    check_contract((row.symbol for row in rows), contract)
    return page_of(
        rows,
        lambda row: row.funding_rate_timestamp,
        lambda row: settled_pct(row.funding_rate),
    )


PRICES = PastSeries("kline", {"interval": "60"}, 1000, decode_klines, span=("start", "end"))
OPEN_INTEREST = PastSeries("open-interest", {"intervalTime": "1h"}, 200, decode_open_interest)
LONG_SHARES = PastSeries("account-ratio", {"period": "1h"}, 500, decode_ratios)
_SETTLEMENTS = PastSeries("funding/history", {}, MAX_SETTLEMENTS, decode_rates)
