"""The delivered stance, `stance-v1`: what whoever may read it gets (pure)."""

import json
from typing import Any, Literal

from barograph.kit.timestamps import iso_timestamp
from barograph.notice import NOTICE
from barograph.stances.records import SCHEMA, WITHDRAWN
from barograph.stances.standing import StanceNow

ISSUED = "issued"

State = Literal["active", "expired", "terminal"]


def state_of(stance: StanceNow, now: int) -> State:
    """Whether a stance stands, has run out, or was withdrawn."""
    if stance.withdrawn_at is not None:
        return "terminal"
    return "expired" if now >= stance.expires_at else "active"


def stance_body(stance: StanceNow, now: int) -> dict[str, Any]:
    """The body of a stance as it is at `now`; the salt makes its digest recomputable."""
    leg: dict[str, Any] = json.loads(stance.leg)
    return {
        "schema": SCHEMA,
        "kind": stance.kind,
        "leg_id": stance.leg_id,
        "revision": stance.revision,
        "issued_at": iso_timestamp(stance.issued_at),
        "expires_at": iso_timestamp(stance.expires_at),
        "state": state_of(stance, now),
        "history_durable": stance.history_durable,
        "history_digest": stance.history_digest,
        "leg": _in_order(leg),
        "events": _events(stance, leg["evidence"]["digest"]),
        "salt": stance.salt,
        "notice": NOTICE,
    }


def _in_order(leg: dict[str, Any]) -> dict[str, Any]:
    """The leg with its members as they are documented; canonical JSON sorts them by name."""
    ordered = {name: leg[name] for name in _LEG}
    ordered["decision"] = {name: leg["decision"][name] for name in _DECISION}
    ordered["evidence"] = {name: leg["evidence"][name] for name in _EVIDENCE}
    return ordered


_LEG = ("period", "levels", "decision", "conditions", "method", "evidence")
_DECISION = ("label", "confidence", "rationale", "by")
_EVIDENCE = ("digest", "source", "observed_at", "inputs")


def _events(stance: StanceNow, evidence_digest: str) -> list[dict[str, str | None]]:
    events: list[dict[str, str | None]] = [
        {
            "type": ISSUED,
            "at": iso_timestamp(stance.issued_at),
            "evidence_digest": evidence_digest,
        }
    ]
    if stance.withdrawn_at is not None:
        withdrawn = {
            "type": WITHDRAWN,
            "at": iso_timestamp(stance.withdrawn_at),
            "evidence_digest": stance.withdrawal_digest,
        }
        events.append(withdrawn)
    return events
