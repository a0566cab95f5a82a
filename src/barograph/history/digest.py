"""Converts records to the canonical JSON that is hashed, and back (pure).

The hashed text is the whole record without its own digest. It is stored as it is, and never
rebuilt from columns.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import asdict

from barograph.history.records import (
    EVENT_SCHEMA,
    SCHEMA,
    Decision,
    Leg,
    LegEvidence,
    Version,
    VersionEvent,
)
from barograph.kit.json import Json, canonical, digest
from barograph.kit.timestamps import iso_timestamp

GENESIS = "0" * 64
"""The previous digest of the first link."""

EXACT = 2**53 - 1
"""Canonical JSON has only doubles; an integer beyond this limit was a float."""


def leg_document(leg: Leg) -> dict[str, Json]:
    """The leg as it is hashed."""
    decision, evidence = leg.decision, leg.evidence
    return {
        "period": {"start": leg.period["start"], "end": leg.period["end"]},
        "levels": leg.levels,
        "decision": {
            "label": decision.label,
            "confidence": decision.confidence,
            "rationale": decision.rationale,
            "by": decision.by,
        },
        "conditions": list(leg.conditions),
        "method": leg.method,
        "evidence": {
            "digest": evidence.digest,
            "source": evidence.source,
            "observed_at": evidence.observed_at,
            "inputs": evidence.inputs,
        },
    }


def version_document(version: Version) -> dict[str, Json]:
    """The object that is hashed: everything except `history_digest`."""
    return {
        "schema": SCHEMA,
        "kind": version.kind,
        "sequence": version.sequence,
        "leg_id": version.leg_id,
        "revision": version.revision,
        "issued_at": iso_timestamp(version.issued_at),
        "expires_at": iso_timestamp(version.expires_at),
        "leg": leg_document(version.leg),
        "previous_digest": version.previous_digest,
        "salt": version.salt,
    }


def event_document(event: VersionEvent) -> dict[str, Json]:
    """The object that is hashed: everything except `event_digest`."""
    return {
        "schema": EVENT_SCHEMA,
        "kind": event.kind,
        "sequence": event.sequence,
        "type": event.type,
        "at": iso_timestamp(event.at),
        "version_sequence": event.version_sequence,
        "why": event.why,
        "by": event.by,
        "evidence_digest": event.evidence_digest,
        "previous_digest": event.previous_digest,
        "salt": event.salt,
    }


def history_digest(version: Version) -> str:
    """SHA-256 of the canonical JSON of the recorded version."""
    return digest(canonical(version_document(version)))


def event_digest(event: VersionEvent) -> str:
    """SHA-256 of the canonical JSON of the recorded event."""
    return digest(canonical(event_document(event)))


def withdrawal_digest(version_digest: str, *, why: str, by: str, salt: str) -> str:
    """The evidence digest of a withdrawal; `salt` is that of the event."""
    content: dict[str, Json] = {
        "history_digest": version_digest,
        "why": why,
        "by": by,
        "salt": salt,
    }
    return digest(canonical(content))


@lru_cache(maxsize=8)
def read_version(text: str, text_digest: str | None = None) -> Version:
    """Decode a recorded version; `text_digest` is the digest of the text, if it is known.

    The newest version of each kind is read again and again.

    Raises:
        ValueError: the text is not a version.
    """
    document = _VERSIONS.decode(text)
    if document.schema != SCHEMA:
        raise ValueError(f"unknown schema: {document.schema}")
    leg = document.leg
    evidence = leg.evidence
    return Version(
        kind=document.kind,
        sequence=document.sequence,
        leg_id=document.leg_id,
        revision=document.revision,
        issued_at=_milliseconds(document.issued_at),
        expires_at=_milliseconds(document.expires_at),
        leg=Leg(
            period=leg.period,
            levels=_exact(leg.levels),
            decision=leg.decision,
            conditions=_exact(leg.conditions),
            method=leg.method,
            evidence=LegEvidence(evidence.source, evidence.observed_at, _exact(evidence.inputs)),
        ),
        previous_digest=document.previous_digest,
        salt=document.salt,
        history_digest=text_digest or digest(text),
    )


def read_event(text: str, text_digest: str | None = None) -> VersionEvent:
    """Decode a recorded event; `text_digest` is the digest of the text, if it is known.

    Raises:
        ValueError: the text is not an event.
    """
    document = _EVENTS.decode(text)
    if document.schema != EVENT_SCHEMA:
        raise ValueError(f"unknown schema: {document.schema}")
    members = asdict(document) | {"at": _milliseconds(document.at)}
    del members["schema"]
    return VersionEvent(**members, event_digest=text_digest or digest(text))


class _EvidenceDocument(Struct, frozen=True):
    source: str
    observed_at: str
    inputs: dict[str, Any]


class _LegDocument(Struct, frozen=True):
    period: dict[str, str]
    levels: dict[str, Any]
    decision: Decision
    conditions: list[Any]
    method: str
    evidence: _EvidenceDocument


class _VersionDocument(Struct, frozen=True):
    schema: str
    kind: str
    sequence: int
    leg_id: str
    revision: int
    issued_at: datetime
    expires_at: datetime
    leg: _LegDocument
    previous_digest: str
    salt: str


class _EventDocument(Struct, frozen=True):
    schema: str
    kind: str
    sequence: int
    type: str
    at: datetime
    version_sequence: int
    why: str
    by: str
    evidence_digest: str
    previous_digest: str
    salt: str


_VERSIONS = Decoder(_VersionDocument)
_EVENTS = Decoder(_EventDocument)


def _exact(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The value with large integers turned back into floats."""
    kind = type(value)
    if kind is dict:
        return {name: _exact(member) for name, member in value.items()}
    if kind is list:
        return [_exact(member) for member in value]
    if kind is int and not -EXACT <= value <= EXACT:
        return float(value)
    return value


def _milliseconds(moment: datetime) -> int:
    try:
        return (moment - _EPOCH) // _MILLISECOND
    except TypeError as error:
        raise ValueError("a timestamp without a time zone") from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
