"""What the page about prices shows (pure)."""

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from barograph.access.feed_entry import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.site.frame.writer import DEVELOPERS_PATH, Pages

CENTS = 2


class Terms(NamedTuple):
    """What this instance asks for, and whether it takes it by x402."""

    feed_price: Decimal
    feed_period_days: int
    stance_price: Decimal
    takes_payments: bool


class Doors(NamedTuple):
    """What Feed opens, by path."""

    feed_now: str
    material_change: str
    stances: Mapping[str, str]
    """By kind."""


def write_pricing(pages: Pages, terms: Terms, doors: Doors) -> bytes:
    """What is free, what is not, and how to get it."""
    return pages.fill(
        "pricing.html",
        here=PRICING_PATH,
        terms=terms,
        doors=doors,
        feed_price=dollars(terms.feed_price),
        stance_price=dollars(terms.stance_price),
        reserve_price=dollars(Decimal(RESERVE_PRICE_USD)),
        feed_path=FEED_PATH,
        developers_path=DEVELOPERS_PATH,
    )


def dollars(price: Decimal) -> str:
    """A price with every digit it has: `25 USD`, `29.50 USD`, `0.001 USD`."""
    whole, _, parts = f"{price.normalize():,f}".partition(".")
    return f"{whole}.{parts:0<{CENTS}} USD" if parts else f"{whole} USD"
