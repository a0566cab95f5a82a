"""The daily wrap: a UTC day in three lines and five numbers (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from barograph.briefs.records import LINE_END, Draft, Rule
from barograph.briefs.tables import UNKNOWN
from barograph.kit.json import Json
from barograph.kit.text import price, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE, day_text, iso_timestamp, span_text
from barograph.markets.evidence import HOURS_PER_DAY, Hour, MarketEvidence, change_pct
from barograph.markets.records import MAJORS

ID = "daily-wrap"
WRITTEN_FROM = 5 * MINUTE
"""How long after midnight it is written: the last hour's liquidations are known by then."""

MIN_HOURS = 12
"""A day with fewer recorded hours gets no wrap."""


class _Liquidated(NamedTuple):
    """The liquidations of a day; None if we covered too little of it."""

    long_usd: float | None
    short_usd: float | None
    watched_pct: float

    @property
    def total_usd(self) -> float | None:
        if self.long_usd is None or self.short_usd is None:
            return None
        return self.long_usd + self.short_usd

    @property
    def text(self) -> str:
        total, longs = self.total_usd, self.long_usd
        if total is None or longs is None:
            return "liquidations unknown"
        share = f", {100 * longs / total:.0f} % longs" if total > 0 else ""
        return f"{usd(total)} liquidated{share}"


class _Day(NamedTuple):
    """What was recorded of a day and of its liquidations, and of those of the day before."""

    start: int
    hours: Mapping[str, Sequence[Hour]]
    liquidated: _Liquidated
    before: _Liquidated

    @property
    def ends(self) -> tuple[Hour, Hour]:
        """The first and the last recorded hour of BTC."""
        return self.hours["BTC"][0], self.hours["BTC"][-1]

    @property
    def hours_recorded(self) -> int:
        return sum(each.at < self.start + DAY for each in self.hours["BTC"])


def wrap_key(at: int) -> str:
    """The cooldown key of the wrap that is due at a time, which is about the day before."""
    return f"{ID}:{iso_timestamp(_wrapped_day(at))[:10]}"


def daily_wrap(evidence: MarketEvidence) -> Iterator[Draft]:
    """The UTC day before, from its first to its last recorded hour, written from 00:05 UTC on.

    A change of open interest is measured in coins. Liquidations count if we covered enough of the
    day, and are compared with the day before it. A day with fewer than 12 recorded hours is left
    out.
    """
    at, newest = evidence.reading.as_of, evidence.trailing.newest_liquidation_hour
    start = _wrapped_day(at)
    hours = {base: _hours(evidence, base, start) for base in MAJORS}
    known = sum(each.at < start + DAY for each in hours["BTC"])  # not the hour after midnight
    if at - start - DAY < WRITTEN_FROM or known < MIN_HOURS:
        return
    if not evidence.lacks_liquidations and (newest is None or newest < start + DAY - HOUR):
        return  # the next reading knows the last hour
    day = _Day(start, hours, *(_liquidated(evidence, each) for each in (start, start - DAY)))
    numbers, name = _numbers(evidence, day), iso_timestamp(start)[:10]
    yield Draft(
        subject=name,
        slug=f"{ID}-{name}",
        headline=f"{day_text(start)}: BTC {numbers[0][2]}, {day.liquidated.text}",
        sentence=LINE_END.join(_lines(evidence, day, numbers)),
        coins=[base for base, known in hours.items() if known],
        window=(start, start + DAY),
        inputs=_inputs(day),
        table=[("Number", "Value", "Change"), *numbers],
    )


DAILY_WRAP = Rule(ID, "market", 2 * DAY, daily_wrap)


def _wrapped_day(at: int) -> int:
    return at // DAY * DAY - DAY


def _hours(evidence: MarketEvidence, base: str, start: int) -> list[Hour]:
    found = evidence.trailing.hours(base, since=start)[: HOURS_PER_DAY + 1]
    return [each for each in found if each.at <= start + DAY]


def _liquidated(evidence: MarketEvidence, start: int) -> _Liquidated:
    hours = [
        each for each in evidence.trailing.liquidation_hours(0.0) if start <= each.at < start + DAY
    ]
    watched = sum(each.watched_pct for each in hours) / HOURS_PER_DAY
    if evidence.lacks_liquidations or watched < evidence.min_watched_pct:
        return _Liquidated(None, None, watched)
    return _Liquidated(
        sum(each.long_usd for each in hours), sum(each.short_usd for each in hours), watched
    )


def _numbers(evidence: MarketEvidence, day: _Day) -> list[tuple[str, str, str]]:
    """The five numbers, each with its unit and its change."""
    first, last = day.ends
    funding, long_pct, value = last.funding_8h_pct, last.long_account_pct, last.open_interest_usd
    total = day.liquidated.total_usd
    coins = _change(first.open_interest_coins, last.open_interest_coins, " in coins")
    return [
        (
            "BTC price",
            f"{price(last.last_price)} {_quote(evidence, 'BTC')}",
            _change(first.last_price, last.last_price),
        ),
        (
            "BTC funding",
            UNKNOWN if funding is None else f"{funding:+.4f} % per 8 h",
            _points(first.funding_8h_pct, funding, 4),
        ),
        ("BTC open interest", UNKNOWN if value is None else usd(value), coins),
        (
            "BTC long accounts",
            UNKNOWN if long_pct is None else f"{long_pct:.1f} %",
            _points(first.long_account_pct, long_pct, 1),
        ),
        (
            "Liquidations",
            UNKNOWN if total is None else usd(total),
            _change(day.before.total_usd, total),
        ),
    ]


def _lines(
    evidence: MarketEvidence, day: _Day, numbers: Sequence[tuple[str, str, str]]
) -> tuple[str, str, str]:
    prices = [
        f"{base} {price(known[-1].last_price)} {_quote(evidence, base)} "
        f"({_change(known[0].last_price, known[-1].last_price)})"
        for base, known in day.hours.items()
        if known
    ]
    measured = [
        f"{name.removeprefix('BTC ')} {value} ({change})" for name, value, change in numbers[1:-1]
    ]
    span = span_text(*(each.at for each in day.ends)).partition(", ")[2]
    recorded = f"We recorded {day.hours_recorded} of {HOURS_PER_DAY} hours, {span}."
    return (
        f"{', '.join(prices)}.",
        f"BTC {'; '.join(measured)}.",
        f"{_liquidation_line(evidence, day)} {recorded}",
    )


def _liquidation_line(evidence: MarketEvidence, day: _Day) -> str:
    if evidence.lacks_liquidations:
        return "This venue doesn't publish all liquidations."
    covered = f"{10 * day.liquidated.watched_pct // 1 / 10:g} % of the day covered"
    if day.liquidated.total_usd is None:
        return f"Liquidations unknown: {covered}, {evidence.min_watched_pct:g} % needed."
    earlier = day.before.total_usd
    after = "" if earlier is None else f", after {usd(earlier)} the day before"
    return f"{day.liquidated.text}{after}; {covered}."


def _inputs(day: _Day) -> dict[str, Json]:
    return {
        "hours_recorded": day.hours_recorded,
        "liquidated": dict(day.liquidated._asdict()),
        "liquidated_before": dict(day.before._asdict()),
        **{base: [_ends(known[0]), _ends(known[-1])] for base, known in day.hours.items() if known},
    }


def _ends(hour: Hour) -> dict[str, Json]:
    return {
        "at": iso_timestamp(hour.at),
        "last_price": hour.last_price,
        "funding_8h_pct": hour.funding_8h_pct,
        "open_interest_usd": hour.open_interest_usd,
        "open_interest_coins": hour.open_interest_coins,
        "long_account_pct": hour.long_account_pct,
        "is_backfilled": bool(hour.is_backfilled),
    }


def _quote(evidence: MarketEvidence, base: str) -> str:
    return evidence.majors[base].quote if base in evidence.majors else "USD"


def _change(before: float | None, after: float | None, unit: str = "") -> str:
    if before is None or before <= 0 or after is None:
        return UNKNOWN
    return f"{change_pct(before, after):+.1f} %{unit}"


def _points(before: float | None, after: float | None, decimals: int) -> str:
    if before is None or after is None:
        return UNKNOWN
    return f"{after - before:+.{decimals}f} points"
