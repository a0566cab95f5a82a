"""Reads the content of badges from the data in memory."""

from barograph.accuracy.records import ACCURACY
from barograph.badges import contents
from barograph.badges.contents import TimedContent, parse_since
from barograph.badges.gauge import GaugeContent
from barograph.board.board import Board
from barograph.errors import UpstreamUnavailable
from barograph.kit.timestamps import SECOND
from barograph.markets.reader import MarketReader
from barograph.signals.methods import METHODS
from barograph.signals.reader import SignalsReader
from barograph.status.reader import StatusReader

STATUS_KEEP_MS = 2 * SECOND
SIGNALS_KEEP_MS = 10 * SECOND


class BadgeReader:
    """The content of every badge at an instant."""

    def __init__(
        self,
        markets: MarketReader,
        signals: SignalsReader,
        status: StatusReader,
        *,
        record_since: str,
    ) -> None:
        self._markets = markets
        self._signals = signals
        self._status = status
        self._record_since = record_since

    def record(self, now: int) -> TimedContent:
        """The record since the configured start."""
        if not self._record_since:
            return contents.record_not_started()
        return contents.record(parse_since(self._record_since), now)

    def regime(self, board: Board, now: int) -> TimedContent:
        """The regime; unavailable while the market feed is stale."""
        try:
            view = self._markets.view(board, now)
        except UpstreamUnavailable:
            return contents.unavailable("regime")
        if view.regime is None:
            return contents.regime("unknown", view.perpetuals.source, 0)
        until = min(view.until, view.regime.as_of + view.limits.perpetuals)
        return contents.regime(view.regime.label, view.perpetuals.source, until)

    def gauge(self, board: Board, now: int) -> GaugeContent:
        """The regime and its rate; without a label while the market feed is stale."""
        try:
            view = self._markets.view(board, now)
        except UpstreamUnavailable:
            return GaugeContent(None, None, "")
        if view.regime is None:
            return GaugeContent("unknown", None, view.perpetuals.source)
        regime = view.regime
        return GaugeContent(regime.label, regime.funding_8h_pct, view.perpetuals.source)

    def funding(self, board: Board, symbol: str, now: int) -> TimedContent:
        """The funding of a perpetual by its asset or full name, in upper case."""
        try:
            view = self._markets.view(board, now)
        except UpstreamUnavailable:
            return contents.unavailable(f"{symbol} funding")
        perpetual = view.by_name.get(symbol)
        return contents.funding(symbol, perpetual, view.perpetuals.source, view.until)

    def signals(self, board: Board, now: int) -> dict[str, TimedContent]:
        """Every signal by its key."""
        labels = self._signals.labels(board, now)
        later = self._signals.labels(board, now + SIGNALS_KEEP_MS)
        shown = {}
        for key, name in ((each.key, each.name) for each in METHODS):
            # Certain for a while only if it won't expire by then.
            until = now + SIGNALS_KEEP_MS if labels[key] == later[key] else 0
            shown[key] = contents.signal(name, labels[key], self._signals.sources[key], until)
        return shown

    def accuracy(self, board: Board, now: int) -> dict[str, TimedContent]:
        """The track record of every kind of stance."""
        known = board.latest(ACCURACY)
        return {kind: contents.accuracy(kind, known, now) for kind in contents.ACCURACY_OF}

    def status(self, board: Board, now: int) -> TimedContent:
        """The health of the feed and the API."""
        condition = self._status.status(board, now).status
        is_lasting = condition == self._status.status(board, now + STATUS_KEEP_MS).status
        return contents.status(condition, now + STATUS_KEEP_MS if is_lasting else 0)
