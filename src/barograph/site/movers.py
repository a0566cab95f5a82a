"""The contracts that moved most: in 24 hours, and by liquidations of the last hour (pure)."""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

from barograph.kit.text import price, rate, usd
from barograph.kit.timestamps import HOUR
from barograph.markets.perpetuals import DayChange, day_change
from barograph.markets.records import Perpetual
from barograph.markets.samples import LiquidatedHour
from barograph.markets.symbols import symbol_of
from barograph.markets.view import UNAVAILABLE, MarketView
from barograph.site.templating import utc_text
from barograph.site.tints import change_tint, funding_tint

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


_Row = tuple[float, Perpetual, DayChange]


def day_movers(view: MarketView) -> tuple[MoverList, ...]:
    """The largest 24-hour changes of price, open interest and funding, in either direction."""
    moved = [
        (each, day_change(view, each))
        for each in view.perpetuals.contracts
        if each.open_interest_usd is not None and each.open_interest_usd >= FLOOR_USD
    ]
    by_price = _top((day.price_pct, each, day) for each, day in moved)
    by_interest = _top((day.open_interest_pct, each, day) for each, day in moved)
    by_funding = _top((_funding_change(each, day), each, day) for each, day in moved)
    return (
        MoverList("Price", [_changed(view, row, price(row[1].last_price)) for row in by_price]),
        MoverList(
            "Open interest",
            [_changed(view, row, usd(row[1].open_interest_usd or 0.0)) for row in by_interest],
        ),
        MoverList("Funding per 8 h", [_refunded(view, *row) for row in by_funding]),
    )


def hour_movers(view: MarketView, hour: LiquidatedHour | None) -> MoverList:
    """The coins with the largest liquidations of the last hour; `hour` is None if unreadable."""
    if view.lacks_liquidations:
        return MoverList(_HOUR, (), f"Liquidations are {UNAVAILABLE}.")
    if hour is None:
        return MoverList(_HOUR, (), "Recorded data is temporarily unavailable.")
    since, until = (utc_text(at)[11:16] for at in (hour.until - HOUR, hour.until))
    note = f"{since}\N{EN DASH}{until} UTC, {hour.watched_pct:g} % covered"
    if not hour.watched_pct:
        return MoverList(_HOUR, (), "Unknown: we did not cover this hour.", note)
    coins: dict[str, tuple[float, float]] = {}
    for contract, (longs, shorts) in hour.by_contract.items():
        listed = view.by_name.get(contract.upper())
        coin = contract if listed is None else listed.asset
        before = coins.get(coin, (0.0, 0.0))
        coins[coin] = before[0] + longs, before[1] + shorts
    largest = nlargest(SHOWN, coins.items(), key=lambda each: sum(each[1]))
    movers = [_liquidated(view, coin, *sides) for coin, sides in largest]
    return MoverList(_HOUR, movers, "Nothing was liquidated.", note)


def change_text(percent: float) -> str:
    """A change with its sign, such as `+1.3 %`."""
    return f"{percent:+.1f} %" if round(percent, 1) else "0.0 %"


def _top(rows: Iterable[tuple[float | None, Perpetual, DayChange]]) -> list[_Row]:
    known = [(by, each, day) for by, each, day in rows if by is not None and by != 0]
    return nlargest(SHOWN, known, key=lambda row: abs(row[0]))


def _changed(view: MarketView, row: _Row, rest: str) -> Mover:
    pct, each, _ = row
    symbol = symbol_of(view.by_name, each)
    return Mover(each.base, symbol, change_text(pct), change_tint(pct), rest)


def _funding_change(each: Perpetual, day: DayChange) -> float | None:
    before = day.funding_8h_before_pct
    return None if before is None else round(each.funding_8h_pct - before, 6)


def _refunded(view: MarketView, by: float, each: Perpetual, _: DayChange) -> Mover:
    now, symbol = each.funding_8h_pct, symbol_of(view.by_name, each)
    return Mover(each.base, symbol, rate(now), funding_tint(now), f"from {now - by:+.4f}")


def _liquidated(view: MarketView, coin: str, longs: float, shorts: float) -> Mover:
    listed = view.by_name.get(coin.upper())
    symbol = None if listed is None else symbol_of(view.by_name, listed)
    share = f"{100 * longs / (longs + shorts):.0f} % longs" if longs + shorts else ""
    return Mover(coin, symbol, usd(longs + shorts), "", share)
