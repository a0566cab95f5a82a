"""Signals of daily figures: what they say, when they say unknown, and without the exchange."""

import logging

import pytest

from barograph.kit.timestamps import DAY, MINUTE
from barograph.macro.evidence import NO_FIGURES, MacroEvidence, day_of, is_recent
from barograph.macro.records import US3M, US10Y
from barograph.macro.series import EtfSeries
from barograph.signals.judge import SignalConclusion, SignalJudge
from barograph.signals.methods import MARKET_METHODS, btc_etf_flow, judge_all, judge_macro, us_rates
from barograph.signals.records import NOT_KNOWN, Signal, SignalResult
from support.clock import START
from support.evidence import evidence
from support.figures import ISSUER, TREASURY, flows, of_flows, of_slopes, of_yields, yields
from support.markets import SOURCE

FRIDAY = "2026-11-06"
MIDNIGHT = START // DAY * DAY


@pytest.mark.parametrize(
    ("days_later", "expected"), [(-1, False), (0, True), (3, True), (5, True), (6, False)]
)
def test_figures_are_recent_for_two_business_days(days_later: int, expected: bool) -> None:
    # Friday: then a weekend, Monday, Tuesday, a holiday; Thursday is the third business day.
    assert is_recent(FRIDAY, day_of(MIDNIGHT + days_later * DAY)) == expected
    assert is_recent(FRIDAY, day_of(MIDNIGHT + days_later * DAY + DAY - 1)) == expected


@pytest.mark.parametrize(
    ("newest", "label"),
    [
        ([0.2, 0.2, 0.2, 0.0, -0.1], "mixed"),
        ([0.2, 0.2, 0.2, -0.2, 0.1], "accumulation"),
        ([0.2, 0.2, 0.2, -0.2, 0.0999], "mixed"),
        ([0.5, 0.5, 0.5, -0.01, -0.01], "mixed"),
        ([-0.2, -0.2, -0.2, 0.2, -0.1], "distribution"),
        ([-0.2, -0.2, -0.2, 0.2, -0.0999], "mixed"),
        ([-1.0, 0.0, 0.0, -1.0, -1.0], "mixed"),
        ([0.0] * 5, "mixed"),
    ],
)
def test_flow_has_a_side_at_half_a_percent_on_four_days(newest: list[float], label: str) -> None:
    assert btc_etf_flow(of_flows(*newest)).label == label


@pytest.mark.parametrize("sign", [1, -1])
def test_a_side_is_left_inside_a_quarter_of_a_percent(sign: int) -> None:
    side = "accumulation" if sign > 0 else "distribution"

    def label(*later: float) -> str:
        return btc_etf_flow(of_flows(*(sign * each for each in (0.2, 0.2, 0.2, 0.2, *later)))).label

    assert label(0.0) == side
    assert label(0.0, -0.35) == side
    assert label(0.0, -0.36) == "mixed"
    assert label(0.0, -0.36, 0.25) == "mixed"  # and not entered again so early


def test_the_value_of_flow_names_what_is_covered() -> None:
    assert btc_etf_flow(of_flows(0.2, 0.2, 0.2, -0.2, 0.02)) == SignalResult(
        "mixed", "+0.42 % of assets in 5 days to 2026-11-05 (IBIT only)"
    )
    assert btc_etf_flow(of_flows(-0.5, -0.5, -0.25, -0.2)).value.startswith("-1.45 % of assets")


def without_a_day(seen: MacroEvidence) -> MacroEvidence:
    days = seen.etf.days
    return seen._replace(etf=EtfSeries("IBIT only", days[:-3] + days[-2:]))


@pytest.mark.parametrize(
    ("seen", "is_known"),
    [
        (of_flows(count=20), True),
        (of_flows(count=19), False),
        (of_flows(None, 0.1, 0.1, 0.1, 0.1, 0.1), True),
        (of_flows(None, 0.1, 0.1, 0.1, 0.1), False),
        (of_flows(None), False),
        (of_flows(day="2026-11-04"), True),
        (of_flows(day="2026-11-03"), False),
        (of_flows(*[100.0] * 5), True),
        (without_a_day(of_flows(*[100.0] * 5)), False),
    ],
)
def test_flow_needs_twenty_days_five_flows_and_recency(seen: MacroEvidence, is_known: bool) -> None:
    assert (btc_etf_flow(seen) != NOT_KNOWN) == is_known


@pytest.mark.parametrize(
    ("change", "slope_change", "label"),
    [
        (0.14, 0.14, "bear-steepening"),
        (0.14, -0.14, "bear-flattening"),
        (-0.14, 0.14, "bull-steepening"),
        (-0.14, -0.14, "bull-flattening"),
        (0.10, 0.10, "consolidation"),
        (-0.10, -0.10, "consolidation"),
        (0.14, 0.0, "bear"),
        (0.0, 0.14, "steepening"),
    ],
)
def test_rates_are_judged_by_their_usual_move(
    change: float, slope_change: float, label: str
) -> None:
    # Each moves by 2 basis points per day, so over 20 days usually by 5.6 times as much.
    us10y = [4.0, 4.02] * 30 + [4.0 + change]
    us3m = [4.0, 4.0] * 30 + [4.0 + change - slope_change]

    assert us_rates(of_yields(us10y, us3m)).label == label


def test_the_value_of_rates_is_in_percent_and_basis_points() -> None:
    seen = of_yields([9.0, *[4.17, 4.19] * 30, 4.31], [4.0, *[4.2] * 60, 4.39])

    assert us_rates(seen) == SignalResult(
        "bear",
        "10y 4.31 %, +14 bp in 20 days (1.15 times the usual move); slope -8 bp, -5 bp in "
        "20 days (0.43 times); as of 2026-11-05",
    )


QUARTER = of_yields([4.0] * 70, [4.0] * 70)


@pytest.mark.parametrize(
    ("seen", "is_known"),
    [
        (of_yields([4.0] * 61, [4.0] * 61, day="2026-11-04"), True),
        (of_yields([4.0] * 60, [4.0] * 60, day="2026-11-04"), False),
        (of_yields([4.0] * 61, [4.0] * 61, day="2026-11-03"), False),
        (QUARTER._replace(us3m=QUARTER.us3m[:-2]), False),  # of too old a day
        (QUARTER._replace(us3m=QUARTER.us3m[10:]), False),
        (QUARTER._replace(us3m=[]), False),
        (QUARTER._replace(us10y=QUARTER.us10y[9:]), True),
    ],
)
def test_rates_need_61_recent_days_with_both_yields(seen: MacroEvidence, is_known: bool) -> None:
    assert (us_rates(seen) != NOT_KNOWN) == is_known


def both(at: int = START) -> MacroEvidence:
    return MacroEvidence(at, flows(), yields(US10Y, [4.0] * 61), yields(US3M, [4.0] * 61))


def test_the_source_names_publishers_only_of_what_is_known() -> None:
    assert judge_all(evidence(), NO_FIGURES, {}).source == SOURCE
    assert judge_all(evidence(), both(), {}).source == f"{SOURCE}; {ISSUER}; {TREASURY}"
    assert judge_all(evidence(), of_slopes(), {}).source == f"{SOURCE}; {TREASURY}"
    assert judge_all(evidence(), both(START + 30 * DAY), {}).source == SOURCE


def labels(conclusion: SignalConclusion | None) -> dict[str, str]:
    assert conclusion is not None
    return {each.key: each.label for each in conclusion.signals.signals}


def stored(judge: SignalJudge, conclusion: SignalConclusion | None) -> SignalConclusion | None:
    if conclusion is not None:
        judge.written(conclusion)
    return conclusion


@pytest.mark.outcome(
    "The exchange fails while daily figures are available",
    "Their signals are still evaluated; market signals become `unknown` at the freshness limit.",
)
def test_daily_figure_signals_are_evaluated_while_the_exchange_fails() -> None:
    judge = SignalJudge()
    first = stored(judge, judge.conclude(evidence(as_of=START), both()))
    assert first is not None

    failed = stored(judge, judge.conclude_failure(of_flows(at=START + MINUTE), "a venue"))

    assert failed is not None
    market = len(MARKET_METHODS)
    assert failed.signals.signals[:market] == first.signals.signals[:market]
    assert failed.signals.signals[market:] == (
        Signal(
            *("btc-etf-flow", "BTC ETF flow", "mixed"),
            "+0.00 % of assets in 5 days to 2026-11-05 (IBIT only)",
            START + MINUTE,
        ),
        Signal("us-rates", "US rates", "unknown", "n/a", START + MINUTE),
    )
    assert (failed.signals.as_of, failed.signals.source) == (START + MINUTE, f"a venue; {ISSUER}")
    assert [each.key for each in failed.changes] == ["us-rates"]


def test_a_failure_is_judged_once_a_minute_and_delays_no_reading() -> None:
    judge = SignalJudge()
    stored(judge, judge.conclude(evidence(as_of=START), both()))

    assert judge.conclude_failure(both(START + MINUTE - 1), "a venue") is None
    assert stored(judge, judge.conclude_failure(both(START + MINUTE), "a venue")) is not None
    assert judge.conclude_failure(both(START + MINUTE + 5_000), "a venue") is None
    later = evidence(as_of=START + MINUTE + 10_000)
    assert stored(judge, judge.conclude(later, both())) is not None
    assert judge.conclude(evidence(as_of=START + MINUTE + 15_000), both()) is None


def test_where_nothing_was_ever_judged_a_failure_judges_only_what_is_known() -> None:
    judge = SignalJudge()

    assert judge.conclude_failure(NO_FIGURES._replace(at=START), "a venue") is None
    assert labels(judge.conclude_failure(both(), "a venue")) == {
        **{each.key: "unknown" for each in MARKET_METHODS},
        "btc-etf-flow": "mixed",
        "us-rates": "consolidation",
    }


def test_a_method_of_figures_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    # No publisher has such a yield; a method that cannot read it stands for any that is wrong.
    wrong = both()._replace(us3m=yields(US3M, [None] * 61))  # type: ignore[list-item]

    with caplog.at_level(logging.ERROR):
        judged = judge_macro(wrong, "a venue", None)

    assert [each.label for each in judged.signals][-2:] == ["mixed", "unknown"]
    (logged,) = caplog.records
    assert logged.__dict__["signal"] == "us-rates"
