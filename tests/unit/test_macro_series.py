"""Flows, slopes and changes: what follows from daily figures, and what does not."""

from collections.abc import Mapping

import pytest

from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    US3M,
    US10Y,
    FundFigure,
    RecordedFigure,
    fund_series,
)
from barograph.macro.series import (
    DayValue,
    EtfDay,
    EtfSeries,
    change_over,
    issuer_series,
    operator_series,
    slope10y3m,
)

AT = 1_794_000_000_000
THURSDAY, FRIDAY, MONDAY, TUESDAY = "2026-10-29", "2026-10-30", "2026-11-02", "2026-11-03"

Day = tuple[float, float, float]
"""Shares, value of a share, bitcoin."""


def seen(series: str, day: str, value: float, source: str = "s", at: int = AT) -> RecordedFigure:
    return RecordedFigure(series, day, 1, value, source, at)


def fund(name: str, days: Mapping[str, Day], at: int = AT) -> dict[str, list[RecordedFigure]]:
    known: dict[str, list[RecordedFigure]] = {}
    for day, (shares, nav, btc) in days.items():
        figures: dict[FundFigure, float] = {
            "shares": shares,
            "nav": nav,
            "btc": btc,
            "aum": shares * nav,
        }
        for figure, value in figures.items():
            series = fund_series(name, figure)
            known.setdefault(series, []).append(seen(series, day, value, name, at))
    return known


def rates(series: str, values: Mapping[str, float]) -> list[RecordedFigure]:
    return [seen(series, day, value) for day, value in values.items()]


def test_a_flow_is_the_change_of_shares_times_the_value_of_one() -> None:
    known = fund("IBIT", {FRIDAY: (1000.0, 50.0, 10.0), MONDAY: (980.0, 60.0, 9.8)})

    series = issuer_series(known, "ibit")

    assert series.coverage == "IBIT only"
    assert series.days == (
        EtfDay(FRIDAY, None, 50_000.0, 10.0, "IBIT", AT),
        EtfDay(MONDAY, -1200.0, 58_800.0, 9.8, "IBIT", AT),
    )


START, SAME, MORE = (1000.0, 50.0, 10.0), (1000.0, 51.0, 10.0), (1010.0, 50.0, 10.1)


@pytest.mark.parametrize(
    ("days", "flows"),
    [
        ({FRIDAY: START, MONDAY: SAME}, [None, 0.0]),
        ({THURSDAY: START, MONDAY: START, TUESDAY: MORE}, [None, None, 500.0]),
        ({"2026-11-25": START, "2026-11-27": MORE}, [None, 500.0]),
        ({FRIDAY: START, MONDAY: (4000.0, 12.5, 10.0)}, [None, None]),
    ],
    ids=["zero is known", "a day is missing", "a holiday is not missing", "a share split"],
)
def test_a_flow_needs_the_day_before_it(days: Mapping[str, Day], flows: list[float | None]) -> None:
    series = issuer_series(fund("ibit", days), "ibit").days

    assert [(day.day, day.net_flow_usd) for day in series] == [*zip(days, flows, strict=True)]


def test_a_day_that_lacks_one_figure_is_absent() -> None:
    known = fund("ibit", {FRIDAY: (1000.0, 50.0, 10.0), MONDAY: (1010.0, 50.0, 10.1)})
    del known["etf-ibit-btc"][1]

    assert issuer_series({}, "ibit") == EtfSeries("IBIT only", ())
    assert [each.day for each in issuer_series(known, "ibit").days] == [FRIDAY]


def test_an_imported_flow_is_used_where_shares_give_none() -> None:
    known = fund("ibit", {MONDAY: (1010.0, 50.0, 10.2), TUESDAY: (1020.0, 50.0, 10.3)})
    for name, value in (("flow", 7.0), ("btc", 10.0), ("aum", 50_000.0)):
        series = f"etf-ibit-{name}"
        known[series] = [seen(series, FRIDAY, value, "mine"), *known.get(series, [])]
    known["etf-ibit-flow"].append(seen("etf-ibit-flow", TUESDAY, 9.0, "mine"))

    friday, monday, tuesday = issuer_series(known, "ibit").days

    assert (friday.net_flow_usd, friday.source) == (7.0, "mine")
    # Friday has no shares, so Monday's flow is what its bitcoin cost.
    assert monday.net_flow_usd == pytest.approx(0.2 * 50_500 / 10.2)
    assert monday.source == "ibit; mine"
    assert (tuesday.net_flow_usd, tuesday.source) == (500.0, "ibit")


def test_a_number_is_as_new_as_the_newest_figure_behind_it() -> None:
    known, earlier = fund("ibit", {MONDAY: MORE}), fund("ibit", {FRIDAY: START}, at=AT + 9)
    both = {series: earlier[series] + known[series] for series in known}

    assert issuer_series(both, "ibit").days[1].observed_at == AT + 9


def test_the_operators_flow_may_be_missing_but_not_the_rest() -> None:
    known = {
        OPERATOR_FLOW: [seen(OPERATOR_FLOW, FRIDAY, -5.0), seen(OPERATOR_FLOW, TUESDAY, 1.0)],
        OPERATOR_AUM: [seen(OPERATOR_AUM, FRIDAY, 100.0), seen(OPERATOR_AUM, MONDAY, 101.0)],
        OPERATOR_BTC: [seen(OPERATOR_BTC, FRIDAY, 2.0), seen(OPERATOR_BTC, MONDAY, 2.1)],
    }

    series = operator_series(known)

    assert series.coverage == "operator's data"
    assert series.days == (
        EtfDay(FRIDAY, -5.0, 100.0, 2.0, "s", AT),
        EtfDay(MONDAY, None, 101.0, 2.1, "s", AT),
    )


def test_the_slope_is_told_on_days_that_have_both_yields() -> None:
    long = rates(US10Y, {FRIDAY: 4.12, MONDAY: 4.1, TUESDAY: 4.0})
    short = rates(US3M, {THURSDAY: 4.0, FRIDAY: 3.99, TUESDAY: 4.05})

    assert slope10y3m(long, short) == [
        DayValue(FRIDAY, 0.13, "s", AT),
        DayValue(TUESDAY, -0.05, "s", AT),
    ]


def test_a_change_is_over_so_many_observations_or_not_known() -> None:
    values = rates(US10Y, {THURSDAY: 4.0, FRIDAY: 4.12, MONDAY: 4.12})

    assert change_over(values, 1) == 0.0
    assert change_over(values, 2) == 0.12
    assert change_over(values, 3) is None
    assert change_over([], 1) is None
