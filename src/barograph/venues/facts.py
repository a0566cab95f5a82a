"""What a venue publishes, and under which terms: the record that each venue's folder fills (pure).

Sources: the exchanges' documentation, and for Hyperliquid's open interest, which counts both sides,
public measurements of 2026-09.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

Completeness = Literal["all", "largest per second", "incomplete", "none"]
"""How complete a venue's published liquidations are. Only `all` adds up to a total; the sum of the
others is a lower bound."""

PriceKind = Literal["last", "mark"]

Statement = Literal["terms", "consent"]
"""What a confirmation says: "I have read the terms and they allow my use", or "I hold the written
consent that the terms ask for"."""

_PREFIX = re.compile(r"(10{3,9}|1M)(\D.*)")
_SUFFIX = re.compile(r"([A-Z]+?)(10{3,9})")
_MILLION = "1M"


class Terms(NamedTuple):
    """The terms of a venue's data, which the operator confirms."""

    url: str
    date: str
    """The date of the terms; empty if we don't know it."""

    says: str
    """What the terms say, as we know it from public summaries."""

    statement: Statement = "terms"


def coin_with_multiplier(base: str) -> tuple[str, int]:
    """The coin of a base asset, and how many coins its price and sizes are for.

    Most venues write `1000PEPE` or `SHIB1000`.
    """
    match = _PREFIX.fullmatch(base)
    if match is not None:
        return match[2], 10**6 if match[1] == _MILLION else int(match[1])
    match = _SUFFIX.fullmatch(base)
    return (base, 1) if match is None else (match[1], int(match[2]))


class Venue(NamedTuple):
    """What a venue publishes. What it does not have is no failure."""

    name: str
    title: str
    source: str
    """The text of every published `source`; it names the kind of price if that is not `last`."""

    data: str
    """What its terms are about, such as `Bybit public market data`."""

    terms: Terms
    url: str
    """The base address of its REST API."""

    colours: tuple[str, str]
    """Of its lines and areas in charts, on a light and on a dark page."""

    liquidations: Completeness
    liquidation_price: str
    """The kind of price of a liquidation; empty without liquidations."""

    stream: str = ""
    """The path of its public websocket, with liquidations."""

    stream_hosts: Mapping[str, str] = {}
    """The websocket hosts by REST host. Any other host, such as a proxy, answers for both."""

    has_long_accounts: bool = True
    price_kind: PriceKind = "last"
    quote: str = "USDT"
    suffix: str = "USDT"
    """What the full name of a contract adds to its base asset."""

    open_interest: str = "one side"
    """Which sides of a position the venue's own figure counts."""

    coin_of: Callable[[str], tuple[str, int]] = coin_with_multiplier
    """The coin of a base asset, and how many coins its price and sizes are for."""

    def stream_url(self, rest_url: str) -> str:
        """The websocket that belongs to a REST address."""
        place = urlsplit(rest_url)
        host = self.stream_hosts.get(place.netloc, place.netloc)
        return f"ws{place.scheme[4:]}://{host}{self.stream}"

    def contract(self, base: str) -> str:
        """The full name of the contract of a base asset."""
        return base + self.suffix
