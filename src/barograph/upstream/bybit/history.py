"""The exchange's own record of the past, by the hour.

Each request asks for a span of hours that fits on one page, so we need no cursor. We pace the
requests, so that live readings keep their share of the exchange's rate limit.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.kit.clock import Clock
from barograph.kit.timestamps import HOUR, SECOND
from barograph.markets.exchange import (
    LAST_PRICE,
    LONG_ACCOUNTS,
    OPEN_INTEREST_COINS,
    SETTLED_RATE,
    PastValue,
)
from barograph.markets.settlements import SettledRate
from barograph.upstream.bybit.decode import (
    MAX_SETTLEMENTS,
    SUM_TOLERANCE_PCT,
    RatioRow,
    Rows,
    SettlementRow,
)
from barograph.upstream.bybit.rest import Endpoint, RestClient
from barograph.upstream.bybit.wire import (
    Cell,
    Envelope,
    UnreadableError,
    above_zero,
    moment,
    number,
    parse,
    percent,
    plausible,
)
from barograph.upstream.http import Sleep

_SECONDS_PER_CALL = 1 / 20
"""The exchange allows 120 calls per second in total."""

_MAX_PAGES = 100

T = TypeVar("T")
Page = Mapping[int, float | None]
"""The values of one reply by their time; None where a value can't be read or is implausible."""


class PastSeries(NamedTuple):
    """How to ask for the past of a contract."""

    endpoint: Endpoint
    params: Mapping[str, str]
    max_rows: int
    """How many rows the exchange reports at once."""
    decode: Callable[[bytes, str], Page]
    span: tuple[str, str] = ("startTime", "endTime")
    """The names of the parameters for the first and the last time."""


class BybitHistory:
    """Reads hourly values and settlements of one contract; raises `UpstreamError`."""

    def __init__(
        self, rest: RestClient, *, clock: Clock, sleep: Sleep, time_of: Callable[[Envelope], int]
    ) -> None:
        """`time_of` checks and returns the time of a reply."""
        self._rest = rest
        self._clock = clock
        self._sleep = sleep
        self._time_of = time_of
        self._turn = asyncio.Lock()
        self._called_at: int | None = None

    async def hours(
        self, series: PastSeries, contract: str, start: int, end: int
    ) -> list[PastValue]:
        """The values at full hours, newest page first. An empty page means that none is older."""
        values: dict[int, float] = {}
        until = end
        while until > start:
            first = max(start, until - series.max_rows * HOUR)
            page = await self._page(series, contract, first, until)
            within = {at: value for at, value in page.items() if first <= at < until}
            if not within:
                break
            values |= {at: each for at, each in within.items() if each is not None}
            until = first
        return [PastValue(at, values[at]) for at in sorted(values) if at % HOUR == 0]

    async def settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Settled funding rates. Their interval varies, so each page ends where the last began."""
        rates: dict[int, float] = {}
        until = end
        for _ in range(_MAX_PAGES):
            page = await self._page(_SETTLEMENTS, contract, start, until)
            rates |= {at: rate for at, rate in page.items() if rate is not None}
            oldest = min(page, default=start)
            if len(page) < MAX_SETTLEMENTS or not start < oldest < until:
                break
            until = oldest
        return [SettledRate(contract, at, rates[at]) for at in sorted(rates) if start <= at < end]

    async def _page(self, series: PastSeries, contract: str, start: int, end: int) -> Page:
        """Ask for one page of a series; rows from the future are left out."""

        def read(envelope: Envelope) -> Page:
            now = self._time_of(envelope)
            page = series.decode(envelope.result, contract)
            if len(page) > series.max_rows:
                raise InvalidReply(f"{series.endpoint} has {len(page)} rows, more than asked for")
            return {at: value for at, value in page.items() if at <= now}

        first, last = series.span
        params = {
            "category": "linear",
            "symbol": contract,
            **series.params,
            "limit": str(series.max_rows),
            first: str(start),
            last: str(end - 1),
        }
        await self._wait()
        budget = self._rest.budget()
        return await self._rest.call(series.endpoint, params, read, budget, "history")

    async def _wait(self) -> None:
        """Wait until another call may start."""
        async with self._turn:
            if self._called_at is not None:
                spent = max(0.0, (self._clock() - self._called_at) / SECOND)
                if spent < _SECONDS_PER_CALL:
                    await self._sleep(_SECONDS_PER_CALL - spent)
            self._called_at = self._clock()


class _Klines(Struct):
    symbol: str
    list: list[list[Cell]]


class _OpenInterestRow(Struct, rename="camel"):
    open_interest: Cell
    timestamp: Cell


class _OpenInterests(Struct):
    symbol: str
    list: list[_OpenInterestRow]


_KLINES = msgspec.json.Decoder(_Klines)
_OPEN_INTERESTS = msgspec.json.Decoder(_OpenInterests)
_RATIOS = msgspec.json.Decoder(Rows[RatioRow])
_RATES = msgspec.json.Decoder(Rows[SettlementRow])


def decode_klines(result: bytes, contract: str) -> Page:
    """Opening prices: https://bybit-exchange.github.io/docs/v5/market/kline ."""
    found = parse(result, _KLINES, "the klines")
    _check_contract([found.symbol] if found.list else [], contract)
    if any(len(row) < 2 for row in found.list):  # noqa: PLR2004 -- the start and the open
        raise InvalidReply("a kline has no opening price")
    return _page(
        found.list, lambda row: row[0], lambda row: plausible(above_zero(row[1]), LAST_PRICE)
    )


def decode_open_interest(result: bytes, contract: str) -> Page:
    """In coins, as counted: https://bybit-exchange.github.io/docs/v5/market/open-interest ."""
    found = parse(result, _OPEN_INTERESTS, "the open-interest history")
    _check_contract([found.symbol] if found.list else [], contract)
    return _page(
        found.list,
        lambda row: row.timestamp,
        lambda row: plausible(number(row.open_interest), OPEN_INTEREST_COINS),
    )


def decode_ratios(result: bytes, contract: str) -> Page:
    """Shares in percent: https://bybit-exchange.github.io/docs/v5/market/long-short-ratio ."""
    rows = parse(result, _RATIOS, "the account-ratio history").list
    _check_contract((row.symbol for row in rows), contract)
    return _page(rows, lambda row: row.timestamp, _long_pct)


def decode_rates(result: bytes, contract: str) -> Page:
    """In percent: https://bybit-exchange.github.io/docs/v5/market/history-fund-rate ."""
    rows = parse(result, _RATES, "the funding history").list
    _check_contract((row.symbol for row in rows), contract)
    return _page(
        rows,
        lambda row: row.funding_rate_timestamp,
        lambda row: plausible(percent(row.funding_rate), SETTLED_RATE),
    )


def _check_contract(symbols: Iterable[str], contract: str) -> None:
    for symbol in symbols:
        if symbol != contract:
            raise InvalidReply(f"asked for the past of {contract} and got {symbol[:40]}")


def _page(rows: Sequence[T], at: Callable[[T], Cell], value: Callable[[T], float]) -> Page:
    """The values by their time; of two with the same time, the first counts."""
    page: dict[int, float | None] = {}
    for row in rows:
        try:
            time = moment(at(row))
        except UnreadableError as error:
            raise InvalidReply(f"the time of a past value cannot be read: {error}") from error
        try:
            page.setdefault(time, value(row))
        except UnreadableError:
            page.setdefault(time, None)
    return page


def _long_pct(row: RatioRow) -> float:
    long_pct = plausible(percent(row.buy_ratio), LONG_ACCOUNTS)
    short_pct = plausible(percent(row.sell_ratio), LONG_ACCOUNTS)
    if abs(long_pct + short_pct - 100) > SUM_TOLERANCE_PCT:
        raise UnreadableError(f"{long_pct} % and {short_pct} % are not 100 %")
    return long_pct


PRICES = PastSeries("kline", {"interval": "60"}, 1000, decode_klines, ("start", "end"))
OPEN_INTEREST = PastSeries("open-interest", {"intervalTime": "1h"}, 200, decode_open_interest)
LONG_SHARES = PastSeries("account-ratio", {"period": "1h"}, 500, decode_ratios)
_SETTLEMENTS = PastSeries("funding/history", {}, MAX_SETTLEMENTS, decode_rates)
