"""Where the evidence of a reading becomes signals: once a minute."""

from collections.abc import Sequence
from typing import NamedTuple

from barograph.board.snapshots import Publication, latest, publish
from barograph.kit.database import Transaction
from barograph.kit.timestamps import MINUTE
from barograph.markets.trailing import Evidence
from barograph.signals.catalog import judge_all
from barograph.signals.feeds import SIGNALS
from barograph.signals.records import SignalChange, Signals


class SignalConclusion(NamedTuple):
    """What a minute adds: the signals, and those whose label is new."""

    signals: Signals
    changes: Sequence[SignalChange]


class SignalDesk:
    """Keeps the last labels, which hysteresis needs."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._judged: int | None = None

    async def load(self, tx: Transaction) -> None:
        """Take up the labels that an earlier collector left."""
        last = await latest(tx, SIGNALS)
        self._labels = {} if last is None else {each.key: each.label for each in last.signals}

    def conclude(self, evidence: Evidence) -> SignalConclusion | None:
        """Judge the first reading of a minute; None for the others."""
        if self._judged is not None and evidence.reading.as_of // MINUTE == self._judged // MINUTE:
            return None
        signals = judge_all(evidence, self._labels)
        changes = [
            SignalChange(each.key, each.as_of, each.label, each.value)
            for each in signals.signals
            if each.label != self._labels.get(each.key)
        ]
        return SignalConclusion(signals, changes)

    def written(self, conclusion: SignalConclusion) -> None:
        """Go on from what is safely stored."""
        self._judged = conclusion.signals.as_of
        self._labels = {each.key: each.label for each in conclusion.signals.signals}


async def record_signals(tx: Transaction, conclusion: SignalConclusion) -> None:
    """Record the changes and publish the signals."""
    await tx.execute_many(_CHANGE, conclusion.changes)
    await publish(tx, [Publication.of(SIGNALS, conclusion.signals)])


_CHANGE = """
INSERT INTO signal_changes (key, at, label, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""
