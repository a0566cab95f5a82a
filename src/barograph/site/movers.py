"""The contracts that moved most: in 24 hours, and by liquidations of the last hour (pure)."""

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

from barograph.kit.text import coverage, price, rate, usd
from barograph.kit.timestamps import HOUR
from barograph.markets.perpetuals import DayChange, day_change
from barograph.markets.records import Perpetual
from barograph.markets.samples import LiquidatedHour
from barograph.markets.symbols import symbol_of
from barograph.markets.view import UNAVAILABLE, MarketView
from barograph.site.templating import utc_text
from barograph.site.tints import change_tint

FLOOR_USD = 10_000_000
"""Smaller open interest doesn't count: a few trades move it."""

SHOWN = 5
_HOUR = "Liquidated, last hour"


class Mover(NamedTuple):
    """One line of a list."""

    name: str
    symbol: str | None
    """The symbol of its page; None if it has none."""

    chip: str
    """The number that it is listed for."""

    tint: str
    rest: str


class MoverList(NamedTuple):
    """The largest movers by one measure, the largest first."""

    title: str
    movers: Sequence[Mover]
    otherwise: str = "The record has no hour to compare with yet."
    """What is shown without movers."""

    note: str = ""


def day_movers(view: MarketView) -> tuple[MoverList, ...]:
    """The largest 24-hour changes of price, open interest and funding, in either direction."""
    moved = [
        (each, day_change(view, each))
        for each in view.perpetuals.contracts
        if each.open_interest_usd is not None and each.open_interest_usd >= FLOOR_USD
    ]
    prices = [(day.price_pct, each, price(each.last_price)) for each, day in moved]
    interest = [
        (day.open_interest_coins_pct, each, usd(each.open_interest_usd or 0.0))
        for each, day in moved
    ]
    funding = [(_basis_points(each, day), each, rate(each.funding_8h_pct)) for each, day in moved]
    return (
        MoverList("Price", _largest(view, prices, change_text)),
        MoverList("Open interest", _largest(view, interest, change_text)),
        MoverList("Funding per 8 h", _largest(view, funding, _points_text)),
    )


def hour_movers(view: MarketView, hour: LiquidatedHour | None) -> MoverList:
    """The symbols with the largest liquidations of the last hour; `hour` is None if unreadable."""
    if view.lacks_liquidations:
        return MoverList(_HOUR, (), f"Liquidations are {UNAVAILABLE}.")
    if hour is None:
        return MoverList(_HOUR, (), "Recorded data is temporarily unavailable.")
    since, until = (utc_text(at)[11:16] for at in (hour.until - HOUR, hour.until))
    note = f"{since}\N{EN DASH}{until} UTC, {coverage(hour.watched_pct)} covered"
    if not hour.watched_pct:
        return MoverList(_HOUR, (), "Unknown: we did not cover this hour.", note)
    sums: dict[str, tuple[float, float]] = {}
    for contract, (longs, shorts) in hour.by_contract.items():
        listed = view.by_name.get(contract.upper())
        name = contract if listed is None else listed.base
        before = sums.get(name, (0.0, 0.0))
        sums[name] = before[0] + longs, before[1] + shorts
    largest = nlargest(SHOWN, sums.items(), key=lambda each: sum(each[1]))
    movers = [_liquidated(view, name, *sides) for name, sides in largest]
    return MoverList(_HOUR, movers, "Nothing was liquidated.", note)


def change_text(percent: float) -> str:
    """A change with its sign, such as `+1.3 %`."""
    return f"{percent:+.1f} %" if round(percent, 1) else "0.0 %"


def _largest(
    view: MarketView,
    rows: Iterable[tuple[float | None, Perpetual, str]],
    write: Callable[[float], str],
) -> list[Mover]:
    known = [(by, each, level) for by, each, level in rows if by is not None and by != 0]
    return [
        Mover(each.base, symbol_of(view.by_name, each), write(by), change_tint(by), level)
        for by, each, level in nlargest(SHOWN, known, key=lambda row: abs(row[0]))
    ]


def _basis_points(each: Perpetual, day: DayChange) -> float | None:
    """The change of the rate; one basis point is tinted like one percent."""
    before = day.funding_8h_before_pct
    return None if before is None else round(100 * (each.funding_8h_pct - before), 2)


def _points_text(basis_points: float) -> str:
    return f"{basis_points / 100:+.4f} pp"


def _liquidated(view: MarketView, name: str, longs: float, shorts: float) -> Mover:
    listed = view.by_name.get(name.upper())
    symbol = None if listed is None else symbol_of(view.by_name, listed)
    share = f"{100 * longs / (longs + shorts):.0f} % longs" if longs + shorts else ""
    return Mover(name, symbol, usd(longs + shorts), "", share)
