"""What followed an instant: by hand, without a look ahead, and never from too few cases."""

from hashlib import shake_256
from random import Random
from statistics import fmean

import pytest

from barograph.accuracy.cases import distribution, measure_of
from barograph.accuracy.definition import BTC_RETURN, DRAWS, FUNDING, HORIZONS, TESTS, US10Y_CHANGE
from barograph.accuracy.episodes import compare, episodes, signed_sums
from barograph.accuracy.records import Comparison
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.outcomes import Outcome, SeriesPoint

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


def test_fewer_than_thirty_cases_have_a_count_and_nothing_else() -> None:
    few = distribution(float(each) for each in range(29))
    enough = distribution(float(each) for each in range(30))

    assert (few.count, few.quantiles, few.mean) == (29, None, None)
    assert (enough.quantiles, enough.mean) == ((2.9, 7.25, 14.5, 21.75, 26.1), 14.5)


@pytest.mark.parametrize(
    ("horizon", "labels", "numbers"),
    [
        pytest.param("8h", "aaaaaaaaabbb", "000000000111", id="the label changes after three days"),
        pytest.param("8h", "aabbaabba", "000000000", id="changes come too early"),
        pytest.param("8h", "aaaaabbbbbab", "000000000011", id="at the first change that is late"),
        pytest.param("7d", "a" * 41 + "bb", "0" * 43, id="not two horizons yet"),
        pytest.param("7d", "a" * 42 + "ba", "0" * 42 + "11", id="two horizons"),
    ],
)
def test_an_episode_ends_where_the_label_changes_but_not_early(
    horizon: str, labels: str, numbers: str
) -> None:
    cases = [(MONDAY + 8 * HOUR * each, label) for each, label in enumerate(labels)]

    assert episodes(cases, HORIZONS[horizon]) == [int(each) for each in numbers]


def test_signs_come_from_the_published_stream() -> None:
    scores = [0.5, 0.25, 4.0, 1.0, 0.125, 2.0, 8.0, 16.0, 32.0]
    stream = shake_256(b"accuracy/2").digest(2 * DRAWS)
    sums = []
    for draw in range(DRAWS):
        bits = int.from_bytes(stream[2 * draw : 2 * draw + 2], "little")
        signed = (each if bits >> at & 1 else -each for at, each in enumerate(scores))
        sums.append(abs(sum(signed)))

    assert signed_sums(scores) == sorted(sums, reverse=True)
    assert (DRAWS, TESTS) == (7_200, 18)


def spells(effect: float, count: int = 40) -> tuple[list[tuple[int, float]], ...]:
    """Cases of two labels in turns of four, with an effect of the first one."""
    random = Random(3)
    ours = [(at, random.gauss(effect, 1)) for at in range(0, count, 2) for _ in range(4)]
    return ours, [(at, random.gauss(0, 1)) for at in range(1, count, 2) for _ in range(4)]


def test_a_comparison_is_the_difference_of_means_with_an_interval_around_it() -> None:
    ours, others = spells(0.0)
    found = compare(ours, others)
    means = [fmean(value for _, value in group) for group in (ours, others)]

    assert found.difference == pytest.approx(means[0] - means[1], abs=1e-6)
    low, high = found.interval
    assert low < 0 < high
    assert (low + high) / 2 == pytest.approx(found.difference, abs=1e-6)
    assert found.detectable is not None
    assert (high - low) / 2 < found.detectable < high - low


def test_an_effect_does_not_widen_what_could_have_been_seen() -> None:
    plain, strong = compare(*spells(0.0)).detectable, compare(*spells(3.0))

    assert strong.interval[0] > 0
    assert strong.detectable == pytest.approx(plain, rel=0.05)


def test_in_few_episodes_no_difference_would_have_shown() -> None:
    assert compare(*spells(9.0, 8)).detectable is None
    assert compare(*spells(9.0, 8)).interval[0] <= 0
    equal = [(at, 1.0) for at in range(30)]
    assert compare(equal, equal) == Comparison(0.0, (0.0, 0.0), 0.0)
