"""The body of a comparison, `feed-material-change-v1` (pure)."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from barograph import NOTICE
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.material_change.query import Pair, Reference
from barograph.stances.documents import Confidence

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
    "schema_changed": "the two schemas differ",
    "schema_unknown": "both versions have a schema that the service does not know",
    "method_changed": "the methods differ",
    "version_unreadable": "a part of a version, other than its evidence, cannot be read",
    "evidence_missing": "a version has no retained evidence",
    "evidence_unreadable": "a version's evidence cannot be read, or does not match its digest",
    "coverage_changed": "the figures cover different funds",
    "unit_changed": "a level is a plain number in one version only",
    "change_unclassified": "what differs is none of the three kinds of change",
}
"""Every reason to abstain, in the order of the body."""

Value = Annotated[float | None, Field(description="Null if the level is absent.")]
Met = Annotated[bool | None, Field(description="Null if unknown.")]
Paths = Annotated[
    list[Literal["levels.delta24h", "levels.score", "levels.score24hAgo"]],
    Field(description="Sorted. An empty list says something about these three paths only."),
]


class VersionReference(WireModel):
    """A recorded version."""

    leg_id: str
    revision: int
    history_digest: str
    issued_at: str


class NumericChangeBody(WireModel):
    """A level whose value differs."""

    path: str
    unit: Literal["USD", "percent", "BTC"]
    before: Value
    after: Value
    delta: Annotated[
        float | None, Field(description="`after` minus `before`; null if one of them is absent.")
    ]
    threshold: float
    material: Annotated[
        bool, Field(description="Whether the delta reaches the threshold or one value is absent.")
    ]


class ConditionBody(WireModel):
    """A condition of the later version, evaluated on the levels of both."""

    text: str
    met_before: Met
    met_after: Met


class DecisionBody(WireModel):
    """A decision as it was recorded."""

    label: str
    confidence: Confidence
    rationale: str
    by: str


class RecordedDecisionsBody(WireModel):
    """Both decisions, as context."""

    before: DecisionBody
    after: DecisionBody


class PresenceBody(WireModel):
    """Which of three paths only one of the two retained inputs has, without values.

    A zero is present. A path in `absent_in_after` is missing from the later input; that alone is
    no sign that a provider corrected data or that the market moved.
    """

    added: Paths
    absent_in_after: Paths


class AssessmentBody(WireModel):
    """What changed, or why the comparison abstains."""

    status: Status
    reasons: Annotated[
        list[Reason],
        Field(
            description="Empty if assessed. "
            + " ".join(f"`{code}`: {meaning}." for code, meaning in REASONS.items())
        ),
    ]
    change: Annotated[Change | None, Field(description="Null when abstained.")]
    same_source_evidence: Annotated[
        bool | None,
        Field(description="Whether both have the same evidence digest; null if abstained."),
    ]
    numeric_changes: Annotated[
        list[NumericChangeBody],
        Field(
            description="Always empty for funding and if abstained. If you show `levels.sofr` or "
            "`levels.effr`, show the New York Fed's notice from `leg.evidence.source`."
        ),
    ]
    conditions: Annotated[
        list[ConditionBody] | Literal["unevaluated"],
        Field(
            description="The conditions of the later version; `unevaluated` for funding, "
            "otherwise empty if abstained."
        ),
    ]
    recorded_decisions: Annotated[
        RecordedDecisionsBody | None, Field(description="Null when abstained.")
    ]
    evidence_field_presence: Annotated[
        PresenceBody | SkipJsonSchema[None],
        Field(
            description="Only for two versions of one funding leg with the same schema and method "
            "and readable inputs. If it is missing, that does not mean that nothing changed.",
            exclude_if=lambda presence: presence is None,
        ),
    ]
    ready_for_paid_delivery: Annotated[Literal[False], Field(description="Always false.")] = False


class Comparison(WireModel):
    """The comparison of the two newest recorded versions of a kind.

    It certifies neither a newly reviewed decision nor a predictive edge.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    # An alias, because every model has a method of that name.
    schema_name: Annotated[
        Literal["feed-material-change-v1"], Field(serialization_alias="schema", title="Schema")
    ] = "feed-material-change-v1"
    kind: str
    before: VersionReference
    after: VersionReference
    compared_at: str
    assessment: AssessmentBody
    notice: Notice


def comparison_body(
    pair: Pair, issued_at: tuple[int, int], assessment: AssessmentBody, *, compared_at: int
) -> bytes:
    """Render a comparison; `issued_at` are the times of issue of the two versions."""
    body = Comparison(
        kind=pair.kind,
        before=_reference(pair.before, issued_at[0]),
        after=_reference(pair.after, issued_at[1]),
        compared_at=iso_timestamp(compared_at),
        assessment=assessment,
        notice=NOTICE,
    )
    return body.encode()


def _reference(reference: Reference, issued_at: int) -> VersionReference:
    return VersionReference(**reference._asdict(), issued_at=iso_timestamp(issued_at))
