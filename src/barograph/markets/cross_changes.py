"""How the open interest of a coin changed in 24 hours, and why (pure).

Both ends have the same contracts at the same venues.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from barograph.markets.cross_entries import CrossVenue, sum_known, weighted_mean
from barograph.markets.last_known import KnownValues
from barograph.venues.records import PastValues

Direction = Literal["up", "down", "flat"]

FLAT_PRICE_PCT = 1.0
FLAT_COINS_PCT = 5.0
"""A price or a number of coins that changed less in 24 hours is flat, here, as a signal and in the
filters of the site."""


class Change(NamedTuple):
    """How the open interest changed in 24 hours at the same venues.

    A venue that is missing has its last known value for a day, so that its outage makes no step.
    """

    since: int
    venues: Sequence[str]
    before_usd: float
    change_usd: float
    price_effect_usd: float | None
    """What the change would be with a constant number of coins. With the effect of positions, it
    adds up to the change. None if a venue sends only USD."""

    coins_pct: float | None
    price_pct: float | None
    """The mean of the same contracts, weighted by their open interest before."""

    @property
    def usd_pct(self) -> float | None:
        """The change in percent."""
        return 100 * self.change_usd / self.before_usd if self.before_usd else None

    @property
    def quadrant(self) -> tuple[Direction, Direction] | None:
        """The directions of the price and of the positions."""
        if self.price_pct is None or self.coins_pct is None:
            return None
        price = _direction(self.price_pct, FLAT_PRICE_PCT)
        return price, _direction(self.coins_pct, FLAT_COINS_PCT)


class _Ends(NamedTuple):
    """A contract now, and 24 hours before."""

    entry: CrossVenue
    price: float
    usd: float
    coins: float | None
    multiplier: int
    before: PastValues
    usd_before: float

    @property
    def price_effect(self) -> float | None:
        """The mean number of coins times the change of their value.

        The effect of positions is the mean value times the change of their number, so the two add
        up.
        """
        coins, coins_before = self.coins, self.before.open_interest_coins
        if coins is None or coins_before is None:
            return None
        value = self.usd / coins if coins else self.price
        value_before = self.usd_before / coins_before if coins_before else self.before.last_price
        return (coins + coins_before) / 2 * (value - value_before)


def _ends(entry: CrossVenue) -> Iterator[_Ends]:
    """The contracts of an entry whose open interest is known at both ends."""
    for now, before in entry.ends(is_missing=entry.missing() is not None):
        usd = now.open_interest_usd
        if before is not None and before.open_interest_usd is not None and usd is not None:
            price = now.price if isinstance(now, KnownValues) else now.last_price
            coins, usd_before = now.open_interest_coins, before.open_interest_usd
            yield _Ends(entry, price, usd, coins, now.multiplier, before, usd_before)


def change_of(entries: Iterable[CrossVenue]) -> Change | None:
    """The same contracts at both ends."""
    pairs = [ends for entry in entries for ends in _ends(entry)]
    if not pairs:
        return None
    effects = [each.price_effect for each in pairs]
    has_coins = None not in effects
    coins = sum((each.before.open_interest_coins or 0.0) * each.multiplier for each in pairs)
    coins_now = sum((each.coins or 0.0) * each.multiplier for each in pairs)
    usd_before = sum(each.usd_before for each in pairs)
    return Change(
        since=min(each.entry.day_ago for each in pairs),
        venues=list(dict.fromkeys(each.entry.venue for each in pairs)),
        before_usd=usd_before,
        change_usd=sum(each.usd for each in pairs) - usd_before,
        price_effect_usd=sum_known(effects) if has_coins else None,
        coins_pct=100 * (coins_now / coins - 1) if has_coins and coins else None,
        price_pct=weighted_mean(
            (each.usd_before, 100 * (each.price / each.before.last_price - 1))
            for each in pairs
            if each.before.last_price
        ),
    )


def _direction(pct: float, flat_pct: float) -> Direction:
    if abs(pct) < flat_pct:
        return "flat"
    return "up" if pct > 0 else "down"
