"""What is told of two recorded versions: the body, the kind of change, numbers, conditions."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from barograph import NOTICE
from barograph.history.records import Proposal
from barograph.kit.json import Json
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.macro.records import SOFR, US2Y, US10Y
from barograph.material_change.compare import NUMERIC, compare, read_retained
from barograph.material_change.documents import Comparison, NumericChangeBody, PresenceBody
from barograph.stances import etf, rates
from support.clock import START
from support.comparisons import (
    EACH_KIND,
    FLOWS,
    FUNDING,
    RATES,
    SETTLED_AT,
    YIELDS,
    assess,
    body,
    decided,
    decision_of,
    edited,
    of_flows,
    of_funding,
    of_rates,
    text,
    with_leg,
    with_levels,
)
from support.figures import ASSETS
from support.stances import proposal


@pytest.mark.contract(
    "comparison.schema",
    "versioning.comparison-schema",
    "comparison.assessment.members",
    "comparison.funding.decision-revision-only",
    "material-change.ready-for-paid-delivery-false",
    "comparison.assessment.other-members",
)
def test_a_decision_revised_on_the_same_evidence_is_told_as_that_and_nothing_else() -> None:
    def reference(revision: int, digest: str, issued_at: str) -> dict[str, object]:
        leg_id = "funding-regime-stance:2026-11-06T16:00:00.000Z"
        named = {"leg_id": leg_id, "revision": revision, "history_digest": digest}
        return {**named, "issued_at": issued_at}

    rationale = {"rationale": "an auction is due", "by": "desk"}
    decisions = {
        "before": decision_of(FUNDING.leg),
        "after": {"label": "cautious", "confidence": "high", **rationale},
    }
    # Also in this order.
    assert json.dumps(body(FUNDING, decided(FUNDING))) == json.dumps(
        {
            "schema": "feed-material-change-v1",
            "kind": "funding-regime-stance",
            "before": reference(1, "b" * 64, "2026-11-06T17:00:00.000Z"),
            "after": reference(2, "a" * 64, "2026-11-06T17:01:00.000Z"),
            "compared_at": "2026-11-07T21:20:00.000Z",
            "assessment": {
                "status": "assessed",
                "reasons": [],
                "change": "decision_revision_only",
                "same_source_evidence": True,
                "numeric_changes": [],
                "conditions": "unevaluated",
                "recorded_decisions": decisions,
                "evidence_field_presence": {"added": [], "absent_in_after": []},
                "ready_for_paid_delivery": False,
            },
            "notice": NOTICE,
        }
    )


def numeric(name: str, unit: str, *figures: float | None, material: bool) -> NumericChangeBody:
    named = dict(zip(("before", "after", "delta", "threshold"), figures, strict=True))
    return NumericChangeBody(path=f"levels.{name}", unit=unit, material=material, **named)


def met(text: str, before: bool, after: bool) -> dict[str, Any]:
    return {"text": text, "met_before": before, "met_after": after}


def test_a_yield_that_was_corrected_is_told_with_what_rests_on_it() -> None:
    corrected = of_rates({**RATES, US10Y: 4.35, SOFR: 3.91})
    changes = [
        numeric("us10y", "percent", 4.3, 4.35, 0.05, 0.05, material=True),
        numeric("slope10y3m", "percent", 0.2, 0.25, 0.05, 0.05, material=True),
        numeric("sofr", "percent", 3.9, 3.91, 0.01, 0.02, material=False),
    ]

    assert body(YIELDS, corrected)["assessment"] == {
        "status": "assessed",
        "reasons": [],
        "change": "evidence_changed",
        "same_source_evidence": False,
        "numeric_changes": [change.model_dump() for change in changes],
        "conditions": [
            met("the curve from 3 months to 10 years is inverted", before=False, after=False),
            met(
                "the 10-year yield rose by its usual 20-day move or more", before=False, after=True
            ),
            met(
                "the 10-year yield fell by its usual 20-day move or more", before=False, after=False
            ),
        ],
        "recorded_decisions": {
            "before": decision_of(YIELDS.leg),
            "after": decision_of(corrected.leg),
        },
        "ready_for_paid_delivery": False,
    }


def test_the_next_day_of_flows_is_told_as_a_new_period() -> None:
    # Earlier versions don't say how many days were known.
    before = with_levels(of_flows(0.1, day="2026-11-04"), knownDays=None)
    told = body(before, of_flows(0.1, 0.6))["assessment"]

    assert (told["status"], told["change"]) == ("assessed", "new_period")
    assert told["same_source_evidence"] is False
    one = ASSETS / 1000
    changes = [
        numeric("netFlowUsd", "USD", one, 6 * one, 5 * one, 100_000_000, material=False),
        numeric("flow5dUsd", "USD", one, 7 * one, 6 * one, 250_000_000, material=False),
        numeric("flow5dPctAum", "percent", 0.1, 0.7, 0.6, 0.25, material=True),
    ]
    assert told["numeric_changes"] == [change.model_dump() for change in changes]
    assert told["conditions"][0] == met(
        "five days of flow reach +0.5 % of assets", before=False, after=True
    )


@pytest.mark.contract("material-change.certifies-nothing")
def test_the_description_of_the_body_says_that_nothing_is_certified() -> None:
    description = Comparison.model_json_schema()["description"]

    assert "certifies neither a newly reviewed decision nor a predictive edge" in description


def test_the_schema_says_that_presence_may_be_missing_and_is_never_null() -> None:
    schema = Comparison.model_json_schema(mode="serialization")["$defs"]["AssessmentBody"]

    assert "evidence_field_presence" in schema["properties"]
    assert "null" not in json.dumps(schema["properties"]["evidence_field_presence"])
    assert set(schema["properties"]) - set(schema["required"]) == {"evidence_field_presence"}


# What kind of change it is.


@pytest.mark.parametrize("label", ["cautious", None], ids=["another label", "the same label"])
@EACH_KIND
def test_same_evidence_is_a_decision_revision(proposed: Proposal, label: str | None) -> None:
    revised = decided(proposed, label=label or proposed.leg.decision.label)
    told = assess(proposed, revised)

    assert (told.status, told.change) == ("assessed", "decision_revision_only")
    assert (told.same_source_evidence, told.numeric_changes) == (True, [])
    assert told.recorded_decisions is not None
    assert told.recorded_decisions.before.model_dump() == to_builtins(proposed.leg.decision)
    assert told.recorded_decisions.after.by == "desk"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (FUNDING, of_funding(0.03), "evidence_changed"),
        (YIELDS, of_rates({**RATES, US2Y: 3.9}), "evidence_changed"),
        (FLOWS, of_flows(0.1, 0.3), "evidence_changed"),
        (decided(FUNDING), of_funding(0.03), "evidence_changed"),
        (of_funding(0.02, until=SETTLED_AT - 8 * HOUR), FUNDING, "new_period"),
        (of_rates(day="2026-11-04", now=START - DAY), YIELDS, "new_period"),
        (of_flows(0.1, day="2026-11-04"), FLOWS, "new_period"),
    ],
)
def test_other_evidence_may_be_a_new_period(before: Proposal, after: Proposal, change: str) -> None:
    told = assess(before, after)

    assert (told.change, told.same_source_evidence) == (change, False)


@EACH_KIND
def test_when_nothing_that_has_a_name_differs_no_change_is_claimed(proposed: Proposal) -> None:
    reread = replace(proposed.leg.evidence, observed_at=iso_timestamp(START + DAY))
    levels = {**proposed.leg.levels, "us10y": 9.9}

    for after in (with_leg(proposed, evidence=reread), with_leg(decided(proposed), levels=levels)):
        told = assess(proposed, after)
        assert (told.reasons, told.change) == (["change_unclassified"], None)


# Numbers.


def change(before: Json, after: Json, name: str = "us10y") -> NumericChangeBody | None:
    """The change of one level, when it was this and became that."""
    kind = next(kind for kind, known in NUMERIC.items() if name in {level.name for level in known})
    proposed = {rates.KIND: YIELDS, etf.KIND: FLOWS}[kind]
    told = assess(
        with_levels(proposed, **{name: before}), with_levels(proposed, **{name: after, "other": 1})
    )
    assert told.status == "assessed", told.reasons
    assert {changed.path for changed in told.numeric_changes} <= {f"levels.{name}"}
    return told.numeric_changes[0] if told.numeric_changes else None


@pytest.mark.parametrize(
    ("name", "unit", "threshold"),
    [
        ("netFlowUsd", "USD", 100_000_000),
        ("flow5dUsd", "USD", 250_000_000),
        ("flow5dPctAum", "percent", 0.25),
        ("holdingsBtc", "BTC", 2_000),
        ("us3m", "percent", 0.05),
        ("us2y", "percent", 0.05),
        ("us10y", "percent", 0.05),
        ("slope10y3m", "percent", 0.05),
        ("sofr", "percent", 0.02),
        ("effr", "percent", 0.02),
    ],
)
def test_each_level_is_material_from_its_threshold(name: str, unit: str, threshold: float) -> None:
    for before, after in ((0, threshold), (threshold, 0)):
        figures = (before, after, after - before, threshold)
        assert change(before, after, name) == numeric(name, unit, *figures, material=True)
    below = change(0, threshold * 0.999, name)
    assert below is not None
    assert below.material is False


def test_every_level_of_the_table_is_one_that_the_rules_give() -> None:
    for proposed in (FLOWS, YIELDS):
        assert {each.name for each in NUMERIC[proposed.kind]} <= set(proposed.leg.levels)
    # Units belong to a method: whoever writes another one looks at the table.
    assert (etf.METHOD, rates.METHOD) == ("btc-etf/1", "rates-desk/2")


@pytest.mark.parametrize(
    ("before", "after", "delta", "material"),
    [
        (4.3, 4.35, 0.05, True),
        (4.35, 4.3, -0.05, True),
        (4.05, 4.1, 0.05, True),
        (0.1, 0.15, 0.05, True),
        (4.3, 4.3499, 0.0499, False),
        (-0.02, 0.03, 0.05, True),
        (0.3, 0.1, -0.2, True),
        (4, 4.01, 0.01, False),
        (5e-324, 0, -5e-324, False),
    ],
)
def test_a_delta_is_exact(before: float, after: float, delta: float, material: bool) -> None:
    found = change(before, after)

    assert found is not None
    assert (found.delta, found.material) == (delta, material)


@pytest.mark.parametrize(("before", "after"), [(4.3, 4.3), (0, 0.0), (0.0, -0.0), (4, 4.0)])
def test_a_value_that_is_the_same_is_not_listed(before: float, after: float) -> None:
    assert change(before, after) is None


@pytest.mark.parametrize("value", [0, 3.9, -1])
def test_a_level_on_one_side_only_is_material_and_has_no_delta(value: float) -> None:
    came, went = change(None, value, "sofr"), change(value, None, "sofr")

    assert came == numeric("sofr", "percent", None, value, None, 0.02, material=True)
    assert went == numeric("sofr", "percent", value, None, None, 0.02, material=True)


def test_null_is_an_absent_level() -> None:
    before = edited(YIELDS, "leg", "levels", "sofr", to=None)
    found = compare(before, read_retained(text(of_rates({**RATES, SOFR: 3.95}))))

    assert [(each.path, each.before) for each in found.numeric_changes] == [("levels.sofr", None)]


@given(before=st.integers(-10_000, 10_000), after=st.integers(-10_000, 10_000))
def test_published_figures_differ_by_what_anyone_works_out_by_hand(before: int, after: int) -> None:
    found = change(before / 100, after / 100)

    assert (found is None) == (before == after)
    if found is not None:
        assert found.delta == (after - before) / 100
        assert found.material == (abs(after - before) >= 5)


@pytest.mark.contract("comparison.funding.no-numeric-changes")
@pytest.mark.parametrize(
    "after",
    [
        of_funding(0.05),
        of_funding(-0.05, until=SETTLED_AT + 8 * HOUR),
        decided(FUNDING),
        with_levels(FUNDING, us10y=9.9),
        with_leg(FUNDING, method="funding-regime/1 bybit"),
    ],
)
def test_of_funding_no_numbers_are_told_and_no_conditions_evaluated(after: Proposal) -> None:
    found = assess(FUNDING, after)

    assert found.numeric_changes == []
    assert found.conditions == "unevaluated"


# Conditions.


def conditions(before: Proposal, after: Proposal) -> list[tuple[str, bool | None, bool | None]]:
    told = assess(before, after).conditions
    assert not isinstance(told, str)
    return [(condition.text, condition.met_before, condition.met_after) for condition in told]


def test_the_later_versions_conditions_are_evaluated_on_both() -> None:
    before = with_leg(YIELDS, conditions=["something else"])
    after = with_levels(of_rates(), slope10y3m=-0.06)

    met_in_each = [(was, is_now) for _, was, is_now in conditions(before, after)]
    assert met_in_each == [(False, True), (False, False), (False, False)]


def test_a_condition_that_cannot_be_evaluated_is_left_open() -> None:
    words = ["in words only", {"text": "by no level"}]
    after = with_leg(with_levels(YIELDS, sofr=4.0), conditions=words)
    gone = with_levels(YIELDS, slope10y3m=None)

    assert conditions(YIELDS, after) == [("in words only", None, None), ("by no level", None, None)]
    assert conditions(gone, YIELDS)[0][1:] == (None, False)


def test_stances_of_any_content_are_compared_as_far_as_they_go() -> None:
    found = assess(proposal(), proposal(label="cautious", by="desk"))

    assert found.change == "decision_revision_only"
    assert found.evidence_field_presence == PresenceBody(added=[], absent_in_after=[])
