"""Reads the stored document of a version for a comparison (pure).

Reading never fails. A part that cannot be read is None, and the comparison abstains.
"""

import json
from math import isfinite
from typing import Literal

from msgspec import Struct, ValidationError, convert

from barograph.history.digest import EXACT
from barograph.history.records import SCHEMA, Decision
from barograph.kit.json import Json, canonical, digest

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
        conditions=_conditions(leg.get("conditions")),
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


def _conditions(value: Json) -> tuple[RetainedCondition, ...] | None:
    if not isinstance(value, list):
        return None
    found = []
    for each in value:
        text = _text(each.get("text")) if isinstance(each, dict) else _text(each)
        if text is None:
            return None
        found.append(RetainedCondition(text, each))
    return tuple(found)


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
