"""What follows from recorded conditions: runs, incidents, gaps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.reader import freshness_limits
from barograph.settings import Settings
from barograph.status.incidents import (
    MAX_GAP,
    CheckResult,
    ConditionCount,
    Incident,
    Run,
    check_results,
    extended_run,
    is_due,
    updated_incident,
)
from barograph.status.rules import Condition, StatusInputs, assess
from support.clock import START

WORDS: dict[str, Condition] = {"o": "ok", "g": "degraded", "d": "down"}

IDLE = ("not_configured", "warming_up")


def watch(text: str) -> list[Incident]:
    """The incidents of a part that is found so, minute by minute: ok, deGraded, down, `.` nobody.

    Its details are the minutes, counted from the start.
    """
    last: Run | None = None
    incident: Incident | None = None
    found: dict[int, Incident] = {}
    for minute, letter in enumerate(text):
        if letter in WORDS:
            seen = CheckResult("x", WORDS[letter], f"minute {minute}")
            run = extended_run(last, seen, minute * MINUTE)
            incident = updated_incident(incident, last, run)
            last = run
            if incident is not None:
                found[incident.started_at] = incident
                incident = incident if incident.ended_at is None else None
    return list(found.values())


def at(minute: int | None) -> int | None:
    return None if minute is None else minute * MINUTE


def incident(
    start: int,
    end: int | None,
    worst: Condition = "degraded",
    gap: tuple[int, int, int] | None = None,
) -> Incident:
    since, until, length = gap or (None, None, 0)
    return Incident(
        "x",
        start * MINUTE,
        at(end),
        worst,
        f"minute {start}",
        at(since),
        at(until),
        length * MINUTE,
    )


@pytest.mark.parametrize(
    ("found", "incidents"),
    [
        *(("", []), ("oooo", []), ("g", []), ("ogo", []), ("ogogogo", [])),
        # Two records open an incident, and two close it.
        ("ogg", [incident(1, None)]),
        ("oggo", [incident(1, None)]),
        ("oggoo", [incident(1, 3)]),
        ("ogdgoo", [incident(1, 4, "down")]),
        ("oggogoo", [incident(1, 5)]),
        ("ggoogg", [incident(0, 2), incident(4, None)]),
        ("dd", [incident(0, None, "down")]),
        # What nobody watched is neither an outage nor health.
        ("g..g", [incident(0, None)]),  # the next worker stepped in
        *(("g...g", []), ("g...g...g", []), ("oo......oo", [])),
        ("gg....gg", [incident(0, None, gap=(2, 6, 4))]),
        ("gg....oo", [incident(0, 6, gap=(2, 6, 4))]),
        ("gg....go", [incident(0, None, gap=(2, 6, 4))]),
        ("ggo....oo", [incident(0, 7, gap=(3, 7, 4))]),
        ("gg....g....g", [incident(0, None, gap=(2, 11, 8))]),
        ("gg....o....g", [incident(0, None, gap=(2, 11, 8))]),
    ],
)
def test_incidents_follow_from_the_records(found: str, incidents: list[Incident]) -> None:
    assert watch(found) == incidents


@given(st.text("ogd.", max_size=60))
def test_incidents_never_overlap_and_begin_and_end_where_the_records_say(found: str) -> None:
    incidents = watch(found)

    for each in incidents:
        assert found[each.started_at // MINUTE] in "gd"
        if each.ended_at is not None:
            assert found[each.ended_at // MINUTE] == "o"
            assert each.unwatched_ms < each.ended_at - each.started_at
    for before, after in pairwise(incidents):
        assert before.ended_at is not None
        assert before.ended_at < after.started_at


def test_a_minute_is_recorded_once_and_a_clock_that_ran_ahead_is_not_waited_for() -> None:
    last = Run("x", START, START + HOUR, "ok", "")
    passed = (MINUTE, 0, -MAX_GAP, -MAX_GAP - MINUTE)

    assert is_due(None, START)
    assert [is_due(last, START + HOUR + later) for later in passed] == [True, False, False, True]


def test_an_incident_of_a_clock_that_ran_ahead_does_not_end_before_it_began() -> None:
    ahead = Incident("x", START + DAY, None, "down", "")
    last = Run("x", START + DAY, START + DAY, "down", "")
    first = extended_run(last, CheckResult("x", "ok", ""), START)
    second = extended_run(first, CheckResult("x", "ok", ""), START + MINUTE)

    still = updated_incident(ahead, last, first)
    assert still == ahead
    assert updated_incident(still, first, second) == ahead._replace(ended_at=START + DAY)


@pytest.mark.parametrize(
    ("numbers", "worst"),
    [
        ((0, 0, 0), None),
        ((60, 0, 0), "ok"),
        ((59, 1, 0), "degraded"),
        ((59, 0, 1), "down"),
        ((0, 59, 1), "down"),
    ],
)
def test_the_worst_condition_is_shown(numbers: tuple[int, int, int], worst: str | None) -> None:
    count = ConditionCount("hour", "x", 0, *numbers)

    assert (count.worst, count.recorded) == (worst, sum(numbers))


def test_every_check_that_can_fail_is_recorded_and_the_api_beside_them() -> None:
    nothing = StatusInputs(
        now=START,
        started_at=START,
        version="1.2.3",
        limits=freshness_limits(Settings.model_validate({})),
        polled_at=None,
        perpetuals=None,
        shares=None,
        liquidations=None,
        health=None,
    )
    status = assess(nothing)
    idle = {each.name: each.status for each in status.checks if each.status in IDLE}
    checks = [each for each in status.checks if each.name not in idle]
    found = check_results(status)

    assert idle.pop("backfill") == "warming_up"
    assert idle == dict.fromkeys(("cross-venue", "identity", "payments"), "not_configured")
    assert found[0] == CheckResult("api", "degraded", "database cannot be read")
    assert [each.name for each in found[1:]] == [each.name for each in checks]
