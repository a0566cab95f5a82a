"""Daily figures for tests; the newest day is the one before `START`."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from barograph.kit.business_days import business_days, trading_days
from barograph.macro.evidence import NO_FIGURES, Calendar, MacroEvidence
from barograph.macro.records import US3M, US10Y, RecordedFigure
from barograph.macro.series import EtfDay, EtfSeries
from support.clock import START

NEWEST = "2026-11-05"
READ_AT = START - 3_600_000
ASSETS = 1_000_000.0
TREASURY, ISSUER = "a treasury", "an issuer"


def last_days(count: int, newest: str = NEWEST, calendar: Calendar = business_days) -> list[str]:
    """The newest `count` days of a calendar, oldest first."""
    last = date.fromisoformat(newest)
    known = [each.isoformat() for each in calendar(last - timedelta(days=3 * count + 9), last)]
    return known[-count:]


def flows(
    *newest: float | None, count: int = 30, day: str = NEWEST, read_at: int = READ_AT
) -> EtfSeries:
    """Daily flows in percent of assets, all zero except the newest."""
    shares = [*[0.0] * (count - len(newest)), *newest]
    return EtfSeries(
        "IBIT only",
        tuple(
            EtfDay(
                each, None if share is None else share / 100 * ASSETS, ASSETS, 5.0, ISSUER, read_at
            )
            for each, share in zip(last_days(count, day, trading_days), shares, strict=True)
        ),
    )


def yields(
    series: str, values: Sequence[float], day: str = NEWEST, read_at: int = READ_AT
) -> list[RecordedFigure]:
    days = last_days(len(values), day)
    return [
        RecordedFigure(series, each, 1, value, TREASURY, read_at)
        for each, value in zip(days, values, strict=True)
    ]


def of_flows(*newest: float | None, at: int = START, **how: Any) -> MacroEvidence:
    return NO_FIGURES._replace(at=at, etf=flows(*newest, **how))


def of_yields(
    us10y: Sequence[float], us3m: Sequence[float], *, at: int = START, **how: Any
) -> MacroEvidence:
    long, short = yields(US10Y, us10y, **how), yields(US3M, us3m, **how)
    return NO_FIGURES._replace(at=at, us10y=long, us3m=short)


def of_slopes(*newest: float, **how: Any) -> MacroEvidence:
    """61 days of slopes in basis points, all 30 except the newest."""
    slopes = [*[30.0] * (61 - len(newest)), *newest]
    return of_yields([round(4 + each / 100, 4) for each in slopes], [4.0] * 61, **how)
