"""What a stance is, as frozen records: proposed, recorded, withdrawn."""

from typing import Any, NamedTuple

from msgspec import Struct

from barograph.kit.json import Json, canonical, digest

SCHEMA = "stance-v1"
EVENT_SCHEMA = "stance-event-v1"

KINDS = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
LABELS = ("constructive", "neutral", "cautious", "stand-aside")

WITHDRAWN = "withdrawn"
"""The type of the event that ends a version."""


class Decision(Struct, frozen=True):
    """The decision of a stance and who made it: `leg.decision` in the API."""

    label: str
    confidence: str
    """How complete the data behind it was: `low`, `medium` or `high`. It is not a probability that
    the decision will turn out right. The ETF rule runs only on complete data, so for that stance
    `high` means that the five-day flow is at least twice the threshold."""

    rationale: str
    by: str


class LegEvidence(Struct, frozen=True):
    """What a decision was made from."""

    source: str
    observed_at: str
    inputs: dict[str, Json]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical inputs alone: the same numbers, the same digest."""
        return digest(canonical(self.inputs))


class Leg(Struct, frozen=True):
    """One period of one kind: its levels, the decision and the evidence."""

    period: dict[str, str]
    """`start` and `end`, as ISO timestamps."""

    levels: dict[str, Json]
    decision: Decision
    conditions: list[Json]
    """What would change it; see `conditions.py`."""

    method: str
    evidence: LegEvidence


class Proposal(Struct, frozen=True):
    """What is to be recorded."""

    kind: str
    leg_id: str
    issued_at: int
    expires_at: int
    leg: Leg


class Version(Struct, frozen=True):
    """A recorded stance: a link of its kind's chain."""

    kind: str
    sequence: int
    """Its place in the chain, from 1 without a gap; the newest has the highest."""

    leg_id: str
    revision: int
    issued_at: int
    expires_at: int
    leg: Leg
    previous_digest: str
    salt: str
    """32 random bytes as hex: nobody can test guesses of the content by the digest."""

    history_digest: str


class Event(Struct, frozen=True):
    """What happened to a recorded version afterwards: a link of its kind's chain of events."""

    kind: str
    sequence: int
    type: str
    at: int
    version_sequence: int
    why: str
    by: str
    evidence_digest: str
    """SHA-256 of what was withdrawn, why and by whom, and of the salt."""

    previous_digest: str
    salt: str
    """32 random bytes as hex: nobody can test guesses of the reason or the person."""

    event_digest: str


class DigestRow(NamedTuple):
    """A version without its content: what anyone may see."""

    sequence: int
    history_digest: str
    issued_at: int


class EventDigestRow(NamedTuple):
    """An event without its content."""

    sequence: int
    event_digest: str
    at: int


NOT_RECORDED: dict[str, Any] = {
    "history_durable": False,
    "history_digest": None,
    "sequence": None,
    "previous_digest": None,
    "salt": None,
}
"""What replaces a stance's place in the record while nobody can say that it has one."""


class StanceNow(Struct, frozen=True):
    """The newest stance of a kind, recorded or not."""

    kind: str
    leg_id: str
    revision: int
    issued_at: int
    expires_at: int
    leg: str
    """The leg as canonical JSON: as it was hashed, or would be."""

    history_durable: bool
    history_digest: str | None
    """None when it could not be recorded."""

    sequence: int | None
    previous_digest: str | None
    salt: str | None
    withdrawn_at: int | None = None
    """When an operator withdrew it; a withdrawn stance is terminal."""

    withdrawal_digest: str | None = None


class Mark(Struct, frozen=True):
    """Where a kind's chains ended when somebody looked: a record that lacks it is another one."""

    sequence: int
    history_digest: str
    events: int = 0
    event_digest: str = ""


class Waiting(Struct, frozen=True):
    """Why a kind has no stance yet, although nothing has failed."""

    why: str
    until: int | None = None
    """When its evidence can be complete; None where no source of it is configured."""


class Stances(Struct, frozen=True):
    """What stands, and why a kind has nothing new."""

    as_of: int
    stances: tuple[StanceNow, ...]
    silent: dict[str, str]
    """By kind, why no stance is issued now; empty when all are."""

    recorded: dict[str, Mark] = {}
    """By kind, the end of the record as it was read last."""

    waiting: dict[str, Waiting] = {}
    """The kinds that are not issued yet, apart from those in `silent`."""

    def of(self, kind: str) -> StanceNow | None:
        """The stance of a kind, if one stands."""
        return next((each for each in self.stances if each.kind == kind), None)
