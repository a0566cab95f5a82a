"""`/signals`: what every signal says now, and the record of each."""

from collections.abc import Mapping

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.kit.database import DatabaseUnavailable, Transaction
from barograph.kit.timestamps import DAY
from barograph.markets.feeds import PERPETUALS
from barograph.signals.catalog import BY_KEY, Method
from barograph.signals.documents import PAGE_FOLDER
from barograph.signals.feeds import SIGNALS
from barograph.signals.records import SignalChange
from barograph.signals.store import changes_since, last_changes
from barograph.site.frame.answers import Page
from barograph.site.frame.paths import SIGNALS_PAGE
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.site import RETRY_MS, Site
from barograph.site.signals.pages import (
    HISTORY_DAYS,
    History,
    Judged,
    history,
    write_signal,
    write_signals,
)


def signal_page_routes(site: Site) -> PageRouter:
    """The routes of the list and of every signal.

    What they say now is in memory: it is shown also while the record cannot be read.
    """
    router = PageRouter()

    @router.get(SIGNALS_PAGE)
    async def read_signals(request: Request) -> Response:
        async def write(now: int) -> Page:
            last = await _last_changes(site)
            body = write_signals(site.pages, _judged(site, now), last)
            return Page(body, since=now, until=_until(site, now, is_read=last is not None))

        return await site.show(request, write)

    @router.get(f"{PAGE_FOLDER}{{key}}")
    async def read_signal(request: Request, key: str) -> Response:
        if key not in BY_KEY:
            raise HTTPException(404)
        method = BY_KEY[key]

        async def write(now: int) -> Page:
            recorded = await _history(site, method, now)
            body = write_signal(site.pages, method, _judged(site, now), recorded)
            return Page(body, since=now, until=_until(site, now, is_read=recorded is not None))

        return await site.show(request, write)

    return router


def _judged(site: Site, now: int) -> Judged:
    signals, market = site.signals.fresh(site.board, now), site.board.latest(PERPETUALS)
    ends = site.signals.ends(site.board, now)
    market_at = None if market is None else market.as_of
    return Judged(signals, ends, site.signals.sources, market_at)


def _until(site: Site, now: int, *, is_read: bool) -> int:
    until = site.signals.known_until(site.board, now)
    return until if is_read else min(until, now + RETRY_MS)


async def _last_changes(site: Site) -> Mapping[str, SignalChange] | None:
    async def work(tx: Transaction) -> Mapping[str, SignalChange]:
        return await last_changes(tx, BY_KEY)

    try:
        return await site.database.read(work)
    except DatabaseUnavailable:
        return None


async def _history(site: Site, method: Method, now: int) -> History | None:
    async def work(tx: Transaction) -> list[SignalChange]:
        return await changes_since(tx, method.key, now - HISTORY_DAYS * DAY)

    try:
        changes = await site.database.read(work)
    except DatabaseUnavailable:
        return None
    return history(method.key, changes, now, _held_until(site, method, now))


def _held_until(site: Site, method: Method, now: int) -> int:
    """Until when a signal's last recorded label holds: as long as it was judged."""
    fresh = site.signals.fresh(site.board, now)
    if fresh is not None and any(each.key == method.key for each in fresh.signals):
        return now
    judged = site.board.latest(SIGNALS)
    signals = () if judged is None else judged.signals
    return next((each.as_of for each in signals if each.key == method.key), 0)
