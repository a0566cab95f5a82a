"""The venues that can be read, and what each of them publishes (pure).

A venue's name keys everything that is recorded from it. Sources: the exchanges' documentation, and
for Hyperliquid's open interest, which counts both sides, public measurements of 2026-09.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from barograph.errors import NotFound

Completeness = Literal["all", "largest per second", "incomplete", "none"]
"""How complete a venue's published liquidations are. Only `all` adds up to a total; the sum of the
others is a lower bound."""

PriceKind = Literal["last", "mark"]

BYBIT: Final = "bybit"
HYPERLIQUID: Final = "hyperliquid"
BINANCE: Final = "binance"


class Venue(NamedTuple):
    """What a venue publishes. What it does not have is no failure."""

    name: str
    title: str
    source: str
    """The text of every published `source`; it names the kind of price if that is not `last`."""

    liquidations: Completeness
    liquidation_price: str
    """The kind of price of a liquidation; empty without liquidations."""

    has_long_accounts: bool = True
    price_kind: PriceKind = "last"
    quote: str = "USDT"
    suffix: str = "USDT"
    """What the full name of a contract adds to its base asset."""

    open_interest: str = "one side"
    """Which sides of a position the venue's own figure counts."""

    def contract(self, base: str) -> str:
        """The full name of the contract of a base asset."""
        return base + self.suffix


VENUES: Final[Mapping[str, Venue]] = {
    each.name: each
    for each in (
        Venue(
            BYBIT,
            "Bybit",
            "Bybit v5 public market data (USDT perpetuals)",
            liquidations="all",
            liquidation_price="bankruptcy",
            open_interest="one side (it also publishes both)",
        ),
        Venue(
            HYPERLIQUID,
            "Hyperliquid",
            "Hyperliquid public data (USD perpetuals, mark prices)",
            liquidations="none",
            liquidation_price="",
            has_long_accounts=False,
            price_kind="mark",
            quote="USD",
            suffix="",
            open_interest="both sides, which we halve",
        ),
        Venue(
            BINANCE,
            "Binance",
            "Binance USDⓈ-M public market data (USDT perpetuals)",
            liquidations="largest per second",
            liquidation_price="average fill",
        ),
    )
}


def publishes_liquidations(venue: str, primary: str) -> bool:
    """Whether there are totals of liquidations while a venue is in use; they don't fail over."""
    return venue == primary and VENUES[venue].liquidations == "all"


def publishes_long_accounts(venue: str, primary: str) -> bool:
    """Whether there are long-account shares while a venue is in use; they don't fail over."""
    return venue == primary and VENUES[venue].has_long_accounts


def liquidation_venue(given: Mapping[str, str], venues: Sequence[str]) -> str:
    """The venue of a request, of those that an instance reads; by default the first.

    Raises:
        NotFound: it publishes no liquidations, or this instance doesn't read it.
    """
    known = [name for name in venues if VENUES[name].liquidations != "none"]
    venue = given.get("venue", venues[0])
    if venue in known:
        return venue
    if not known:
        raise NotFound("this instance reads no venue that publishes liquidations")
    problem = f"{venue} publishes no liquidations" if venue in venues else "unknown venue"
    raise NotFound(f"{problem}; choose one of {', '.join(known)}")


SIMULATED: Final = "simulated"


def source_of(venue: str, bybit_source: str) -> str:
    """The text of a venue's published `source`; `bybit_source` is that of Bybit."""
    known = VENUES[venue]
    if venue == BYBIT:
        return bybit_source
    if not bybit_source.startswith(SIMULATED):
        return known.source
    kind = "" if known.price_kind == "last" else f", {known.price_kind} prices"
    return f"{SIMULATED} {known.title} (demo data{kind})"


_PREFIX = re.compile(r"(10{3,9}|1M)(\D.*)")
_SUFFIX = re.compile(r"([A-Z]+?)(10{3,9})")
_THOUSANDS = re.compile(r"k([A-Z0-9]+)")
_MILLION = "1M"


def coin_of(venue: str, base: str) -> tuple[str, int]:
    """The coin of a base asset, and how many coins its price and sizes are for.

    `1000PEPE` and `SHIB1000` at most venues, `kPEPE` at Hyperliquid.
    """
    if venue == HYPERLIQUID:
        match = _THOUSANDS.fullmatch(base)
        return (base, 1) if match is None else (match[1], 1000)
    match = _PREFIX.fullmatch(base)
    if match is not None:
        return match[2], 10**6 if match[1] == _MILLION else int(match[1])
    match = _SUFFIX.fullmatch(base)
    return (base, 1) if match is None else (match[1], int(match[2]))
