"""An operator's decision: on the same leg and the same evidence, and only while it holds."""

import pytest
from msgspec.structs import replace

from barograph.history.records import LABELS, Decision, Proposal
from barograph.kit.timestamps import HOUR
from barograph.stances.revise import CannotRevise, reason, revision_of, signer
from barograph.stances.rules import BY
from support.clock import START
from support.comparisons import version
from support.stances import FUNDING, proposal

NOW = START + HOUR


RECORDED = version(proposal())


def revised(now: int = NOW, **given: str) -> Proposal:
    decision = {"label": "neutral", "why": "x", "by": "desk", **given}
    return revision_of([RECORDED], FUNDING, **decision, now=now)


@pytest.mark.parametrize("label", LABELS)
def test_a_decision_changes_nothing_but_the_decision(label: str) -> None:
    before, after = RECORDED.leg, revised(label=label, why=" auction tomorrow ", by="desk ")

    assert (after.kind, after.leg_id) == (FUNDING, RECORDED.leg_id)
    assert (after.issued_at, after.expires_at) == (NOW, RECORDED.expires_at)
    decision = Decision(label, before.decision.confidence, "auction tomorrow", "desk")
    assert after.leg == replace(before, decision=decision)


def test_a_decision_has_a_known_label_and_a_leg_that_has_not_expired() -> None:
    with pytest.raises(CannotRevise, match="constructive, neutral, cautious, stand-aside"):
        revised(label="bullish")
    with pytest.raises(CannotRevise, match="no funding-regime-stance is recorded yet"):
        revision_of([], FUNDING, label="neutral", why="x", by="desk", now=NOW)
    revised(now=RECORDED.expires_at - 1)
    with pytest.raises(CannotRevise, match="expired"):
        revised(now=RECORDED.expires_at)


@pytest.mark.parametrize("why", ["", " \n", "two\nlines", "x" * 501])
def test_a_decision_needs_a_reason(why: str) -> None:
    for decide in (lambda: revised(why=why), lambda: reason(why)):
        with pytest.raises(CannotRevise, match="'why' must be one line of 1 to 500"):
            decide()


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("", "'by' must be one line of 1 to 100"),
        (" ", "'by' must be one line of 1 to 100"),
        ("y" * 101, "'by' must be one line of 1 to 100"),
        (" RuLe", "only rules sign as RuLe"),
        (BY.upper(), "only rules sign as"),
    ],
)
def test_only_a_named_person_decides_by_hand(by: str, said: str) -> None:
    for decide in (lambda: revised(by=by), lambda: signer(by)):
        with pytest.raises(CannotRevise, match=said):
            decide()
