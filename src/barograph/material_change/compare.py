"""What changed between two recorded versions of one kind, or why that is not told (pure).

Units belong to the method: within one method a level has the unit that `NUMERIC` says, as long as
it is a plain number.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal as Exact
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.history.records import SCHEMA, Decision
from barograph.kit.json import Json
from barograph.material_change.recorded import (
    EvidenceProblem,
    Retained,
    RetainedEvidence,
    number,
    read_retained,
)
from barograph.stances import etf, funding, rates
from barograph.stances.rules import is_met

Status = Literal["assessed", "abstained"]
Change = Literal["decision_revision_only", "evidence_changed", "new_period"]
Reason = Literal[
    "schema_changed",
    "schema_unknown",
    "method_changed",
    "version_unreadable",
    "evidence_missing",
    "evidence_unreadable",
    "coverage_changed",
    "unit_changed",
    "change_unclassified",
]
REASONS: Mapping[Reason, str] = {
    "schema_changed": "the two versions have different schemas",
    "schema_unknown": "both have a schema that is not known here",
    "method_changed": "they were judged by different methods",
    "version_unreadable": "a part of a version other than its evidence cannot be read",
    "evidence_missing": "a version was retained without its evidence",
    "evidence_unreadable": "a version's evidence cannot be read, or is not what its digest is of",
    "coverage_changed": "the figures are of other funds",
    "unit_changed": "a level is a plain number in one of them and something else in the other",
    "change_unclassified": "neither the leg, nor the evidence, nor the decision alone differs",
}
"""Every reason to abstain, in the order in which they are told."""


class Numeric(NamedTuple):
    """A level that is compared."""

    name: str
    unit: str
    threshold: Exact
    """A difference of at least this much is material."""


_FIVE_POINTS, _TWO_POINTS = Exact("0.05"), Exact("0.02")
NUMERIC: Mapping[str, tuple[Numeric, ...]] = {
    etf.KIND: (
        Numeric("netFlowUsd", "USD", Exact(100_000_000)),
        Numeric("flow5dUsd", "USD", Exact(250_000_000)),
        Numeric("flow5dPctAum", "percent", Exact("0.25")),
        Numeric("holdingsBtc", "BTC", Exact(2_000)),
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
"""By kind; of funding no numbers are compared."""

PRESENCE = ("score", "score24hAgo", "delta24h")
"""The levels in the retained input of funding whose presence is compared."""


class NumericChange(Struct, frozen=True):
    """A level that differs; None on the side where it is absent, and then there is no delta."""

    path: str
    unit: str
    before: int | float | None
    after: int | float | None
    delta: float | None
    threshold: float
    material: bool


class ConditionChange(Struct, frozen=True):
    """A condition of the later version on the levels of both; None where that cannot be known."""

    text: str
    met_before: bool | None
    met_after: bool | None


class RecordedDecisions(Struct, frozen=True):
    """What was decided, as it was recorded."""

    before: Decision
    after: Decision


class Presence(Struct, frozen=True):
    """Paths that only one of two retained inputs has, in order."""

    added: tuple[str, ...]
    absent_in_after: tuple[str, ...]


class Assessment(Struct, frozen=True):
    """The comparison; abstained when there are reasons to."""

    reasons: tuple[Reason, ...]
    change: Change | None
    same_source_evidence: bool | None
    numeric_changes: tuple[NumericChange, ...]
    conditions: tuple[ConditionChange, ...] | Literal["unevaluated"]
    recorded_decisions: RecordedDecisions | None
    evidence_field_presence: Presence | None
    """None when it is not to be told."""

    @property
    def status(self) -> Status:
        """Whether the two could honestly be compared."""
        return "abstained" if self.reasons else "assessed"


@lru_cache(maxsize=16)
def assess(before: str, after: str) -> Assessment:
    """Compare two recorded texts; everybody asks for the same few, and no text ever changes."""
    return compare(read_retained(before), read_retained(after))


def compare(before: Retained, after: Retained) -> Assessment:
    """Compare a version with the one recorded after it."""
    presence = _presence(before, after)
    is_funding = funding.KIND in {before.kind, after.kind}
    reasons = _reasons(before, after)
    if reasons:
        return Assessment(
            reasons=reasons,
            change=None,
            same_source_evidence=None,
            numeric_changes=(),
            conditions="unevaluated" if is_funding else (),
            recorded_decisions=None,
            evidence_field_presence=presence,
        )
    assert before.decision is not None
    assert after.decision is not None
    return Assessment(
        reasons=(),
        change=_change(before, after),
        same_source_evidence=before.evidence == after.evidence,
        numeric_changes=tuple(_numeric_changes(before, after)),
        conditions="unevaluated" if is_funding else tuple(_conditions(before, after)),
        recorded_decisions=RecordedDecisions(before.decision, after.decision),
        evidence_field_presence=presence,
    )


def _reasons(before: Retained, after: Retained) -> tuple[Reason, ...]:
    if before.schema != after.schema:
        return ("schema_changed",)
    if after.schema != SCHEMA:
        return ("schema_unknown",)
    found = {*_not_to_be_read(before), *_not_to_be_read(after), *_incompatible(before, after)}
    if not found and _change(before, after) is None:
        return ("change_unclassified",)
    return tuple(each for each in REASONS if each in found)


def _not_to_be_read(version: Retained) -> Iterator[Reason]:
    parts = (version.kind, version.leg_id, version.method)
    content = (version.levels, version.decision, version.conditions)
    if any(each is None for each in (*parts, *content)):
        yield "version_unreadable"
    if not isinstance(version.evidence, RetainedEvidence):
        yield version.evidence


def _incompatible(before: Retained, after: Retained) -> Iterator[Reason]:
    if before.method is None or after.method is None:
        return
    if before.method != after.method:
        yield "method_changed"
        return  # and with it whatever its levels mean
    if after.kind == etf.KIND and not _is_of_same_funds(before.evidence, after.evidence):
        yield "coverage_changed"
    for each in NUMERIC.get(after.kind or "", ()):
        values = _level(before, each), _level(after, each)
        numbers = [number(value) is not None for value in values]
        if any(value is not None and number(value) is None for value in values):
            yield "unit_changed" if any(numbers) else "version_unreadable"


def _change(before: Retained, after: Retained) -> Change | None:
    if before.leg_id != after.leg_id:
        return "new_period"
    if before.evidence != after.evidence:
        return "evidence_changed"
    # The same evidence cannot have other levels by the same method: then more than that differs.
    if before.decision != after.decision and before.levels == after.levels:
        return "decision_revision_only"
    return None


def _numeric_changes(before: Retained, after: Retained) -> Iterator[NumericChange]:
    for each in NUMERIC.get(after.kind or "", ()):
        was, is_now = number(_level(before, each)), number(_level(after, each))
        if was == is_now:
            continue
        delta = None if was is None or is_now is None else _exact(is_now) - _exact(was)
        yield NumericChange(
            path=f"levels.{each.name}",
            unit=each.unit,
            before=was,
            after=is_now,
            delta=None if delta is None else float(delta),
            threshold=float(each.threshold),
            material=delta is None or abs(delta) >= each.threshold,
        )


def _conditions(before: Retained, after: Retained) -> Iterator[ConditionChange]:
    for each in after.conditions or ():
        yield ConditionChange(
            text=each.text,
            met_before=is_met(each.given, before.levels or {}),
            met_after=is_met(each.given, after.levels or {}),
        )


def _presence(before: Retained, after: Retained) -> Presence | None:
    """What of the retained input came and went; None unless both are of one funding leg."""
    legs = {(each.kind, each.leg_id, each.schema, each.method) for each in (before, after)}
    had, has = _present(before), _present(after)
    is_eligible = len(legs) == 1 and after.kind == funding.KIND and after.method is not None
    if not is_eligible or had is None or has is None:
        return None
    return Presence(tuple(sorted(has - had)), tuple(sorted(had - has)))


def _present(version: Retained) -> frozenset[str] | None:
    """The paths that are there, whatever their values; None when the input cannot be read."""
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
    """Whether the figures are of the same funds; True also when that cannot be read."""
    if not isinstance(before, RetainedEvidence) or not isinstance(after, RetainedEvidence):
        return True
    return before.inputs.get("coverage") == after.inputs.get("coverage")


def _level(version: Retained, numeric: Numeric) -> Json:
    return None if version.levels is None else version.levels.get(numeric.name)


def _exact(value: float) -> Exact:
    """The number as it is written: 4.35 - 4.3 is 0.05."""
    return Exact(repr(value))
