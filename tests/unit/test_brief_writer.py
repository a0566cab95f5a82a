"""Briefs are written once, kept until they are stored, and not repeated within a cooldown."""

import logging

import pytest

from barograph.briefs.records import Brief
from barograph.briefs.writer import BriefWriter
from barograph.kit.timestamps import DAY, MINUTE
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import MarketEvidence, Outage, TrailingRecord
from barograph.markets.regime import Label
from support.evidence import AT, add_hours, add_liquidations, closed, evidence, regime
from support.markets import BTC, changed

COVERAGE_COOLDOWN = DAY


def failing(as_of: int = AT) -> MarketEvidence:
    return evidence(as_of=as_of, outage=Outage(as_of - 5 * MINUTE, as_of, "throttled"))


def unwatched(as_of: int = AT) -> MarketEvidence:
    """An hour that was hardly watched, after one that was."""
    before = add_liquidations(TrailingRecord(), 1)
    return evidence(as_of=as_of, closed_hour=closed(1.0, 50.0), trailing=before)


def changing(as_of: int, before: Label, after: Label) -> MarketEvidence:
    return evidence(as_of=as_of, previous_regime=regime(before), regime=regime(after))


def concluded(writer: BriefWriter, seen: MarketEvidence) -> list[Brief]:
    return writer.conclude(seen, NO_FIGURES._replace(at=seen.reading.as_of))


def stored(writer: BriefWriter, seen: MarketEvidence) -> list[str]:
    briefs = concluded(writer, seen)
    writer.written(briefs)
    return [brief.slug for brief in briefs]


def rules(briefs: list[Brief]) -> list[str]:
    return [brief.rule for brief in briefs]


def test_a_brief_that_could_not_be_stored_comes_along_unchanged_and_once() -> None:
    writer = BriefWriter()
    first = concluded(writer, failing())

    second = concluded(writer, evidence(as_of=AT + 5_000))
    third = concluded(writer, changing(AT + 10_000, "neutral", "long-leaning"))

    assert second == first
    assert rules(third) == ["outage", "regime-change"]
    assert third[:1] == first
    writer.written(third)
    assert concluded(writer, evidence(as_of=AT + 15_000)) == []


def test_the_same_finding_before_the_first_was_stored_is_not_a_second_brief() -> None:
    writer = BriefWriter()
    first = concluded(writer, unwatched())

    assert rules(first) == ["liquidation-coverage"]
    assert concluded(writer, unwatched(AT + 5_000)) == first


def test_what_comes_while_briefs_are_being_stored_is_in_the_next_conclusion() -> None:
    writer = BriefWriter()
    being_stored = concluded(writer, failing())
    concluded(writer, changing(AT + 5_000, "neutral", "long-leaning"))
    writer.written(being_stored)

    assert rules(concluded(writer, evidence(as_of=AT + 10_000))) == ["regime-change"]


@pytest.mark.parametrize(
    ("passed", "speaks"),
    [(COVERAGE_COOLDOWN - 1, False), (COVERAGE_COOLDOWN, True), (-MINUTE, False), (-DAY, True)],
)
def test_a_rule_is_silent_until_its_cooldown_has_passed_but_not_for_a_clock_that_ran_ahead(
    passed: int, speaks: bool
) -> None:
    writer = BriefWriter()
    assert stored(writer, unwatched()) != []

    assert bool(stored(writer, unwatched(AT + passed))) == speaks


def test_a_rule_without_a_cooldown_is_never_silent_also_when_the_data_go_back() -> None:
    writer = BriefWriter()
    stored(writer, changing(AT, "neutral", "long-leaning"))

    assert stored(writer, changing(AT + MINUTE, "neutral", "long-leaning")) != []
    assert stored(writer, changing(AT - MINUTE, "neutral", "long-leaning")) != []


def test_one_subject_does_not_silence_another() -> None:
    writer = BriefWriter()
    both = evidence(
        outage=Outage(AT - MINUTE, AT, None),
        previous_regime=regime("neutral"),
        regime=regime("short-leaning"),
    )

    assert len(stored(writer, both)) == 2
    assert stored(writer, changing(AT + 5_000, "short-leaning", "short-crowded")) != []


@pytest.mark.parametrize(
    ("passed", "version"), [(20 * MINUTE, 2), (2 * DAY - 1, 2), (2 * DAY, 1), (-MINUTE, 1)]
)
def test_the_same_finding_within_two_days_updates_its_brief(passed: int, version: int) -> None:
    writer = BriefWriter()
    (first,) = concluded(writer, failing())
    writer.written([first])

    (again,) = concluded(writer, failing(AT + passed))

    assert (again.version, again.published_at) == (version, AT + passed)
    assert (again.slug == first.slug) == (version == 2)
    assert again.first_published_at == (AT if version == 2 else None)
    assert ("This has happened 2 times in 7 days." in again.summary) == (passed > 0)


def test_updates_end_two_days_after_the_first_text() -> None:
    writer = BriefWriter()
    told = [concluded(writer, failing(AT + number * DAY))[number] for number in range(4)]

    assert [each.version for each in told] == [1, 2, 1, 2]
    assert len({each.slug for each in told}) == 2


@pytest.mark.outcome(
    "A brief rule crashes", "It is logged with its name. Every other rule still runs."
)
def test_a_rule_that_fails_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    # No exchange has such a price; a rule that divides by it stands for any that is wrong.
    seen = evidence(
        (changed(BTC, last_price=0.0),),
        trailing=add_hours(TrailingRecord(), 25),
        closed_hour=closed(),
        previous_regime=regime("neutral"),
        regime=regime("long-leaning"),
        outage=Outage(AT - MINUTE, AT, None),
    )

    with caplog.at_level(logging.ERROR):
        briefs = concluded(BriefWriter(), seen)

    assert rules(briefs) == ["regime-change", "outage"]
    (logged,) = caplog.records
    assert logged.__dict__["rule"] == "open-interest-move"
    assert logged.exc_info is not None
