"""A stance as frozen records: proposed, recorded, withdrawn, published (pure)."""

from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct

from barograph.kit.json import Json, canonical, digest

SCHEMA = "stance-v1"
EVENT_SCHEMA = "stance-event-v1"

KINDS = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
ListName = Literal["versions", "events"]
LISTS: tuple[ListName, ...] = get_args(ListName)
"""What is recorded of each kind."""

LABELS = ("constructive", "neutral", "cautious", "stand-aside")

WITHDRAWN = "withdrawn"
"""The type of the event that withdraws a version."""


class Decision(Struct, frozen=True):
    """The decision of a stance and who made it: `leg.decision` in the API."""

    label: str
    confidence: str
    """How complete the data behind it was: `low`, `medium` or `high`. It is not a probability that
    the decision will turn out right, and it is never scored. The ETF rule runs only on complete
    data, so for that stance `high` means that the five-day flow is at least twice the threshold."""

    rationale: str
    by: str


class LegEvidence(Struct, frozen=True, dict=True):
    """The data behind a decision."""

    source: str
    observed_at: str
    inputs: dict[str, Json]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical inputs alone."""
        return digest(canonical(self.inputs))


class Leg(Struct, frozen=True):
    """One period of one kind: its levels, the decision and the evidence."""

    period: dict[str, str]
    """`start` and `end`, as ISO timestamps."""

    levels: dict[str, Json]
    decision: Decision
    conditions: list[Json]
    """What would change the decision; made by `stances.rules.condition`."""

    method: str
    evidence: LegEvidence


class Proposal(Struct, frozen=True):
    """A stance to record."""

    kind: str
    leg_id: str
    issued_at: int
    expires_at: int
    leg: Leg


class Version(Struct, frozen=True):
    """A recorded stance, one link of its kind's hash chain."""

    kind: str
    sequence: int
    """Its place in the chain, from 1 without a gap."""

    leg_id: str
    revision: int
    issued_at: int
    expires_at: int
    leg: Leg
    previous_digest: str
    salt: str
    """32 random bytes as hex, so that the digest cannot be used to test guesses of the content."""

    history_digest: str


class VersionEvent(Struct, frozen=True):
    """What happened to a version after it was recorded; events have a hash chain of their own."""

    kind: str
    sequence: int
    type: str
    at: int
    version_sequence: int
    why: str
    by: str
    evidence_digest: str
    """SHA-256 of the withdrawn version's digest, the reason, the person and the salt."""

    previous_digest: str
    salt: str
    """32 random bytes as hex."""

    event_digest: str


class DigestRow(NamedTuple):
    """The public part of a version or an event."""

    sequence: int
    digest: str
    at: int
    """When the version was issued, or the event happened."""


NOT_RECORDED: dict[str, Any] = {
    "history_durable": False,
    "history_digest": None,
    "sequence": None,
    "previous_digest": None,
    "salt": None,
}
"""Replaces the record members of a stance while it is not known to be recorded."""


class CurrentStance(Struct, frozen=True):
    """The newest stance of a kind, recorded or not."""

    kind: str
    leg_id: str
    revision: int
    issued_at: int
    expires_at: int
    leg: str
    """The leg as canonical JSON, as it is hashed."""

    history_durable: bool
    history_digest: str | None
    """None while it is not known to be recorded."""

    sequence: int | None
    previous_digest: str | None
    salt: str | None
    withdrawn_at: int | None = None
    """When an operator withdrew it, which makes it terminal."""

    withdrawal_digest: str | None = None


class ChainEnd(Struct, frozen=True):
    """The last version and event of a kind that were read; a record without them was replaced."""

    sequence: int
    history_digest: str
    events: int = 0
    event_digest: str = ""


class NotIssuedYet(Struct, frozen=True):
    """Why a kind has no stance yet, although nothing has failed."""

    why: str
    until: int | None = None
    """When its evidence can be complete; None if no source is configured."""


class Stances(Struct, frozen=True):
    """The snapshot that the collector publishes: the newest stance of each kind."""

    as_of: int
    stances: tuple[CurrentStance, ...]
    silent: dict[str, str]
    """By kind, why no stance is issued now."""

    recorded: dict[str, ChainEnd] = {}
    """By kind, the end of the record when it was last read."""

    waiting: dict[str, NotIssuedYet] = {}
    """The kinds that are not issued yet, without those in `silent`."""

    def of(self, kind: str) -> CurrentStance | None:
        """The stance of a kind, if there is one."""
        return next((stance for stance in self.stances if stance.kind == kind), None)
