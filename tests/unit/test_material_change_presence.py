"""Which of three fields the retained inputs of one funding leg have: never their values."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.records import Proposal
from barograph.kit.json import Json
from barograph.kit.timestamps import HOUR
from barograph.material_change.documents import PresenceBody
from support.comparisons import (
    FLOWS,
    FUNDING,
    SETTLED_AT,
    YIELDS,
    assess,
    at_work,
    body,
    decided,
    of_funding,
    with_inputs,
    with_leg,
)

NAMES = ("score", "score24hAgo", "delta24h")
PATHS = {"levels.score", "levels.score24hAgo", "levels.delta24h"}


def presence(before: Mapping[str, Json], after: Mapping[str, Json]) -> PresenceBody:
    found = assess(with_inputs(FUNDING, **before), with_inputs(decided(FUNDING), **after))
    assert found.evidence_field_presence is not None
    return found.evidence_field_presence


@pytest.mark.contract("comparison.presence.sorted-arrays", "comparison.presence.absence-meaning")
def test_fields_that_come_and_go_are_named_in_order() -> None:
    whole: dict[str, Json] = {"score": 1, "score24hAgo": 2, "delta24h": -1}
    ordered = ("levels.delta24h", "levels.score", "levels.score24hAgo")

    assert presence({}, whole) == PresenceBody(added=ordered, absent_in_after=())
    assert presence(whole, {}) == PresenceBody(added=(), absent_in_after=ordered)
    assert presence({"score": 1}, {"delta24h": 1}) == PresenceBody(
        added=("levels.delta24h",), absent_in_after=("levels.score",)
    )


def test_a_history_that_is_long_enough_now_gives_fields_that_were_not_there() -> None:
    found = assess(of_funding(0.02, count=88), FUNDING)

    assert found.evidence_field_presence == PresenceBody(
        added=("levels.delta24h", "levels.score24hAgo"), absent_in_after=()
    )


@pytest.mark.contract("comparison.presence.zero-is-present")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_zero_is_present_and_null_is_absent(name: str, zero: float) -> None:
    path = f"levels.{name}"

    assert presence({name: zero}, {}) == PresenceBody(added=(), absent_in_after=(path,))
    assert presence({name: zero}, {name: None}) == PresenceBody(added=(), absent_in_after=(path,))
    assert presence({name: None}, {name: zero}) == PresenceBody(added=(path,), absent_in_after=())
    assert presence({name: None}, {}) == PresenceBody(added=(), absent_in_after=())
    assert presence({name: zero}, {name: 5}) == PresenceBody(added=(), absent_in_after=())


@pytest.mark.contract(
    "comparison.presence.value-change-is-none", "comparison.presence.empty-is-not-a-verdict"
)
def test_another_value_is_no_change_of_presence_and_no_verdict_either() -> None:
    found = assess(FUNDING, of_funding(0.05))

    assert found.evidence_field_presence == PresenceBody(added=(), absent_in_after=())
    assert found.change == "evidence_changed"
    assert found.same_source_evidence is False


_LEVELS = st.dictionaries(
    st.sampled_from([*NAMES, "fundingRatePct8h", "levels.score", "other"]),
    st.none() | st.sampled_from([0, 0.0, 1, -3.5, 99.44]),
)


@pytest.mark.contract("comparison.presence.three-paths")
@given(before=_LEVELS, after=_LEVELS)
def test_only_three_paths_are_named(before: dict[str, Json], after: dict[str, Json]) -> None:
    there, back = presence(before, after), presence(after, before)

    assert (there.added, there.absent_in_after) == (back.absent_in_after, back.added)
    for named in (there.added, there.absent_in_after):
        assert set(named) <= PATHS
        assert list(named) == sorted(set(named))
    assert not set(there.added) & set(there.absent_in_after)
    assert presence(before, before) == PresenceBody(added=(), absent_in_after=())


@pytest.mark.contract("comparison.presence.sorted-arrays")
def test_presence_is_told_of_one_funding_leg_also_when_the_rest_is_not() -> None:
    found = at_work(FUNDING, "leg", "decision", to=None)

    assert found.status == "abstained"
    assert found.evidence_field_presence == PresenceBody(added=(), absent_in_after=())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of_funding(0.02, until=SETTLED_AT - 8 * HOUR), FUNDING),
        (FUNDING, with_leg(FUNDING, method="funding-regime/1 bybit")),
        (YIELDS, decided(YIELDS)),
        (FLOWS, decided(FLOWS)),
    ],
    ids=["another leg", "another method", "rates", "flows"],
)
def test_presence_is_omitted_where_it_is_not_told(before: Proposal, after: Proposal) -> None:
    assert assess(before, after).evidence_field_presence is None
    assert "evidence_field_presence" not in body(before, after)["assessment"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "stance-v2"),
        (("leg", "method"), None),
        (("leg", "evidence"), None),
        (("leg", "evidence", "inputs"), None),
        (("leg", "evidence", "digest"), "0" * 64),
    ],
)
def test_presence_needs_two_readable_inputs(path: tuple[str, ...], value: Json) -> None:
    assert at_work(FUNDING, *path, to=value).evidence_field_presence is None
    inputs = {**FUNDING.leg.evidence.inputs, "levels": ["score"]}
    other = with_leg(FUNDING, evidence=replace(FUNDING.leg.evidence, inputs=inputs))
    assert assess(FUNDING, other).evidence_field_presence is None
