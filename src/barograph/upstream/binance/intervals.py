"""Doubts a funding interval that the times of the settlements contradict."""

from collections.abc import Mapping, Sequence

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.upstream.binance.decode import Contract, Row, moment_or_none


class IntervalDoubts:
    """Finds contracts whose interval changed after we read it.

    Their next settlement moves by something else than the interval, or is further away. They stay
    in doubt until the list of contracts is read again, and if a settlement contradicted the
    interval, until another interval is listed or the next settlement fits.
    """

    def __init__(self) -> None:
        self._settlements: dict[str, int] = {}
        self._kept: Mapping[str, Contract] = {}
        self._doubtful: set[str] = set()
        self._contradicted: dict[str, float] = {}

    def of(self, rows: Sequence[Row], kept: Mapping[str, Contract], now: int) -> set[str]:
        """The contracts whose interval is in doubt."""
        if kept is not self._kept:
            self._kept, self._doubtful = kept, set()
        for row in rows:
            at = moment_or_none(row.next_funding_time)
            if at is None or row.symbol not in kept:
                continue
            interval = kept[row.symbol].funding_interval_hours * HOUR
            moved = at - self._settlements.get(row.symbol, at)
            if moved > 0:
                self._contradicted[row.symbol] = interval if moved % interval else 0
            is_contradicted = self._contradicted.get(row.symbol) == interval
            if moved < 0 or is_contradicted or at - now > interval + MINUTE:
                self._doubtful.add(row.symbol)
            self._settlements[row.symbol] = at
        return self._doubtful
