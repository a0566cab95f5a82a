"""The track record of a kind: by hand, at the threshold, and in worlds without and with skill."""

from collections.abc import Sized

import pytest
from msgspec.structs import replace

from barograph.accuracy.cases import CAUTION, Case, kind_accuracy
from barograph.accuracy.definition import (
    BTC_RETURN,
    DEFINITION,
    DEFINITION_DIGEST,
    FUNDING,
    HORIZONS,
    METRICS,
    metrics_of,
)
from barograph.accuracy.records import KindAccuracy, Measured
from barograph.history.records import KINDS, LABELS
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.outcomes import SeriesPoint
from support.accuracy import SimulatedRecord, case, persistent
from support.stances import FUNDING as KIND
from support.stances import RATES

START = 20_765 * DAY
WORLDS = 100


def row(found: KindAccuracy, label: str, metric: str, horizon: str) -> Measured:
    key = (label, metric, horizon)
    return next(each for each in found.measured if (each.label, each.metric, each.horizon) == key)


def doubling(hours: int) -> list[SeriesPoint]:
    """A price that doubles every eight hours."""
    return [SeriesPoint(START + hour * HOUR, 2 ** (hour / 8)) for hour in range(hours)]


def every_eight_hours(count: int, label: str = "constructive") -> list[Case]:
    return [case(each, START + 8 * each * HOUR, label) for each in range(1, count + 1)]


def assessed(cases: list[Case], hours: int = 2_000) -> KindAccuracy:
    points = {BTC_RETURN: doubling(hours)}
    return kind_accuracy(KIND, cases, points, START + hours * HOUR)


def test_a_record_by_hand() -> None:
    found = assessed(every_eight_hours(30))
    shown = row(found, "constructive", BTC_RETURN, "8h")

    assert (found.versions, found.first, found.last) == (30, 1, 30)
    assert (shown.cases, shown.without_outcome, shown.finding) == (30, 0, "none")
    for each in (shown.followed, shown.unconditional, shown.persistence):
        assert (each.count, each.quantiles, each.interval) == (30, (100.0,) * 5, (100.0, 100.0))
    # One of three starts counts over a day.
    assert row(found, "constructive", BTC_RETURN, "24h").followed.count == 10
    assert row(found, "constructive", FUNDING, "8h").without_outcome == 30
    assert found.headline.startswith("No skill shown in the 1 of 6 comparisons")


def test_twenty_nine_cases_say_nothing_and_thirty_do() -> None:
    few, enough = assessed(every_eight_hours(29)), assessed(every_eight_hours(30))

    assert few.headline == (
        "Too few cases to say anything: “constructive” and “cautious” have at most 29 of the 30 "
        "needed."
    )
    assert row(few, "constructive", BTC_RETURN, "8h").finding == "too-few"
    assert row(few, "constructive", BTC_RETURN, "8h").followed.quantiles is None
    assert row(enough, "constructive", BTC_RETURN, "8h").followed.quantiles is not None


def test_without_a_version_nothing_is_claimed() -> None:
    found = assessed([])

    assert (found.versions, found.first, found.last) == (0, 0, 0)
    assert found.headline.startswith("Nothing is measured yet")


def test_versions_are_counted_by_what_became_of_them() -> None:
    cases = every_eight_hours(6)
    first = cases[0].version
    decision = replace(first.leg.decision, label="stand-aside", by="an operator")
    cases[0] = replace(cases[0], version=replace(first, leg=replace(first.leg, decision=decision)))
    cases[1] = replace(cases[1], is_withdrawn=True)
    cases[2] = replace(cases[2], until=cases[2].version.expires_at)
    for number, more in ((3, 0), (4, 1)):
        version = cases[number].version
        start = iso_timestamp(version.issued_at - HOUR - more)
        leg = replace(version.leg, period={**version.leg.period, "start": start})
        cases[number] = replace(cases[number], version=replace(version, leg=leg))

    found = assessed(cases)

    counted = (found.abstained, found.revised, found.withdrawn, found.expired, found.late)
    assert counted == (1, 1, 1, 1, 1)


def test_a_revision_is_never_late() -> None:
    version = replace(case(1, START + DAY, "neutral", kind=RATES).version, revision=2)
    observed = replace(version.leg.evidence, observed_at=iso_timestamp(START))
    version = replace(version, leg=replace(version.leg, evidence=observed))

    assert not Case(version, START, is_withdrawn=False).is_late
    assert Case(replace(version, revision=1), START, is_withdrawn=False).is_late


@pytest.mark.thorough
def test_random_worlds_show_no_skill() -> None:
    modest = 0
    for seed in range(WORLDS):
        headlines = []
        for number, kind in enumerate(KINDS):
            world = SimulatedRecord(3 * seed + number, persistent, start=START, days=90)
            points = {BTC_RETURN: world.points}
            headlines.append(kind_accuracy(kind, world.cases, points, world.as_of).headline)
        modest += all(each.startswith("No skill shown in") for each in headlines)

    assert modest >= 0.95 * WORLDS


def with_edge(edge: float, *labels: str) -> KindAccuracy:
    """A record of labels in turn, in a world where they have this edge."""

    def alternate(_: object, past: Sized, before: str) -> str:
        return labels[len(past) // 8 % len(labels)]

    world = SimulatedRecord(1, alternate, start=START, days=400, edge=edge)
    return kind_accuracy(KIND, world.cases, {BTC_RETURN: world.points}, world.as_of)


def test_a_planted_edge_is_found_and_shown_with_its_size_and_a_caution() -> None:
    found = with_edge(0.003, "constructive", "neutral", "cautious", "neutral")

    assert row(found, "constructive", BTC_RETURN, "8h").finding == "higher"
    assert row(found, "cautious", BTC_RETURN, "8h").finding == "lower"
    assert row(found, "neutral", BTC_RETURN, "8h").finding == "none"
    assert found.headline.startswith("After “constructive”, BTC returned more over 8 h")
    assert found.headline.endswith(CAUTION)


def test_a_trend_that_merely_went_on_is_no_skill() -> None:
    calm = [case(each, START + 8 * each * HOUR, "neutral") for each in range(1, 161)]
    rising = [case(each, START + 8 * each * HOUR, "constructive") for each in range(161, 201)]
    trend = [max(0, hour - 160 * 8) / 800 for hour in range(2_000)]
    points = [SeriesPoint(START + hour * HOUR, 100 + each) for hour, each in enumerate(trend)]
    found = kind_accuracy(KIND, [*calm, *rising], {BTC_RETURN: points}, START + 2_000 * HOUR)

    shown = row(found, "constructive", BTC_RETURN, "8h")
    assert shown.followed.interval is not None
    assert shown.unconditional.interval == (0.0, 0.0) < shown.followed.interval
    assert shown.finding == "none"


def test_the_opposite_of_a_claim_is_no_skill() -> None:
    found = with_edge(-0.003, "constructive", "neutral")

    assert row(found, "constructive", BTC_RETURN, "8h").finding == "none"
    assert found.headline.startswith("No skill shown")


def test_a_change_of_the_definition_is_a_decision() -> None:
    # A new digest starts all counts again. The program for readers implements the same one.
    assert DEFINITION_DIGEST == "39b21500c25f5f65dcae1e37ae7786be74b191daf4c0aeadf32b67cbb590f90f"
    assert digest(canonical(DEFINITION)) == DEFINITION_DIGEST


def test_the_definition_states_what_is_measured() -> None:
    stated = {name: (each.unit, each.rule) for name, each in METRICS.items()}
    metrics = DEFINITION["metrics"]
    assert isinstance(metrics, dict)

    assert {name: (each["unit"], each["rule"]) for name, each in metrics.items()} == stated  # type: ignore[index, call-overload]
    assert {horizon for kind in KINDS for _, horizon in metrics_of(kind)} == set(HORIZONS)
    assert DEFINITION["labels"] == list(LABELS)
