"""What the price did in the day after earlier briefs of a rule about the same subject (pure)."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.evidence import MarketEvidence
from barograph.markets.outcomes import FEWEST, Return, SeriesPoint, independent
from barograph.markets.records import MAJORS

DECIMALS = 2


class Followed(NamedTuple):
    """The price changes after earlier cases; recorded in the inputs of a brief."""

    symbol: str
    horizon_hours: int
    cases: int
    median_pct: float
    lowest_pct: float
    highest_pct: float

    @property
    def text(self) -> str:
        """The changes in words."""
        return (
            f"In the {self.horizon_hours} hours after {self.cases} earlier cases of this rule and "
            f"subject, the {self.symbol} price changed by {self.median_pct:+z.1f} % (median), and "
            f"by {self.lowest_pct:+z.1f} % to {self.highest_pct:+z.1f} % (lowest to highest). "
            "Cases that overlap in time are left out. This is no forecast."
        )


def what_followed(subject: str, starts: Sequence[int], evidence: MarketEvidence) -> Followed | None:
    """The changes in the day after each start; None for too few that don't overlap.

    They are of the major that the subject names, otherwise of BTC.
    """
    if len(starts) < FEWEST:
        return None
    named = subject.partition("-")[0].upper()
    symbol = named if named in MAJORS else "BTC"
    points = [SeriesPoint(*each) for each in evidence.trailing.prices(symbol)]
    change = Return(points, DAY, evidence.reading.as_of)
    taken = independent((at, change.after(at)) for at in starts)
    changes = [found.value for _, found in taken]
    if len(changes) < FEWEST:
        return None
    shown = (round(each, DECIMALS) for each in (median(changes), min(changes), max(changes)))
    return Followed(symbol, DAY // HOUR, len(changes), *shown)
