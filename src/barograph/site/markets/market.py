"""One perpetual by itself (pure): which one is meant, and what may be said about it now."""

from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.timestamps import iso_timestamp
from barograph.markets.index import Index, contract_of, symbol_of
from barograph.markets.records import LongAccounts, Perpetual
from barograph.markets.regime import eight_hour_rate
from barograph.markets.view import MarketView
from barograph.markets.words import price, usd
from barograph.notice import NOTICE
from barograph.site.frame.writer import NOT_KNOWN, SITE_NAME, moment, rate
from barograph.site.series.figures import NOTES


class Found(NamedTuple):
    """A perpetual, and the one symbol that its page has."""

    perpetual: Perpetual
    name: str


def find(index: Index, symbol: str) -> Found | None:
    """Look up what somebody typed, by the rules of `symbol` in the API."""
    perpetual = contract_of(index, symbol)
    if perpetual is None:
        return None
    name = symbol_of(index, perpetual)
    return None if name is None else Found(perpetual, name)


class Fact(NamedTuple):
    """One number of a perpetual, with everything that it takes to read it."""

    name: str
    value: str
    unit: str
    read_at: int | None
    """None where there is nothing that was read."""

    meaning: str


NAMES = {
    "last_price": "Last price",
    "funding_rate_pct": "Funding rate",
    "funding_8h_pct": "Funding per 8 hours",
    "open_interest_usd": "Open interest",
    "long_account_pct": "Long accounts",
    "next_funding_time": "Next settlement",
}
MEANINGS = {
    "last_price": (
        "Price of the last trade, in USDT; of a multiplier contract (1000PEPE) for so many coins."
    ),
    "funding_rate_pct": (
        "The rate of the current funding interval, in percent of the position's value. Positive: "
        "longs pay shorts."
    ),
    "funding_8h_pct": (
        "The same rate brought to eight hours, so that contracts with other intervals compare."
    ),
    "open_interest_usd": NOTES["open-interest"],
    "long_account_pct": NOTES["long-accounts"],
    "next_funding_time": "When the current rate is settled.",
}
"""What numbers mean, in the words of `markets/records.py` and `markets/regime.py`."""


class Market(NamedTuple):
    """One perpetual, as it may be shown now."""

    perpetual: Perpetual
    as_of: int
    source: str
    until: int
    """When the first of its numbers reaches its bound."""

    bound: int
    """When the reading itself does."""

    share: LongAccounts | None
    citation: str

    @property
    def facts(self) -> list[Fact]:
        """Every number that is known about it."""
        each, share = self.perpetual, self.share
        every = f"{each.funding_interval_hours:g} h"
        settled = moment(each.next_funding_time)
        countdown = Markup('<span data-until="{}"></span>').format(each.next_funding_time)
        long = NOT_KNOWN if share is None else f"{share.long_account_pct:.1f} %"
        eight = eight_hour_rate(each.funding_rate_pct, each.funding_interval_hours)
        stated = Markup("per {}, next settled {} {}").format(every, settled, countdown)
        interest = f"{each.open_interest_usd:,.0f} USD"
        sampled = None if share is None else share.sampled_at
        of_accounts = "not sampled recently" if share is None else "of accounts with a position"
        return [
            _fact("last_price", price(each.last_price), "USDT", self.as_of),
            _fact("funding_rate_pct", exact_rate(each.funding_rate_pct), stated, self.as_of),
            _fact("funding_8h_pct", rate(eight), "per 8 h", self.as_of),
            _fact("open_interest_usd", usd(each.open_interest_usd), interest, self.as_of),
            _fact("long_account_pct", long, of_accounts, sampled),
            _fact("next_funding_time", settled, f"every {every}", self.as_of),
        ]


def market(view: MarketView, found: Found) -> Market:
    """Gather what is fresh about one perpetual."""
    share = view.share(found.perpetual.contract)
    until = view.until
    if share is not None:
        until = min(until, share.sampled_at + view.bounds.long_accounts)
    as_of, source = view.perpetuals.as_of, view.perpetuals.source
    words = citation(found.name, source, as_of)
    return Market(found.perpetual, as_of, source, until, view.until, share, words)


def citation(name: str, source: str, as_of: int) -> str:
    """A text to cite the numbers of one perpetual by."""
    exact = iso_timestamp(as_of)
    return f"{SITE_NAME}, {name} perpetual as of {exact}. Source: {source}. {NOTICE}"


def _fact(field: str, value: str, unit: str, read_at: int | None) -> Fact:
    return Fact(NAMES[field], value, unit, read_at, MEANINGS[field])


def exact_rate(percent: float) -> str:
    """A rate with every digit that the exchange gave, and at least as many as any other."""
    whole, _, digits = f"{percent:+.10f}".partition(".")
    return f"{whole}.{digits.rstrip('0').ljust(4, '0')} %"
