"""Reads the board as badges: what each of them says at an instant, without waiting for anything."""

from collections.abc import Callable, Mapping

from barograph.badges import content as faces
from barograph.badges.content import Showing
from barograph.badges.query import parse_since
from barograph.board.board import Board
from barograph.errors import UpstreamUnavailable
from barograph.kit.timestamps import SECOND
from barograph.markets.reader import MarketReader
from barograph.status.reader import StatusReader

SignalLabels = Callable[[Board, int], Mapping[str, tuple[str, str]] | None]
"""The name and the label of every signal by its key, as fresh at an instant; None: none is."""

STATUS_KEEP_MS = 2 * SECOND
SIGNALS_KEEP_MS = 10 * SECOND


class BadgeReader:
    """Says what badges show."""

    def __init__(
        self,
        markets: MarketReader,
        status: StatusReader,
        *,
        record_since: str,
        signals: SignalLabels,
        signal_names: Mapping[str, str],
        signal_sources: Mapping[str, str],
    ) -> None:
        self._markets = markets
        self._status = status
        self._record_since = record_since
        self._signals = signals
        self.signal_names = signal_names
        self._signal_sources = signal_sources

    def record(self, now: int) -> Showing:
        """The record since the configured start."""
        if not self._record_since:
            return faces.record_not_started()
        return faces.record(parse_since(self._record_since), now)

    def regime(self, board: Board, now: int) -> Showing:
        """The regime; an error while the market feed is stale."""
        try:
            view = self._markets.view(board, now)
        except UpstreamUnavailable:
            return faces.unavailable("regime")
        if view.regime is None:
            return faces.regime("unknown", view.perpetuals.source, 0)
        until = min(view.until, view.regime.as_of + view.bounds.perpetuals)
        return faces.regime(view.regime.label, view.perpetuals.source, until)

    def funding(self, board: Board, symbol: str, now: int) -> Showing:
        """The funding of a perpetual by its asset or full name, in upper case."""
        try:
            view = self._markets.view(board, now)
        except UpstreamUnavailable:
            return faces.unavailable(f"{symbol} funding")
        perpetual = view.by_name.get(symbol)
        return faces.funding(symbol, perpetual, view.perpetuals.source, view.until)

    def signals(self, board: Board, now: int) -> dict[str, Showing]:
        """Every signal by its key."""
        labels = self._signals(board, now) or {}
        later = self._signals(board, now + SIGNALS_KEEP_MS) or {}
        shown = {}
        for key, name in self.signal_names.items():
            label = labels.get(key, (name, None))[1]
            lasts = label == later.get(key, (name, None))[1]
            until = now + SIGNALS_KEEP_MS if lasts else 0
            shown[key] = faces.signal(name, label, self._signal_sources[key], until)
        return shown

    def status(self, board: Board, now: int) -> Showing:
        """The health of feed and API. It stands for a while only if it outlasts that by itself."""
        condition = self._status.status(board, now).status
        lasts = condition == self._status.status(board, now + STATUS_KEEP_MS).status
        return faces.status(condition, now + STATUS_KEEP_MS if lasts else 0)
