"""Whether the sides of a venue's liquidations contradict the price and the other venues (pure)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

from barograph.kit.timestamps import SECOND
from barograph.venues.records import Liquidation, Perpetuals

Prices = Mapping[str, Mapping[str, float]]
"""The logarithms of prices per coin, by venue and asset."""

LATE = 10 * SECOND
"""Liquidations count after this, when those of other venues have arrived too."""

SMALLEST_MOVE = 0.001
"""A price that moved less may have moved after the liquidation."""

MOST_VOTES = 2
"""At most so many votes count per comparison: many positions close at one turn of the market."""

CERTAIN = 9
"""Three to five comparisons that contradict, with none that agrees. One in ten liquidations is at a
turn of the market, so fewer contradictions than these happen by chance within a month."""

FINE = 2
"""One comparison may contradict by chance."""

LEAST_BY_PRICE = 5
"""How much more the price must contradict this venue than any other."""


class _ClosedPosition(NamedTuple):
    """A liquidation: its asset, the sign of its side (long is 1), and its log price per coin."""

    asset: str
    side: int
    price: float

    def contradicts(self, before: float | None) -> int:
        """1 if the price before contradicts the side, -1 if it agrees, 0 if it says nothing."""
        if before is None or abs(self.price - before) < SMALLEST_MOVE:
            return 0
        return self.side if self.price > before else -self.side


class SideScores:
    """Whether the sides of liquidations contradict the price and the other venues.

    A long is liquidated below the price of a minute before, a short above it. Each contradiction
    adds to a venue's score and each agreement takes away from it, down to zero (a CUSUM test).
    Venues that contradict each other both gain, and the price tells whose error it is.
    """

    def __init__(self) -> None:
        self._prices: Prices = {}
        self._by_price: Counter[str] = Counter()
        self._by_venue: Counter[str] = Counter()

    def see(
        self,
        readings: Mapping[str, Perpetuals],
        liquidations: Mapping[str, Sequence[Liquidation]],
        span: tuple[int, int],
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with each venue, empty if nothing is; nothing while that is unknown."""
        closed = {
            venue: found
            for venue, reading in readings.items()
            if (found := _closed_positions(reading, liquidations.get(venue, ()), *span))
        }
        sides = {venue: _dominant(each) for venue, each in closed.items()}
        for venue, own in closed.items():
            before = self._prices.get(venue, {})
            _add(self._by_price, venue, sum(e.contradicts(before.get(e.asset)) for e in own))
            others = [each for other, each in sides.items() if other != venue]
            agreed = sum(
                side * each.get(name, 0) for name, side in sides[venue].items() for each in others
            )
            _add(self._by_venue, venue, -2 * agreed)
        self._prices = {
            venue: {each.asset: log(each.mark / each.multiplier) for each in reading.contracts}
            for venue, reading in readings.items()
        }
        findings = ((venue, self._finding(venue)) for venue in readings)
        yield from ((venue, why) for venue, why in findings if why is not None)

    def forget(self, venue: str) -> None:
        """Start again with a venue."""
        self._by_price.pop(venue, None)
        self._by_venue.pop(venue, None)

    def _finding(self, venue: str) -> str | None:
        """What is wrong; empty if nothing is; None if the liquidations don't tell."""
        price, score = self._by_price[venue], self._by_price[venue] + self._by_venue[venue]
        if score <= FINE:
            return ""
        best = max((each for name, each in self._by_price.items() if name != venue), default=0)
        if score < CERTAIN or price < LEAST_BY_PRICE + best:
            return None
        # Venues that never had a liquidation of the same coin and minute contradict nothing.
        same = " and the sides of the same coins and minutes at other venues"
        why = "the sides of its liquidations contradict the price"
        return why + same if self._by_venue[venue] > 0 else why


def _add(scores: Counter[str], venue: str, votes: int) -> None:
    votes = max(-MOST_VOTES, min(MOST_VOTES, votes))
    scores[venue] = max(0, min(CERTAIN, scores[venue] + votes))


def _dominant(closed: Iterable[_ClosedPosition]) -> dict[str, int]:
    """The side of most liquidations of each asset."""
    net: Counter[str] = Counter()
    for each in closed:
        net[each.asset] += each.side
    return {asset: 1 if count > 0 else -1 for asset, count in net.items() if count}


def _closed_positions(
    reading: Perpetuals, liquidations: Iterable[Liquidation], start: int, end: int
) -> list[_ClosedPosition]:
    """The liquidations of a reading's contracts that count between two comparisons."""
    contracts = {perpetual.contract: perpetual for perpetual in reading.contracts}
    return [
        _ClosedPosition(
            listed.asset,
            1 if liquidation.side == "long" else -1,
            log(liquidation.price / listed.multiplier),
        )
        for liquidation in liquidations
        if start <= liquidation.at + LATE < end
        and (listed := contracts.get(liquidation.contract)) is not None
        and liquidation.price > 0
    ]
