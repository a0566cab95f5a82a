"""An exchange's record of the past, read page by page at a pace that leaves room for live calls."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.venues.exchange import PastValue
from barograph.venues.kit.cells import Cell, UnreadableError, moment
from barograph.venues.records import LongAccounts, SettledRate

log = logging.getLogger(__name__)

T = TypeVar("T")
Page = Mapping[int, float | None]
"""The values of one reply by their time; None where a value can't be read or is implausible."""

_MAX_PAGES = 100


class Pacer:
    """Spaces calls by their weight, also those of different callers."""

    def __init__(self, weight_per_minute: float, *, clock: Clock, sleep: Sleep) -> None:
        self._seconds = 60 / weight_per_minute
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._called_at, self._weight = 0, 0.0

    async def wait(self, weight: float = 1.0) -> None:
        """Wait until the weight of the last call has passed; that of the next is `weight`."""
        async with self._turn:
            spent = max(0.0, (self._clock() - self._called_at) / SECOND)
            if spent < self._weight * self._seconds:
                await self._sleep(self._weight * self._seconds - spent)
            self._called_at, self._weight = self._clock(), weight


class PastSeries(NamedTuple):
    """How to ask for the past of a contract."""

    path: str
    params: Mapping[str, str]
    max_rows: int
    """How many rows to ask for at once."""
    decode: Callable[[bytes, str], Page]
    reach: int | None = None
    """How far back the exchange answers, in milliseconds; it refuses an older start."""
    weight: float = 1.0
    """Of one call, or more if a tighter limit than the weight applies to it."""
    rows_per_weight: int = 0
    """So many rows add 1 to the weight."""
    names: tuple[str, str, str, str] = ("symbol", "startTime", "endTime", "limit")
    """The parameters for the contract, the first and the last time, and the number of rows."""
    unit: int = 1
    """The unit of these times, in milliseconds."""
    is_newest_first: bool = False
    """Whether a page that doesn't hold the whole span has its newest rows, not its oldest."""


class Past(NamedTuple):
    """What an exchange has of the past."""

    prices: PastSeries | None = None
    settlements: PastSeries | None = None
    open_interest: PastSeries | None = None
    long_accounts: PastSeries | None = None
    newest_share: Mapping[str, str] = {"period": "5m"}
    """The parameters that ask for the newest long-account share of a contract."""


Ask = Callable[[PastSeries, Mapping[str, str], Callable[[bytes], Page]], Awaitable[Page]]
"""Calls the path of a series with its parameters; the last argument reads the reply."""


class PastPages:
    """Reads the past of one contract; raises `UpstreamError`."""

    def __init__(self, ask: Ask, pacer: Pacer, clock: Clock) -> None:
        self._ask = ask
        self._pacer = pacer
        self._clock = clock

    async def hours(
        self, series: PastSeries | None, contract: str, start: int, end: int
    ) -> list[PastValue]:
        """The values at full hours, read from the newest on; none if there is no series.

        Each request asks for a span of hours that fits on one page, so we need no cursor. An empty
        page means that none is older.
        """
        if series is None:
            return []
        if series.reach is not None:
            # An hour less, because time passes until the request arrives.
            start = max(start, self._clock() - series.reach + HOUR)
        values: dict[int, float | None] = {}
        while end > start:
            first = max(start, end - series.max_rows * HOUR)
            page = await self._page(series, contract, first, end)
            if not page:
                break
            values |= page
            end = first
        return [
            PastValue(at, value)
            for at, value in sorted(values.items())
            if at % HOUR == 0 and value is not None
        ]

    async def settlements(
        self, series: PastSeries | None, contract: str, start: int, end: int
    ) -> list[SettledRate]:
        """Settled funding rates, whose interval varies: each page begins where the last ended."""
        if series is None:
            return []
        rates: dict[int, float | None] = {}
        since, until = -(-start // HOUR) * HOUR, end
        for _ in range(_MAX_PAGES):
            page = await self._page(series, contract, since, until)
            rates |= page
            if len(page) < series.max_rows:
                break
            if series.is_newest_first:
                until = min(page)
            else:
                # The stamp of a settlement is after its hour, and must not be read again.
                since = max(page) + HOUR // 2
        known = {at: rate for at, rate in rates.items() if rate is not None}
        return [SettledRate(contract, at, known[at]) for at in sorted(known)]

    async def _page(self, series: PastSeries, contract: str, start: int, end: int) -> Page:
        """Ask for the values with `start <= at < end`, none of them in the future."""

        def read(body: bytes) -> Page:
            page, until = series.decode(body, contract), min(end, self._clock() + 1)
            return {at: value for at, value in page.items() if start <= at < until}

        name, first, last, limit = series.names
        times = {first: str(start // series.unit), last: str((end - 1) // series.unit)}
        rows = {limit: str(series.max_rows)} if limit else {}
        weight = series.weight
        if series.rows_per_weight:
            count = min((end - start) // HOUR + 1, series.max_rows)
            weight += -(-count // series.rows_per_weight)
        await self._pacer.wait(weight)
        return await self._ask(series, {name: contract, **series.params, **rows, **times}, read)


def newest_share(page: Page, contract: str) -> LongAccounts:
    """The newest of some long-account shares; raises `UnknownToUpstream` if it can't be used."""
    at = max(page, default=0)
    share = page.get(at)
    if share is None:
        problem = "an unusable" if page else "no"
        raise UnknownToUpstream(f"the exchange has {problem} account ratio of {contract}")
    return LongAccounts(contract, share, at)


def page_of(rows: Sequence[T], at: Callable[[T], Cell], value: Callable[[T], float]) -> Page:
    """The values by their time; of two with the same time, the first counts.

    Rows whose time can't be read are left out. If they are the majority, raises `InvalidReply`.
    """
    page: dict[int, float | None] = {}
    unreadable: list[str] = []
    for row in rows:
        try:
            time = moment(at(row))
        except UnreadableError as error:
            unreadable.append(str(error))
            continue
        try:
            page.setdefault(time, value(row))
        except UnreadableError:
            page.setdefault(time, None)
    if unreadable:
        log.warning("past rows left out", extra={"rows": len(unreadable), "why": unreadable[0]})
    if 2 * len(unreadable) > len(rows):
        raise InvalidReply(f"the time of most past values cannot be read: {unreadable[0]}")
    return page


def settled_hour(cell: Cell) -> int:
    """The hour of a settlement's stamp: a minute early at most, and late by up to 59 minutes."""
    return (moment(cell) + MINUTE - 1) // HOUR * HOUR


def check_contract(symbols: Iterable[str], contract: str) -> None:
    """Raise `InvalidReply` if rows are about another contract."""
    for symbol in symbols:
        if symbol != contract:
            raise InvalidReply(f"asked for the past of {contract} and got {symbol[:40]}")
