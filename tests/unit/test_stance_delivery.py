"""The delivered body of a stance."""

import json

import pytest

from barograph import NOTICE
from barograph.history.digest import leg_document, read_version, version_document
from barograph.history.records import Version, VersionEvent
from barograph.kit.json import canonical
from barograph.kit.timestamps import iso_timestamp
from barograph.stances.documents import stance_body, state_of
from barograph.stances.reader import recorded_stance
from barograph_client.audit.stance import stance_digest
from support.stances import STANCE_MEMBERS, proposal

PROPOSED = proposal()
RECORDED = read_version(
    canonical(
        version_document(
            Version(
                kind=PROPOSED.kind,
                sequence=1,
                leg_id=PROPOSED.leg_id,
                revision=1,
                issued_at=PROPOSED.issued_at,
                expires_at=PROPOSED.expires_at,
                leg=PROPOSED.leg,
                previous_digest="0" * 64,
                salt="5" * 64,
                history_digest="",
            )
        )
    )
)
WITHDRAWN = VersionEvent(
    kind=RECORDED.kind,
    sequence=1,
    type="withdrawn",
    at=RECORDED.issued_at + 5,
    version_sequence=RECORDED.sequence,
    why="a wrong file",
    by="operator",
    evidence_digest="e" * 64,
    previous_digest="0" * 64,
    salt="a5" * 32,
    event_digest="d" * 64,
)


@pytest.mark.contract("stance.leg-id", "stance.other-fields")
def test_a_body_has_the_decided_members_in_order() -> None:
    body = stance_body(recorded_stance(RECORDED, None), RECORDED.issued_at)

    assert tuple(body) == STANCE_MEMBERS
    assert body["notice"] == NOTICE
    assert body["leg"] == json.loads(canonical(leg_document(RECORDED.leg)))


@pytest.mark.contract("stance.evidence-digests-distinct")
def test_evidence_digests_are_there_and_are_not_the_history_digest() -> None:
    body = stance_body(recorded_stance(RECORDED, WITHDRAWN), RECORDED.issued_at)

    digests = [
        body["leg"]["evidence"]["digest"],
        *(each["evidence_digest"] for each in body["events"]),
    ]
    assert [each["type"] for each in body["events"]] == ["issued", "withdrawn"]
    assert all(len(each) == 64 for each in digests)
    assert body["history_digest"] not in digests


def test_why_it_was_withdrawn_by_whom_and_the_salt_of_that_are_not_delivered() -> None:
    text = json.dumps(stance_body(recorded_stance(RECORDED, WITHDRAWN), RECORDED.issued_at))

    assert WITHDRAWN.evidence_digest in text
    assert not any(each in text for each in (WITHDRAWN.why, WITHDRAWN.by, WITHDRAWN.salt))


def test_digest_can_be_recomputed_from_the_body() -> None:
    body = stance_body(recorded_stance(RECORDED, None), RECORDED.issued_at)

    recomputed = stance_digest(body, RECORDED.sequence, RECORDED.previous_digest).hex()
    assert recomputed == body["history_digest"] == RECORDED.history_digest


def test_a_stance_is_active_until_it_expires_and_terminal_once_it_is_withdrawn() -> None:
    stance = recorded_stance(RECORDED, None)
    assert state_of(stance, RECORDED.expires_at - 1) == "active"
    assert state_of(stance, RECORDED.expires_at) == "expired"
    withdrawn = recorded_stance(RECORDED, WITHDRAWN)
    assert {state_of(withdrawn, at) for at in (0, RECORDED.expires_at)} == {"terminal"}
    body = stance_body(withdrawn, RECORDED.issued_at)
    assert body["events"][1]["at"] == iso_timestamp(WITHDRAWN.at)
