"""Whether the sides of a venue's liquidations contradict the price (pure)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log

from barograph.kit.timestamps import SECOND
from barograph.markets.records import Liquidation, Perpetual, Perpetuals

LATE = 10 * SECOND
"""Liquidations count after this, when they have arrived."""

SMALLEST_MOVE = 0.001
"""A price that moved less may have moved after the liquidation."""

CERTAIN = 7
"""So many comparisons that contradict, with none that agrees: if one in ten liquidations is at a
turn of the market, they are all by chance once in years."""

FINE = 2
"""Two comparisons may contradict by chance. If it is more at two venues, the price is in doubt."""


class SideScores:
    """How much the sides of liquidations contradict the price.

    A long is liquidated below the price of a minute before, a short above it. A comparison in which
    most contradict adds 1 to a venue's score, and another takes 1 away, down to 0 (a CUSUM test).
    """

    def __init__(self) -> None:
        self._before: Mapping[str, Mapping[str, Perpetual]] = {}
        self._scores: Counter[str] = Counter()

    def see(
        self,
        readings: Mapping[str, Perpetuals],
        liquidations: Mapping[str, Sequence[Liquidation]],
        span: tuple[int, int],
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with each venue, empty if nothing is; no answer while that is unknown."""
        for venue, closed in liquidations.items():
            counted = [each for each in closed if span[0] <= each.at + LATE < span[1]]
            votes = _votes(counted, self._before.get(venue, {}))
            vote = (votes > 0) - (votes < 0)  # many positions close at one turn of the market
            self._scores[venue] = max(0, min(CERTAIN, self._scores[venue] + vote))
        self._before = {
            venue: {contract.contract: contract for contract in reading.contracts}
            for venue, reading in readings.items()
        }
        for venue in readings:
            score = self._scores[venue]
            others = [each for name, each in self._scores.items() if name != venue]
            if score <= FINE:
                yield venue, ""
            elif score == CERTAIN and max(others, default=0) <= FINE:
                yield venue, "the sides of its liquidations contradict the price"

    def forget(self, venue: str) -> None:
        """Start again with a venue."""
        self._scores.pop(venue, None)


def _votes(liquidations: Iterable[Liquidation], before: Mapping[str, Perpetual]) -> int:
    """How many liquidations contradict the price before, less those that agree."""
    votes = 0
    for liquidation in liquidations:
        contract = before.get(liquidation.contract)
        if contract is not None and liquidation.price > 0:
            move = log(liquidation.price / contract.mark)
            if abs(move) >= SMALLEST_MOVE:
                votes += 1 if (move > 0) == (liquidation.side == "long") else -1
    return votes
