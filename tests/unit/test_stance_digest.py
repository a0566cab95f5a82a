"""The same content has the same digest everywhere, and every part of it counts."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.digest import (
    EXACT,
    GENESIS,
    event_digest,
    event_document,
    history_digest,
    leg_document,
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.records import Decision, LegEvidence, Version, VersionEvent
from barograph.kit.json import Json, canonical, digest
from support.clock import START
from support.stances import FUNDING, proposal

SALT = "ab" * 32
PROPOSED = proposal()
VERSION = Version(
    kind=FUNDING,
    sequence=1,
    leg_id=PROPOSED.leg_id,
    revision=1,
    issued_at=PROPOSED.issued_at,
    expires_at=PROPOSED.expires_at,
    leg=PROPOSED.leg,
    previous_digest=GENESIS,
    salt=SALT,
    history_digest="",
)
EVENT = VersionEvent(
    kind=FUNDING,
    sequence=1,
    type="withdrawn",
    at=START + 5,
    version_sequence=1,
    why="the source corrected itself",
    by="operator",
    evidence_digest=withdrawal_digest(
        "cd" * 32, why="the source corrected itself", by="operator", salt="ef" * 32
    ),
    previous_digest=GENESIS,
    salt="ef" * 32,
    event_digest="",
)

GOLDEN_EVIDENCE = "08ebb9833468d433d0127d176287d6bffbe23ca5109ab968c1809d2e36776ae6"
GOLDEN_VERSION = "f39357c0d029644ed7dbc6f0d23cb4e0646264ab120dbb5a95fc367c629423e9"
GOLDEN_WITHDRAWAL = "7a5eab40c57a4eac585d133e862971a09082dd43d8f2f78dc5175180ff428971"
GOLDEN_EVENT = "dac5dfcda7d12add0716068942c8b6a4c36eec0a1779a905c24fcfe2a1364346"
GOLDEN_TEXT = (
    '{"expires_at":"2026-11-07T05:20:00.000Z","issued_at":"2026-11-06T21:20:00.000Z",'
    '"kind":"funding-regime-stance","leg":{"conditions":['
    '"levels.fundingPct >= 0.03: longs pay heavily"],"decision":{"by":"rules",'
    '"confidence":"medium","label":"neutral","rationale":"funding is where it mostly is"},'
    '"evidence":{"digest":"' + GOLDEN_EVIDENCE + '","inputs":{"levels":{"delta24h":0.5,'
    '"score":0.5,"score24hAgo":0}},"observed_at":"2026-11-06T21:20:00.000Z","source":"Bybit"},'
    '"levels":{"coins":["BTC","ETH"],"fundingPct":0.01},"method":"funding-v1","period":{'
    '"end":"2026-11-07T05:20:00.000Z","start":"2026-11-06T21:20:00.000Z"}},'
    '"leg_id":"funding-regime-stance:2026-11-06T21:20:00.000Z","previous_digest":"'
    + "0" * 64
    + '","revision":1,"salt":"'
    + "ab" * 32
    + '","schema":"stance-v1","sequence":1}'
)
GOLDEN_EVENT_TEXT = (
    '{"at":"2026-11-06T21:20:00.005Z","by":"operator","evidence_digest":"'
    + GOLDEN_WITHDRAWAL
    + '","kind":"funding-regime-stance","previous_digest":"'
    + "0" * 64
    + '","salt":"'
    + "ef" * 32
    + '","schema":"stance-event-v1","sequence":1,"type":"withdrawn","version_sequence":1,'
    '"why":"the source corrected itself"}'
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-EXACT, EXACT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def with_inputs(**inputs: Json) -> Version:
    evidence = LegEvidence("Bybit", VERSION.leg.evidence.observed_at, inputs)
    return replace(VERSION, leg=replace(VERSION.leg, evidence=evidence))


def test_the_text_that_is_hashed_is_known_to_the_last_byte() -> None:
    assert canonical(version_document(VERSION)) == GOLDEN_TEXT
    assert sha256(GOLDEN_TEXT.encode()).hexdigest() == GOLDEN_VERSION
    assert canonical(event_document(EVENT)) == GOLDEN_EVENT_TEXT
    assert sha256(GOLDEN_EVENT_TEXT.encode()).hexdigest() == GOLDEN_EVENT


@pytest.mark.contract("stance.history-digest")
def test_digests_are_what_they_always_were() -> None:
    assert history_digest(VERSION) == GOLDEN_VERSION
    assert VERSION.leg.evidence.digest == GOLDEN_EVIDENCE
    assert event_digest(EVENT) == GOLDEN_EVENT


@pytest.mark.contract("stance.evidence-digests-distinct", "events.evidence-digest")
def test_evidence_digests_are_other_values_than_the_digests_of_the_chains() -> None:
    assert EVENT.evidence_digest == GOLDEN_WITHDRAWAL
    kinds = {GOLDEN_VERSION, GOLDEN_EVIDENCE, GOLDEN_WITHDRAWAL, GOLDEN_EVENT}
    assert len(kinds) == 4


LEG = VERSION.leg
OTHERS = {
    "kind": replace(VERSION, kind="rates-desk"),
    "sequence": replace(VERSION, sequence=2),
    "leg_id": replace(VERSION, leg_id=VERSION.leg_id.lower()),
    "revision": replace(VERSION, revision=2),
    "issued_at": replace(VERSION, issued_at=VERSION.issued_at + 1),
    "expires_at": replace(VERSION, expires_at=VERSION.expires_at + 1),
    "previous_digest": replace(VERSION, previous_digest="1" * 64),
    "salt": replace(VERSION, salt="ac" * 32),
    "period": replace(VERSION, leg=replace(LEG, period={**LEG.period, "end": "later"})),
    "levels": replace(VERSION, leg=replace(LEG, levels={})),
    "decision": replace(
        VERSION, leg=replace(LEG, decision=Decision("neutral", "medium", "because", "rules"))
    ),
    "conditions": replace(VERSION, leg=replace(LEG, conditions=[])),
    "method": replace(VERSION, leg=replace(LEG, method="funding-v2")),
    "source": replace(VERSION, leg=replace(LEG, evidence=replace(LEG.evidence, source="OKX"))),
    "observed_at": replace(
        VERSION, leg=replace(LEG, evidence=replace(LEG.evidence, observed_at="later"))
    ),
    "inputs": with_inputs(),
}


@pytest.mark.parametrize("part", sorted(OTHERS))
def test_every_part_of_a_version_counts(part: str) -> None:
    assert history_digest(OTHERS[part]) != history_digest(VERSION)


@pytest.mark.parametrize("part", ["sequence", "at", "version_sequence"])
def test_every_number_of_an_event_counts(part: str) -> None:
    other = replace(EVENT, **{part: getattr(EVENT, part) + 1})

    assert event_digest(other) != event_digest(EVENT)


@pytest.mark.parametrize(
    "part", ["kind", "type", "why", "by", "evidence_digest", "previous_digest", "salt"]
)
def test_every_text_of_an_event_counts(part: str) -> None:
    other = replace(EVENT, **{part: getattr(EVENT, part) + "x"})

    assert event_digest(other) != event_digest(EVENT)


def test_without_the_salt_no_guess_of_a_withdrawal_can_be_tested() -> None:
    said = {"why": EVENT.why, "by": EVENT.by}
    guessed = withdrawal_digest("cd" * 32, salt="00" * 32, **said)

    assert guessed != EVENT.evidence_digest
    assert digest(canonical({"history_digest": "cd" * 32, **said})) != EVENT.evidence_digest


def test_the_digest_itself_has_no_part_in_it() -> None:
    assert history_digest(replace(VERSION, history_digest="f" * 64)) == GOLDEN_VERSION
    assert event_digest(replace(EVENT, event_digest="f" * 64)) == GOLDEN_EVENT


def test_a_version_is_read_back_as_it_was() -> None:
    text = canonical(version_document(VERSION))

    assert read_version(text) == replace(VERSION, history_digest=GOLDEN_VERSION)


def test_an_event_is_read_back_as_it_was() -> None:
    text = canonical(event_document(EVENT))

    assert read_event(text) == replace(EVENT, event_digest=GOLDEN_EVENT)


@pytest.mark.thorough
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, max_size=5))
def test_any_content_is_written_again_with_the_same_digest(inputs: dict[str, Json]) -> None:
    text = canonical(version_document(with_inputs(content=inputs)))
    again = read_version(text)

    assert canonical(version_document(again)) == text
    assert history_digest(again) == again.history_digest == digest(text)


@pytest.mark.parametrize(
    "value",
    [0, -0.0, 0.1 + 0.2, 5e-324, EXACT, -EXACT, 2.0**53, -1e17, 1e21, 1.7976931348623157e308],
)
def test_numbers_at_the_edges_are_written_again_with_the_same_digest(value: float) -> None:
    text = canonical(version_document(with_inputs(value=value)))
    again = read_version(text)

    assert again.leg.evidence.inputs["value"] == value
    assert history_digest(again) == digest(text)


def test_whole_numbers_are_the_same_number_however_they_are_held() -> None:
    assert history_digest(with_inputs(value=0)) == history_digest(with_inputs(value=-0.0))
    assert history_digest(with_inputs(value=3)) == history_digest(with_inputs(value=3.0))


def test_letters_are_kept_as_they_were_written() -> None:
    composed, apart = "\u00e9", "e\u0301"
    text = canonical(version_document(with_inputs(**{composed: apart, "\U0001f4c8": "\u0000"})))

    assert read_version(text).leg.evidence.inputs == {composed: apart, "\U0001f4c8": "\u0000"}
    assert history_digest(with_inputs(value=composed)) != history_digest(with_inputs(value=apart))


@pytest.mark.parametrize("value", [2**53, -(2**53), float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_say_everywhere_alike_is_refused(value: Json) -> None:
    with pytest.raises(ValueError, match=r".*"):
        history_digest(with_inputs(value=value))


def test_a_leg_has_the_digest_of_its_evidence_inside() -> None:
    evidence = leg_document(VERSION.leg)["evidence"]

    assert isinstance(evidence, dict)
    assert evidence["digest"] == digest(canonical(VERSION.leg.evidence.inputs))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "{",
        '{"schema":"stance-v2"}',
        json.dumps(version_document(VERSION) | {"leg": {}}),
        json.dumps(version_document(VERSION) | {"issued_at": "yesterday"}),
    ],
)
def test_a_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_version(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"schema":"stance-v1"}',
        GOLDEN_EVENT_TEXT.replace("stance-event-v1", "stance-event-v2"),
        GOLDEN_EVENT_TEXT.replace('"salt"', '"pepper"'),
    ],
)
def test_a_text_that_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_event(text)
