"""The table of `/markets` over all venues (pure): a row per coin, with totals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barograph.kit.timestamps import DAY
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_prices import Priced
from barograph.markets.frames import is_near
from barograph.markets.perpetuals import percent_change
from barograph.markets.symbols import spelled_names
from barograph.site.coin_text import partial_text, ranked_funding, venues_text
from barograph.site.market_table import MarketRow, MarketTable, Tags, Week, written_columns
from barograph.site.paths import coin_page
from barograph.venues.records import Frame
from barograph.venues.registry import VENUES

COLUMNS = written_columns(
    (
        ("symbol", "Coin", "The coin, whatever the contracts are called"),
        ("price", "Price", "Price of one coin, at the venue with the largest open interest"),
        ("change", "24_h_%", "Price change in 24 hours, at the largest venue with both prices"),
        ("funding", "Funding_% per_8_h", "Live rates, weighted by open interest"),
        ("open-interest", "Open interest", "In USD, one-sided, all venues"),
        ("interest-change", "OI 24_h_% in_coins", "Change in 24 hours, same venues then and now"),
        ("week", "7_days_%", "Price change in 7 days, at the largest venue with both prices"),
        ("liquidations", "Liquidated 24_h long,_short", "In USD, all venues: a lower bound"),
        ("volume", "Volume 24_h", "In USD, all venues, as they report it"),
    )
)
SUFFIX = "USDT"
"""What people type after the name of a coin."""


class Sources(NamedTuple):
    """What a row needs beside the comparison: readings, and what they compare with."""

    weeks: Mapping[str, Mapping[str, Week] | None]
    """The prices of seven days by venue and contract; None if they can't be read."""

    week_ago: Mapping[str, Frame | None]


def coin_rows(coins: Iterable[CrossCoin], sources: Sources, usual: str) -> list[MarketRow]:
    """Collect some coins; `usual` is the venue that the note names for most prices."""
    return [_row(coin, sources, usual) for coin in coins]


def _row(coin: CrossCoin, sources: Sources, usual: str) -> MarketRow:
    contracts, change, sides = coin.priced, coin.change, coin.liquidated_usd
    priced = contracts[0] if contracts else None
    weekly = (_week_change(each, sources) for each in contracts)
    weeks = (
        (sources.weeks.get(e.entry.venue) or {}).get(e.contract.contract, ()) for e in contracts
    )
    numbers = (
        None if priced is None else priced.last_price,
        coin.price_pct,
        ranked_funding(coin),
        coin.open_interest.at_least_usd,
        None if change is None else change.coins_pct,
        next((pct for pct in weekly if pct is not None), None),
        None if sides is None else sum(sides),
        None,
        coin.volume.at_least_usd,
    )
    tags = Tags(coin=coin)
    if priced is not None and priced.entry.venue != usual:
        tags = tags._replace(price=VENUES[priced.entry.venue].title)
    return MarketRow(
        coin.asset,
        coin.asset + SUFFIX,
        () if priced is None else spelled_names(priced.contract),
        coin_page(coin.asset),
        numbers,
        sides,
        next(filter(None, weeks), ()),
        tags,
    )


def _week_change(priced: Priced, sources: Sources) -> float | None:
    frame = sources.week_ago.get(priced.entry.venue)
    if frame is None or not is_near(frame.at, (priced.entry.as_of or 0) - 7 * DAY):
        return None
    before = frame.contracts.get(priced.contract.contract)
    return None if before is None else percent_change(priced.contract.last_price, before.last_price)


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
        market.source,
        market.until,
        tuple(rows),
        market.until,
        tuple(_notes(market, rows, usual, is_complete=is_complete)),
        is_complete,
        partial_text(market),
        market.is_partial,
    )


def _notes(
    market: CrossMarket, rows: Sequence[MarketRow], usual: str, *, is_complete: bool
) -> Iterator[str]:
    yield f"Totals cover {venues_text(market)}."
    if usual:
        yield (
            "The price is that of the venue with the largest open interest: "
            f"{VENUES[usual].title}, unless another is named beside it."
        )
    yield "Liquidations are a lower bound: those that we saw, at the venues that publish them."
    if not any(row.number("change") is not None for row in rows):
        yield "24-hour changes are unknown: we have no reading from 24 hours ago."
    if not is_complete:
        yield "The 7-day column is empty, because recorded prices are temporarily unavailable."
