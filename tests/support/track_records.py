"""Track records to show."""

import asyncio
from typing import Any

from msgspec.structs import replace

from barograph.accuracy.records import (
    ACCURACY,
    FEWEST,
    Accuracy,
    Comparison,
    Distribution,
    Finding,
    KindAccuracy,
    Measured,
)
from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.history.records import KINDS
from barograph.kit.timestamps import DAY
from support.clock import START
from support.service import Service

DEFINITION = "ab" * 32


def distribution(count: int, mean: float = 0.2) -> Distribution:
    """Values around a mean; none if there are too few."""
    if count < FEWEST:
        return Distribution(count)
    spread = (mean - 2.5, mean - 1, mean, mean + 1, mean + 2.5)
    return Distribution(count, spread, mean)


def measured(
    label: str,
    count: int,
    finding: Finding = "could-not-tell",
    *,
    horizon: str = "24h",
    metric: str = "btc_return",
    mean: float = 0.2,
    episodes: int = 12,
    detectable: float | None = 0.9,
) -> Measured:
    """A row of a table."""
    parts = distribution(count, mean), distribution(60, 0.1), distribution(count, 0.05)
    row = Measured(label, horizon, metric, "%", count + 9, 2, episodes, *parts, finding)
    if finding in {"too-few", "not-tested"}:
        return row
    difference = mean - 0.1
    interval = (difference - 0.6, difference + 0.6)
    return replace(row, comparison=Comparison(difference, interval, detectable))


def kind_accuracy(
    *rows: Measured, kind: str = "rates-desk", headline: str = "Could not tell."
) -> KindAccuracy:
    """The track record of a kind; without rows no version is public."""
    number = 47 if rows else 0
    counts = (3, 1, 2, 1, 4) if rows else (0, 0, 0, 0, 0)
    legs = min(number, 40)
    return KindAccuracy(kind, number, legs, min(number, 5), number and 51, *counts, headline, rows)


def accuracy(*kinds: KindAccuracy, **changed: Any) -> Accuracy:
    """A snapshot with an embargo of seven days; kinds that are not given have no public version."""
    given = {each.kind: each for each in kinds}
    empty = {kind: kind_accuracy(kind=kind, headline="Too few cases.") for kind in KINDS}
    values: dict[str, Any] = {
        "as_of": START,
        "source": "test venue",
        "after_days": 7,
        "announced_at": START - 90 * DAY,
        "defined_at": START - 90 * DAY,
        "definition_digest": DEFINITION,
        "kinds": tuple((empty | given).values()),
    }
    return Accuracy(**{**values, **changed})


def publish_accuracy(service: Service, snapshot: Accuracy) -> None:
    """Publish as the collector does."""
    publish_snapshot(service, Publication.of(ACCURACY, snapshot))


def publish_snapshot(service: Service, snapshot: Publication) -> None:
    """Publish to the board of a service."""
    asyncio.run(service.database.write(lambda tx: publish(tx, [snapshot])))
    service.refresh()
