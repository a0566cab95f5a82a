"""The track record as frozen records; `documents.py` describes their members (pure)."""

from typing import Literal

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.markets import outcomes

FEWEST = outcomes.FEWEST
"""Fewer cases have only a count."""

Finding = Literal["too-few", "not-tested", "could-not-tell", "no-difference", "higher", "lower"]
"""Whether what followed a label differs from what followed the others, or why we can't say."""


class Distribution(Struct, frozen=True):
    """The values of cases; only their count where there are too few."""

    count: int
    quantiles: tuple[float, float, float, float, float] | None = None
    mean: float | None = None


class Comparison(Struct, frozen=True):
    """By how much the mean after a label differs from that after other labels."""

    difference: float
    interval: tuple[float, float]
    detectable: float | None
    """The smallest difference that would probably have been found; None if none would."""


class Measured(Struct, frozen=True):
    """What followed one label, by one metric and horizon."""

    label: str
    horizon: str
    metric: str
    unit: str
    cases: int
    without_outcome: int
    episodes: int
    followed: Distribution
    others: Distribution
    persistence: Distribution
    finding: Finding
    comparison: Comparison | None = None
    """With the other labels; None if there are too few cases, or the label claims nothing."""

    @property
    def parts(self) -> tuple[Distribution, Distribution, Distribution]:
        """What followed and both baselines; with the finding `too-few`, only their counts."""
        return self.followed, self.others, self.persistence

    @property
    def fewest(self) -> int:
        """The number of cases that the smaller side of the comparison has."""
        return min(self.followed.count, self.others.count)


class KindAccuracy(Struct, frozen=True):
    """The track record of one kind of stance."""

    kind: str
    versions: int
    legs: int
    first: int
    last: int
    abstained: int
    expired: int
    revised: int
    withdrawn: int
    late: int
    headline: str
    measured: tuple[Measured, ...]
    private: int = 0
    """Versions since the definition that never become public."""


class Accuracy(Struct, frozen=True):
    """The snapshot that the collector publishes."""

    as_of: int
    """A full hour."""

    source: str
    after_days: int
    """The embargo of new versions; 0 if they are not revealed."""

    announced_at: int | None
    """When this was announced; None if nothing ever was."""

    defined_at: int | None
    definition_digest: str
    """The digest of the event that holds the definition; empty if there is none."""

    kinds: tuple[KindAccuracy, ...]
    venue: str = ""
    """The venue whose prices and funding are used."""

    series: dict[str, str] = {}
    """By metric, the path and query of the published series that it was calculated from."""

    definitions: int = 0
    """How many definitions were recorded; each new one starts the counts again."""


ACCURACY = Feed("accuracy", Accuracy)
