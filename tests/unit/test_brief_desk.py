"""Briefs are written once, kept until they are stored, and not repeated within a cooldown."""

import pytest

from barograph.briefs.desk import BriefDesk
from barograph.briefs.records import Brief
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.regime import Label
from barograph.markets.trailing import Evidence, Outage
from support.evidence import AT, evidence, regime

OUTAGE_COOLDOWN = HOUR


def failing(as_of: int = AT) -> Evidence:
    return evidence(as_of=as_of, outage=Outage(as_of - 5 * MINUTE, as_of, "throttled"))


def changing(as_of: int, before: Label, after: Label) -> Evidence:
    return evidence(as_of=as_of, previous_regime=regime(before), regime=regime(after))


def stored(desk: BriefDesk, seen: Evidence) -> list[str]:
    briefs = desk.conclude(seen)
    desk.written(briefs)
    return [brief.slug for brief in briefs]


def rules(briefs: list[Brief]) -> list[str]:
    return [brief.rule for brief in briefs]


def test_a_brief_is_in_one_conclusion_and_after_it_is_stored_in_no_other() -> None:
    desk = BriefDesk()

    assert len(stored(desk, failing())) == 1
    assert stored(desk, evidence(as_of=AT + 5_000)) == []


@pytest.mark.outcome(
    "the database cannot be written while a brief is due",
    "the brief is stored with the next reading, as it was and once",
)
def test_a_brief_that_could_not_be_stored_comes_along_unchanged_and_once() -> None:
    desk = BriefDesk()
    first = desk.conclude(failing())

    second = desk.conclude(evidence(as_of=AT + 5_000))
    third = desk.conclude(changing(AT + 10_000, "neutral", "long-leaning"))

    assert second == first
    assert rules(third) == ["outage", "regime-change"]
    assert third[:1] == first
    desk.written(third)
    assert desk.conclude(evidence(as_of=AT + 15_000)) == []


def test_the_same_finding_before_the_first_was_stored_is_not_a_second_brief() -> None:
    desk = BriefDesk()
    desk.conclude(failing())

    assert len(desk.conclude(failing(AT + 5_000))) == 1


def test_what_comes_while_briefs_are_being_stored_is_in_the_next_conclusion() -> None:
    desk = BriefDesk()
    being_stored = desk.conclude(failing())
    desk.conclude(changing(AT + 5_000, "neutral", "long-leaning"))
    desk.written(being_stored)

    assert rules(desk.conclude(evidence(as_of=AT + 10_000))) == ["regime-change"]


@pytest.mark.parametrize(
    ("passed", "speaks"),
    [(OUTAGE_COOLDOWN - 1, False), (OUTAGE_COOLDOWN, True), (-MINUTE, False), (-DAY, True)],
)
def test_a_rule_is_silent_until_its_cooldown_has_passed_but_not_for_a_clock_that_ran_ahead(
    passed: int, speaks: bool
) -> None:
    desk = BriefDesk()
    stored(desk, failing())

    assert bool(stored(desk, failing(AT + passed))) == speaks


def test_a_rule_without_a_cooldown_is_never_silent_also_when_the_data_go_back() -> None:
    desk = BriefDesk()
    stored(desk, changing(AT, "neutral", "long-leaning"))

    assert stored(desk, changing(AT + MINUTE, "neutral", "long-leaning")) != []
    assert stored(desk, changing(AT - MINUTE, "neutral", "long-leaning")) != []


def test_one_subject_does_not_silence_another() -> None:
    desk = BriefDesk()
    both = evidence(
        outage=Outage(AT - MINUTE, AT, None),
        previous_regime=regime("neutral"),
        regime=regime("short-leaning"),
    )

    assert len(stored(desk, both)) == 2
    assert stored(desk, changing(AT + 5_000, "short-leaning", "short-crowded")) != []
