"""Turns evidence into signals once per minute, and stores their changes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.events.records import NewEvent
from barograph.kit.database import Statement, Transaction
from barograph.kit.documents import FOREVER
from barograph.kit.timestamps import MINUTE
from barograph.macro.evidence import MacroEvidence
from barograph.markets.evidence import MarketEvidence
from barograph.signals.methods import METHODS, judge_all, judge_changing, judge_macro
from barograph.signals.records import SIGNALS, SignalChange, Signals


async def last_changes(tx: Transaction, keys: Iterable[str]) -> dict[str, SignalChange]:
    """The last recorded change of each of these signals, if there is one."""
    changes = [await _LAST_UNTIL.first(tx, key, FOREVER) for key in keys]
    return {change.key: change for change in changes if change is not None}


async def changes_since(tx: Transaction, key: str, since: int) -> list[SignalChange]:
    """The changes of a signal since an instant, oldest first, including the label then in force."""
    before = await _LAST_UNTIL.fetch(tx, key, since)
    return [*before, *await _AFTER.fetch(tx, key, since)]


class SignalConclusion(NamedTuple):
    """What a minute adds: the signals, and those with a new label."""

    signals: Signals
    changes: Sequence[SignalChange]
    is_by_reading: bool = True
    """Whether the market's signals were judged too."""


class SignalJudge:
    """Remembers the last signals, which hysteresis needs, also since when a label waits."""

    def __init__(self) -> None:
        self._last: Signals | None = None
        self._judged: int | None = None
        self._read: int | None = None

    async def load(self, tx: Transaction) -> None:
        """Load the signals that an earlier collector left."""
        self._last = await latest_snapshot(tx, SIGNALS)

    def conclude(
        self, evidence: MarketEvidence, macro: MacroEvidence, *, is_new_venue: bool = False
    ) -> SignalConclusion | None:
        """Judge the first reading of a minute, or of a venue; None for the others."""
        if _is_same_minute(self._read, evidence.reading.as_of) and not is_new_venue:
            return None
        # Hysteresis must not carry a label from one venue to another.
        last = () if is_new_venue or self._last is None else self._last.signals
        signals = judge_all(evidence, macro, {signal.key: signal for signal in last})
        return SignalConclusion(signals, self._changes(signals))

    def conclude_part(self, evidence: MarketEvidence) -> SignalConclusion | None:
        """Judge the signals that change within an hour; the others stay as they were."""
        if self._last is None:
            return None
        signals = judge_changing(evidence, self._last)
        return SignalConclusion(signals, self._changes(signals))

    def conclude_failure(self, macro: MacroEvidence, venue: str) -> SignalConclusion | None:
        """Judge once per minute what doesn't depend on the exchange, while that fails."""
        if _is_same_minute(self._judged, macro.at):
            return None
        if self._last is None and not macro.sources:
            return None  # nothing was ever judged, nor can be
        signals = judge_macro(macro, venue, self._last)
        return SignalConclusion(signals, self._changes(signals), is_by_reading=False)

    def written(self, conclusion: SignalConclusion) -> None:
        """Continue from what is stored."""
        self._last = conclusion.signals
        self._judged = conclusion.signals.as_of
        if conclusion.is_by_reading:
            self._read = conclusion.signals.as_of

    def _changes(self, signals: Signals) -> list[SignalChange]:
        last = () if self._last is None else self._last.signals
        labels = {signal.key: signal.label for signal in last}
        return [
            SignalChange(
                signal.key, signal.as_of, signal.label, signal.value, labels.get(signal.key)
            )
            for signal in signals.signals
            if signal.label != labels.get(signal.key)
        ]


def _is_same_minute(one: int | None, other: int) -> bool:
    return one is not None and one // MINUTE == other // MINUTE


async def record_signals(tx: Transaction, conclusions: Sequence[SignalConclusion]) -> None:
    """Record the changes and publish the newest signals."""
    changes = [change for conclusion in conclusions for change in conclusion.changes]
    rows = [(change.key, change.at, change.label, change.value) for change in changes]
    await tx.execute_many(_CHANGE, rows)
    await publish(
        tx, [Publication.of(SIGNALS, conclusion.signals) for conclusion in conclusions[-1:]]
    )


def signal_event(change: SignalChange) -> NewEvent:
    """A new label of a signal."""
    name = next(method.name for method in METHODS if method.key == change.key)
    members = {"key": change.key, "name": name, "label": change.label, "value": change.value}
    cause = f"{change.key}/{change.at}"
    return NewEvent("signal.changed", change.at, cause, {**members, "previous": change.previous})


_CHANGE = """
INSERT INTO signal_changes (key, at, label, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""
_LAST_UNTIL = Statement(
    SignalChange,
    "SELECT {columns} FROM signal_changes WHERE key = $1 AND at <= $2 ORDER BY at DESC LIMIT 1",
    previous="NULL",
)
_AFTER = Statement(
    SignalChange,
    "SELECT {columns} FROM signal_changes WHERE key = $1 AND at > $2 ORDER BY at",
    previous="NULL",
)
