"""Totals of all venues over time: partial sums say what is missing, and nothing steps."""

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.aggregates import (
    MissingValue,
    Sample,
    TotalPoint,
    covering,
    summed_liquidations,
    total_points,
)
from barograph.markets.last_known import KEPT_FOR
from barograph.markets.samples import LiquidationColumn, Measure, RecordedListing
from barograph.venues.records import ContractName

T = 1_000 * HOUR
PRICE = 100.0


def listing(venue: str, start: int = 0, end: int | None = None) -> RecordedListing:
    return RecordedListing(venue, f"{venue} BTC", "BTC", 1, start, end)


def sample(
    venue: str,
    at: int,
    value: float | None,
    weight: float = 1.0,
    *,
    price: float = PRICE,
    is_disputed: bool = False,
) -> Sample:
    return Sample(ContractName(venue, f"{venue} BTC"), at, price, value, weight, is_disputed, False)


def totals(
    samples: list[Sample],
    *listings: RecordedListing,
    hours: int = 1,
    measure: Measure = "open-interest",
) -> list[TotalPoint]:
    listed = listings or (listing("a"), listing("b"))
    return total_points(measure, samples, listed, range(T, T + hours * HOUR, HOUR))


def test_a_total_names_the_venues_inside_it() -> None:
    (point,) = totals([sample("a", T, 5.0), sample("b", T, 7.0)])

    assert (point.value, point.with_missing) == (12.0, 12.0)
    assert (point.by_venue, point.missing) == ({"a": 5.0, "b": 7.0}, [])


def test_without_a_venue_the_total_is_partial_and_says_how_large_it_last_was() -> None:
    before = [sample("a", T, 5.0), sample("b", T, 7.0)]
    _, after = totals([*before, sample("a", T + HOUR, 6.0)], hours=2)

    assert after.value == 6.0
    assert after.missing == [MissingValue("b", "no reading", 7.0, T)]
    assert after.with_missing == 13.0


def test_the_last_known_value_may_be_from_before_the_grid_but_not_from_long_ago() -> None:
    now = sample("a", T, 5.0)
    for age, last in ((DAY, 7.0), (KEPT_FOR + HOUR, None)):
        (point,) = totals([sample("b", T - age, 7.0), now])

        assert point.value == 5.0
        assert point.missing[0].last == last
        assert point.with_missing == (None if last is None else 12.0)


def test_a_disputed_value_is_missing_and_never_the_last_known_one() -> None:
    found = [sample("a", T, 5.0), sample("b", T, 7.0)]
    for hour in (1, 2):
        wrong = sample("b", T + hour * HOUR, 7_000.0, is_disputed=True)
        found += [sample("a", T + hour * HOUR, 5.0), wrong]
    *_, point = totals(found, hours=3)

    assert (point.value, point.with_missing) == (5.0, 12.0)
    assert point.missing == [MissingValue("b", "disputed", 7.0, T)]


def test_another_asset_of_the_same_name_is_neither_inside_nor_missing() -> None:
    other = sample("b", T, 7.0, weight=0.5, price=1.1 * PRICE)
    (point,) = totals([sample("a", T, 5.0), other])

    assert (point.value, point.missing) == (5.0, [])


def test_a_price_that_left_the_others_is_missing_for_a_day() -> None:
    found = [sample("a", T, 5.0, 2.0), sample("b", T, 7.0)]
    for hour in (1, 25):
        found.append(sample("a", T + hour * HOUR, 5.0, 2.0))
        found.append(sample("b", T + hour * HOUR, 7.0, price=1.1 * PRICE))
    _, left, *_, other = totals(found, hours=26)

    assert (left.value, left.missing) == (5.0, [MissingValue("b", "disputed", 7.0, T)])
    assert (other.value, other.missing) == (5.0, [])


def test_another_asset_stays_one_while_the_deepest_venue_is_missing() -> None:
    found = [sample("a", T, 5.0), sample("b", T, 7.0, weight=0.5, price=3.0)]
    found.append(sample("b", T + HOUR, 7.0, weight=0.5, price=3.0))
    _, point = totals(found, hours=2)

    assert (point.value, point.with_missing) == (None, 5.0)
    assert [each.venue for each in point.missing] == ["a"]


def test_a_venue_is_not_missing_before_it_lists_the_coin_or_after_it_delists_it() -> None:
    found = [sample("a", T + hour * HOUR, 5.0) for hour in range(3)]
    found.append(sample("b", T + HOUR, 7.0))
    points = totals(found, listing("a"), listing("b", T + HOUR, T + 2 * HOUR), hours=3)

    assert [point.value for point in points] == [5.0, 12.0, 5.0]
    assert [point.missing for point in points] == [[], [], []]
    assert [[*point.by_venue] for point in points] == [["a"], ["a", "b"], ["a"]]


def test_funding_is_weighted_by_open_interest() -> None:
    measure: Measure = "funding"
    found = [sample("a", T, 0.01, 300.0), sample("b", T, 0.03, 100.0)]
    found.append(sample("a", T + HOUR, 0.02, 300.0))
    first, second = totals(found, hours=2, measure=measure)

    assert first.value is not None
    assert round(first.value, 9) == 0.015
    assert second.value == 0.02
    assert second.with_missing is not None
    assert round(second.with_missing, 9) == 0.0225


def test_rates_without_open_interest_have_no_mean() -> None:
    (point,) = totals([sample("a", T, 0.01, 0.0), sample("b", T, 0.03, 0.0)], measure="funding")

    assert (point.value, point.with_missing) == (None, None)


def test_the_price_is_that_of_the_largest_venue_beside_all_others() -> None:
    found = [sample("a", T, 100.0, 3.0, price=100.0), sample("b", T, 101.0, 5.0, price=101.0)]
    (point,) = totals(found, measure="price")

    assert point.value == 101.0
    assert point.by_venue == {"a": 100.0, "b": 101.0}
    assert point.with_missing is None


def test_a_chart_has_the_venues_that_are_known_for_most_of_its_time() -> None:
    found = [sample("a", T + hour * HOUR, 5.0) for hour in range(20)]
    found += [sample("b", T + hour * HOUR, 7.0) for hour in range(5, 20)]
    found += [sample("c", T + hour * HOUR, 9.0) for hour in range(10)]
    found += [sample("d", T + hour * HOUR, 3.0) for hour in range(1, 20)]
    found += [sample("e", T + hour * HOUR, 4.0) for hour in range(19)]
    venues = [*map(listing, "abcd"), listing("e", end=T + 19 * HOUR)]
    points = totals(found, *venues, hours=20)

    assert covering(points) == ["a", "c"], "c is missing, but known"
    assert covering([]) == []


def test_liquidations_are_summed_over_the_venues_that_were_watched() -> None:
    a = LiquidationColumn(T, 1.25, 2.0, 100.0, partial=False)
    b = LiquidationColumn(T, 0.5, 0.0, 40.0, partial=True, is_disputed=True)
    unwatched = LiquidationColumn(T, None, None, 0.0, partial=True)

    both = LiquidationColumn(T, 1.75, 2.0, 40.0, partial=True, is_disputed=True)
    assert summed_liquidations(T, [a, b, unwatched]) == both
    assert summed_liquidations(T, [unwatched]) == summed_liquidations(T, []) == unwatched
