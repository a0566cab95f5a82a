"""The track record as frozen records; `documents.py` describes their members (pure)."""

from typing import Literal

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.markets import outcomes

FEWEST = outcomes.FEWEST
"""Fewer cases have only a count."""

Finding = Literal["too-few", "none", "higher", "lower"]
"""Whether what followed differs from both baselines, in the direction that the label claims."""


class Distribution(Struct, frozen=True):
    """The values of cases that don't overlap in time; under `FEWEST`, only their count."""

    count: int
    quantiles: tuple[float, float, float, float, float] | None = None
    interval: tuple[float, float] | None = None


class Measured(Struct, frozen=True):
    """What followed one label, by one metric and horizon."""

    label: str
    horizon: str
    metric: str
    unit: str
    cases: int
    without_outcome: int
    followed: Distribution
    unconditional: Distribution
    persistence: Distribution
    finding: Finding

    @property
    def parts(self) -> tuple[Distribution, Distribution, Distribution]:
        """What followed and both baselines; with the finding `too-few`, only their counts."""
        return self.followed, self.unconditional, self.persistence

    @property
    def fewest(self) -> int:
        """The number of cases of the smallest distribution."""
        return min(part.count for part in self.parts)


class KindAccuracy(Struct, frozen=True):
    """The track record of one kind of stance."""

    kind: str
    versions: int
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
