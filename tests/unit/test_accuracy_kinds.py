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
from barograph.accuracy.records import Comparison, KindAccuracy, Measured
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


def alternating(count: int, span: int = 9) -> list[Case]:
    """A stance every eight hours; the label changes after so many."""
    labels = ("constructive", "cautious")
    return [
        case(each + 1, START + 8 * (each + 1) * HOUR, labels[each // span % 2])
        for each in range(count)
    ]


def doubling(hours: int) -> list[SeriesPoint]:
    """A price that doubles every eight hours."""
    return [SeriesPoint(START + hour * HOUR, 2 ** (hour / 8)) for hour in range(hours)]


def assessed(cases: list[Case], hours: int = 2_000) -> KindAccuracy:
    points = {BTC_RETURN: doubling(hours)}
    return kind_accuracy(KIND, cases, points, START + hours * HOUR)


def test_a_record_by_hand() -> None:
    found = assessed(alternating(180))
    shown = row(found, "constructive", BTC_RETURN, "8h")

    assert (found.versions, found.legs, found.first, found.last) == (180, 180, 1, 180)
    assert (shown.cases, shown.without_outcome, shown.episodes) == (90, 0, 10)
    for part in shown.parts:
        assert (part.count, part.quantiles, part.mean) == (90, (100.0,) * 5, 100.0)
    assert shown.comparison == Comparison(0.0, (0.0, 0.0), 0.0)
    assert shown.finding == "no-difference"
    assert row(found, "constructive", FUNDING, "8h").without_outcome == 90
    assert row(found, "constructive", BTC_RETURN, "7d").finding == "too-few"
    none = "difference +0.00 %; we would probably have seen 0.00 % or more"
    assert found.headline == (
        f"No difference that would matter: constructive over 8 h ({none}); cautious over 8 h "
        f"({none}); constructive over 24 h ({none}); cautious over 24 h ({none})."
    )


def test_a_leg_counts_once_by_its_first_version() -> None:
    cases = alternating(180)
    later = [
        replace(each, version=replace(each.version, sequence=1_000 + at, revision=2))
        for at, each in enumerate(cases)
    ]
    once, twice = assessed(cases), assessed(sorted([*cases, *later], key=issue))

    assert (twice.versions, twice.legs) == (360, 180)
    assert twice.measured == once.measured


def issue(each: Case) -> tuple[int, int]:
    return each.version.issued_at, each.version.revision


def test_too_few_cases_or_episodes_say_nothing() -> None:
    few, lasting = assessed(alternating(58)), assessed(alternating(162))

    assert few.headline == (
        "There are too few cases. To compare “constructive” or “cautious” with the other "
        "labels, we need 30 cases on each side and 10 episodes. We have at most 27 cases "
        "and 4 episodes."
    )
    shown = row(lasting, "constructive", BTC_RETURN, "8h")
    assert (shown.followed.count, shown.episodes, shown.finding) == (81, 9, "too-few")
    assert (shown.followed.quantiles, shown.comparison) == (None, None)


def test_without_a_version_nothing_is_claimed() -> None:
    found = assessed([])

    assert (found.versions, found.first, found.last) == (0, 0, 0)
    assert found.headline.startswith("Nothing is measured yet")


def test_versions_are_counted_by_what_became_of_them() -> None:
    cases = alternating(6)
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
def test_random_worlds_show_no_difference() -> None:
    modest = 0
    for seed in range(WORLDS):
        findings = []
        for number, kind in enumerate(KINDS):
            world = SimulatedRecord(3 * seed + number, persistent, start=START, days=90)
            points = {BTC_RETURN: world.points}
            rows = kind_accuracy(kind, world.cases, points, world.as_of).measured
            findings += [each.finding for each in rows]
        modest += "could-not-tell" in findings and not {"higher", "lower"} & {*findings}

    assert modest >= 0.95 * WORLDS


def with_edge(edge: float, *labels: str) -> KindAccuracy:
    """A record of labels in turn, three days each, in a world where they have this edge."""

    def alternate(_: object, past: Sized, before: str) -> str:
        return labels[len(past) // 72 % len(labels)]

    world = SimulatedRecord(1, alternate, start=START, days=200, edge=edge)
    return kind_accuracy(KIND, world.cases, {BTC_RETURN: world.points}, world.as_of)


def test_a_planted_edge_is_found_and_shown_with_its_size_and_a_caution() -> None:
    found = with_edge(0.003, "constructive", "neutral", "cautious", "neutral")

    assert row(found, "constructive", BTC_RETURN, "8h").finding == "higher"
    assert row(found, "cautious", BTC_RETURN, "8h").finding == "lower"
    assert row(found, "neutral", BTC_RETURN, "8h").finding == "not-tested"
    assert found.headline.startswith(
        "BTC returned more than after other labels: constructive over 8 h (difference +"
    )
    assert CAUTION in found.headline


def test_the_opposite_of_a_claim_is_said() -> None:
    found = with_edge(-0.003, "constructive", "neutral")

    assert row(found, "constructive", BTC_RETURN, "8h").finding == "lower"
    assert "the opposite of its claim" in found.headline


def test_an_edge_too_small_to_see_is_not_denied() -> None:
    found = with_edge(0.0001, "constructive", "neutral")
    shown = row(found, "constructive", BTC_RETURN, "8h")

    assert shown.finding == "could-not-tell"
    assert shown.comparison is not None
    assert found.headline.startswith(
        "We could not tell: constructive over 8 h (difference "
        f"{shown.comparison.difference:+.2f} %; we would probably have seen "
        f"{shown.comparison.detectable:.2f} % or more)"
    )


def test_a_change_of_the_definition_is_a_decision() -> None:
    # A new digest starts all counts again. The program for readers implements the same one.
    assert DEFINITION_DIGEST == "14e3675201b0b04ca4d5dbc04cf66e40776d6b340b757cdda089898a5b30e052"
    assert digest(canonical(DEFINITION)) == DEFINITION_DIGEST


def test_the_definition_states_what_is_measured() -> None:
    stated = {name: (each.unit, each.rule) for name, each in METRICS.items()}
    metrics = DEFINITION["metrics"]
    assert isinstance(metrics, dict)

    assert {name: (each["unit"], each["rule"]) for name, each in metrics.items()} == stated  # type: ignore[index, call-overload]
    assert {horizon for kind in KINDS for _, horizon in metrics_of(kind)} == set(HORIZONS)
    assert DEFINITION["labels"] == list(LABELS)
