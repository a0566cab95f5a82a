"""What the page about prices shows (pure)."""

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from barograph.access.feed_entry import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.site.frame.paths import DEVELOPERS_PATH
from barograph.site.frame.writer import Pages


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
        reserve_price=RESERVE_PRICE_USD,
        pricing_path=PRICING_PATH,
        feed_path=FEED_PATH,
        developers_path=DEVELOPERS_PATH,
    )
