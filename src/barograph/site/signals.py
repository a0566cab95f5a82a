"""`/signals`: what every signal says now, and the record of each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.badges.documents import BADGE_FOLDER
from barograph.kit.database import DatabaseUnavailable, Transaction
from barograph.kit.timestamps import DAY
from barograph.markets.view import PERPETUALS
from barograph.signals.documents import PAGE_FOLDER
from barograph.signals.judge import changes_since, last_changes
from barograph.signals.methods import BY_KEY, DAILY, METHODS, Method
from barograph.signals.records import NOT_KNOWN, SIGNALS, UNKNOWN, SignalChange, Signals
from barograph.site.charts.strips import Lane, Span, lanes
from barograph.site.frame.paths import SIGNALS_PAGE
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import RETRY_MS, Site
from barograph.site.frame.writer import Pages

HISTORY_DAYS = 60
LISTED_CHANGES = 15
AGO = (("Yesterday", 1), ("7 days ago", 7), ("30 days ago", 30))


class Judged(NamedTuple):
    """What was judged last, and how fresh it is."""

    signals: Signals | None
    """Without what is too old; None when all of it is."""

    ends: Mapping[str, int]
    """Until when each of them may be shown, by its key."""

    sources: Mapping[str, str]
    """Where what each of them is judged by comes from, by its key."""

    market_at: int | None
    """When the exchange was last read; None before the first reading."""


class Shown(NamedTuple):
    """A signal as it stands now."""

    key: str
    name: str
    sentence: str
    label: str
    value: str
    since: int | None
    """When it took its label; None where that is not recorded."""

    until: int | None
    """Until when it may be shown; None where it was not judged recently."""

    is_daily: bool = False
    """Whether it rests on figures that come once a day."""

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return self.label != UNKNOWN


class Change(NamedTuple):
    """A label in the list of changes, and how long it lasted; None: it still does."""

    at: int
    label: str
    value: str
    until: int | None


class History(NamedTuple):
    """What is recorded of a signal, as its page shows it."""

    start: int
    end: int
    ago: Sequence[tuple[str, SignalChange | None]]
    lanes: Sequence[Lane]
    changes: Sequence[Change]
    """The newest first."""

    total: int
    """How many changes there were."""


def shown_signal(method: Method, judged: Judged, last: SignalChange | None) -> Shown:
    """A signal by its last judgement; without a fresh one it is unknown."""
    signals = () if judged.signals is None else judged.signals.signals
    label, value = next(
        ((each.label, each.value) for each in signals if each.key == method.key), NOT_KNOWN
    )
    since = last.at if last is not None and last.label == label else None
    until = judged.ends.get(method.key)
    sentence, is_daily = first_sentence(method), method.key in DAILY
    return Shown(method.key, method.name, sentence, label, value, since, until, is_daily)


def first_sentence(method: Method) -> str:
    """What a signal is about, in a sentence."""
    return " ".join(method.explanation.partition("\n\n")[0].split())


def label_at(changes: Sequence[SignalChange], at: int, held_until: int) -> SignalChange | None:
    """The label in force at an instant, of changes from old to new.

    None before the first of them, and after `held_until`, when nobody judges any more.
    """
    found = next((each for each in reversed(changes) if each.at <= at), None)
    return None if found is not None and found is changes[-1] and at > held_until else found


def history(key: str, changes: Sequence[SignalChange], now: int, held_until: int) -> History:
    """What is recorded of a signal in the last days, of the changes from old to new.

    `held_until` is how long the last of them holds: until now, or until it was judged last.
    """
    start = now - HISTORY_DAYS * DAY
    ends = [*(each.at for each in changes[1:]), None][: len(changes)]
    listed = [
        Change(each.at, each.label, each.value, end)
        for each, end in zip(changes, ends, strict=True)
    ]
    spans = [
        Span(each.label, max(each.at, start), min(now, held_until if end is None else end))
        for each, end in zip(changes, ends, strict=True)
    ]
    return History(
        start=start,
        end=now,
        ago=[(words, label_at(changes, now - days * DAY, held_until)) for words, days in AGO],
        lanes=lanes(key, [span for span in spans if span.start < span.end], start, now),
        changes=listed[::-1][:LISTED_CHANGES],
        total=sum(each.at > start for each in changes),
    )


def write_signals(pages: Pages, judged: Judged, last: Mapping[str, SignalChange] | None) -> bytes:
    """Every signal; what was not judged recently is unknown.

    `last` are the last recorded changes by key; None where they cannot be read.
    """
    known = last or {}
    signals = [shown_signal(method, judged, known.get(method.key)) for method in METHODS]
    return pages.fill(
        "signals.html",
        here=SIGNALS_PAGE,
        signals=signals,
        stale=sum(each.until is None for each in signals),
        until=min((each.until for each in signals if each.until is not None), default=None),
        is_recorded=last is not None,
        **_origin(judged),
    )


def write_signal(pages: Pages, method: Method, judged: Judged, recorded: History | None) -> bytes:
    """One signal: now, in the last days, and how it is judged.

    `recorded` is None where the record cannot be read.
    """
    last = None
    if recorded is not None and recorded.changes:
        newest = recorded.changes[0]
        last = SignalChange(method.key, newest.at, newest.label, newest.value)
    return pages.fill(
        "signal.html",
        here=SIGNALS_PAGE,
        signal=shown_signal(method, judged, last),
        explanation=method.explanation.split("\n\n"),
        recorded=recorded,
        days=HISTORY_DAYS,
        badge_path=f"{BADGE_FOLDER}signal/{method.key}.svg",
        **_origin(judged) | {"source": judged.sources[method.key]},
    )


def _origin(judged: Judged) -> dict[str, object]:
    signals = judged.signals
    return {
        "source": None if signals is None else signals.source,
        "as_of": None if signals is None else signals.as_of,
        "market_at": judged.market_at,
    }


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
