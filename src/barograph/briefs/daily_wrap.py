"""The daily wrap: a UTC day in three lines and five numbers (pure)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barograph.briefs.records import LINE_END, Draft, Rule
from barograph.briefs.texts import UNKNOWN
from barograph.kit.json import Json
from barograph.kit.text import coverage, price, rate, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE, day_text, iso_timestamp, span_text
from barograph.markets.evidence import HOURS_PER_DAY, Hour, MarketEvidence, change_pct
from barograph.markets.liquidations import watched_time
from barograph.venues.records import MAJORS
from barograph.venues.spans import watched_share

ID = "daily-wrap"
WRITTEN_FROM = 5 * MINUTE
"""How long after midnight it is written: the last hour's liquidations are known by then."""

MIN_HOURS = 12
"""A day with fewer recorded hours gets no wrap."""

COMPLETE_PCT = 100
NOT_CITED = ("recorded_coins", "volatility_pct")


class _Liquidated(NamedTuple):
    """The liquidations of a day; None if we covered too little of it, or the sides are disputed."""

    long_usd: float | None
    short_usd: float | None
    watched_pct: float
    total_usd: float | None = None

    @property
    def text(self) -> str:
        total, longs = self.total_usd, self.long_usd
        if total is None:
            return "liquidations unknown"
        share = f", {100 * longs / total:.0f} % longs" if total > 0 and longs is not None else ""
        return f"{usd(total)} liquidated{share}"


class _Day(NamedTuple):
    """What was recorded of a day and of its liquidations, and of those of the day before."""

    start: int
    hours: Mapping[str, Sequence[Hour]]
    liquidated: _Liquidated
    before: _Liquidated

    @property
    def recorded(self) -> int:
        """How many of its hours were recorded, without the hour after midnight."""
        return sum(hour.at < self.start + DAY for hour in self.hours["BTC"])

    @property
    def part(self) -> str:
        """Which part was recorded; empty if it is the whole day."""
        is_whole = self.recorded == HOURS_PER_DAY
        return "" if is_whole else f"{self.recorded} of {HOURS_PER_DAY} hours"


def wrap_key(at: int) -> str:
    """The cooldown key of the wrap that is due at a time, which is about the day before."""
    return f"{ID}:{iso_timestamp(_wrapped_day(at))[:10]}"


def daily_wrap(evidence: MarketEvidence) -> Iterator[Draft]:
    """A daily wrap covers one UTC day, from its first to its last recorded hour.

    We write it after 00:05 UTC on the next day. Changes of open interest are measured in coins.
    Liquidations count if we covered enough of the day; they are compared with the day before. A day
    with fewer than 12 recorded hours gets no wrap.
    """
    at, newest = evidence.reading.as_of, evidence.trailing.newest_liquidation_hour
    start = _wrapped_day(at)
    hours = {base: _hours(evidence, base, start) for base in MAJORS}
    day = _Day(start, hours, *(_liquidated(evidence, each) for each in (start, start - DAY)))
    if at - start - DAY < WRITTEN_FROM or day.recorded < MIN_HOURS:
        return
    if not evidence.lacks_liquidations and (newest is None or newest < start + DAY - HOUR):
        return  # the next reading knows the last hour
    numbers, name = _numbers(evidence, day), iso_timestamp(start)[:10]
    part = f" ({day.part})" if day.part else ""
    yield Draft(
        subject=name,
        slug=f"{ID}-{name}",
        headline=f"{day_text(start)}{part}: BTC {numbers[0][2]}, {day.liquidated.text}",
        sentence=LINE_END.join(_lines(evidence, day, numbers)),
        coins=[base for base, known in hours.items() if known],
        window=(start, start + DAY),
        inputs=_inputs(day),
        table=[("Measure", "Value", "Change"), *numbers],
    )


DAILY_WRAP = Rule(ID, "market", 2 * DAY, daily_wrap)


def _wrapped_day(at: int) -> int:
    return at // DAY * DAY - DAY


def _hours(evidence: MarketEvidence, base: str, start: int) -> list[Hour]:
    hours = evidence.trailing.hours(base, since=start)[: HOURS_PER_DAY + 1]
    return [each for each in hours if each.at <= start + DAY]


def _liquidated(evidence: MarketEvidence, start: int) -> _Liquidated:
    known = evidence.trailing.liquidation_hours(0.0)
    hours = [each for each in known if start <= each.at < start + DAY]
    watched = watched_share(watched_time(sum(hour.watched_pct for hour in hours)), DAY)
    if evidence.lacks_liquidations or watched < evidence.min_watched_pct:
        return _Liquidated(None, None, watched)
    longs, shorts = sum(hour.long_usd for hour in hours), sum(hour.short_usd for hour in hours)
    if evidence.trailing.disputed_sides.within(start, start + DAY):
        return _Liquidated(None, None, watched, longs + shorts)
    return _Liquidated(longs, shorts, watched, longs + shorts)


def _numbers(evidence: MarketEvidence, day: _Day) -> list[tuple[str, str, str]]:
    first, last = day.hours["BTC"][0], day.hours["BTC"][-1]
    funding, accounts, total = last.funding_8h_pct, last.long_account_pct, day.liquidated.total_usd
    return [
        ("BTC price", *_price(evidence, "BTC", day)),
        (
            "BTC funding",
            _known(funding, lambda pct: f"{rate(pct)} per 8 h"),
            _points(first.funding_8h_pct, funding, 4),
        ),
        (
            "BTC open interest",
            _known(last.open_interest_usd, usd),
            _change(first.open_interest_coins, last.open_interest_coins, " in coins"),
        ),
        (
            "BTC long accounts",
            _known(accounts, "{:.1f} %".format),
            _points(first.long_account_pct, accounts, 1),
        ),
        ("Liquidations", _known(total, usd), _change(day.before.total_usd, total)),
    ]


def _lines(
    evidence: MarketEvidence, day: _Day, numbers: Sequence[tuple[str, str, str]]
) -> Iterator[str]:
    prices = {base: _price(evidence, base, day) for base, known in day.hours.items() if known}
    yield f"{', '.join(f'{base} {now} ({change})' for base, (now, change) in prices.items())}."
    measured = (f"{name.removeprefix('BTC ')} {now} ({change})" for name, now, change in numbers)
    yield f"BTC {'; '.join([*measured][1:-1])}."
    span = span_text(*(day.hours["BTC"][each].at for each in (0, -1))).partition(", ")[2]
    recorded = f" We recorded {day.part}, {span}." if day.part else ""
    yield f"{_liquidation_line(evidence, day)}{recorded}"


def _liquidation_line(evidence: MarketEvidence, day: _Day) -> str:
    if evidence.lacks_liquidations:
        return "This venue doesn't publish all liquidations."
    watched, earlier = day.liquidated.watched_pct, day.before.total_usd
    covered = f"{coverage(watched)} of the day covered"
    if day.liquidated.total_usd is None:
        return f"Liquidations unknown: {covered}, {evidence.min_watched_pct:g} % needed."
    after = "" if earlier is None else f", after {usd(earlier)} the day before"
    return f"{day.liquidated.text}{after}{f'; {covered}' if watched < COMPLETE_PCT else ''}."


def _inputs(day: _Day) -> dict[str, Json]:
    return {
        "hours_recorded": day.recorded,
        "liquidated": dict(day.liquidated._asdict()),
        "liquidated_before": dict(day.before._asdict()),
        **{base: [_ends(known[0]), _ends(known[-1])] for base, known in day.hours.items() if known},
    }


def _ends(hour: Hour) -> dict[str, Json]:
    members = hour._asdict() | {
        "at": iso_timestamp(hour.at),
        "open_interest_coins": hour.open_interest_coins,
        "is_backfilled": bool(hour.is_backfilled),
    }
    return {name: members[name] for name in members if name not in NOT_CITED}


def _price(evidence: MarketEvidence, base: str, day: _Day) -> tuple[str, str]:
    first, last = (day.hours[base][each].last_price for each in (0, -1))
    quote = evidence.majors[base].quote if base in evidence.majors else "USD"
    return f"{price(last)} {quote}", _change(first, last)


def _known(value: float | None, write: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else write(value)


def _change(before: float | None, after: float | None, of: str = "") -> str:
    if before is None or before <= 0 or after is None:
        return UNKNOWN
    return _signed(change_pct(before, after), 1, "%") + of


def _points(before: float | None, after: float | None, decimals: int) -> str:
    return UNKNOWN if before is None or after is None else _signed(after - before, decimals)


def _signed(change: float, decimals: int, unit: str = "pp") -> str:
    shown = f"{change:+z.{decimals}f}"
    return f"{shown} {unit}" if float(shown) else "unchanged"
