"""What the page about prices shows (pure)."""

from collections.abc import Mapping
from typing import NamedTuple

from barograph.access.feed_entry import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.site.frame.terms import Terms
from barograph.site.frame.writer import Pages


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
        feed_path=FEED_PATH,
    )
