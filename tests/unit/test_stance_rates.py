"""The rates desk: what yields say, with days missing, figures revised and series gone."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from math import pi, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.digest import leg_document
from barograph.history.records import LABELS, Proposal
from barograph.kit.business_days import business_days
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.macro.evidence import CurveChange, curve_move
from barograph.macro.records import (
    EFFR,
    EFFR_HIGH,
    EFFR_LOW,
    NYFED,
    NYFED_NOTICE,
    SOFR,
    US2Y,
    US3M,
    US10Y,
    RecordedFigure,
)
from barograph.stances.rates import is_inverted, propose
from support.clock import START

FRIDAY = date(2026, 11, 6)
DAYS = [each.isoformat() for each in business_days(FRIDAY - timedelta(days=95), FRIDAY)]
GRACE = 6 * HOUR
YIELDS = {US3M: 4.0, US2Y: 3.8, US10Y: 4.2}
OVERNIGHT = {SOFR: 3.9, EFFR: 3.88, EFFR_LOW: 3.75, EFFR_HIGH: 4.0}

Series = dict[str, list[RecordedFigure]]


def flat(days: Sequence[str] = DAYS, /, **values: float) -> Series:
    """Every series at one value on all days."""
    given_values = YIELDS | OVERNIGHT | values
    return {
        name: [RecordedFigure(name, day, 1, value, f"of {name}", START) for day in days]
        for name, value in given_values.items()
    }


def with_value(
    series: Series, name: str, day: str, value: float, *, revision: int = 1, at: int = START
) -> Series:
    """The same with another value of one series on one day."""
    points = [
        replace(each, value=value, revision=revision, observed_at=at) if each.day == day else each
        for each in series[name]
    ]
    return series | {name: points}


def without(series: Series, name: str, *days: str) -> Series:
    return series | {name: [each for each in series[name] if each.day not in days]}


def asked(
    series: Mapping[str, Sequence[RecordedFigure]],
    *,
    now: int = START,
    today: date = FRIDAY,
    was_inverted: bool = False,
) -> Proposal | str:
    return propose(series, now, today, GRACE, was_inverted=was_inverted)


def judged(series: Mapping[str, Sequence[RecordedFigure]], **given_arguments: Any) -> Proposal:
    proposed = asked(series, **given_arguments)
    assert isinstance(proposed, Proposal), proposed
    return proposed


def levels(series: Series, **given_arguments: Any) -> dict[str, Any]:
    return judged(series, **given_arguments).leg.levels


def test_a_leg_is_one_data_day() -> None:
    proposed = judged(flat())

    assert proposed.leg_id == "rates-desk:2026-11-06T00:00:00.000Z"
    assert proposed.leg.period["end"] == "2026-11-07T00:00:00.000Z"
    assert iso_timestamp(proposed.expires_at) == "2026-11-10T05:59:59.000Z"
    assert proposed.leg.levels == {
        "us3m": 4.0,
        "us2y": 3.8,
        "us10y": 4.2,
        "sofr": 3.9,
        "effr": 3.88,
        "slope10y3m": 0.2,
        "us10yChange20d": 0.0,
        "us10yMoves20d": 0.0,
        "slopeChange20d": 0.0,
        "slopeMoves20d": 0.0,
        "effrPlaceInRange": 0.52,
        "inverted": False,
    }
    assert proposed.leg.decision.label == "neutral"
    assert "of effr; of effr-high" in proposed.leg.evidence.source


def test_the_new_york_feds_notice_goes_with_its_rates_and_with_no_others() -> None:
    rates = {
        name: [replace(each, source=NYFED) if name in OVERNIGHT else each for each in figures]
        for name, figures in flat().items()
    }
    only_yields = {name: figures for name, figures in rates.items() if name in YIELDS}

    published = judged(rates).leg.evidence.source
    assert published.startswith(f"{NYFED} ({NYFED_NOTICE}); of us10y")
    assert NYFED not in judged(only_yields).leg.evidence.source
    assert judged(rates).leg.evidence.digest == judged(flat()).leg.evidence.digest


def test_a_day_that_not_all_yields_have_is_not_judged_yet() -> None:
    assert judged(without(flat(), US2Y, DAYS[-1])).leg_id.startswith(f"rates-desk:{DAYS[-2]}")


@pytest.mark.parametrize("name", [US3M, US2Y, US10Y])
def test_without_one_of_the_yields_there_is_no_stance(name: str) -> None:
    for series in (flat() | {name: []}, {key: flat()[key] for key in flat() if key != name}):
        assert asked(series) == "no day has all three yields"


def test_sixty_earlier_days_are_needed() -> None:
    assert asked(flat(DAYS[-60:])) == "fewer than 60 earlier days are known"
    assert levels(flat(DAYS[-61:]))["us10yMoves20d"] == 0


@pytest.mark.parametrize("name", [SOFR, EFFR, EFFR_LOW, EFFR_HIGH])
def test_without_one_of_the_overnight_rates_its_level_is_absent(name: str) -> None:
    series = {key: points for key, points in flat().items() if key != name}
    found = judged(series).leg

    assert name not in found.levels
    assert ("effrPlaceInRange" in found.levels) == (name == SOFR)
    assert found.decision.confidence == ("high" if name == SOFR else "medium")


@pytest.mark.parametrize("days", [-1, 4, 7, 364])
def test_without_fresh_yields_there_is_no_stance_and_the_reason_names_their_day(days: int) -> None:
    reason = asked(flat(), now=START + days * DAY, today=FRIDAY + timedelta(days=days))

    assert reason == "the newest yields are from 2026-11-06"


@pytest.mark.parametrize("days", [0, 1, 2, 3])
def test_a_weekend_does_not_silence_fridays_rates(days: int) -> None:
    proposed = judged(flat(), now=START + days * DAY, today=FRIDAY + timedelta(days=days))

    assert proposed.leg == judged(flat()).leg
    assert proposed.expires_at > START + days * DAY


def test_inversion_is_entered_and_left_five_points_beyond_zero() -> None:
    entered = [is_inverted(slope, was_inverted=False) for slope in (-0.05, -0.0499, 0.0)]
    left = [is_inverted(slope, was_inverted=True) for slope in (0.05, 0.0499, -0.0499)]

    assert entered == [True, False, False]
    assert left == [False, True, True]


def test_a_change_below_the_usual_move_has_no_direction() -> None:
    def move(ten_years: float, slope: float) -> str:
        return curve_move(CurveChange(9.9, ten_years), CurveChange(9.9, slope))

    assert move(0.0, 0.0) == move(0.99, -0.99) == "consolidation"
    assert move(1.0, 1.0) == "bear steepening"
    assert move(1.0, -1.0) == "bear flattening"
    assert move(-1.0, 1.0) == "bull steepening"
    assert move(-1.0, -1.0) == "bull flattening"
    assert (move(0.1, 3.0), move(-0.1, -3.0)) == ("steepening", "flattening")
    assert (move(3.0, 0.0), move(-3.0, 0.0)) == ("bear", "bull")


@pytest.mark.parametrize(
    ("daily", "label"), [(0.005, "cautious"), (0.01, "neutral"), (0.05, "neutral")]
)
def test_the_same_rise_counts_only_where_yields_usually_move_less(daily: float, label: str) -> None:
    series = flat()
    for number, day in enumerate(DAYS):
        rise = 0.05 if number >= len(DAYS) - 20 else 0.0
        series = with_value(series, US10Y, day, round(4.2 + daily * (number % 2) + rise, 4))
    leg = judged(series).leg
    given_figures: Any = leg.evidence.inputs[US10Y]
    values = [each["value"] for each in given_figures]
    usual = sqrt(pi / 2 * 20) * sum(abs(b - a) for a, b in pairwise(values)) / 60

    assert leg.levels["us10yChange20d"] == 0.05
    assert (len(values), leg.levels["us10yMoves20d"]) == (61, round(0.05 / usual, 2))
    assert leg.decision.label == label


@pytest.mark.parametrize(
    ("ten_years", "three_months", "was_inverted", "label"),
    [
        (4.2, 4.0, False, "neutral"),
        (4.3, 4.0, False, "cautious"),
        (4.1, 4.0, False, "constructive"),
        (3.9, 4.0, False, "neutral"),
        (4.3, 4.4, False, "cautious"),
        (4.1, 4.08, True, "neutral"),
        (4.2, 4.18, True, "cautious"),
        (4.2, 4.18, False, "neutral"),
        (4.2, 3.7, False, "neutral"),
        (-0.5, -0.9, False, "constructive"),
        (0.0, 0.0, False, "constructive"),
    ],
)
def test_the_decision_follows_the_ten_year_yield_and_inversion_shifts_it(
    ten_years: float, three_months: float, was_inverted: bool, label: str
) -> None:
    series = with_value(flat(), US10Y, DAYS[-1], ten_years)
    series = with_value(series, US3M, DAYS[-1], three_months)

    assert judged(series, was_inverted=was_inverted).leg.decision.label == label


@pytest.mark.parametrize(("effr", "place"), [(3.75, 0.0), (4.0, 1.0), (4.25, 2.0), (3.5, -1.0)])
def test_a_rate_outside_its_range_is_told_as_it_is(effr: float, place: float) -> None:
    assert levels(flat(effr=effr))["effrPlaceInRange"] == place


def test_a_rate_is_placed_only_in_a_range_of_its_own_day_that_has_a_width() -> None:
    series = without(flat(), EFFR_LOW, DAYS[-1])

    assert "effrPlaceInRange" not in levels(series)
    assert levels(series)["effr"] == 3.88
    assert "effrPlaceInRange" not in levels(flat(**{"effr-low": 4.0}))


def test_a_zero_rate_is_a_level_and_not_an_absent_one() -> None:
    zeros = dict.fromkeys((US3M, US2Y, US10Y, SOFR, EFFR), 0.0)

    assert levels(flat(**zeros)).items() >= zeros.items()


def test_overnight_rates_of_the_same_day_arriving_later_are_other_evidence_of_the_leg() -> None:
    early = judged(without(flat(), SOFR, DAYS[-1]))
    late = judged(with_value(flat(), SOFR, DAYS[-1], 3.95, at=START + HOUR))

    assert early.leg.levels["sofr"] == 3.9
    assert late.leg.levels["sofr"] == 3.95
    assert early.leg_id == late.leg_id
    assert early.leg.evidence.digest != late.leg.evidence.digest
    assert late.leg.evidence.observed_at == iso_timestamp(START + HOUR)


def test_an_overnight_rate_counts_for_two_days_and_for_none_before_it() -> None:
    assert "sofr" in levels(without(flat(), SOFR, *DAYS[-2:]))
    assert "sofr" not in levels(without(flat(), SOFR, *DAYS[-3:]))
    earlier = {name: points[:-1] for name, points in flat().items()}
    assert judged(earlier | {SOFR: flat()[SOFR]}).leg == judged(earlier).leg
    assert "sofr" not in levels(earlier | {SOFR: flat(sofr=9.9)[SOFR][-1:]})


@pytest.mark.parametrize("name", [US3M, US10Y])
@pytest.mark.parametrize("place", [-1, -10, -21, -61])
def test_a_revised_yield_that_a_level_rests_on_is_other_evidence(name: str, place: int) -> None:
    after = judged(with_value(flat(), name, DAYS[place], 5.0, revision=2, at=START + HOUR))

    assert judged(flat()).leg.evidence.digest != after.leg.evidence.digest
    assert after.leg.evidence.observed_at == iso_timestamp(START + HOUR)


def test_evidence_has_what_a_level_rests_on_and_nothing_else() -> None:
    for name, place in ((SOFR, -10), (EFFR, -10), (US2Y, -21), (US10Y, -62)):
        revised = with_value(flat(), name, DAYS[place], 9.0, revision=2)
        assert judged(revised).leg == judged(flat()).leg
    before, after = judged(flat()).leg.evidence, judged(flat(), was_inverted=True).leg.evidence
    assert before.inputs["was_inverted"] is False
    assert before.digest != after.digest


@given(
    name=st.sampled_from([US3M, US2Y, US10Y]),
    hole=st.sampled_from(DAYS[:-1]),
    revised=st.sampled_from(DAYS),
    of=st.sampled_from([US3M, US2Y, US10Y]),
)
def test_levels_change_with_evidence_only(name: str, hole: str, revised: str, of: str) -> None:
    holed = without(flat(), name, hole)
    before, after = judged(holed).leg, judged(with_value(holed, of, revised, 9.0, revision=2)).leg

    assert (before.levels == after.levels) or before.evidence.digest != after.evidence.digest


@given(
    values=st.fixed_dictionaries(
        {name: st.floats(-20, 20).map(lambda value: round(value, 2)) for name in YIELDS | OVERNIGHT}
    ),
    was_inverted=st.booleans(),
)
def test_any_rates_can_be_recorded(values: dict[str, float], was_inverted: bool) -> None:
    leg = judged(flat(**values), was_inverted=was_inverted).leg

    assert canonical(leg_document(leg))
    assert leg.decision.label in LABELS
    assert not any(word in leg.decision.rationale.lower() for word in ("buy", "sell", "will"))
