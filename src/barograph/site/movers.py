"""The contracts that moved most: in 24 hours, and by liquidations of the last hour (pure)."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from barograph.kit.text import price, usd
from barograph.kit.timestamps import HOUR
from barograph.markets.perpetuals import DayChange, day_change
from barograph.markets.records import Perpetual
from barograph.markets.samples import LiquidatedHour
from barograph.markets.symbols import symbol_of
from barograph.markets.view import UNAVAILABLE, MarketView
from barograph.site.templating import rate, utc_text
from barograph.site.tints import change_tint, funding_tint

FLOOR_USD = 10_000_000
"""Smaller open interest doesn't count: a few trades move it."""

SHOWN = 5
_NO_DAY = "The record has no hour to compare with yet."


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
    otherwise: str = ""
    """What is shown without movers."""

    note: str = ""


class _Moved(NamedTuple):
    perpetual: Perpetual
    change: DayChange


def day_movers(view: MarketView) -> tuple[MoverList, ...]:
    """The largest 24-hour changes of price, open interest and funding, in either direction."""
    moved = [
        _Moved(each, day_change(view, each))
        for each in view.perpetuals.contracts
        if each.open_interest_usd is not None and each.open_interest_usd >= FLOOR_USD
    ]

    def listed(
        title: str, size: Callable[[_Moved], float | None], show: Callable[[_Moved], Sequence[str]]
    ) -> MoverList:
        return MoverList(title, [_mover(view, each, show) for each in _top(moved, size)], _NO_DAY)

    return (
        listed("Price", lambda each: each.change.price_pct, _by_price),
        listed("Open interest", lambda each: each.change.open_interest_pct, _by_interest),
        listed("Funding per 8 h", _funding_change, _by_funding),
    )


def hour_movers(view: MarketView, hour: LiquidatedHour | None) -> MoverList:
    """The coins with the largest liquidations of the last hour; `hour` is None if unreadable."""
    title = "Liquidated in the last hour"
    if view.lacks_liquidations:
        return MoverList(title, (), f"Liquidations are {UNAVAILABLE}.")
    if hour is None:
        return MoverList(title, (), "Recorded data is temporarily unavailable.")
    since, until = (utc_text(at)[11:16] for at in (hour.until - HOUR, hour.until))
    note = f"{since}\N{EN DASH}{until} UTC, {hour.watched_pct:g} % covered"
    if not hour.watched_pct:
        return MoverList(title, (), "Unknown: we did not cover this hour.", note)
    coins: dict[str, tuple[float, float]] = {}
    for contract, (longs, shorts) in hour.by_contract.items():
        listed = view.by_name.get(contract.upper())
        coin = contract if listed is None else listed.asset
        before = coins.get(coin, (0.0, 0.0))
        coins[coin] = before[0] + longs, before[1] + shorts
    largest = sorted(coins.items(), key=lambda each: -sum(each[1]))[:SHOWN]
    movers = [_liquidated(view, coin, *sides) for coin, sides in largest]
    return MoverList(title, movers, "Nothing was liquidated.", note)


def change_text(percent: float) -> str:
    """A change with its sign, such as `+1.3 %`."""
    return f"{percent:+.1f} %"


def _top(moved: Iterable[_Moved], size: Callable[[_Moved], float | None]) -> list[_Moved]:
    known = [(abs(found), each) for each in moved if (found := size(each)) is not None]
    return [each for found, each in sorted(known, key=lambda each: -each[0])[:SHOWN] if found]


def _mover(view: MarketView, each: _Moved, show: Callable[[_Moved], Sequence[str]]) -> Mover:
    chip, tint, rest = show(each)
    perpetual = each.perpetual
    return Mover(perpetual.base, symbol_of(view.by_name, perpetual), chip, tint, rest)


def _by_price(each: _Moved) -> Sequence[str]:
    moved = each.change.price_pct or 0.0
    return change_text(moved), change_tint(moved), price(each.perpetual.last_price)


def _by_interest(each: _Moved) -> Sequence[str]:
    moved = each.change.open_interest_pct or 0.0
    return change_text(moved), change_tint(moved), usd(each.perpetual.open_interest_usd or 0.0)


def _funding_change(each: _Moved) -> float | None:
    before = each.change.funding_8h_before_pct
    return None if before is None else round(each.perpetual.funding_8h_pct - before, 6)


def _by_funding(each: _Moved) -> Sequence[str]:
    now, before = each.perpetual.funding_8h_pct, each.change.funding_8h_before_pct or 0.0
    return rate(now), funding_tint(now), f"from {rate(before)}"


def _liquidated(view: MarketView, coin: str, longs: float, shorts: float) -> Mover:
    listed = view.by_name.get(coin.upper())
    symbol = None if listed is None else symbol_of(view.by_name, listed)
    share = f"{100 * longs / (longs + shorts):.0f} % longs" if longs + shorts else ""
    return Mover(coin, symbol, usd(longs + shorts), "", share)
