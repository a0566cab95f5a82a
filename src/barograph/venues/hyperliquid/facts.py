"""What Hyperliquid publishes."""

import re
from typing import Final

from barograph.venues.facts import Terms, Venue

_THOUSANDS = re.compile(r"k([A-Z0-9]+)")


def _coin_of(base: str) -> tuple[str, int]:
    """Read `kPEPE`: 1,000 PEPE."""
    match = _THOUSANDS.fullmatch(base)
    return (base, 1) if match is None else (match[1], 1000)


VENUE: Final = Venue(
    "hyperliquid",
    "Hyperliquid",
    "Hyperliquid public data (USD perpetuals, mark prices)",
    "Hyperliquid public data",
    Terms(
        "https://app.hyperliquid.xyz/terms",
        "2026-06-15",
        "The terms cover only the web interface, which is closed to US persons. We found no clause "
        "about the data.",
    ),
    "https://api.hyperliquid.xyz",
    ("#0f766e", "#4fd1c0"),
    liquidations="none",
    liquidation_price="",
    has_long_accounts=False,
    price_kind="mark",
    quote="USD",
    suffix="",
    open_interest="both sides, which we halve",
    coin_of=_coin_of,
)
