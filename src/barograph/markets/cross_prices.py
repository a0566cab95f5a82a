"""The prices of one coin at several venues: which are of another asset, and which wrong (pure)."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from barograph.markets.cross_entries import OPEN_INTEREST, PRICE, CrossVenue, others
from barograph.venues.records import PastValues, Perpetual
from barograph.venues.registry import VENUES

MAX_DIFFERENCE = 0.05
"""How far a mark may be from that of the deepest venue before it counts as another asset."""


class PriceRange(Struct, frozen=True, rename="camel"):
    """The lowest and the highest mark price of one coin."""

    lowest: float
    lowest_venue: str
    highest: float
    highest_venue: str
    missing: tuple[str, ...] = ()
    """The venues whose price is unknown or disputed."""


class Priced(NamedTuple):
    """An entry with the price of one coin."""

    price: float
    """By its mark price; of `last` if it is not current."""

    entry: CrossVenue
    is_current: bool = True

    @property
    def contract(self) -> Perpetual:
        """The contract, if the price is current."""
        assert self.entry.contract is not None
        return self.entry.contract

    @property
    def last_price(self) -> float:
        """The last price of one coin, if the price is current."""
        return self.contract.last_price / self.contract.multiplier


def priced(entries: Iterable[CrossVenue]) -> list[Priced]:
    """The entries whose price is known and not disputed, with that price."""
    known = (_price(each) for each in entries)
    return [each for each in known if each is not None and each.is_current]


def _price(entry: CrossVenue) -> Priced | None:
    """The price, or else the last one, so that a coin doesn't become another asset in an outage."""
    if entry.price is not None and PRICE not in entry.disputed:
        return Priced(entry.price, entry)
    if not entry.last:
        return None
    return Priced(entry.last[0].price / entry.last[0].multiplier, entry, is_current=False)


def _reference(entries: Iterable[CrossVenue]) -> Priced | None:
    """The price of now that the others are compared with: that of the deepest venue.

    While that venue is missing, what was another asset beside it is none.
    """
    known = [each for each in map(_price, entries) if each is not None]
    known = [each for each in known if each.is_current or not _was_other(each.entry)]
    deepest = max(known, key=depth, default=None)
    if deepest is None or deepest.is_current:
        return deepest
    same = (each for each in known if each.is_current and not _was_other(each.entry))
    return max(same, key=depth, default=None)


def _was_other(entry: CrossVenue) -> bool:
    return bool(entry.last) and entry.last[0].is_other_asset


def depth(known: Priced) -> float:
    """The open interest; while it is unknown or disputed, the last known one."""
    entry = known.entry
    if entry.interest_usd is not None and OPEN_INTEREST not in entry.disputed:
        return entry.interest_usd
    return sum(old.open_interest_usd for old in entry.last)


def is_far(price: float, usual: float) -> bool:
    """Whether a price differs too much from the usual one."""
    return abs(price - usual) > MAX_DIFFERENCE * usual


def compared_prices(listed: Sequence[CrossVenue], wrong: Collection[str]) -> list[CrossVenue]:
    """The venues, marked if their price is too far from that of the deepest one."""
    reference = _reference(each for each in listed if each.venue not in wrong)
    return [_compared(each, reference, wrong) for each in listed]


def _compared(entry: CrossVenue, reference: Priced | None, wrong: Collection[str]) -> CrossVenue:
    """An entry, marked if its price is too far from the deepest venue's."""
    known = _price(entry)
    if known is None or PRICE in entry.disputed:
        return entry
    if reference is None or not known.is_current:  # prices of different times don't compare
        why = "; ".join(
            filter(None, ("a different asset when we last compared prices", entry.reason))
        )
        return entry._replace(state="different asset", reason=why) if _was_other(entry) else entry
    own, price, venue = known.price, reference.price, reference.entry.venue
    if not is_far(own, price):
        return entry
    why = (
        f"its mark of {own:.6g} per coin is more than {100 * MAX_DIFFERENCE:g} % from "
        f"{price:.6g} at {VENUES[venue].title}"
    )
    if entry.venue in wrong:
        why += "; most of its other marks differ as much"
    elif _was_near(entry.contract, entry.before, reference.entry):
        why += "; 24 hours ago the two were close"
    else:
        return entry._replace(state="different asset", reason=why)
    return entry._replace(state="disputed", reason=why, disputed=(*entry.disputed, PRICE))


def _was_near(contract: Perpetual | None, before: PastValues | None, other: CrossVenue) -> bool:
    """Whether two contracts had about the same price 24 hours ago, so that one of them is wrong."""
    if contract is None or before is None or other.contract is None or other.before is None:
        return False
    price = before.last_price / contract.multiplier
    return not is_far(price, other.before.last_price / other.contract.multiplier)


def price_change(prices: Sequence[Priced]) -> float | None:
    """Of the largest venue that has both prices, because a missing one's is not of now."""
    for each in prices:
        now, before = each.entry.contract, each.entry.before
        if now is not None and before is not None and before.last_price:
            return 100 * (now.last_price / before.last_price - 1)
    return None


def price_range(prices: Sequence[Priced], entries: Sequence[CrossVenue]) -> PriceRange | None:
    """The range of these prices; None if none is known."""
    known = [(each.price, each.entry.venue) for each in prices]
    if not known:
        return None
    return PriceRange(*min(known), *max(known), others(entries, (venue for _, venue in known)))
