"""What changed between two recorded versions of a kind, or why they cannot be compared (pure).

The method fixes the units: a level that is a plain number has the unit in `NUMERIC`. Reading a
stored version never fails: a part that cannot be read is None, and the comparison abstains.
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Literal, NamedTuple

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict

from barograph.history.digest import EXACT
from barograph.history.records import SCHEMA, Decision
from barograph.kit.json import Json, canonical, digest
from barograph.material_change.documents import (
    REASONS,
    AssessmentBody,
    Change,
    ConditionBody,
    DecisionBody,
    NumericChangeBody,
    PresenceBody,
    Reason,
    RecordedDecisionsBody,
)
from barograph.stances import etf, funding, rates
from barograph.stances.rules import is_met

EvidenceProblem = Literal["evidence_missing", "evidence_unreadable"]


class RetainedEvidence(Struct, frozen=True):
    """The evidence of a version; its digest matches its inputs."""

    digest: str
    inputs: dict[str, Json]


class RetainedCondition(Struct, frozen=True):
    """A condition in words, and as `stances.rules.is_met` evaluates it."""

    text: str
    given: Json


class RetainedVersion(Struct, frozen=True):
    """A recorded version; with another schema only the first three members are read."""

    schema: str | None
    kind: str | None
    leg_id: str | None
    method: str | None
    levels: dict[str, Json] | None
    decision: Decision | None
    conditions: tuple[RetainedCondition, ...] | None
    evidence: RetainedEvidence | EvidenceProblem


def read_retained(document: str) -> RetainedVersion:
    """Read the stored text of a version."""
    version = _object(_parsed(document)) or {}
    schema = _text(version.get("schema"))
    leg = (_object(version.get("leg")) if schema == SCHEMA else None) or {}
    return RetainedVersion(
        schema=schema,
        kind=_text(version.get("kind")),
        leg_id=_text(version.get("leg_id")),
        method=_text(leg.get("method")),
        levels=_object(leg.get("levels")),
        decision=_decision(leg.get("decision")),
        conditions=_read_conditions(leg.get("conditions")),
        evidence=_evidence(leg.get("evidence")),
    )


def number(value: Json) -> int | float | None:
    """The value if it is a finite number, not a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return value


def _parsed(document: str) -> Json:
    try:
        return _JSON.decode(document)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _whole_number(digits: str) -> int | float:
    """Canonical JSON has only doubles; an integer beyond the exact ones was a float."""
    value = int(digits)
    return value if -EXACT <= value <= EXACT else float(digits)


_JSON = json.JSONDecoder(parse_int=_whole_number)


def _object(value: Json) -> dict[str, Json] | None:
    return value if isinstance(value, dict) else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _decision(value: Json) -> Decision | None:
    try:
        return convert(value, Decision)
    except ValidationError:
        return None


def _read_conditions(value: Json) -> tuple[RetainedCondition, ...] | None:
    if not isinstance(value, list):
        return None
    changes = []
    for each in value:
        text = _text(each.get("text")) if isinstance(each, dict) else _text(each)
        if text is None:
            return None
        changes.append(RetainedCondition(text, each))
    return tuple(changes)


def _evidence(value: Json) -> RetainedEvidence | EvidenceProblem:
    if value is None:
        return "evidence_missing"
    if not isinstance(value, dict):
        return "evidence_unreadable"
    recorded, inputs = value.get("digest"), value.get("inputs")
    if recorded is None or inputs is None:
        return "evidence_missing"
    if not isinstance(recorded, str) or not isinstance(inputs, dict) or recorded != _digest(inputs):
        return "evidence_unreadable"
    return RetainedEvidence(recorded, inputs)


def _digest(inputs: dict[str, Json]) -> str | None:
    try:
        return digest(canonical(inputs))
    except (ValueError, RecursionError):
        return None


class Numeric(NamedTuple):
    """A level that is compared."""

    name: str
    unit: str
    threshold: Decimal
    """The smallest material difference."""


_FIVE_POINTS, _TWO_POINTS = Decimal("0.05"), Decimal("0.02")
NUMERIC: Mapping[str, tuple[Numeric, ...]] = {
    etf.KIND: (
        Numeric("netFlowUsd", "USD", Decimal(100_000_000)),
        Numeric("flow5dUsd", "USD", Decimal(250_000_000)),
        Numeric("flow5dPctAum", "percent", Decimal("0.25")),
        Numeric("holdingsBtc", "BTC", Decimal(2_000)),
    ),
    rates.KIND: (
        Numeric("us3m", "percent", _FIVE_POINTS),
        Numeric("us2y", "percent", _FIVE_POINTS),
        Numeric("us10y", "percent", _FIVE_POINTS),
        Numeric("slope10y3m", "percent", _FIVE_POINTS),
        Numeric("sofr", "percent", _TWO_POINTS),
        Numeric("effr", "percent", _TWO_POINTS),
    ),
}
"""By kind; funding compares no numbers."""

PRESENCE = ("score", "score24hAgo", "delta24h")
"""The levels in the retained funding input whose presence is compared."""


@lru_cache(maxsize=16)
def assess(before: str, after: str) -> AssessmentBody:
    """Compare two documents; cached, because requests ask for the same few."""
    return compare(read_retained(before), read_retained(after))


def compare(before: RetainedVersion, after: RetainedVersion) -> AssessmentBody:
    """Compare a version with the one recorded after it."""
    reasons = _reasons(before, after)
    is_funding = funding.KIND in {before.kind, after.kind}
    conditions = [] if reasons else _conditions(before, after)
    return AssessmentBody(
        status="abstained" if reasons else "assessed",
        reasons=reasons,
        change=None if reasons else _change(before, after),
        same_source_evidence=None if reasons else before.evidence == after.evidence,
        numeric_changes=[] if reasons else list(_numeric_changes(before, after)),
        conditions="unevaluated" if is_funding else conditions,
        recorded_decisions=None if reasons else _decisions(before.decision, after.decision),
        evidence_field_presence=_presence(before, after),
    )


def _reasons(before: RetainedVersion, after: RetainedVersion) -> tuple[Reason, ...]:
    if before.schema != after.schema:
        return ("schema_changed",)
    if after.schema != SCHEMA:
        return ("schema_unknown",)
    reasons = {*_unreadable(before), *_unreadable(after), *_incompatible(before, after)}
    if not reasons and _change(before, after) is None:
        return ("change_unclassified",)
    return tuple(reason for reason in REASONS if reason in reasons)


def _unreadable(version: RetainedVersion) -> Iterator[Reason]:
    parts = (version.kind, version.leg_id, version.method)
    content = (version.levels, version.decision, version.conditions)
    if any(each is None for each in (*parts, *content)):
        yield "version_unreadable"
    if not isinstance(version.evidence, RetainedEvidence):
        yield version.evidence


def _incompatible(before: RetainedVersion, after: RetainedVersion) -> Iterator[Reason]:
    if before.method is None or after.method is None:
        return
    if before.method != after.method:
        yield "method_changed"
        return  # levels of different methods are not comparable
    if after.kind == etf.KIND and not _is_of_same_funds(before.evidence, after.evidence):
        yield "coverage_changed"
    for each in NUMERIC.get(after.kind or "", ()):
        values = _level(before, each), _level(after, each)
        numbers = [number(value) is not None for value in values]
        if any(value is not None and number(value) is None for value in values):
            yield "unit_changed" if any(numbers) else "version_unreadable"


def _change(before: RetainedVersion, after: RetainedVersion) -> Change | None:
    if before.leg_id != after.leg_id:
        return "new_period"
    if before.evidence != after.evidence:
        return "evidence_changed"
    # One method cannot derive different levels from the same evidence.
    if before.decision != after.decision and before.levels == after.levels:
        return "decision_revision_only"
    return None


def _numeric_changes(
    before: RetainedVersion, after: RetainedVersion
) -> Iterator[NumericChangeBody]:
    for each in NUMERIC.get(after.kind or "", ()):
        was, is_now = number(_level(before, each)), number(_level(after, each))
        if was == is_now:
            continue
        delta = None if was is None or is_now is None else _exact(is_now) - _exact(was)
        yield NumericChangeBody(
            path=f"levels.{each.name}",
            unit=each.unit,
            before=was,
            after=is_now,
            delta=None if delta is None else float(delta),
            threshold=float(each.threshold),
            material=delta is None or abs(delta) >= each.threshold,
        )


def _conditions(before: RetainedVersion, after: RetainedVersion) -> list[ConditionBody]:
    return [
        ConditionBody(
            text=condition.text,
            met_before=is_met(condition.given, before.levels or {}),
            met_after=is_met(condition.given, after.levels or {}),
        )
        for condition in after.conditions or ()
    ]


def _decisions(before: Decision | None, after: Decision | None) -> RecordedDecisionsBody:
    assert before is not None
    assert after is not None
    return RecordedDecisionsBody(
        before=DecisionBody(**asdict(before)), after=DecisionBody(**asdict(after))
    )


def _presence(before: RetainedVersion, after: RetainedVersion) -> PresenceBody | None:
    """Which retained paths only one version has; None unless both are of one funding leg."""
    legs = {(each.kind, each.leg_id, each.schema, each.method) for each in (before, after)}
    had, has = _present(before), _present(after)
    is_eligible = len(legs) == 1 and after.kind == funding.KIND and after.method is not None
    if not is_eligible or had is None or has is None:
        return None
    return PresenceBody(added=sorted(has - had), absent_in_after=sorted(had - has))


def _present(version: RetainedVersion) -> frozenset[str] | None:
    """The paths that are present, zero included; None when the input cannot be read."""
    if not isinstance(version.evidence, RetainedEvidence):
        return None
    levels = version.evidence.inputs.get("levels")
    if levels is None:
        return frozenset()
    if not isinstance(levels, dict):
        return None
    return frozenset(f"levels.{name}" for name in PRESENCE if levels.get(name) is not None)


def _is_of_same_funds(
    before: RetainedEvidence | EvidenceProblem, after: RetainedEvidence | EvidenceProblem
) -> bool:
    """Whether both cover the same funds; True when that cannot be read."""
    if not isinstance(before, RetainedEvidence) or not isinstance(after, RetainedEvidence):
        return True
    return before.inputs.get("coverage") == after.inputs.get("coverage")


def _level(version: RetainedVersion, numeric: Numeric) -> Json:
    return None if version.levels is None else version.levels.get(numeric.name)


def _exact(value: float) -> Decimal:
    """The number as it is written, so that 4.35 - 4.3 is 0.05."""
    return Decimal(repr(value))
