"""Versions of stances that are measured, and the worlds in which they were issued."""

from collections.abc import Callable, Sequence
from random import Random

from barograph.accuracy.cases import Case
from barograph.history.records import Version
from barograph.kit.timestamps import HOUR, iso_timestamp
from barograph.markets.outcomes import SeriesPoint
from support.stances import FUNDING, proposal

Decide = Callable[[Random, Sequence[float], str], str]
"""A label by the prices so far and the label before."""


def case(sequence: int, issued_at: int, label: str, *, kind: str = FUNDING) -> Case:
    """A version by the rule, issued when its period begins."""
    proposed = proposal(kind=kind, label=label, issued_at=issued_at, by="rule")
    proposed.leg.period["start"] = iso_timestamp(issued_at)
    version = Version(
        kind=kind,
        sequence=sequence,
        leg_id=f"{kind}:{sequence}",
        revision=1,
        issued_at=issued_at,
        expires_at=issued_at + 9 * HOUR,
        leg=proposed.leg,
        previous_digest="",
        salt="",
        history_digest="",
    )
    return Case(version, issued_at + 8 * HOUR, is_withdrawn=False)


class SimulatedRecord:
    """Hourly prices with fat tails, and a stance every eight hours that knows only the past."""

    def __init__(
        self, seed: int, decide: Decide, *, start: int, days: int, edge: float = 0.0
    ) -> None:
        random, price, label = Random(seed), 100.0, "neutral"
        self.points: list[SeriesPoint] = []
        self.cases: list[Case] = []
        past: list[float] = []
        for hour in range(24 * days):
            past.append(price)
            self.points.append(SeriesPoint(start + hour * HOUR, price))
            if hour % 8 == 0 and hour >= 24 * 8:
                label = decide(random, past, label)
                self.cases.append(case(len(self.cases) + 1, start + hour * HOUR, label))
            drift = {"constructive": edge, "cautious": -edge}.get(label, 0.0)
            price *= 1 + drift + 0.004 * _fat(random)
        self.as_of = start + 24 * days * HOUR


def _fat(random: Random) -> float:
    """Mostly small, seldom large, at most 20: as hourly returns are."""
    scale = 1 if random.random() < 0.95 else 4
    return max(-20.0, min(20.0, scale * random.gauss(0, 1)))


def persistent(random: Random, past: Sequence[float], before: str) -> str:
    """A label that follows the last day's trend and seldom changes."""
    if random.random() < 0.7:
        return before
    return "constructive" if past[-1] > past[-25] else "cautious"
