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
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.records import Decision, LegEvidence, Version, VersionEvent
from barograph.kit.json import Json, canonical, digest
from support.clock import START
from support.comparisons import version
from support.stances import FUNDING, proposal

SALT = "ab" * 32
PROPOSED = proposal()
VERSION = replace(version(PROPOSED), salt=SALT)
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


@pytest.mark.contract("stance.history-digest")
@pytest.mark.contract("stance.evidence-digests-distinct", "events.evidence-digest")
def test_the_text_that_is_hashed_and_its_digests_are_known_to_the_last_byte() -> None:
    assert canonical(version_document(VERSION)) == GOLDEN_TEXT
    assert sha256(GOLDEN_TEXT.encode()).hexdigest() == history_digest(VERSION) == GOLDEN_VERSION
    assert canonical(event_document(EVENT)) == GOLDEN_EVENT_TEXT
    assert sha256(GOLDEN_EVENT_TEXT.encode()).hexdigest() == event_digest(EVENT) == GOLDEN_EVENT
    assert VERSION.leg.evidence.digest == GOLDEN_EVIDENCE
    assert EVENT.evidence_digest == GOLDEN_WITHDRAWAL
    assert len({GOLDEN_VERSION, GOLDEN_EVIDENCE, GOLDEN_WITHDRAWAL, GOLDEN_EVENT}) == 4


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


def test_every_part_of_a_version_counts() -> None:
    for part, other in OTHERS.items():
        assert history_digest(other) != history_digest(VERSION), part


def test_every_part_of_an_event_counts() -> None:
    numbers = ("sequence", "at", "version_sequence")
    texts = ("kind", "type", "why", "by", "evidence_digest", "previous_digest", "salt")
    for part, more in {**dict.fromkeys(numbers, 1), **dict.fromkeys(texts, "x")}.items():
        other = replace(EVENT, **{part: getattr(EVENT, part) + more})
        assert event_digest(other) != event_digest(EVENT), part


def test_without_the_salt_no_guess_of_a_withdrawal_can_be_tested() -> None:
    said = {"why": EVENT.why, "by": EVENT.by}
    guessed = withdrawal_digest("cd" * 32, salt="00" * 32, **said)

    assert guessed != EVENT.evidence_digest
    assert digest(canonical({"history_digest": "cd" * 32, **said})) != EVENT.evidence_digest


def test_the_digest_itself_has_no_part_in_it() -> None:
    assert history_digest(replace(VERSION, history_digest="f" * 64)) == GOLDEN_VERSION
    assert event_digest(replace(EVENT, event_digest="f" * 64)) == GOLDEN_EVENT


def test_versions_and_events_are_read_back_as_they_were() -> None:
    assert read_version(GOLDEN_TEXT) == replace(VERSION, history_digest=GOLDEN_VERSION)
    assert read_event(GOLDEN_EVENT_TEXT) == replace(EVENT, event_digest=GOLDEN_EVENT)


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


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "{", '{"schema":"stance-v1"}', '{"schema":"stance-v2"}'),
        json.dumps(version_document(VERSION) | {"leg": {}}),
        json.dumps(version_document(VERSION) | {"issued_at": "yesterday"}),
        GOLDEN_EVENT_TEXT.replace("stance-event-v1", "stance-event-v2"),
        GOLDEN_EVENT_TEXT.replace('"salt"', '"pepper"'),
    ],
)
def test_a_text_that_is_neither_version_nor_event_is_refused(text: str) -> None:
    for read in (read_version, read_event):
        with pytest.raises(ValueError, match=r".*"):
            read(text)
