"""An exchange's record of the past, read page by page at a pace that leaves room for live calls."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from barograph.errors import InvalidReply
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.venues.exchange import PastValue
from barograph.venues.kit.cells import Cell, UnreadableError, moment

log = logging.getLogger(__name__)

T = TypeVar("T")
Page = Mapping[int, float | None]
"""The values of one reply by their time; None where a value can't be read or is implausible."""


class Pacer:
    """Spaces calls evenly, also those of different callers."""

    def __init__(self, seconds_per_call: float, *, clock: Clock, sleep: Sleep) -> None:
        self._seconds = seconds_per_call
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._called_at: int | None = None

    async def wait(self) -> None:
        """Wait until another call may start."""
        async with self._turn:
            if self._called_at is not None:
                spent = max(0.0, (self._clock() - self._called_at) / SECOND)
                if spent < self._seconds:
                    await self._sleep(self._seconds - spent)
            self._called_at = self._clock()


class PastSeries(NamedTuple):
    """How to ask for the past of a contract."""

    path: str
    params: Mapping[str, str]
    max_rows: int
    """How many rows to ask for at once."""
    decode: Callable[[bytes, str], Page]
    reach: int | None = None
    """How far back the exchange answers, in milliseconds; it refuses an older start."""
    span: tuple[str, str] = ("startTime", "endTime")
    """The names of the parameters for the first and the last time."""


Ask = Callable[[PastSeries, Mapping[str, str], Callable[[bytes], Page]], Awaitable[Page]]
"""Calls the path of a series with its parameters; the last argument reads the reply."""


class PastPages:
    """Reads hourly values of one contract; raises `UpstreamError`.

    Each request asks for a span of hours that fits on one page, so we need no cursor.
    """

    def __init__(self, ask: Ask, pacer: Pacer, clock: Clock) -> None:
        self._ask = ask
        self._pacer = pacer
        self._clock = clock

    async def hours(
        self, series: PastSeries, contract: str, start: int, end: int
    ) -> list[PastValue]:
        """The values at full hours."""
        if series.reach is not None:
            # An hour less, because time passes until the request arrives.
            start = max(start, self._clock() - series.reach + HOUR)
        return await read_hours(partial(self.page, series, contract), series.max_rows, start, end)

    async def page(self, series: PastSeries, contract: str, start: int, end: int) -> Page:
        """Ask for one page of a series; rows from the future are left out."""

        def read(body: bytes) -> Page:
            page = series.decode(body, contract)
            if len(page) > series.max_rows:
                raise InvalidReply(f"{series.path} has {len(page)} rows, more than asked for")
            return {at: value for at, value in page.items() if at <= self._clock()}

        first, last = series.span
        limit = {"limit": str(series.max_rows), first: str(start), last: str(end - 1)}
        await self._pacer.wait()
        return await self._ask(series, {"symbol": contract, **series.params, **limit}, read)


async def read_hours(
    read: Callable[[int, int], Awaitable[Page]], max_rows: int, start: int, end: int
) -> list[PastValue]:
    """The values at full hours, newest page first. An empty page means that none is older.

    `read` returns the page from its first time to before its second, at most `max_rows` hours.
    """
    values: dict[int, float] = {}
    until = end
    while until > start:
        first = max(start, until - max_rows * HOUR)
        page = await read(first, until)
        within = {at: value for at, value in page.items() if first <= at < until}
        if not within:
            break
        values |= {at: value for at, value in within.items() if value is not None}
        until = first
    return [PastValue(at, values[at]) for at in sorted(values) if at % HOUR == 0]


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


def full_hour(at: int) -> int:
    """The full hour, if it is less than a minute away; otherwise the time itself."""
    hour = (at + HOUR // 2) // HOUR * HOUR
    return hour if abs(at - hour) < MINUTE else at


def check_contract(symbols: Iterable[str], contract: str) -> None:
    """Raise `InvalidReply` if rows are about another contract."""
    for symbol in symbols:
        if symbol != contract:
            raise InvalidReply(f"asked for the past of {contract} and got {symbol[:40]}")
