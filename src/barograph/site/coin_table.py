"""The table of `/markets` over all venues (pure): a row per coin, with totals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.perpetuals import day_change, week_change
from barograph.markets.symbols import ContractIndex, spelled_names
from barograph.markets.view import MarketView
from barograph.site.coin_text import coin_path, liquidated_sides, missing_text, priced_entry
from barograph.site.market_table import MarketRow, MarketTable, Tags, Week, written_columns
from barograph.venues.records import Frame
from barograph.venues.registry import VENUES

COLUMNS = written_columns(
    (
        ("symbol", "Coin", "The coin, whatever the contracts are called"),
        ("price", "Price", "Mark price of one coin where the open interest is largest"),
        ("change", "24_h_%", "Change of this price in 24 hours, at the same venue"),
        ("funding", "Funding_% per_8_h", "Live rates, weighted by open interest"),
        ("open-interest", "Open interest", "In USD, one-sided, all venues"),
        ("interest-change", "OI 24_h_% in_coins", "Change in 24 hours at the same venues"),
        ("week", "7_days_%", "Change of the price in 7 days, at the same venue"),
        ("liquidations", "Liquidated 24_h long,_short", "In USD; at least, at all venues"),
        ("volume", "Volume 24_h", "In USD, all venues"),
    )
)
SUFFIX = "USDT"
"""What people type after the name of a coin."""


class Sources(NamedTuple):
    """What a row needs beside the comparison: readings, and what they compare with."""

    in_use: str
    contracts: ContractIndex
    """The contracts of the venue in use."""

    views: Mapping[str, MarketView]
    """What is fresh at each venue."""

    weeks: Mapping[str, Mapping[str, Week] | None]
    """The prices of seven days by venue and contract; None if they can't be read."""

    week_ago: Mapping[str, Frame | None]


def coin_rows(coins: Iterable[CrossCoin], sources: Sources, usual: str) -> list[MarketRow]:
    """Collect some coins; `usual` is the venue that the note names for most prices."""
    return [_row(coin, sources, usual) for coin in coins]


def _row(coin: CrossCoin, sources: Sources, usual: str) -> MarketRow:
    priced, sides = priced_entry(coin), liquidated_sides(coin)
    venue = "" if priced is None else priced.venue
    price, change, week_pct, week, spelled = _prices(coin, sources)
    numbers = (
        price,
        change,
        coin.funding_8h_pct,
        coin.open_interest.usd,
        None if coin.change is None else coin.change.coins_pct,
        week_pct,
        None if sides is None else sum(sides),
        coin.volume.usd,
        None,
    )
    tags = Tags(
        "" if venue in {"", usual} else VENUES[venue].title,
        interest=missing_text(coin.open_interest.missing),
    )
    path = coin_path(coin, sources.in_use, sources.contracts)
    name = coin.asset
    return MarketRow(name, name + SUFFIX, spelled, path, numbers, sides, week, tags)


class _Prices(NamedTuple):
    price: float | None = None
    day_pct: float | None = None
    week_pct: float | None = None
    week: Week = ()
    spelled: Sequence[str] = ()


def _prices(coin: CrossCoin, sources: Sources) -> _Prices:
    """What the venue with the largest open interest says."""
    priced = priced_entry(coin)
    if priced is None:
        return _Prices()
    contract, view = priced.contract, sources.views.get(priced.venue)
    spelled, price = spelled_names(contract), contract.last_price / contract.multiplier
    if view is None:
        return _Prices(price, spelled=spelled)
    return _Prices(
        price,
        day_change(view, contract).price_pct,
        week_change(view, sources.week_ago.get(priced.venue), contract),
        (sources.weeks.get(priced.venue) or {}).get(contract.contract, ()),
        spelled,
    )


def usual_venue(market: CrossMarket) -> str:
    """The venue whose price stands for most coins; empty if there is none."""
    deepest = Counter(coin.deepest for coin in market.coins.values() if coin.deepest is not None)
    return max(deepest, key=deepest.__getitem__, default="")


def coin_table(
    market: CrossMarket, rows: Sequence[MarketRow], usual: str, *, is_complete: bool
) -> MarketTable:
    """The table of all coins."""
    return MarketTable(
        COLUMNS,
        SUFFIX,
        market.as_of,
        "; ".join(each.source for each in market.fresh),
        market.until,
        tuple(rows),
        market.until,
        tuple(_notes(rows, usual, is_complete=is_complete)),
        is_complete,
    )


def _notes(rows: Sequence[MarketRow], usual: str, *, is_complete: bool) -> Iterator[str]:
    if usual:
        yield (
            "The price is that of the venue with the largest open interest: "
            f"{VENUES[usual].title}, unless another is named beside it."
        )
    yield "Liquidations are those that we saw at venues that publish them: a lower bound."
    if not any(row.number("change") is not None for row in rows):
        yield "24-hour changes are unknown: we have no reading from 24 hours ago."
    if not is_complete:
        yield "The 7-day column is empty, because recorded prices are temporarily unavailable."
