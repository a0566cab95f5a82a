"""The exchange's own record of the past, by the hour.

Each request asks for a span of hours that fits on one page, newest first, so no cursor is needed.
Requests are paced, so that live readings keep their share of the exchange's rate limit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

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

HISTORY_CALLS_PER_SECOND = 10.0
"""The exchange allows 120 calls per second in total."""

KLINE_HOURS = 1000
OPEN_INTEREST_HOURS = 200
RATIO_HOURS = 500
"""How many hours each endpoint reports at once, at most."""

_MAX_PAGES = 100

T = TypeVar("T")
Page = Mapping[int, float | None]
"""The values of one reply by their time; None where a value can't be read or is implausible."""


class BybitHistory:
    """Reads hourly values and settlements of one contract; raises `UpstreamError`."""

    def __init__(
        self,
        rest: RestClient,
        *,
        clock: Clock,
        sleep: Sleep,
        time_of: Callable[[Envelope], int],
        calls_per_second: float,
    ) -> None:
        """`time_of` checks and returns the time of a reply."""
        self._rest = rest
        self._pace = _Pace(clock, sleep, calls_per_second)
        self._time_of = time_of

    async def prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """The opening prices of hourly klines."""
        params = {"symbol": contract, "interval": "60", "limit": str(KLINE_HOURS)}

        async def read(first: int, last: int) -> Page:
            span = {"start": str(first), "end": str(last)}
            return await self._page("kline", params | span, decode_klines, contract)

        return await _hours(read, KLINE_HOURS, start, end)

    async def open_interest(
        self, contract: str, start: int, end: int, sides: int
    ) -> list[PastValue]:
        """Single-sided open interest in coins; `sides` is how many the exchange counts."""
        params = {"symbol": contract, "intervalTime": "1h", "limit": str(OPEN_INTEREST_HOURS)}

        async def read(first: int, last: int) -> Page:
            span = {"startTime": str(first), "endTime": str(last)}
            page = await self._page("open-interest", params | span, decode_open_interest, contract)
            return {at: None if coins is None else coins / sides for at, coins in page.items()}

        return await _hours(read, OPEN_INTEREST_HOURS, start, end)

    async def long_accounts(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Long-account shares in percent."""
        params = {"symbol": contract, "period": "1h", "limit": str(RATIO_HOURS)}

        async def read(first: int, last: int) -> Page:
            span = {"startTime": str(first), "endTime": str(last)}
            return await self._page("account-ratio", params | span, decode_ratios, contract)

        return await _hours(read, RATIO_HOURS, start, end)

    async def settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Settled funding rates; the interval between them varies, so pages end where they end."""
        params = {"symbol": contract, "limit": str(MAX_SETTLEMENTS), "startTime": str(start)}
        rates: dict[int, float] = {}
        until = end
        for _ in range(_MAX_PAGES):
            span = {"endTime": str(until - 1)}
            page = await self._page("funding/history", params | span, decode_rates, contract)
            rates |= {at: rate for at, rate in page.items() if rate is not None}
            oldest = min(page, default=start)
            if len(page) < MAX_SETTLEMENTS or not start < oldest < until:
                break
            until = oldest
        return [SettledRate(contract, at, rates[at]) for at in sorted(rates) if start <= at < end]

    async def _page(
        self,
        endpoint: Endpoint,
        params: Mapping[str, str],
        decode: Callable[[bytes, str], Page],
        contract: str,
    ) -> Page:
        def read(envelope: Envelope) -> Page:
            now = self._time_of(envelope)
            page = decode(envelope.result, contract)
            if len(page) > int(params["limit"]):
                raise InvalidReply(f"{endpoint} has {len(page)} rows, more than asked for")
            return {at: value for at, value in page.items() if at <= now}

        await self._pace.wait()
        query = {"category": "linear", **params}
        return await self._rest.call(endpoint, query, read, self._rest.budget(), "history")


async def _hours(
    read: Callable[[int, int], Awaitable[Page]], size: int, start: int, end: int
) -> list[PastValue]:
    """Read the full hours of a span, page by page, until a page has none: there is no older one."""
    values: dict[int, float] = {}
    until = end
    while until > start:
        first = max(start, until - size * HOUR)
        page = await read(first, until - 1)
        if not any(first <= at < until for at in page):
            break
        hours = {at: each for at, each in page.items() if at % HOUR == 0 and first <= at < until}
        values |= {at: each for at, each in hours.items() if each is not None}
        until = first
    return [PastValue(at, values[at]) for at in sorted(values)]


class _Pace:
    """Lets one call start per interval."""

    def __init__(self, clock: Clock, sleep: Sleep, calls_per_second: float) -> None:
        self._clock = clock
        self._sleep = sleep
        self._seconds = 1 / calls_per_second
        self._turn = asyncio.Lock()
        self._last: int | None = None

    async def wait(self) -> None:
        async with self._turn:
            if self._last is not None:
                spent = max(0.0, (self._clock() - self._last) / SECOND)
                if spent < self._seconds:
                    await self._sleep(self._seconds - spent)
            self._last = self._clock()


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
        found.list,
        lambda row: row[0],
        lambda row: plausible(above_zero(row[1]), LAST_PRICE),
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
            page.setdefault(moment(at(row)), _optional(value, row))
        except UnreadableError as error:
            raise InvalidReply(f"the time of a past value cannot be read: {error}") from error
    return page


def _optional(read: Callable[[T], float], row: T) -> float | None:
    try:
        return read(row)
    except UnreadableError:
        return None


def _long_pct(row: RatioRow) -> float:
    long_pct = plausible(percent(row.buy_ratio), LONG_ACCOUNTS)
    short_pct = plausible(percent(row.sell_ratio), LONG_ACCOUNTS)
    if abs(long_pct + short_pct - 100) > SUM_TOLERANCE_PCT:
        raise UnreadableError(f"{long_pct} % and {short_pct} % are not 100 %")
    return long_pct
