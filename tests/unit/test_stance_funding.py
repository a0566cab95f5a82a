"""The funding stance: what settled rates say, and what they do not say yet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.history.digest import leg_document
from barograph.history.records import LABELS, Proposal
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.markets.evidence import percentile_rank
from barograph.markets.settlements import REVISION_DELAY, SettlementReport
from barograph.stances.funding import known_settlements, propose
from barograph.venues.records import ContractName
from support.clock import START

AT = START // (8 * HOUR) * 8 * HOUR
"""2026-11-06T16:00: the newest settlement."""

NOW = AT + 30 * MINUTE
GRACE = 6 * HOUR
NAME = ContractName("bybit", "BTCUSDT")


def settled(*rates: float, hours: int = 8, until: int = AT) -> list[SettlementReport]:
    """Reports of settlements at these rates, one interval apart, the last of them at `until`."""
    first = until - (len(rates) - 1) * hours * HOUR
    return [
        SettlementReport("BTCUSDT", at := first + number * hours * HOUR, 1, rate, at + MINUTE)
        for number, rate in enumerate(rates)
    ]


def asked(reports: list[SettlementReport], now: int = NOW) -> Proposal | None:
    return propose(known_settlements(reports, now), NAME, "test venue", now, GRACE)


def judged(reports: list[SettlementReport], now: int = NOW) -> Proposal:
    proposed = asked(reports, now)
    assert proposed is not None
    return proposed


def levels(reports: list[SettlementReport]) -> dict[str, Any]:
    return judged(reports).leg.levels


def test_a_leg_is_the_interval_from_a_settlement_to_the_next() -> None:
    proposed = judged(settled(0.01))

    assert proposed.leg_id == "funding-regime-stance:2026-11-06T16:00:00.000Z"
    assert proposed.leg.period == {
        "start": "2026-11-06T16:00:00.000Z",
        "end": "2026-11-07T00:00:00.000Z",
    }
    assert (proposed.issued_at, proposed.expires_at) == (NOW, AT + 8 * HOUR + GRACE)
    assert proposed.leg.evidence.source == "test venue"
    assert proposed.leg.evidence.observed_at == "2026-11-06T16:01:00.000Z"
    assert proposed.leg.method == "funding-regime/2 bybit"


def test_a_leg_is_as_long_as_the_contracts_own_interval_which_no_missing_report_doubles() -> None:
    reports = settled(*[0.001] * 5, hours=1)
    proposed = judged(reports)

    assert proposed.expires_at == AT + HOUR + GRACE
    assert proposed.leg.levels["fundingRatePct8h"] == 0.008
    assert asked([*reports[:-2], reports[-1]], NOW) is None


@pytest.mark.parametrize("passed", [-DAY, -1, 8 * HOUR, 8 * HOUR + GRACE, 30 * DAY])
def test_nothing_is_judged_outside_the_interval(passed: int) -> None:
    for reports in (settled(0.01), []):
        assert asked(reports, AT + passed) is None
    for now in (AT, AT + 4 * HOUR, AT + 8 * HOUR - 1):
        assert judged(settled(0.01), now).expires_at > now


HIGH = {"score": 99.44, "score24hAgo": 50.0, "delta24h": 49.44}
FALLEN = {"score": 50.0, "score24hAgo": 48.33, "delta24h": 1.67}
EVEN = {"score": 50.0, "score24hAgo": 50.0, "delta24h": 0.0}
HOURLY = {"score": 99.93, "score24hAgo": 50.0, "delta24h": 49.93}


@pytest.mark.parametrize(
    ("hours", "rates", "scores", "confidence"),
    [
        (8, [0.0], {}, "low"),
        (8, [0.0] * 85, {}, "low"),
        (8, [*[0.0] * 85, 0.1], {"score": 99.42}, "medium"),
        (8, [*[0.0] * 92, 0.01], HIGH, "high"),
        (8, [-0.01] * 93, EVEN, "high"),
        (8, [*[9.0] * 30, *[0.0] * 90], FALLEN, "high"),
        (4, [*[0.0] * 170, 0.1], {"score": 99.71}, "medium"),
        (1, [0.0] * 683, {}, "low"),
        (1, [*[9.0] * 30, *[0.0] * 743, 0.01], HOURLY, "high"),
    ],
    ids=["one", "94 %", "95 %", "31 days", "zero is known", "older", "4 h", "1 h", "1 h, older"],
)
def test_score_compares_thirty_days_however_many_settlements_they_have(
    hours: int, rates: list[float], scores: dict[str, float], confidence: str
) -> None:
    leg = judged(settled(*rates, hours=hours)).leg

    assert leg.levels == {"fundingRatePct8h": round(rates[-1] * 8 / hours, 4), **scores}
    assert leg.evidence.inputs["levels"] == scores
    assert leg.decision.confidence == confidence
    covered = min(100, round(100 * len(rates) * hours / 720, 2))
    assert leg.evidence.inputs["covered_pct"] == covered
    assert f"{covered:g} % of that time" in leg.decision.rationale


@pytest.mark.parametrize("hours", [1, 4, 8])
def test_evidence_has_every_rate_that_the_scores_need(hours: int) -> None:
    reports = settled(*((number * 7 % 1000) / 1e5 for number in range(900)), hours=hours)
    late = reports[-60]._replace(read_at=AT + 5 * MINUTE)
    leg = judged([*reports[:-60], late, *reports[-59:]]).leg
    given_rates: Any = leg.evidence.inputs["rates_pct_8h"]

    assert len(given_rates) == 31 * 24 / hours
    assert leg.evidence.observed_at == iso_timestamp(late.read_at)
    for name, back in (("score", 0), ("score24hAgo", 1)):
        start, end = (iso_timestamp(AT - (back + days) * DAY) for days in (30, 0))
        window = [rate for at, rate in given_rates if start < at <= end]
        newest = dict(given_rates)[end]
        assert leg.levels[name] == round(percentile_rank(newest, sorted(window)), 2)


def test_the_day_before_is_only_known_by_the_settlement_exactly_then() -> None:
    known = settled(*[0.0] * 100)
    without = [each for each in known if each.at != AT - DAY]

    assert levels(known)["score24hAgo"] == 50.0
    assert set(levels(without)) == {"fundingRatePct8h", "score"}


CROWDS: dict[str, list[tuple[float, ...]]] = {
    "neutral": [(0.01, 0.01), (0.0, 0.0), (0.03, 0.0299), (0.0299, 0.03), (0.0, -0.0049), (0.05,)],
    "cautious": [(0.03, 0.03), (0.03, 0.02996)],
    "constructive": [(0.0, -0.005), (-0.0299, -0.03), (0.03, -0.03), (-0.05,)],
    "stand-aside": [(-0.03, -0.03)],
}


@pytest.mark.parametrize("expected", CROWDS)
def test_a_crowd_counts_once_it_has_paid_for_sixteen_hours(expected: str) -> None:
    for before, *rates in CROWDS[expected]:
        for hours in (1, 4, 8):
            per_8h = [before] * (8 // hours) + [rate for rate in rates for _ in range(8 // hours)]
            reports = settled(*(rate * hours / 8 for rate in per_8h), hours=hours)
            decision = judged(reports).leg.decision
            assert decision.label == expected, (hours, per_8h)
            is_crowd = expected in {"cautious", "stand-aside"}
            assert ("every settlement of the last 16 hours" in decision.rationale) == is_crowd


@pytest.mark.parametrize("hours", [1, 4, 8])
def test_one_calm_or_unknown_settlement_within_sixteen_hours_is_no_crowd(hours: int) -> None:
    heavy = settled(*[0.05 * hours / 8] * 40, hours=hours)
    place = len(heavy) - 16 // hours
    calm, earlier = ([*heavy] for _ in range(2))
    calm[place] = heavy[place]._replace(funding_rate_pct=0.0)
    earlier[place - 1] = heavy[place - 1]._replace(funding_rate_pct=0.0)
    unknown = [*heavy, heavy[place]._replace(revision=2, funding_rate_pct=0.06, read_at=NOW)]

    labels = [judged(sorted(each)).leg.decision.label for each in (heavy, earlier, calm, unknown)]
    assert labels == ["cautious", "cautious", "neutral", "neutral"]


def test_a_rate_that_is_not_known_leaves_the_scores_that_need_others() -> None:
    known = settled(*(number / 1000 for number in range(100)))
    without = [each for each in known if each.at != AT - 2 * DAY]

    assert levels(without).keys() == levels(known).keys()
    assert judged(without).leg.evidence.inputs["covered_pct"] == 98.89


@pytest.mark.parametrize(("corrected", "is_known"), [(0.01004, True), (0.01006, False)])
def test_only_a_correction_of_published_digits_changes_anything(
    corrected: float, is_known: bool
) -> None:
    known = settled(*[0.01] * 95)
    correction = known[-4]._replace(revision=2, funding_rate_pct=corrected, read_at=NOW)
    reports = sorted([*known, correction])
    before, at_once = judged(known).leg, judged(reports).leg
    later = judged(reports, NOW + REVISION_DELAY).leg

    assert (before.evidence.digest == at_once.evidence.digest) is is_known
    assert (before.evidence.digest == later.evidence.digest) is is_known
    assert ("score24hAgo" in at_once.levels) is is_known
    assert "score24hAgo" in later.levels


@given(
    rates=st.lists(st.floats(-3, 3, allow_nan=False), min_size=1, max_size=120),
    hours=st.sampled_from([1, 2, 4, 8]),
)
def test_any_rates_can_be_recorded(rates: list[float], hours: int) -> None:
    proposed = judged(settled(*rates, hours=hours))
    found, score = proposed.leg.levels, proposed.leg.levels.get("score")

    assert canonical(leg_document(proposed.leg))
    assert proposed.leg.decision.label in LABELS
    assert ("score" in found) == (len(rates) * hours >= 684)
    assert ("delta24h" in found) == ("score" in found and "score24hAgo" in found)
    assert score is None or (isinstance(score, float) and 0 <= score <= 100)
