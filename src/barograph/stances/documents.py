"""The bodies of delivered and revealed stances, and why one is not delivered (pure)."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from barograph import NOTICE
from barograph.errors import PrivateError, PrivateUnavailable
from barograph.history.digest import event_document, version_document
from barograph.history.documents import Hash
from barograph.history.records import SCHEMA, WITHDRAWN, CurrentStance, Version, VersionEvent
from barograph.kit.lists import ListBody, Next
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel

STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}
"""Where each kind is read."""


class NoStance(PrivateError):
    """No stance of this kind was ever issued."""

    status = 404
    code = "no_stance"

    def __init__(self) -> None:
        super().__init__("no stance of this kind has been issued yet; /api/status says why")


class StanceNotActive(PrivateError):
    """The newest stance has expired or was withdrawn, so it is not sold."""

    status = 404
    code = "stance_not_active"

    def __init__(self) -> None:
        super().__init__("the newest stance has expired or was withdrawn; nothing was charged")


class StanceUnavailable(PrivateUnavailable):
    """Identity, entitlement or the stance itself cannot be looked up now."""

    code = "stance_unavailable"

    def __init__(self) -> None:
        super().__init__("the stance is unavailable; try again shortly")


State = Literal["active", "expired", "terminal"]


def state_of(stance: CurrentStance, now: int) -> State:
    """Whether a stance is active, has expired, or was withdrawn."""
    if stance.withdrawn_at is not None:
        return "terminal"
    return "expired" if now >= stance.expires_at else "active"


def stance_body(stance: CurrentStance, now: int) -> dict[str, Any]:
    """The body of a stance at `now`; with the salt a reader can recompute its digest."""
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


def revealed_body(
    version: Version, withdrawal: VersionEvent | None, revealed_at: int
) -> dict[str, Any]:
    """A version that has become public, with everything that its digests are made of."""
    withdrawn = None
    if withdrawal is not None:
        withdrawn = {**event_document(withdrawal), "event_digest": withdrawal.event_digest}
    return {
        **version_document(version),
        "history_digest": version.history_digest,
        "revealed_at": iso_timestamp(revealed_at),
        "withdrawal": withdrawn,
    }


def _in_order(leg: dict[str, Any]) -> dict[str, Any]:
    """The leg in documented order; canonical JSON sorts its members by name."""
    ordered = {name: leg[name] for name in _LEG}
    ordered["decision"] = {name: leg["decision"][name] for name in _DECISION}
    ordered["evidence"] = {name: leg["evidence"][name] for name in _EVIDENCE}
    return ordered


_LEG = ("period", "levels", "decision", "conditions", "method", "evidence")
_DECISION = ("label", "confidence", "rationale", "by")
_EVIDENCE = ("digest", "source", "observed_at", "inputs")


def _events(stance: CurrentStance, evidence_digest: str | None) -> list[dict[str, str | None]]:
    events = [("issued", stance.issued_at, evidence_digest)]
    if stance.withdrawn_at is not None:
        events.append((WITHDRAWN, stance.withdrawn_at, stance.withdrawal_digest))
    return [
        {"type": kind, "at": iso_timestamp(at), "evidence_digest": of_event}
        for kind, at, of_event in events
    ]


Moment = Annotated[str, Field(description="Timestamp.")]
Confidence = Annotated[
    str,
    Field(
        description="`low`, `medium` or `high`: how complete the data was. Not a probability, "
        "never scored. For `btc-etf-stance`, `high` means that five days of flow reach twice the "
        "threshold."
    ),
]


class StancePeriod(WireModel):
    """The period of a leg."""

    start: Moment
    end: Moment


class StanceDecision(WireModel):
    """The decision and who made it."""

    label: Literal["constructive", "neutral", "cautious", "stand-aside"]
    confidence: Confidence
    rationale: str
    by: Annotated[str, Field(description="`rule`, or the operator who decided otherwise.")]


class StanceCondition(WireModel):
    """What would change the stance."""

    text: str
    path: Annotated[str, Field(description="The level that is compared.")]
    compare: Literal[">=", "<="]
    value: float


class StanceEvidence(WireModel):
    """The data behind the decision."""

    digest: Annotated[
        Hash, Field(description="SHA-256 of the inputs alone; never a `history_digest`.")
    ]
    source: Annotated[
        str,
        Field(
            description="The publishers. With SOFR or EFFR, it includes the New York Fed's notice. "
            "Show it with those rates."
        ),
    ]
    observed_at: Moment
    inputs: Annotated[
        dict[str, Any],
        Field(
            description="The retained input; its form depends on kind and method. "
            "`funding-regime/2` has every rate behind the scores, with its time of settlement; "
            "`rates-desk/2` every yield behind the usual move. "
            "Examples cut lists short."
        ),
    ]


class StanceLeg(WireModel):
    """One period of one kind."""

    period: StancePeriod
    levels: Annotated[
        dict[str, float | str | bool],
        Field(
            description="By name. An unknown level is absent; zero is a value. "
            "Funding: fundingRatePct8h, score, score24hAgo, delta24h. ETF: netFlowUsd, flow5dUsd, "
            "flow5dPctAum, holdingsBtc, streakDays, regime, knownDays (days with figures, at most "
            "60). Rates: us3m, us2y, us10y, slope10y3m, "
            "us10yChange20d, slopeChange20d, us10yMoves20d and slopeMoves20d (the same changes "
            "divided by the usual move), sofr, effr, effrPlaceInRange, inverted."
        ),
    ]
    decision: StanceDecision
    conditions: list[StanceCondition]
    method: Annotated[str, Field(description="Name and version of the rules.")]
    evidence: StanceEvidence


class StanceEvent(WireModel):
    """An event of the version."""

    type: Literal["issued", "withdrawn"]
    at: Moment
    evidence_digest: Annotated[
        Hash, Field(description="SHA-256 of the event's own evidence; never a `history_digest`.")
    ]


class StanceVersion(WireModel):
    """The newest stance of a kind."""

    # An alias, because every model has a method of that name.
    schema_name: Annotated[Literal["stance-v1"], Field(alias="schema", title="Schema")]
    kind: Literal["btc-etf-stance", "rates-desk", "funding-regime-stance"]
    leg_id: Annotated[
        str, Field(description="Opaque. Keep it exactly as it is.", min_length=1, max_length=200)
    ]
    revision: Annotated[int, Field(ge=1, le=2_147_483_647)]
    issued_at: Moment
    expires_at: Moment
    state: State
    history_durable: Annotated[
        bool, Field(description="Whether it is recorded. Only then can it be referenced.")
    ]
    history_digest: Annotated[
        Hash | None,
        Field(description="Reference for comparisons; null if the stance is not durable."),
    ]
    leg: StanceLeg
    events: list[StanceEvent]
    salt: Annotated[
        str | None,
        Field(
            description="32 bytes in hex, needed to recompute the digest; null if the stance is "
            "not durable."
        ),
    ]
    notice: Notice


_Salt = Annotated[str, Field(description="32 random bytes in hex.")]
_Previous = Annotated[Hash, Field(description="The digest before it; 64 zeros for the first.")]


class RevealTerms(WireModel):
    """The terms of versions issued from a time on."""

    at: Moment
    after_days: Annotated[int, Field(description="Days until they become public; 0: never.")]


class RevealedWithdrawal(WireModel):
    """The event that withdrew a version, as it was hashed."""

    schema_name: Annotated[Literal["stance-event-v1"], Field(alias="schema", title="Schema")]
    kind: str
    sequence: Annotated[int, Field(description="Position in the list of events.")]
    type: Literal["withdrawn"]
    at: Moment
    version_sequence: int
    why: str
    by: str
    evidence_digest: Hash
    previous_digest: _Previous
    salt: _Salt
    event_digest: Annotated[
        Hash, Field(description="SHA-256 of the canonical JSON of the members before it.")
    ]


class RevealedStance(WireModel):
    """A recorded version that has become public."""

    schema_name: Annotated[Literal["stance-v1"], Field(alias="schema", title="Schema")]
    kind: str
    sequence: Annotated[int, Field(description="Position in the list of versions.")]
    leg_id: str
    revision: int
    issued_at: Moment
    expires_at: Moment
    leg: StanceLeg
    previous_digest: _Previous
    salt: _Salt
    history_digest: Annotated[
        Hash, Field(description="SHA-256 of the canonical JSON of the members before it.")
    ]
    revealed_at: Annotated[str, Field(description="When it became public.")]
    withdrawal: Annotated[
        RevealedWithdrawal | None, Field(description="Null if it was not withdrawn.")
    ]


class RevealedStances(ListBody):
    """The public versions of one kind, oldest first, and the terms on which they are revealed."""

    venue: Annotated[str | None, Field(description="Always null.")]  # type: ignore[assignment]
    kind: str
    after_days: Annotated[
        int, Field(description="Days until a version issued now becomes public; 0: never.")
    ]
    announced: Annotated[
        list[RevealTerms],
        Field(description="Oldest first. A version keeps the terms announced when it was issued."),
    ]
    private: Annotated[
        int,
        Field(
            description="Number of versions that never become public: nothing was announced when "
            "they were issued."
        ),
    ]
    stances: list[RevealedStance]
    next: Next
