"""Reads the signals from the board: as they were judged, or `unknown` once they are too old."""

from msgspec.structs import replace

from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.timestamps import SECOND
from barograph.markets.view import PERPETUALS, is_fresh
from barograph.settings import Settings
from barograph.signals.documents import signals_document, unknown_signals
from barograph.signals.methods import BY_KEY, DAILY
from barograph.signals.records import SIGNALS, Signal, Signals
from barograph.venues.registry import source_of

NEVER = 0
"""`updatedAt` before anything was judged, the same on every worker."""

UNKNOWN_MS = 5 * SECOND
"""How long `unknown` is served before the board is checked again."""

FIGURES = "daily figures as their publishers give them"


MAX_AGE = 150 * SECOND
"""The freshness limit of signals, which are evaluated once per minute."""


class SignalsReader:
    """Reads fresh signals from the board, and caches their document."""

    def __init__(self, settings: Settings) -> None:
        self._market_limit = int(settings.feed_max_age_seconds * SECOND)
        self._base_url = settings.base_url
        self._sources = [source_of(name, settings.exchange_source) for name in settings.venue_names]
        self._figures = settings.macro_source or FIGURES
        self._rendered: tuple[Signals | None, Document] | None = None

    def sources(self, board: Board) -> dict[str, str]:
        """The source of each signal's data, by its key."""
        market, judged = board.latest(PERPETUALS), board.latest(SIGNALS)
        source = self._sources[0] if market is None else market.source
        used = source if judged is None else judged.source
        compared = "; ".join(each for each in self._sources if each in used)
        sources = {key: self._figures if key in DAILY else source for key in BY_KEY}
        return {**sources, "cross-venue-funding": compared or source}

    def fresh(self, board: Board, now: int) -> Signals | None:
        """The last signals without the stale ones; None if all are stale."""
        judged = board.latest(SIGNALS)
        if judged is None:
            return None
        fresh = tuple(signal for signal in judged.signals if now < self._until(board, signal, now))
        return replace(judged, signals=fresh) if fresh else None

    def known_until(self, board: Board, now: int) -> int:
        """Until when the current signals may be shown."""
        judged = board.latest(SIGNALS)
        if judged is None or not judged.signals:
            return now + UNKNOWN_MS
        ends = (self._until(board, signal, now) for signal in judged.signals)
        return min(now + UNKNOWN_MS if end <= now else end for end in ends)

    def ends(self, board: Board, now: int) -> dict[str, int]:
        """Until when each fresh signal may be shown, by its key."""
        judged = self.fresh(board, now)
        signals = () if judged is None else judged.signals
        return {signal.key: self._until(board, signal, now) for signal in signals}

    def signals(self, board: Board, now: int) -> tuple[Signal, ...]:
        """Every signal as it may be shown now."""
        judged = self.fresh(board, now)
        if judged is None:
            return unknown_signals(now)
        known = {signal.key: signal for signal in judged.signals}
        # A collector of another version may know fewer signals; the rest are shown as unknown.
        return tuple(known.get(each.key, each) for each in unknown_signals(judged.as_of))

    def _until(self, board: Board, signal: Signal, now: int) -> int:
        """When a signal becomes stale: by its own freshness limit or that of its market data."""
        until = _end(signal.as_of, MAX_AGE, now)
        if signal.key in DAILY:
            return until
        market = board.latest(PERPETUALS)
        return 0 if market is None else min(until, _end(market.as_of, self._market_limit, now))

    def labels(self, board: Board, now: int) -> dict[str, str]:
        """The label of every signal by its key."""
        return {signal.key: signal.label for signal in self.signals(board, now)}

    def document(self, board: Board, now: int) -> Document:
        """The document to serve now."""
        judged = board.latest(SIGNALS)
        if self._rendered is not None:
            of, document = self._rendered
            if of is judged and document.since <= now < document.until:
                return document
        document = self._render(board, judged, now)
        self._rendered = (judged, document)
        return document

    def _render(self, board: Board, judged: Signals | None, now: int) -> Document:
        return signals_document(
            self.signals(board, now),
            source=self._sources[0] if judged is None else judged.source,
            updated_at=NEVER if judged is None else judged.as_of,
            since=now,
            until=self.known_until(board, now),
            base_url=self._base_url,
        )


def _end(as_of: int, limit: int, now: int) -> int:
    """When the freshness limit ends; 0 for data that is stale or from the future."""
    return as_of + limit if is_fresh(as_of, limit, now) else 0
