"""The body of a delivered stance, `stance-v1`, in its decided order."""

from typing import Annotated, Any, Literal

from pydantic import Field

from barograph.kit.wire import WireModel
from barograph.stances.delivery import State

Digest = Annotated[str, Field(description="SHA-256 in lower-case hex.", pattern="^[0-9a-f]{64}$")]
Moment = Annotated[str, Field(description="Timestamp.")]
Confidence = Annotated[
    str,
    Field(
        description="`low`, `medium` or `high`: how complete the data behind the decision was. It "
        "is not a probability. `btc-etf-stance` needs complete data; there `high` means that five "
        "days of flow reach twice the threshold."
    ),
]


class StancePeriod(WireModel):
    """What a leg covers."""

    start: Moment
    end: Moment


class StanceDecision(WireModel):
    """What was concluded, and by whom."""

    label: Literal["constructive", "neutral", "cautious", "stand-aside"]
    confidence: Confidence
    rationale: str
    by: Annotated[str, Field(description="`rule`, or who decided otherwise.")]


class StanceCondition(WireModel):
    """What would change the stance."""

    text: str
    path: Annotated[str, Field(description="The level that it is about.")]
    compare: Literal[">=", "<="]
    value: float


class StanceEvidence(WireModel):
    """What the decision was made from."""

    digest: Annotated[
        Digest,
        Field(description="SHA-256 of the inputs alone; never a `history_digest`."),
    ]
    source: str
    observed_at: Moment
    inputs: Annotated[
        dict[str, Any], Field(description="The retained input, as its kind and method have it.")
    ]


class StanceLeg(WireModel):
    """One period of one kind."""

    period: StancePeriod
    levels: Annotated[
        dict[str, float | str | bool],
        Field(
            description="By name. One that cannot be known is absent, and zero is a value. "
            "Funding: fundingRatePct8h, score, score24hAgo, delta24h. ETF: netFlowUsd, flow5dUsd, "
            "flow5dPctAum, holdingsBtc, streakDays, regime. Rates: us3m, us2y, us10y, slope10y3m, "
            "us10yChange20d, slopeChange20d, sofr, effr, effrPlaceInRange, inverted."
        ),
    ]
    decision: StanceDecision
    conditions: list[StanceCondition]
    method: Annotated[str, Field(description="The rules that judged, with their version.")]
    evidence: StanceEvidence


class StanceEvent(WireModel):
    """What happened to the version."""

    type: Literal["issued", "withdrawn"]
    at: Moment
    evidence_digest: Annotated[
        Digest, Field(description="Of the event's own evidence; never a `history_digest`.")
    ]


class StanceVersion(WireModel):
    """The newest stance of a kind."""

    # By an alias, because every model has a method of that name.
    schema_name: Annotated[Literal["stance-v1"], Field(alias="schema", title="Schema")]
    kind: Literal["btc-etf-stance", "rates-desk", "funding-regime-stance"]
    leg_id: Annotated[
        str, Field(description="Opaque; to be kept exactly as it is.", min_length=1, max_length=200)
    ]
    revision: Annotated[int, Field(ge=1, le=2_147_483_647)]
    issued_at: Moment
    expires_at: Moment
    state: State
    history_durable: Annotated[
        bool, Field(description="Whether it is on record; only then can it be referred to.")
    ]
    history_digest: Annotated[
        Digest | None, Field(description="What refers to it; null when it is not durable.")
    ]
    leg: StanceLeg
    events: list[StanceEvent]
    salt: Annotated[
        str | None,
        Field(
            description="32 bytes in hex, with which the digest can be recomputed; null when it "
            "is not durable."
        ),
    ]
    notice: Annotated[str, Field(description="Information-only notice.")]
