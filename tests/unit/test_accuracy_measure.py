"""What followed an instant: by hand, without a look ahead, and never from too few cases."""

from itertools import pairwise
from math import comb

import pytest

from barograph.accuracy.cases import distribution, interval_rank, measure_of
from barograph.accuracy.definition import BTC_RETURN, FUNDING, HORIZONS, TESTS, US10Y_CHANGE
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.outcomes import Outcome, SeriesPoint, independent

MONDAY = 20_765 * DAY
"""2026-11-09T00:00:00.000Z."""

LATER = MONDAY + 60 * DAY
ISSUED = MONDAY + 10 * HOUR + MINUTE


def prices(*hours: float | None, start: int = MONDAY) -> list[SeriesPoint]:
    points = [(start + hour * HOUR, value) for hour, value in enumerate(hours)]
    return [SeriesPoint(at, value) for at, value in points if value is not None]


def days(**values: float) -> list[SeriesPoint]:
    """Figures of days after Monday, such as `d1` for Tuesday."""
    return [SeriesPoint(MONDAY + int(day[1:]) * DAY, value) for day, value in values.items()]


def test_a_return_starts_after_the_issue_and_ends_after_the_horizon() -> None:
    hourly = prices(*(100.0 + hour for hour in range(40)))

    found = measure_of(BTC_RETURN, "8h", hourly, LATER).after(ISSUED)

    assert found == Outcome(MONDAY + 11 * HOUR, MONDAY + 19 * HOUR, 100 * (119 / 111 - 1))


def regular(metric: str) -> list[SeriesPoint]:
    step = DAY if metric == US10Y_CHANGE else HOUR
    return [SeriesPoint(at, 100 + at / DAY % 7) for at in range(MONDAY, LATER, step)]


def test_a_price_that_comes_more_than_two_hours_late_is_no_outcome() -> None:
    for gap, is_known in ((range(11, 12), True), (range(11, 13), False)):
        hourly = prices(*(None if hour in gap else 100.0 for hour in range(40)))
        assert (measure_of(BTC_RETURN, "8h", hourly, LATER).after(ISSUED) is not None) == is_known


def test_an_outcome_counts_three_hours_after_its_horizon() -> None:
    hourly = prices(*(100.0 for _ in range(40)))
    settled = ISSUED + 11 * HOUR

    assert measure_of(BTC_RETURN, "8h", hourly, settled - 1).after(ISSUED) is None
    assert measure_of(BTC_RETURN, "8h", hourly, settled).after(ISSUED) is not None


def test_funding_is_the_mean_of_settlements_after_the_issue_up_to_the_end() -> None:
    rates = [SeriesPoint(MONDAY + at * HOUR, rate) for at, rate in ((0, 9.0), (8, 1.0), (16, 3.0))]
    measure = measure_of(FUNDING, "8h", rates, LATER)

    assert measure.after(MONDAY) == Outcome(MONDAY, MONDAY + 8 * HOUR, 1.0)
    assert measure.before(MONDAY + 8 * HOUR) == Outcome(MONDAY, MONDAY + 8 * HOUR, 1.0)
    assert measure.after(MONDAY + HOUR) == Outcome(MONDAY + HOUR, MONDAY + 9 * HOUR, 1.0)
    assert measure_of(FUNDING, "24h", rates, LATER).after(MONDAY) == Outcome(
        MONDAY, MONDAY + DAY, 2.0
    )


@pytest.mark.parametrize(
    ("hours", "start", "value"),
    [
        pytest.param(20.9, -3, 5.0, id="before Monday's close: from Friday's to Monday's"),
        pytest.param(21.0, 0, 0.5, id="at Monday's close: from Monday's to Tuesday's"),
        pytest.param(44.9, 0, 0.5, id="before Tuesday's close"),
        pytest.param(45.0, 1, 0.25, id="a holiday on Wednesday: from Tuesday's to Thursday's"),
    ],
)
def test_figures_start_at_the_close_before_an_issue(hours: float, start: int, value: float) -> None:
    yields = [SeriesPoint(MONDAY - 3 * DAY, 4.0), *days(d0=9.0, d1=9.5, d3=9.75)]
    found = measure_of(US10Y_CHANGE, "24h", yields, LATER).after(MONDAY + round(hours * HOUR))

    assert found is not None
    assert (found.start, found.value) == (MONDAY + start * DAY, value)


def test_a_week_of_daily_figures_and_the_week_before() -> None:
    yields = [SeriesPoint(MONDAY - 7 * DAY, 4.0), *days(d0=4.5, d1=9.0, d8=5.5, d14=8.0)]
    measure = measure_of(US10Y_CHANGE, "7d", yields, LATER)

    assert measure.after(MONDAY + DAY) == Outcome(MONDAY, MONDAY + 8 * DAY, 1.0)
    assert measure.before(MONDAY + DAY) == Outcome(MONDAY - 7 * DAY, MONDAY, 0.5)


def test_a_gap_of_more_than_four_days_is_no_outcome() -> None:
    for day, is_known in ((5, True), (6, False)):
        yields = days(**{"d0": 4.0, f"d{day}": 4.5})
        found = measure_of(US10Y_CHANGE, "24h", yields, LATER).after(MONDAY + 21 * HOUR)
        assert (found is not None) == is_known


@pytest.mark.parametrize("metric", [BTC_RETURN, FUNDING, US10Y_CHANGE])
@pytest.mark.parametrize("horizon", ["24h", "7d"])
def test_only_values_within_the_measured_time_change_an_outcome(metric: str, horizon: str) -> None:
    points = regular(metric)
    at, length = MONDAY + 20 * DAY + 5 * HOUR, HORIZONS[horizon]
    known = measure_of(metric, horizon, points, LATER).after(at)

    # A daily figure is that of the close at 21:00, so Monday's is Tuesday's last known one.
    early = 2 * DAY if metric == US10Y_CHANGE else 0
    changed = {
        point.at
        for index, point in enumerate(points)
        if measure_of(metric, horizon, _with(points, index), LATER).after(at) != known
    }

    assert changed
    assert all(at - early <= each <= at + length + 2 * HOUR for each in changed)


def test_what_came_before_never_depends_on_what_followed() -> None:
    for metric in (BTC_RETURN, FUNDING, US10Y_CHANGE):
        points = regular(metric)
        at = MONDAY + 20 * DAY + 5 * HOUR
        known = measure_of(metric, "24h", points, LATER).before(at)
        assert known is not None
        for index, point in enumerate(points):
            if point.at > at + HOUR:
                later = measure_of(metric, "24h", _with(points, index), LATER)
                assert later.before(at) == known


def _with(points: list[SeriesPoint], index: int) -> list[SeriesPoint]:
    return [*points[:index], points[index]._replace(value=-1e6), *points[index + 1 :]]


def test_taken_cases_never_overlap_and_the_first_one_is_always_taken() -> None:
    spans = [(0, 8), (4, 12), (8, 16), (15, 23), (16, 24)]
    cases = [(start, Outcome(start, end, 1.0)) for start, end in spans]
    found = independent([(-1, None), *cases])  # without an outcome, it keeps none from being taken

    assert [at for at, _ in found] == [0, 8, 16]
    assert all(one.end <= other.start for (_, one), (_, other) in pairwise(found))


def test_fewer_than_thirty_cases_have_a_count_and_nothing_else() -> None:
    few = distribution(float(each) for each in range(29))
    enough = distribution(float(each) for each in range(30))

    assert (few.count, few.quantiles, few.interval) == (29, None, None)
    assert enough.quantiles == (2.9, 7.25, 14.5, 21.75, 26.1)
    assert enough.interval == (6.0, 23.0)


@pytest.mark.parametrize("count", [30, 31, 45, 100, 365])
def test_the_interval_misses_the_median_as_rarely_as_all_tests_together_need(count: int) -> None:
    def missed(k: int) -> float:
        return float(2 * sum(comb(count, heads) for heads in range(k)) / 2**count)

    k = interval_rank(count)

    assert missed(k) <= 0.05 / TESTS < missed(k + 1)
    assert TESTS == 18
