"""An operator's decision: on the same leg and the same evidence, and only while it holds."""

import pytest

from barograph.history.digest import GENESIS
from barograph.history.records import LABELS, Version
from barograph.kit.timestamps import HOUR
from barograph.stances.revise import CannotRevise, reason, revision_of, signer
from barograph.stances.rules import BY
from support.clock import START
from support.stances import FUNDING, proposal

NOW = START + HOUR


def recorded() -> Version:
    given = proposal()
    return Version(
        kind=given.kind,
        sequence=4,
        leg_id=given.leg_id,
        revision=2,
        issued_at=given.issued_at,
        expires_at=given.expires_at,
        leg=given.leg,
        previous_digest=GENESIS,
        salt="0" * 64,
        history_digest="1" * 64,
    )


@pytest.mark.parametrize("label", LABELS)
def test_a_decision_changes_nothing_but_the_decision(label: str) -> None:
    before = recorded()
    after = revision_of(
        [before], FUNDING, label=label, why=" auction tomorrow ", by="desk ", now=NOW
    )

    assert (after.kind, after.leg_id, after.issued_at) == (FUNDING, before.leg_id, NOW)
    assert after.expires_at == before.expires_at
    assert after.leg.evidence == before.leg.evidence
    assert (after.leg.levels, after.leg.conditions) == (before.leg.levels, before.leg.conditions)
    decision = after.leg.decision
    assert (decision.label, decision.rationale, decision.by) == (label, "auction tomorrow", "desk")
    assert decision.confidence == before.leg.decision.confidence


def test_an_unknown_label_is_refused_with_the_list() -> None:
    with pytest.raises(CannotRevise, match="constructive, neutral, cautious, stand-aside"):
        revision_of([recorded()], FUNDING, label="bullish", why="x", by="desk", now=NOW)


@pytest.mark.parametrize(
    ("why", "by", "said"),
    [
        ("", "desk", "'why' must be one line of 1 to 500"),
        (" \n", "desk", "'why' must be one line of 1 to 500"),
        ("two\nlines", "desk", "'why' must be one line of 1 to 500"),
        ("x" * 501, "desk", "'why' must be one line of 1 to 500"),
        ("x", "", "'by' must be one line of 1 to 100"),
        ("x", " ", "'by' must be one line of 1 to 100"),
        ("x", "y" * 101, "'by' must be one line of 1 to 100"),
        ("x", "rule", "only rules sign as rule"),
        ("x", " RuLe", "only rules sign as RuLe"),
    ],
)
def test_a_decision_needs_a_reason_and_somebody(why: str, by: str, said: str) -> None:
    with pytest.raises(CannotRevise, match=said):
        revision_of([recorded()], FUNDING, label="neutral", why=why, by=by, now=NOW)
    with pytest.raises(CannotRevise, match=said):
        reason(why), signer(by)


def test_the_name_that_rules_sign_with_is_no_person_s() -> None:
    with pytest.raises(CannotRevise, match="only rules sign as"):
        signer(BY.upper())


def test_nothing_can_be_decided_before_anything_is_recorded() -> None:
    with pytest.raises(CannotRevise, match="no funding-regime-stance is recorded yet"):
        revision_of([], FUNDING, label="neutral", why="x", by="desk", now=NOW)


def test_a_leg_whose_time_is_over_is_not_revised() -> None:
    version = recorded()
    last = version.expires_at - 1

    revision_of([version], FUNDING, label="neutral", why="x", by="desk", now=last)
    with pytest.raises(CannotRevise, match="expired"):
        revision_of([version], FUNDING, label="neutral", why="x", by="desk", now=last + 1)
