"""What cannot honestly be compared is not, whatever the record holds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.records import KINDS, Proposal
from barograph.kit.json import Json, canonical, digest
from barograph.material_change.compare import RetainedEvidence, compare, read_retained
from barograph.material_change.documents import REASONS, comparison_body
from barograph.material_change.query import Pair, Reference
from barograph.stances import funding
from support.comparisons import (
    EACH_KIND,
    FLOWS,
    FUNDING,
    YIELDS,
    assess,
    at_work,
    body,
    decided,
    edited,
    of_flows,
    text,
    with_inputs,
    with_leg,
    with_levels,
)

ODD: list[tuple[tuple[str, ...], Json, str]] = [
    (("schema",), "stance-v2", "schema_changed"),
    (("schema",), None, "schema_changed"),
    (("leg", "method"), "other/2", "method_changed"),
    (("leg", "method"), None, "version_unreadable"),
    (("leg", "levels"), None, "version_unreadable"),
    (("leg", "levels"), [], "version_unreadable"),
    (("leg", "decision"), None, "version_unreadable"),
    (("leg", "decision"), "cautious", "version_unreadable"),
    (("leg", "decision", "label"), 1, "version_unreadable"),
    (("leg", "conditions"), None, "version_unreadable"),
    (("leg", "conditions"), [1], "version_unreadable"),
    (("leg", "conditions"), [{"text": None}], "version_unreadable"),
    (("leg_id",), 7, "version_unreadable"),
    (("leg", "evidence"), None, "evidence_missing"),
    (("leg", "evidence", "inputs"), None, "evidence_missing"),
    (("leg", "evidence", "digest"), None, "evidence_missing"),
    (("leg", "evidence"), "see above", "evidence_unreadable"),
    (("leg", "evidence", "inputs"), [], "evidence_unreadable"),
    (("leg", "evidence", "inputs"), {}, "evidence_unreadable"),
    (("leg", "evidence", "digest"), "0" * 64, "evidence_unreadable"),
    (("leg", "evidence", "digest"), 0, "evidence_unreadable"),
]


@pytest.mark.contract(
    "comparison.may-abstain",
    "comparison.assessment.status",
    "comparison.abstained-has-no-decisions",
    "comparison.assessment.ready-for-paid-delivery",
)
@pytest.mark.parametrize(("path", "value", "reason"), ODD)
@EACH_KIND
def test_odd_versions_are_abstained_from(
    proposed: Proposal, path: tuple[str, ...], value: Json, reason: str
) -> None:
    told = at_work(proposed, *path, to=value)

    assert (told.status, told.reasons) == ("abstained", [reason])
    assert (told.change, told.same_source_evidence) == (None, None)
    assert (told.recorded_decisions, told.numeric_changes) == (None, [])
    assert told.conditions == ("unevaluated" if proposed.kind == funding.KIND else [])


@pytest.mark.contract("comparison.abstained-has-no-decisions")
def test_an_abstained_body_has_no_decisions_and_no_presence_where_that_is_not_to_be_told() -> None:
    found = body(YIELDS, with_leg(YIELDS, method="rates-desk/1"))["assessment"]

    assert found == {
        "status": "abstained",
        "reasons": ["method_changed"],
        "change": None,
        "same_source_evidence": None,
        "numeric_changes": [],
        "conditions": [],
        "recorded_decisions": None,
        "ready_for_paid_delivery": False,
    }


def test_two_versions_of_a_schema_that_is_not_known_are_not_compared() -> None:
    before = edited(FUNDING, "schema", to="stance-v2")
    found = compare(before, edited(decided(FUNDING), "schema", to="stance-v2"))

    assert found.reasons == ["schema_unknown"]
    assert found.evidence_field_presence is None
    assert found.conditions == "unevaluated"


def test_figures_of_other_funds_or_of_another_method_are_not_compared() -> None:
    for coverage in ("operator's data", "IBIT and FBTC only"):
        other = of_flows(0.1, 0.3, coverage=coverage)
        assert assess(FLOWS, other).reasons == ["coverage_changed"]
        remade = with_levels(with_leg(other, method="btc-etf/2"), netFlowUsd="1 EUR")
        assert assess(FLOWS, remade).reasons == ["method_changed"]


def test_several_reasons_are_told_once_each_and_in_order() -> None:
    before = edited(FUNDING, "leg", "evidence", to=None)
    after = edited(with_leg(FUNDING, method="x"), "leg", "evidence", to=None)
    both = compare(replace(before, levels=None), after)

    assert both.reasons == ["method_changed", "version_unreadable", "evidence_missing"]
    assert [each for each in REASONS if each in both.reasons] == both.reasons


@pytest.mark.parametrize("value", ["4.3 %", {"value": 430, "unit": "bp"}, [4.3], True])
def test_a_level_that_is_no_plain_number_any_more_has_another_unit(value: Json) -> None:
    other = with_levels(YIELDS, us10y=value)

    assert assess(YIELDS, other).reasons == ["unit_changed"]
    assert assess(other, YIELDS).reasons == ["unit_changed"]
    assert assess(other, with_levels(other, sofr=9)).reasons == ["version_unreadable"]
    absent = with_levels(YIELDS, us10y=None)
    assert assess(absent, other).reasons == ["version_unreadable"]


@pytest.mark.parametrize(
    "document",
    [
        *("", "null", "[]", "{}", "7", "{", "NaN", '{"schema":"stance-v1"}'),
        *('{"schema":"stance-v1","leg":[]}', '{"schema":"stance-v1","leg":{"levels":NaN}}'),
        *('{"schema":"stance-v1","leg":' + "9" * 5_000 + "}", "[" * 100_000),
    ],
)
def test_a_text_that_is_no_version_is_abstained_from(document: str) -> None:
    known, other = read_retained(text(FUNDING)), read_retained(document)

    for pair in ((other, known), (known, other)):
        told = compare(*pair)
        assert (told.status, told.conditions) == ("abstained", "unevaluated")
    assert compare(other, other).status == "abstained"


_JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=6,
)
_PLACES = st.sampled_from([path for path, _, _ in ODD] + [("leg",), ("kind",)])


@given(before=_JSON, after=_JSON, places=st.tuples(_PLACES, _PLACES), kind=st.sampled_from(KINDS))
def test_whatever_was_recorded_comparing_and_rendering_do_not_fail(
    before: Json, after: Json, places: tuple[tuple[str, ...], tuple[str, ...]], kind: str
) -> None:
    proposed = {FUNDING.kind: FUNDING, FLOWS.kind: FLOWS, YIELDS.kind: YIELDS}[kind]
    found = compare(edited(proposed, *places[0], to=before), edited(proposed, *places[1], to=after))
    reference = Reference("leg", 1, "a" * 64)
    sent = comparison_body(Pair(kind, reference, reference), (0, 0), found, compared_at=0)

    assert json.loads(sent)["assessment"]["status"] == found.status
    assert (found.recorded_decisions is None) == (found.status == "abstained")


def test_whole_numbers_beyond_the_exact_ones_are_the_doubles_that_they_were() -> None:
    large = with_inputs(FUNDING, score=1e20, score24hAgo=-(2.0**60))
    retained = read_retained(text(large))

    assert isinstance(retained.evidence, RetainedEvidence)
    assert retained.evidence.digest == digest(canonical(retained.evidence.inputs))
    assert compare(retained, read_retained(text(decided(large)))).same_source_evidence is True
