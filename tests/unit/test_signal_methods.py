"""Each signal says what its docstring says, does not flap, and says unknown without evidence."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.cross_changes import Change
from barograph.markets.evidence import MarketEvidence, TrailingRecord
from barograph.markets.regime import Label
from barograph.signals.methods import (
    BREADTH,
    HOLD,
    METHODS,
    POSITIONING,
    PRESSURE,
    SPREAD,
    TREND,
    VOLATILITY,
    Bands,
    btc_funding_regime,
    btc_long_accounts,
    btc_open_interest_trend,
    btc_realised_volatility,
    funding_breadth,
    judge_all,
    liquidation_pressure,
)
from barograph.signals.records import NOT_KNOWN, UNKNOWN, Signal, SignalResult
from barograph.venues.records import Perpetual
from support.evidence import (
    AT,
    FORTNIGHT,
    WEEK,
    a_day_ago,
    add_hours,
    add_liquidations,
    closed,
    evidence,
    regime,
)
from support.markets import BTC, ETH, PEPE, SOURCE, changed

THREE = Bands(("low", "middle", "high"), (10, 20), middle=1, margin=2)
ALL_BANDS = (BREADTH, PRESSURE, POSITIONING, SPREAD, TREND, VOLATILITY)


def left(label: str | None, at: int = AT - MINUTE, back_since: int | None = None) -> Signal | None:
    """The signal of a minute ago."""
    return None if label is None else Signal("k", "n", label, "v", at, back_since=back_since)


def after_an_hour(bands: Bands, value: float, label: str | None) -> str:
    """The label of a value that has stayed the same for an hour."""
    return bands.label(value, AT, left(label, back_since=AT - HOUR))[0]


@pytest.mark.parametrize(
    ("bands", "previous", "labels"),
    [
        (THREE, None, {10: "low", 10.01: "middle", 19.99: "middle", 20: "high"}),
        (THREE, "low", {12: "low", 12.01: "middle", 19: "middle", 20: "high"}),
        (THREE, "middle", {10: "low", 10.01: "middle", 19.99: "middle", 20: "high"}),
        (THREE, "high", {18: "high", 17.99: "middle", 11: "middle", 10: "low"}),
        (THREE, "unknown", {10.01: "middle"}),
        (THREE, "a label of another version", {10: "low"}),
        (PRESSURE, "extreme", {89: "extreme", 88.99: "elevated", 79.99: "normal", 20: "quiet"}),
        (PRESSURE, "elevated", {99: "extreme", 80: "elevated", 79.99: "normal"}),
        (PRESSURE, "quiet", {30: "quiet", 30.01: "normal", 99: "extreme"}),
    ],
)
def test_a_label_is_taken_at_its_edge_and_left_a_margin_inside_it(
    bands: Bands, previous: str | None, labels: dict[float, str]
) -> None:
    assert {value: after_an_hour(bands, value, previous) for value in labels} == labels


@pytest.mark.parametrize(
    ("passed", "values", "labels"),
    [
        # Outward at once; back after 60 minutes in which no value was within the margin.
        ((0, 1, 60, 61), (20, 15, 15, 15), ("high", "high", "high", "middle")),
        ((0, 1, 2, 60, 62, 122), (20, 15, 18, 15, 15, 15), (*["high"] * 5, "middle")),
        ((0, 1, 2), (20, 15, 10), ("high", "high", "low")),
        # By the hour, as a past may be replayed.
        ((0, 60, 120), (20, 15, 15), ("high", "high", "middle")),
        # After a gap of more than an hour, and if the clock was set back, the value decides alone.
        ((0, 1, 62), (20, 15, 15), ("high", "high", "middle")),
        ((0, -1), (20, 15), ("high", "middle")),
    ],
)
def test_a_label_goes_out_at_once_and_back_after_an_hour(
    passed: tuple[int, ...], values: tuple[float, ...], labels: tuple[str, ...]
) -> None:
    last, shown = None, []
    for minute, value in zip(passed, values, strict=True):
        at = AT + minute * MINUTE
        label, back_since = THREE.label(value, at, last)
        last = left(label, at, back_since)
        shown.append(label)

    assert tuple(shown) == labels


def test_a_label_that_still_holds_names_that_of_its_value() -> None:
    held = left("extreme", back_since=AT - HOUR + 1)

    found = liquidation_pressure(pressed(50), held)

    assert (found.label, found.back_since) == ("extreme", AT - HOUR + 1)
    assert (
        found.value == "$50 in an hour, lower than 74 % of the past 8 days, not yet back to normal"
    )


def mirrored(bands: Bands) -> Bands:
    return Bands(
        bands.labels[::-1],
        [-edge for edge in reversed(bands.edges)],
        middle=len(bands.labels) - 1 - bands.middle,
        margin=bands.margin,
    )


any_bands = st.sampled_from((THREE, *ALL_BANDS))
near_edges = st.one_of(st.floats(-200, 200), st.integers(-120, 120), st.integers(5, 25))


@given(any_bands, near_edges, st.integers(-1, 3))
def test_both_sides_are_treated_alike(bands: Bands, value: float, number: int) -> None:
    previous = None if number < 0 else bands.labels[number % len(bands.labels)]

    assert mirrored(bands).label(-value, AT, left(previous)) == bands.label(
        value, AT, left(previous)
    )


@given(
    any_bands, st.floats(-200, 200), st.lists(st.floats(0, 0.999), max_size=20), st.integers(0, 3)
)
def test_a_value_that_stays_within_the_margin_changes_its_label_once_at_most(
    bands: Bands, lowest: float, parts: list[float], number: int
) -> None:
    labels = [after_an_hour(bands, lowest, bands.labels[number % len(bands.labels)])]
    for part in parts:
        labels.append(after_an_hour(bands, lowest + part * bands.margin, labels[-1]))

    assert sum(one != other for one, other in pairwise(labels)) <= 1


@given(any_bands, near_edges, st.integers(0, 3), st.sampled_from([None, AT - 1, AT - HOLD]))
def test_the_last_label_only_holds_back(
    bands: Bands, value: float, number: int, back_since: int | None
) -> None:
    before = number % len(bands.labels)
    wanted = bands.labels.index(bands.own_label(value))

    label, _ = bands.label(value, AT, left(bands.labels[before], back_since=back_since))

    said = bands.labels.index(label)
    assert min(before, wanted) <= said <= max(before, wanted)


def contracts(above: int, below: int, of: int) -> tuple[Perpetual, ...]:
    """As many contracts, of which some are exactly on the edges that count."""
    rates = [0.015] * above + [-0.005] * below + [0.01] * (of - above - below)
    return tuple(changed(BTC, contract=str(n), funding_rate_pct=r) for n, r in enumerate(rates))


@pytest.mark.parametrize(
    ("label", "rate", "result"),
    [
        ("long-crowded", 0.0312, SignalResult("long-crowded", "+0.0312 % per 8 h")),
        ("neutral", 0.0, SignalResult("neutral", "+0.0000 % per 8 h")),
        ("unknown", None, NOT_KNOWN),
    ],
)
def test_the_funding_regime_is_the_one_that_was_judged_with_its_rate(
    label: Label, rate: float | None, result: SignalResult
) -> None:
    assert btc_funding_regime(evidence(regime=regime(label, rate)), left("neutral")) == result


@pytest.mark.parametrize(
    ("above", "below", "label"),
    [
        (20, 0, "longs-pay"),
        (19, 0, "balanced"),
        (0, 20, "shorts-pay"),
        (0, 19, "balanced"),
        (50, 50, "balanced"),
        (0, 0, "balanced"),
    ],
)
def test_breadth_is_above_less_below(above: int, below: int, label: str) -> None:
    assert funding_breadth(evidence(contracts(above, below, 100)), None) == SignalResult(
        label, f"{above} % of 100 contracts have high funding, {below} % clearly negative funding"
    )


def test_breadth_compares_rates_at_eight_hours_and_is_unknown_without_any() -> None:
    hourly = changed(PEPE, funding_rate_pct=0.015 / 8, funding_interval_hours=1)

    assert funding_breadth(evidence((hourly,)), None).label == "longs-pay"
    assert funding_breadth(evidence(()), left("balanced")) == NOT_KNOWN


def pressed(total: float, **fields: Any) -> MarketEvidence:
    """Against hours of 0, 1, 2 … 199 dollars."""
    trailing = add_liquidations(TrailingRecord(), 200)
    middle = {"trailing": trailing, "last_hour": closed(total)}
    return evidence(**{**middle, **fields})


@pytest.mark.parametrize(
    ("total", "label"),
    [
        *((0, "quiet"), (39.5, "quiet"), (40, "normal"), (179, "normal"), (180, "elevated")),
        *((197, "elevated"), (198, "extreme"), (10**9, "extreme")),
    ],
)
def test_pressure_is_the_percentile_of_the_last_hour(total: float, label: str) -> None:
    assert liquidation_pressure(pressed(total), None).label == label


def test_pressure_names_the_amount_and_the_percentile() -> None:
    said = [liquidation_pressure(pressed(total), None).value for total in (2e6, 0.0)]

    assert said[0] == "$2.00M in an hour, higher than in all of the past 8 days"
    assert said[1] == "$0 in an hour, the lowest of the past 8 days"


@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        ({"last_hour": closed(1.0, 95.0)}, True),
        ({"last_hour": closed(1.0, 94.99)}, False),
        ({"trailing": add_liquidations(TrailingRecord(), WEEK)}, True),
        ({"trailing": add_liquidations(TrailingRecord(), WEEK - 1)}, False),
        ({"trailing": TrailingRecord()}, False),
        ({"trailing": add_liquidations(TrailingRecord(), WEEK, watched_pct=94.0)}, False),
    ],
)
def test_pressure_needs_seven_watched_days(fields: dict[str, Any], is_known: bool) -> None:
    assert (liquidation_pressure(pressed(1, **fields), None).label != UNKNOWN) == is_known


def positioned(share: float | None, hours: int = FORTNIGHT, base: str = "BTC") -> MarketEvidence:
    """Against hourly shares of 0, 1 … 99 and again."""
    trailing = add_hours(TrailingRecord(), hours, share=lambda number: float(number % 100))
    return evidence(trailing=trailing, long_account_pct={} if share is None else {base: share})


WITHOUT_SHARES = add_hours(TrailingRecord(), FORTNIGHT + 99)


@pytest.mark.parametrize(
    ("share", "label"),
    [(0.0, "short-extreme"), (50.0, "typical"), (90.0, "typical"), (99.5, "long-extreme")],
)
def test_long_accounts_are_compared_with_their_own_past(share: float, label: str) -> None:
    assert btc_long_accounts(positioned(share), None).label == label
    for hours, days in ((FORTNIGHT, 14), (400, 16), (800, 30)):
        said = btc_long_accounts(positioned(99.5, hours), None).value
        assert said == f"99.5 % of accounts, higher than in all of the past {days} days"


def test_a_period_with_gaps_names_the_number_of_its_hours() -> None:
    trailing = add_hours(TrailingRecord(), 720, share=lambda number: 50.0 if number % 2 else None)

    said = btc_long_accounts(evidence(trailing=trailing, long_account_pct={"BTC": 50.0}), None)

    assert said.value.endswith("the same as in all of the 360 recorded hours of the past 30 days")


@pytest.mark.parametrize(
    ("seen", "is_known"),
    [
        (positioned(0.0), True),
        (positioned(None), False),
        (positioned(50.0, FORTNIGHT - 1), False),
        (positioned(50.0, base="ETH"), False),
        (evidence(trailing=WITHOUT_SHARES, long_account_pct={"BTC": 50.0}), False),
    ],
)
def test_long_accounts_need_fourteen_days_of_btc(seen: MarketEvidence, is_known: bool) -> None:
    assert (btc_long_accounts(seen, left("typical")).label != UNKNOWN) == is_known


def trended(coins: float, price: float = 100.0, before: float = 1_000.0) -> MarketEvidence:
    bitcoin = changed(BTC, last_price=price, open_interest_usd=coins * price)
    return evidence((bitcoin, ETH), day_ago=a_day_ago(before))


@pytest.mark.parametrize(
    ("coins", "label"),
    [(1_050, "rising"), (1_049, "flat"), (951, "flat"), (950, "falling"), (0, "falling")],
)
def test_the_trend_of_open_interest_is_that_of_coins(coins: float, label: str) -> None:
    assert btc_open_interest_trend(trended(coins), None).label == label
    on_pages = Change(0, (), 1.0, 0.0, None, coins / 10 - 100, 2.0).quadrant
    assert on_pages == ("up", {"rising": "up", "falling": "down"}.get(label, label))
    assert btc_open_interest_trend(trended(coins, price=300.0), None).label == label


def test_a_trend_is_unknown_without_a_reading_of_24_hours_ago_without_btc_and_from_zero() -> None:
    assert btc_open_interest_trend(trended(2_000), None).value == "+100.0 % in coins in 24 h"
    hourly = evidence(trailing=add_hours(TrailingRecord(), 25))

    assert btc_open_interest_trend(hourly, left("flat")) == NOT_KNOWN
    assert btc_open_interest_trend(evidence((ETH,), day_ago=a_day_ago()), left("flat")) == NOT_KNOWN
    assert btc_open_interest_trend(trended(1_000, before=0.0), left("flat")) == NOT_KNOWN


def swinging(number: int) -> float:
    """A price whose hourly moves get larger and larger."""
    return 100.0 * (1 + number / 1e5) ** (1 if number % 2 else -1)


def test_volatility_that_grew_all_the_time_is_turbulent_and_calm_when_it_shrank() -> None:
    hours = FORTNIGHT + 24
    growing = add_hours(TrailingRecord(), hours, price=swinging)
    shrinking = add_hours(TrailingRecord(), hours, price=lambda number: swinging(hours - number))
    still = add_hours(TrailingRecord(), hours)

    turbulent = btc_realised_volatility(evidence(trailing=growing), None)
    assert turbulent.label == "turbulent"
    assert turbulent.value.endswith("% annualised, the highest of the past 14 days")
    assert btc_realised_volatility(evidence(trailing=shrinking), None).label == "calm"
    assert btc_realised_volatility(evidence(trailing=still), None) == SignalResult(
        "normal", "0 % annualised, the same as in all of the past 14 days"
    )


def test_volatility_needs_fourteen_days_and_an_hour_of_the_last_two() -> None:
    enough = add_hours(TrailingRecord(), FORTNIGHT + 24)
    short = add_hours(TrailingRecord(), FORTNIGHT + 23)

    def seen(trailing: TrailingRecord, as_of: int = AT) -> SignalResult:
        return btc_realised_volatility(evidence(trailing=trailing, as_of=as_of), None)

    assert seen(short) == NOT_KNOWN._replace(basis=f"It needs {FORTNIGHT} hours, and we have 335.")
    assert seen(enough, AT + HOUR).label != UNKNOWN
    assert seen(enough, AT + HOUR + 1) == NOT_KNOWN


def test_signals_say_how_many_backfilled_hours_they_use() -> None:
    measured = add_hours(TrailingRecord(), FORTNIGHT + 24, share=float)
    trailing = TrailingRecord()
    for number, hour in enumerate(measured.hours("BTC")):
        trailing.add_hour("BTC", hour._replace(is_backfilled=number < FORTNIGHT + 10))
    seen = evidence(trailing=trailing, long_account_pct={"BTC": 50.0})

    filled = "{} it is compared with come from the exchange's own history."
    assert btc_long_accounts(seen, None).basis == filled.format("346 of the 360 hours")
    assert btc_realised_volatility(seen, None).basis == filled.format("322 of the 336 hours")
    ours = seen._replace(trailing=measured)
    for method in (btc_long_accounts, btc_realised_volatility):
        found = method(ours, None)
        assert (found.label != UNKNOWN, found.basis) == (True, None)


def test_every_signal_is_judged_in_the_order_of_the_catalog_whatever_is_missing() -> None:
    for seen in (evidence(), evidence(()), evidence((ETH,)), positioned(1.0), pressed(5)):
        judged = judge_all(seen, NO_FIGURES, {})
        assert (judged.as_of, judged.source) == (AT, SOURCE)
        assert [each.key for each in judged.signals] == [each.key for each in METHODS]
        assert {each.as_of for each in judged.signals} == {AT}
