"""The funding stance: what settled rates say, and what they do not say yet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.digest import leg_document
from barograph.history.records import LABELS, Proposal
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.settlements import SettledFunding
from barograph.stances.funding import propose
from support.clock import START

AT = START // (8 * HOUR) * 8 * HOUR
"""2026-11-06T16:00: the newest settlement."""

GRACE = 6 * HOUR


def settled(
    *rates: float, hours: float = 8, until: int = AT, is_reported: bool = True
) -> list[SettledFunding]:
    """Settlements at these rates, one interval apart, the last of them at `until`."""
    step = round(hours * HOUR)
    first = until - (len(rates) - 1) * step
    return [
        SettledFunding("BTCUSDT", at := first + number * step, rate, hours, at - 1_000, is_reported)
        for number, rate in enumerate(rates)
    ]


def judged(settlements: list[SettledFunding], now: int = START, grace: int = GRACE) -> Proposal:
    proposed = propose(settlements, "test venue", now, grace, "bybit")
    assert proposed is not None
    return proposed


def levels(settlements: list[SettledFunding]) -> dict[str, Any]:
    return judged(settlements).leg.levels


def test_a_leg_is_the_interval_from_a_settlement_to_the_next() -> None:
    proposed = judged(settled(0.01))

    assert proposed.leg_id == "funding-regime-stance:2026-11-06T16:00:00.000Z"
    assert proposed.leg.period == {
        "start": "2026-11-06T16:00:00.000Z",
        "end": "2026-11-07T00:00:00.000Z",
    }
    assert (proposed.issued_at, proposed.expires_at) == (START, AT + 8 * HOUR + GRACE)
    assert proposed.leg.evidence.source == "test venue"
    assert proposed.leg.evidence.observed_at == "2026-11-06T15:59:59.000Z"


def test_rates_from_the_exchanges_history_are_counted_in_the_source_and_nowhere_else() -> None:
    measured = settled(*(number / 1000 for number in range(93)))
    past = [each._replace(is_backfilled=True) for each in measured[:-10]]

    ours, mixed = judged(measured).leg, judged(past + measured[-10:]).leg

    counted = "test venue; 80 of 90 rates from the exchange's own history"
    assert mixed.evidence.source == counted
    assert mixed.evidence.digest == ours.evidence.digest
    assert mixed == replace(ours, evidence=replace(ours.evidence, source=counted))


def test_a_leg_is_as_long_as_the_contracts_own_interval() -> None:
    newest = START // HOUR * HOUR
    proposed = judged(settled(0.001, hours=1, until=newest))

    assert proposed.expires_at == newest + HOUR + GRACE
    assert proposed.leg.levels["fundingRatePct8h"] == 0.008


@pytest.mark.parametrize("passed", [-DAY, -1, 8 * HOUR, 8 * HOUR + GRACE, 30 * DAY])
def test_nothing_is_judged_outside_the_interval(passed: int) -> None:
    for settlements in (settled(0.01), []):
        assert propose(settlements, "test venue", AT + passed, GRACE, "bybit") is None
    for now in (AT, AT + 4 * HOUR, AT + 8 * HOUR - 1):
        assert judged(settled(0.01), now).expires_at > now


RISEN = {"score": 99.44, "score24hAgo": 50.0, "delta24h": 49.44}
FALLEN = {"score": 50.0, "score24hAgo": 48.33, "delta24h": 1.67}


@pytest.mark.parametrize(
    ("rates", "scores", "confidence"),
    [
        ([0.0], {}, "low"),
        ([0.0] * 89, {}, "low"),
        ([float(rate) for rate in range(90)], {"score": 99.44}, "medium"),
        ([*[0.0] * 92, 0.01], RISEN, "high"),
        ([-0.01] * 93, {"score": 50.0, "score24hAgo": 50.0, "delta24h": 0.0}, "high"),
        ([*[9.0] * 30, *[0.0] * 90], FALLEN, "high"),
    ],
    ids=["one", "too few", "90", "93", "a difference of zero is known", "older ones don't count"],
)
def test_scores_need_ninety_settlements_and_those_of_the_day_before_three_more(
    rates: list[float], scores: dict[str, float], confidence: str
) -> None:
    leg = judged(settled(*rates)).leg

    assert leg.levels == {"fundingRatePct8h": rates[-1], **scores}
    assert leg.evidence.inputs["levels"] == scores
    assert leg.evidence.inputs["settlements_compared"] == min(len(rates), 90)
    assert leg.decision.confidence == confidence


def test_the_day_before_is_only_known_by_the_settlement_exactly_then() -> None:
    known = settled(*[0.0] * 100)
    without = [each for each in known if each.at != AT - DAY]

    assert levels(known)["score24hAgo"] == 50.0
    assert set(levels(without)) == {"fundingRatePct8h", "score"}


CROWDS: dict[str, list[tuple[float, ...]]] = {
    "neutral": [(0.01, 0.01), (0.0, 0.0), (0.03, 0.0299), (0.0299, 0.03), (0.0, -0.0049), (0.05,)],
    "cautious": [(0.03, 0.03)],
    "constructive": [(0.0, -0.005), (-0.0299, -0.03), (0.03, -0.03), (-0.05,)],
    "stand-aside": [(-0.03, -0.03)],
}


@pytest.mark.parametrize("expected", CROWDS)
def test_a_crowd_counts_once_it_has_paid_twice_in_a_row(expected: str) -> None:
    for rates in CROWDS[expected]:
        decision = judged(settled(*rates)).leg.decision
        assert decision.label == expected, rates
        assert len(rates) > 1 or "heavily" not in decision.rationale


def test_settlements_with_one_missing_between_are_not_in_a_row() -> None:
    one_missed = [*settled(0.05, until=AT - 16 * HOUR), *settled(0.05)]
    complete = settled(0.05, 0.05)

    assert judged(one_missed).leg.decision.label == "neutral"
    assert judged(complete).leg.decision.label == "cautious"
    assert judged(one_missed).leg.evidence.digest != judged(complete).leg.evidence.digest


def test_a_rate_that_is_not_known_leaves_the_scores_of_others_as_they_are() -> None:
    known = settled(*range(100))
    without = [each for each in known if each.at != AT - 2 * DAY]

    assert levels(without)["score"] == levels(known)["score"]
    assert "score24hAgo" in levels(without)
    assert judged(without).leg.evidence.digest == judged(known).leg.evidence.digest


def test_a_report_that_confirms_a_reading_is_no_new_evidence() -> None:
    read = settled(*[0.01] * 95, is_reported=False)
    reported = [*settled(*[0.01] * 94, until=AT - 8 * HOUR), read[-1]]
    by_reading, by_report = judged(read).leg, judged(reported).leg

    assert by_reading.evidence.digest == by_report.evidence.digest
    assert "reported 0 of the 90 rates" in by_reading.decision.rationale
    assert "reported 89 of the 90 rates" in by_report.decision.rationale


def test_the_same_settlements_are_the_same_evidence_until_a_rate_is_corrected() -> None:
    known, corrected = settled(*[0.01] * 95), settled(*[0.01] * 94, 0.02)

    assert judged(known, START).leg == judged(known, START + HOUR).leg
    assert judged(known).leg.evidence.digest != judged(corrected).leg.evidence.digest


@given(
    rates=st.lists(st.floats(-3, 3, allow_nan=False), min_size=1, max_size=120),
    hours=st.sampled_from([1.0, 2.0, 4.0, 8.0]),
)
def test_any_rates_can_be_recorded(rates: list[float], hours: float) -> None:
    proposed = judged(settled(*rates, hours=hours), now=AT)
    found, score = proposed.leg.levels, proposed.leg.levels.get("score")

    assert canonical(leg_document(proposed.leg))
    assert proposed.leg.decision.label in LABELS
    assert ("score" in found) == (len(rates) >= 90)
    assert ("score24hAgo" in found) == (len(rates) >= 90 + 24 / hours)
    assert ("delta24h" in found) == ("score" in found and "score24hAgo" in found)
    assert score is None or (isinstance(score, float) and 0 <= score <= 100)
