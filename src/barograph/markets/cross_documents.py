"""The cross-venue view as JSON and CSV (pure).

Bodies are written from dictionaries, because validating thousands of models takes 100 ms. The
models describe them.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from barograph import NOTICE
from barograph.kit.csv_table import CSV, cells, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListHead
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_bodies import CHANGE_COLUMNS, CROSS_COLUMNS
from barograph.markets.cross_changes import Change
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_entries import CrossVenue, Missing
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, yearly

CROSS_PATH = "/api/v1/cross"


def encoded_coins(market: CrossMarket) -> list[bytes]:
    """Every coin as JSON, as in the list."""
    encode = msgspec.json.Encoder().encode
    return [
        encode({**_totals(coin), "venues": [_row(coin, each) for each in coin.venues]})
        for coin in market.coins.values()
    ]


def cross_document(market: CrossMarket, coins: Sequence[bytes], *, compress: bool) -> Document:
    """A list of these coins."""
    return document_of(market, _head(market).encode("cross", coins, None), compress=compress)


def cross_table(market: CrossMarket) -> Document:
    """All coins as CSV."""
    rows = (cells(row) for coin in market.coins.values() for row in _table_rows(coin))
    return document_of(market, table(",".join(CROSS_COLUMNS), rows, _head(market).source), CSV)


def coin_document(market: CrossMarket, coin: CrossCoin) -> Document:
    """One coin, with a row for every configured venue."""
    as_of, venue, source, notice = _head(market)
    head = {"as_of": time_text(as_of), "venue": venue, "source": source, "notice": notice}
    rows = [{**_row(coin, each), **_details(market, each)} for each in market.entries(coin)]
    return document_of(market, msgspec.json.encode({**head, **_totals(coin), "venues": rows}))


def _head(market: CrossMarket) -> ListHead:
    venues = ",".join(each.venue for each in market.fresh)
    return ListHead(market.as_of, venues, market.source, NOTICE)


def document_of(
    market: CrossMarket, body: bytes, kind: bytes = JSON, *, compress: bool = True
) -> Document:
    """A body that is valid until the first of the facts reaches its freshness limit."""
    return Document(
        body,
        since=market.now,
        until=market.until,
        modified=market.as_of,
        content_type=kind,
        compress=compress,
    )


def _totals(coin: CrossCoin) -> dict[str, Any]:
    interest, volume = coin.open_interest, coin.volume
    longs, shorts = coin.liquidated_usd or (None, None)
    return {
        "coin": coin.asset,
        "deepestVenue": coin.deepest,
        "totalOpenInterestUsd": rounded(interest.usd, 2),
        "totalOpenInterestCoins": interest.coins,
        "openInterestComplete": not interest.missing,
        "openInterestMissing": list(map(missing_venue, interest.missing)),
        "openInterestWithMissingUsd": rounded(interest.with_missing_usd, 2),
        "openInterestChange24h": None if coin.change is None else _change(coin.change),
        "totalVolume24hUsd": rounded(volume.usd, 2),
        "totalVolume24hCoins": volume.coins,
        "volumeMissing": list(map(missing_venue, volume.missing)),
        "weightedFundingRatePct8h": rounded(coin.funding_8h_pct, RATE_DIGITS),
        "weightedFundingWithMissingPct8h": rounded(coin.funding_with_missing_8h_pct, RATE_DIGITS),
        "fundingMissing": list(map(missing_venue, coin.funding_missing)),
        "settledTo": time_text(coin.settled_to),
        "fundingSpread": coin.spread,
        "priceRange": coin.prices,
        "liquidations24hAtLeastUsd": rounded(coin.at_least_usd, 2),
        "liquidations24hLongUsd": rounded(longs, 2),
        "liquidations24hShortUsd": rounded(shorts, 2),
        "liquidationsIncomplete": coin.liquidations_incomplete,
    }


def missing_venue(each: Missing) -> dict[str, Any]:
    """As `MissingVenue`."""
    return {
        "venue": each.venue,
        "reason": each.reason,
        "lastUsd": rounded(each.last_usd, 2),
        "lastCoins": each.last_coins,
        "last_as_of": time_text(each.last_at),
    }


def _change(each: Change) -> dict[str, Any]:
    change, by_price = round(each.change_usd, 2), rounded(each.price_effect_usd, 2)
    price, positions = each.quadrant or (None, None)
    return {
        "changes_from": time_text(each.since),
        "venues": each.venues,
        "beforeUsd": round(each.before_usd, 2),
        "changeUsd": change,
        "changePct": rounded(each.usd_pct, 4),
        "priceEffectUsd": by_price,
        "positionsEffectUsd": None if by_price is None else round(change - by_price, 2),
        "priceChangePct": rounded(each.price_pct, 4),
        "coinsChangePct": rounded(each.coins_pct, 4),
        "price": price,
        "positions": positions,
    }


def _row(coin: CrossCoin, each: CrossVenue) -> dict[str, Any]:
    settled = each.settled.all_pct if each.settled is not None else (None,) * len(WINDOW_DAYS)
    return {
        "venue": each.venue,
        "state": each.state,
        "reason": each.reason,
        "contract": None if each.contract is None else each.contract.contract,
        "pricePerCoin": each.price,
        "fundingRatePct8h": each.funding_8h_pct,
        **dict(zip(_SETTLED, settled, strict=True)),
        **dict(zip(_SETTLED_YEARLY, map(yearly, settled, WINDOW_DAYS.values()), strict=True)),
        "openInterestUsd": each.interest_usd,
        "openInterestCoins": each.interest_coins,
        "sharePct": rounded(coin.share_pct(each), 2),
        "volume24hUsd": each.volume_usd,
        "volume24hCoins": each.volume_coins,
        "weightPct": rounded(coin.weight_pct(each), 2),
    }


def _details(market: CrossMarket, each: CrossVenue) -> dict[str, Any]:
    known, facts = each.contract, market.facts[each.venue]
    totals = facts.fresh_totals(market.limits, market.now)
    longs, shorts = (None, None) if each.liquidated_usd is None else each.liquidated_usd
    return {
        **{name: None if known is None else getattr(known, field) for name, field in _OWN.items()},
        "basisPct": None if known is None else rounded(known.basis_pct, 6),
        "as_of": time_text(each.as_of),
        "open_interest_as_of": time_text(each.interest_at),
        "openInterestCounting": facts.venue.open_interest,
        "disputed": each.disputed,
        "liquidations24h": {
            "completeness": facts.venue.liquidations,
            "longUsd": longs,
            "shortUsd": shorts,
            "watchedPct": None if totals is None else totals.watched_pct,
            "as_of": None if totals is None else time_text(totals.as_of),
        },
    }


def _table_rows(coin: CrossCoin) -> Iterator[list[Any]]:
    totals = _totals(coin)
    for name in ("openInterestMissing", "volumeMissing", "fundingMissing"):
        totals[name] = [
            {"venue": each["venue"], "lastUsd": each["lastUsd"]} for each in totals[name]
        ]
    totals["openInterestComplete"] = str(totals["openInterestComplete"]).lower()
    change = totals["openInterestChange24h"] or {}
    totals["openInterestChange24h"] = change.get("changePct")
    totals["fundingSpread"] = coin.spread and coin.spread.pct_8h
    totals["priceRange"] = coin.prices and [coin.prices.lowest, coin.prices.highest]
    for each in coin.venues:
        yield [*totals.values(), *_row(coin, each).values(), *map(change.get, CHANGE_COLUMNS)]


def rounded(value: float | None, digits: int) -> float | None:
    """A number, if known."""
    return None if value is None else round(value, digits)


@lru_cache(maxsize=512)
def time_text(at: int | None) -> str | None:
    """A time, if known."""
    return None if at is None else iso_timestamp(at)


_SETTLED = [f"settledPct{window}" for window in WINDOW_DAYS]
_SETTLED_YEARLY = [f"settledYearlyPct{window}" for window in WINDOW_DAYS]

_OWN = {
    "multiplier": "multiplier",
    "price": "last_price",
    "priceKind": "price_kind",
    "quote": "quote",
    "indexPrice": "index_price",
    "basisPct": "basis_pct",
    "fundingRatePct": "funding_rate_pct",
    "fundingIntervalHours": "funding_interval_hours",
    "nextFundingTime": "next_funding_time",
}
"""The members that are as the venue states them, and their fields."""
