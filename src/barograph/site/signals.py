"""`/signals`: every signal now, and a page with the history of each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.board.board import Board
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.evidence import WEEK_OF_HOURS
from barograph.markets.view import LIQUIDATIONS, PERPETUALS
from barograph.signals.judge import changes_since, last_changes
from barograph.signals.methods import BY_KEY, DAILY, METHODS, NOT_AT_THIS_VENUE, Method
from barograph.signals.records import NOT_KNOWN, SIGNALS, UNKNOWN, SignalChange, Signals
from barograph.site.charts.small import Lane, Span, lanes
from barograph.site.paths import SIGNALS_FOLDER, SIGNALS_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RETRY_MS, Site, or_none
from barograph.site.templating import soon
from barograph.stances.etf import KIND as ETF_STANCE
from barograph.stances.reader import STANCES

HISTORY_DAYS = 60
LISTED_CHANGES = 15
LIQUIDATION_PRESSURE = "liquidation-pressure"
ETF_FLOW = "btc-etf-flow"
AGO = (("Yesterday", 1), ("7 days ago", 7), ("30 days ago", 30))


class CurrentSignals(NamedTuple):
    """The fresh signals, and where they come from."""

    signals: Signals | None
    """None if none is fresh."""

    ends: Mapping[str, int]
    """When each signal expires, by key."""

    sources: Mapping[str, str]
    market_at: int | None
    """The time of the last market reading."""

    expected: Mapping[str, str]
    """When signals that lack data are expected, by key."""


class ShownSignal(NamedTuple):
    """A signal as the pages show it."""

    key: str
    name: str
    sentence: str
    label: str
    value: str
    since: int | None
    """When it took its label; None if that is not recorded."""

    until: int | None
    """When it expires; None if it is not fresh."""

    is_daily: bool = False
    basis: str = ""
    """Which data we did not measure ourselves, or why it is unknown and until when."""

    @property
    def is_known(self) -> bool:
        """Whether it has a label."""
        return self.label != UNKNOWN


class SignalHistory(NamedTuple):
    """The recorded labels of a signal, as its page shows them."""

    start: int
    end: int
    ago: Sequence[tuple[str, SignalChange | None]]
    lanes: Sequence[Lane]
    changes: Sequence[SignalChange]
    """The most recent changes, newest first."""

    total: int


def shown_signal(method: Method, current: CurrentSignals, last: SignalChange | None) -> ShownSignal:
    """A signal now; unknown if it is not fresh."""
    signals = () if current.signals is None else current.signals.signals
    signal = next((signal for signal in signals if signal.key == method.key), None)
    label, value = (UNKNOWN, NOT_KNOWN.value) if signal is None else (signal.label, signal.value)
    basis, expected = None if signal is None else signal.basis, None
    # What the venue does not publish will not come.
    if signal is not None and label == UNKNOWN and basis != NOT_AT_THIS_VENUE.basis:
        expected = current.expected.get(method.key)
    reasons = (basis, expected)
    since = last.at if last is not None and last.label == label else None
    return ShownSignal(
        key=method.key,
        name=method.name,
        sentence=method.explanation[0],
        label=label,
        value=value,
        since=since,
        until=current.ends.get(method.key),
        is_daily=method.key in DAILY,
        basis=" ".join(reason for reason in reasons if reason is not None),
    )


def expected_signals(board: Board, now: int) -> dict[str, str]:
    """When signals that lack data are expected, by key, if we can say so."""
    expected = {}
    counted, stances = board.latest(LIQUIDATIONS), board.latest(STANCES)
    since = None if counted is None else counted.watching_since
    week_at = 0 if since is None else since + (WEEK_OF_HOURS + 1) * HOUR
    if now < week_at:
        expected[LIQUIDATION_PRESSURE] = f"Expected by about {soon(week_at, now)}."
    waiting = None if stances is None else stances.waiting.get(ETF_STANCE)
    if waiting is not None:
        until = "" if waiting.until is None else f" Expected by about {soon(waiting.until, now)}."
        expected[ETF_FLOW] = f"{waiting.why[:1].upper()}{waiting.why[1:]}.{until}"
    return expected


def label_at(changes: Sequence[SignalChange], at: int, held_until: int) -> SignalChange | None:
    """The label at an instant, from changes in chronological order.

    None before the first change, and after `held_until`.
    """
    last = next((change for change in reversed(changes) if change.at <= at), None)
    return None if last is not None and last is changes[-1] and at > held_until else last


def signal_history(
    key: str, changes: Sequence[SignalChange], now: int, held_until: int
) -> SignalHistory:
    """The recent labels of a signal, from changes in chronological order.

    The last label holds until `held_until`: now, or the last evaluation if that is not fresh.
    """
    start = now - HISTORY_DAYS * DAY
    ends = [*(change.at for change in changes[1:]), held_until]
    spans = [
        Span(each.label, max(each.at, start), min(now, end))
        for each, end in zip(changes, ends, strict=False)
    ]
    return SignalHistory(
        start=start,
        end=now,
        ago=[(words, label_at(changes, now - days * DAY, held_until)) for words, days in AGO],
        lanes=lanes(key, [span for span in spans if span.start < span.end], start, now),
        changes=changes[: -LISTED_CHANGES - 1 : -1],
        total=sum(change.at > start for change in changes),
    )


def signal_page_routes(router: PageRouter, site: Site) -> None:
    """The routes of the list and of every signal.

    Current signals are in memory, so the pages work without the database.
    """

    @router.get(SIGNALS_PAGE)
    async def read_signals(request: Request) -> Response:
        return await site.respond(request, lambda now: _list_page(site, now))

    @router.get(f"{SIGNALS_FOLDER}{{key}}")
    async def read_signal(request: Request, key: str) -> Response:
        if key not in BY_KEY:
            raise HTTPException(404)
        return await site.respond(request, lambda now: _signal_page(site, BY_KEY[key], now))


async def _list_page(site: Site, now: int) -> Page:
    last = await or_none(site.database.read(lambda tx: last_changes(tx, BY_KEY)))
    current = _current(site, now)
    changes = last or {}
    signals = [shown_signal(method, current, changes.get(method.key)) for method in METHODS]
    body = site.templates.render(
        "signals.html",
        here=SIGNALS_PAGE,
        signals=signals,
        stale=sum(signal.until is None for signal in signals),
        until=min((signal.until for signal in signals if signal.until is not None), default=None),
        is_recorded=last is not None,
        backfill=site.backfill(now),
        source=None if current.signals is None else current.signals.source,
        as_of=None if current.signals is None else current.signals.as_of,
        market_at=current.market_at,
        switched=site.switched(now),
    )
    return Page(body, since=now, until=_until(site, now, is_read=last is not None))


async def _signal_page(site: Site, method: Method, now: int) -> Page:
    recorded, current = await _history(site, method, now), _current(site, now)
    last = recorded.changes[0] if recorded is not None and recorded.changes else None
    body = site.templates.render(
        "signal.html",
        here=SIGNALS_PAGE,
        signal=shown_signal(method, current, last),
        rules=method.explanation[1],
        recorded=recorded,
        days=HISTORY_DAYS,
        badge_path=f"{BADGE_FOLDER}signal/{method.key}.svg",
        source=current.sources[method.key],
        as_of=None if current.signals is None else current.signals.as_of,
        market_at=current.market_at,
        switched=site.switched(now),
    )
    return Page(body, since=now, until=_until(site, now, is_read=recorded is not None))


def _current(site: Site, now: int) -> CurrentSignals:
    signals, market = site.signals.fresh(site.board, now), site.board.latest(PERPETUALS)
    ends = site.signals.ends(site.board, now)
    market_at = None if market is None else market.as_of
    expected = expected_signals(site.board, now)
    return CurrentSignals(signals, ends, site.signals.sources(site.board), market_at, expected)


def _until(site: Site, now: int, *, is_read: bool) -> int:
    until = site.signals.known_until(site.board, now)
    return until if is_read else min(until, now + RETRY_MS)


async def _history(site: Site, method: Method, now: int) -> SignalHistory | None:
    since = now - HISTORY_DAYS * DAY
    changes = await or_none(site.database.read(lambda tx: changes_since(tx, method.key, since)))
    if changes is None:
        return None
    return signal_history(method.key, changes, now, _held_until(site, method, now))


def _held_until(site: Site, method: Method, now: int) -> int:
    """Until when the last recorded label holds: now, or the last evaluation."""
    fresh = site.signals.fresh(site.board, now)
    if fresh is not None and any(signal.key == method.key for signal in fresh.signals):
        return now
    judged = site.board.latest(SIGNALS)
    signals = () if judged is None else judged.signals
    return next((signal.as_of for signal in signals if signal.key == method.key), 0)
