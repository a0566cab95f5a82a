"""The content of `/markets/{coin}` for all venues together (pure)."""

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from markupsafe import Markup

from barograph import NOTICE, SITE_NAME
from barograph.kit.text import price, rate, usd
from barograph.markets.carry import CarryCoin, carry_coin
from barograph.markets.cross import CrossMarket, VenueFacts
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_entries import CrossVenue, Total
from barograph.markets.settlements import WINDOW_DAYS
from barograph.markets.symbols import has_page
from barograph.site.coin_text import (
    Part,
    change_sentence,
    last_compared,
    missing_rates,
    missing_text,
    part_bar,
    parts_of,
    titles_of,
)
from barograph.site.market_facts import MarketFact, at_least
from barograph.site.templating import UNKNOWN, mark, shown, utc_text
from barograph.venues.facts import Completeness
from barograph.venues.registry import VENUES

PUBLISHES: Mapping[Completeness, str] = {
    "all": "every liquidation",
    "largest per second": "only the largest per second and contract",
    "incomplete": "only some",
    "none": "not published",
}
"""Which liquidations a venue publishes."""

MOST_IN_FULL = 1e9


class VenueRow(NamedTuple):
    """One coin at one venue, as the page shows it."""

    entry: CrossVenue
    facts: VenueFacts
    part: Part | None

    @property
    def liquidations(self) -> tuple[str, str]:
        """The liquidations of 24 hours, and how complete they are."""
        kind, seen = self.facts.venue.liquidations, self.entry.liquidated_usd
        if kind == "none":
            return PUBLISHES[kind], ""
        published = f"The venue publishes {PUBLISHES[kind]}."
        if seen is None:
            totals = self.facts.totals
            is_disputed = totals is not None and totals.by_contract is None
            why = "sides were disputed" if is_disputed else "we covered too little of the 24 hours"
            return f"unknown: {why}", published
        bound = "" if kind == "all" else "at least "
        return f"{bound}{usd(seen[0])} long, {usd(seen[1])} short", published


NAMES = {
    "priceRange": "Price",
    "totalOpenInterestUsd": "Open interest",
    "weightedFundingRatePct8h": "Funding per 8 hours",
    "totalVolume24hUsd": "Volume in 24 hours",
    "liquidations24hAtLeastUsd": "Liquidated in 24 hours",
}
MEANINGS = {
    "priceRange": (
        "The price of one coin at the venue with the largest open interest. The range is that of "
        "the mark prices of all venues. The change compares with our reading of 24 hours ago, at "
        "the largest venue that has both prices."
    ),
    "totalOpenInterestUsd": (
        "Value of all open positions, one-sided: each long and its short count once. The USD value "
        "also changes with the price; the number of coins doesn't."
    ),
    "weightedFundingRatePct8h": (
        "An estimate of the next settlement, in percent of the position's value, weighted by open "
        "interest. If it is positive, longs pay shorts. “As stated” is the rate for the contract's "
        "own interval."
    ),
    "totalVolume24hUsd": "Value of all trades, as the venues report it.",
    "liquidations24hAtLeastUsd": (
        "USD value of the positions that were closed by force, as far as we saw them. Not every "
        "venue publishes all of its liquidations, so there may be more."
    ),
}


class CoinFacts(NamedTuple):
    """The fresh comparison of one coin."""

    coin: CrossCoin
    rows: Sequence[VenueRow]
    """One for every configured venue, and for each contract of the coin there."""

    market: CrossMarket
    citation: str

    @property
    def as_of(self) -> int:
        """The time of the oldest reading."""
        return self.market.as_of

    @property
    def source(self) -> str:
        """The sources of all readings."""
        return self.market.source

    @property
    def reading_until(self) -> int:
        """When the first number expires."""
        return self.market.until

    @property
    def facts(self) -> tuple[MarketFact, ...]:
        """The price and the totals."""
        coin, sides = self.coin, self.coin.liquidated_usd
        counting = (
            f"{row.facts.venue.title} counts {row.facts.venue.open_interest}."
            for row in self.rows
            if row.entry.contract is not None
        )
        return (
            _fact("priceRange", *_price(coin)),
            _fact(
                "totalOpenInterestUsd",
                shown(coin.open_interest.usd, usd),
                _joined(_total_note(coin, coin.open_interest), _coins_change(coin)),
                " ".join(dict.fromkeys(counting)),
            ),
            _fact(
                "weightedFundingRatePct8h",
                shown(coin.funding_8h_pct, rate),
                self.weighted,
            ),
            _fact("totalVolume24hUsd", shown(coin.volume.usd, usd), _total_note(coin, coin.volume)),
            _fact(
                "liquidations24hAtLeastUsd",
                UNKNOWN if sides is None else at_least(sum(sides)),
                "unknown at every venue that lists it"
                if sides is None
                else f"{usd(sides[0])} longs, {usd(sides[1])} shorts",
            ),
        )

    @property
    def weighted(self) -> str:
        """What the rate of the coin is."""
        return _joined("weighted by open interest", missing_rates(self.coin))

    @property
    def bar(self) -> Markup:
        """The shares of the venues."""
        return part_bar(row.part for row in self.rows if row.part is not None)

    @property
    def changed(self) -> str:
        """What happened in 24 hours."""
        return change_sentence(self.coin)

    @property
    def carry(self) -> dict[str, CarryCoin]:
        """What positions earned or paid, and the best pair of venues, by window."""
        return {window: carry_coin(self.coin, window) for window in WINDOW_DAYS}

    @property
    def left_out(self) -> dict[str, str]:
        """Why a venue doesn't count, or not in all results, by its name and state."""
        reasons: dict[str, tuple[str, str | None]] = {
            row.entry.venue: (row.entry.state, row.entry.reason)
            for row in self.rows
            if row.entry.state != "ok"
        }
        for each in self.coin.open_interest.missing:
            reasons.setdefault(each.venue, ("not in the total", each.reason))
        return {
            f"{VENUES[name].title} ({kind})": why or "" for name, (kind, why) in reasons.items()
        }


def coin_facts(market: CrossMarket, coin: CrossCoin) -> CoinFacts:
    """Collect one coin."""
    parts = chain(parts_of(coin), repeat(None))
    rows = [
        VenueRow(each, market.facts[each.venue], part)
        for each, part in zip(market.entries(coin), parts, strict=False)
    ]
    listed = {entry.venue for entry in coin.venues}
    used = [each for each in market.fresh if each.venue in listed]
    sources = "; ".join(each.source for each in used)
    citation = (
        f"{SITE_NAME}, {coin.asset} at {titles_of(each.venue for each in used)} as of "
        f"{utc_text(market.as_of)}. Sources: {sources}. {NOTICE}"
    )
    return CoinFacts(coin, rows, market, citation)


def ranked_neighbours(sizes: Mapping[str, float], asset: str) -> tuple[str | None, str | None]:
    """The coins before and after one, by open interest; None at the ends, or if it has no rank."""
    ranked = sorted(filter(has_page, sizes), key=lambda name: -sizes[name])
    if asset not in ranked:
        return None, None
    place = ranked.index(asset)
    before = ranked[place - 1] if place else None
    return before, next(iter(ranked[place + 1 : place + 2]), None)


def _fact(field: str, value: str, note: str, meaning: str = "") -> MarketFact:
    return MarketFact(NAMES[field], value, note, None, f"{MEANINGS[field]} {meaning}".rstrip())


def _price(coin: CrossCoin) -> tuple[str, str]:
    """The price at the largest venue, and where the others' are."""
    if not coin.priced:
        return UNKNOWN, "no venue has a current price"
    largest, prices = coin.priced[0], coin.prices
    change = "" if coin.price_pct is None else f"{coin.price_pct:+.2f} % in 24 h"
    ends = ""
    if prices is not None and prices.lowest_venue != prices.highest_venue:
        ends = (
            f"marks {mark(prices.lowest)} ({titles_of([prices.lowest_venue])}) to "
            f"{mark(prices.highest)} ({titles_of([prices.highest_venue])})"
        )
    kind = f"{largest.contract.price_kind}, {largest.contract.quote} at "
    place = kind + titles_of([largest.entry.venue])
    return price(largest.last_price), _joined(change, place, ends)


def _coins_change(coin: CrossCoin) -> str:
    percent = None if coin.change is None else coin.change.coins_pct
    return "" if percent is None else f"{percent:+.2f} % in coins in 24 h{last_compared(coin)}"


def _total_note(coin: CrossCoin, total: Total) -> str:
    coins = "" if total.coins is None else f"{coins_text(total.coins)} {coin.asset}"
    return _joined(coins, missing_text(total.usd, total.missing))


def coins_text(amount: float) -> str:
    """A number of coins, short if it is very large: `59.19T`."""
    return f"{amount:,.0f}" if amount < MOST_IN_FULL else usd(amount)[1:]


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))
