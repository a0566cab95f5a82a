"""Stances of every kind, recorded and compared."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from barograph.history.digest import GENESIS, version_document
from barograph.history.records import Leg, Proposal, Version
from barograph.kit.json import Json, canonical
from barograph.kit.timestamps import DAY, HOUR
from barograph.macro.records import (
    EFFR,
    EFFR_HIGH,
    EFFR_LOW,
    SOFR,
    US2Y,
    US3M,
    US10Y,
    RecordedFigure,
)
from barograph.material_change.compare import RetainedVersion, compare, read_retained
from barograph.material_change.documents import AssessmentBody, comparison_body
from barograph.material_change.query import Pair, Reference
from barograph.stances import etf, funding, rates
from barograph.stances.revise import revision_of
from barograph.venues.records import ContractName
from support.clock import START
from support.figures import NEWEST, flows, yields

TODAY = date(2026, 11, 6)
GRACE = 6 * HOUR
SETTLED_AT = START // (8 * HOUR) * 8 * HOUR


def version(proposed: Proposal, revision: int = 1) -> Version:
    return Version(
        kind=proposed.kind,
        sequence=revision,
        leg_id=proposed.leg_id,
        revision=revision,
        issued_at=proposed.issued_at,
        expires_at=proposed.expires_at,
        leg=proposed.leg,
        previous_digest=GENESIS,
        salt="5a" * 32,
        history_digest="",
    )


def text(proposed: Proposal) -> str:
    """The recorded text of a version."""
    return canonical(version_document(version(proposed)))


def assess(before: Proposal, after: Proposal) -> AssessmentBody:
    return compare(read_retained(text(before)), read_retained(text(after)))


def decided(proposed: Proposal, label: str = "cautious") -> Proposal:
    """An operator's decision on the same evidence."""
    return revision_of(
        [version(proposed)],
        proposed.kind,
        label=label,
        why="an auction is due",
        by="desk",
        now=proposed.issued_at + 60_000,
    )


def of_funding(*newest: float, count: int = 93, until: int = SETTLED_AT) -> Proposal:
    """The stance on these newest settlement rates; earlier ones are zero."""
    settled_rates = [*[0.0] * (count - len(newest)), *newest]
    first = until - (len(settled_rates) - 1) * 8 * HOUR
    settlements = [
        funding.Settlement(at, 8.0, rate, at + 1_000)
        for at, rate in zip(range(first, until + 1, 8 * HOUR), settled_rates, strict=True)
    ]
    name = ContractName("bybit", "BTCUSDT")
    proposed = funding.propose(settlements, name, "test venue", until + HOUR, GRACE)
    assert proposed is not None
    return proposed


RATES: Mapping[str, float] = {US3M: 4.1, US2Y: 3.8, US10Y: 4.3, SOFR: 3.9, EFFR: 3.88}


def of_rates(
    newest: Mapping[str, float] = RATES, /, day: str = NEWEST, *, now: int = START
) -> Proposal:
    """The stance on yields that were the usual ones until the newest day."""
    series: dict[str, Sequence[RecordedFigure]] = {
        name: yields(name, [*[RATES[name]] * 60, value], day) for name, value in newest.items()
    }
    series |= {EFFR_LOW: yields(EFFR_LOW, [3.75], day), EFFR_HIGH: yields(EFFR_HIGH, [4.0], day)}
    proposed = rates.propose(series, now, date.fromisoformat(day), GRACE, was_inverted=False)
    assert isinstance(proposed, Proposal), proposed
    return proposed


def of_flows(*shares: float, day: str = NEWEST, coverage: str = "IBIT only") -> Proposal:
    """The stance on flows in percent of one million of assets."""
    series = replace(flows(*shares, day=day), coverage=coverage)
    proposed = etf.propose(series, now=START, today=TODAY, grace=GRACE, previous=None)
    assert isinstance(proposed, Proposal), proposed
    return proposed


def with_leg(proposed: Proposal, **changes: Any) -> Proposal:
    return replace(proposed, leg=replace(proposed.leg, **changes))


def with_levels(proposed: Proposal, **levels: Json) -> Proposal:
    """The same with other levels and matching evidence; None removes a level."""
    changed = {
        name: value
        for name, value in {**proposed.leg.levels, **levels}.items()
        if value is not None
    }
    inputs = {**proposed.leg.evidence.inputs, "note": changed}
    return with_leg(
        proposed, levels=changed, evidence=replace(proposed.leg.evidence, inputs=inputs)
    )


def with_inputs(proposed: Proposal, **levels: Json) -> Proposal:
    """A funding stance whose recorded input has these levels."""
    inputs = {**proposed.leg.evidence.inputs, "levels": levels}
    return with_leg(proposed, evidence=replace(proposed.leg.evidence, inputs=inputs))


def edited(proposed: Proposal, *path: str, to: Json) -> RetainedVersion:
    """A record with one member replaced, which this service would never write."""
    document: dict[str, Any] = json.loads(text(proposed))
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return read_retained(canonical(document))


FUNDING, FLOWS, YIELDS = of_funding(0.02), of_flows(0.1, 0.2), of_rates()
EACH_KIND = pytest.mark.parametrize("proposed", [FUNDING, FLOWS, YIELDS], ids=lambda p: p.kind)


def body(before: Proposal, after: Proposal) -> dict[str, Any]:
    pair = Pair(
        after.kind, Reference(before.leg_id, 1, "b" * 64), Reference(after.leg_id, 2, "a" * 64)
    )
    sent = comparison_body(
        pair,
        (before.issued_at, after.issued_at),
        assess(before, after),
        compared_at=START + DAY,
    )
    found: dict[str, Any] = json.loads(sent)
    return found


def decision_of(leg: Leg) -> dict[str, str]:
    return {name: getattr(leg.decision, name) for name in leg.decision.__struct_fields__}


def at_work(proposed: Proposal, *path: str, to: Json) -> AssessmentBody:
    """The assessment if a later version has another value at this path."""
    return compare(read_retained(text(proposed)), edited(decided(proposed), *path, to=to))
