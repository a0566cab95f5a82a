"""One coin at several venues: what is summed and weighted (pure).

A sum has what is known, names the venues that are missing, and says how large they last were.
Values that disagree are shown beside each other and never averaged.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import permutations
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from barograph.markets.cross_changes import Change, change_of
from barograph.markets.cross_entries import (
    FUNDING,
    PRICE,
    CrossVenue,
    Missing,
    Total,
    others,
    sum_known,
    weighted_mean,
)
from barograph.markets.cross_prices import (
    Priced,
    PriceRange,
    compared_prices,
    depth,
    price_change,
    price_range,
    priced,
)
from barograph.markets.settlements import RATE_DIGITS
from barograph.venues.registry import VENUES


class Spread(Struct, frozen=True, rename={"pct_8h": "pct8h"}):
    """The widest difference of settled funding between venues, over the same eight hours."""

    highest: str | None
    """None, as `lowest`, if the compared venues settled the same."""

    lowest: str | None
    pct_8h: float
    missing: tuple[str, ...] = ()
    """The venues that are not compared: what they settled is unknown, or settled in a dispute."""


class CrossCoin(NamedTuple):
    """One coin at every venue that lists it."""

    asset: str
    venues: Sequence[CrossVenue]
    counted: Sequence[CrossVenue]
    """Those whose open interest is in the total."""

    deepest: str | None
    """The venue with the largest open interest, whose mark the others are compared with."""

    open_interest: Total
    change: Change | None
    """None if no venue is known at both ends."""

    volume: Total
    """Of 24 hours."""

    funding_8h_pct: float | None
    """Weighted by open interest, over the venues whose rate and open interest are known."""

    funding_with_missing_8h_pct: float | None
    """The same with the last known rates and open interest of the venues that are missing, so that
    it has no step where one fails. None if one of these is unknown."""

    weighed: Sequence[CrossVenue]
    """Those whose rate is in it."""

    priced: "Sequence[Priced]"
    """Those with a price that is not disputed, the largest first."""

    price_pct: float | None
    """The change of the price in 24 hours, at the largest venue with a price at both ends. It is
    shown beside the price of that venue."""

    funding_missing: Sequence[Missing]
    """With the open interest that they last had."""

    settled_to: int | None
    """When the windows of settled funding end, at all venues; None if none is known."""

    spread: Spread | None
    prices: PriceRange | None
    liquidated_usd: tuple[float, float] | None
    """The longs and shorts that we saw in 24 hours; None if those of no venue are known."""

    liquidations_incomplete: Sequence[str]
    """The venues whose liquidations are unknown, or that don't publish all of them."""

    @property
    def at_least_usd(self) -> float | None:
        """The liquidations of both sides that we saw."""
        return None if self.liquidated_usd is None else sum(self.liquidated_usd)

    def share_pct(self, entry: CrossVenue) -> float | None:
        """The share of a venue in the open interest, what is missing included."""
        total = self.open_interest.with_missing_usd
        if not total or entry not in self.counted:
            return None
        return 100 * (entry.interest_usd or 0.0) / total

    def weight_pct(self, entry: CrossVenue) -> float | None:
        """The weight of a venue in the live rate; None for one that is left out."""
        if entry not in self.weighed:
            return None
        whole = sum_known(each.interest_usd for each in self.weighed)
        return 100 * (entry.interest_usd or 0.0) / (whole or 1.0)


def coin_of_venues(
    asset: str, listed: Sequence[CrossVenue], wrong: Collection[str] = ()
) -> CrossCoin:
    """Compare the venues; the prices of those in `wrong` differ at most coins."""
    entries = compared_prices(listed, wrong)
    settled_to = _common_end(entry for entry in entries if entry.state != "different asset")
    entries = [_settled(entry, settled_to) for entry in entries]
    expected = [entry for entry in entries if entry.state != "different asset"]
    known_prices = sorted(priced(expected), key=depth, reverse=True)
    counted = [each for each in expected if each.missing() is None]
    weighed = [each for each in counted if FUNDING not in each.disputed]
    rates = [(each.interest_usd or 0.0, each.funding_8h_pct or 0.0) for each in weighed]
    funding = weighted_mean(rates)
    known = (each.liquidated_usd or each.liquidated_last for each in expected)
    seen = [each for each in known if each is not None]
    return CrossCoin(
        asset=asset,
        venues=entries,
        counted=counted,
        deepest=known_prices[0].entry.venue if known_prices else None,
        open_interest=_interest(counted, _missing(expected)),
        change=change_of(expected),
        volume=_volume(expected),
        funding_8h_pct=funding,
        funding_with_missing_8h_pct=_whole_funding(expected, weighed),
        weighed=[] if funding is None else weighed,
        priced=known_prices,
        price_pct=price_change(known_prices),
        funding_missing=_missing(expected, FUNDING),
        settled_to=settled_to,
        spread=_spread(expected),
        prices=price_range(known_prices, expected),
        liquidated_usd=(sum(each[0] for each in seen), sum(each[1] for each in seen))
        if seen
        else None,
        liquidations_incomplete=[
            each.venue
            for each in expected
            if each.liquidated_usd is None or VENUES[each.venue].liquidations != "all"
        ],
    )


def _interest(counted: Sequence[CrossVenue], missing: Sequence[Missing]) -> Total:
    coins = [each.interest_coins for each in counted]
    usd = sum_known(each.interest_usd for each in counted)
    return Total(usd, None if None in coins else sum_known(coins), missing)


def _volume(entries: Sequence[CrossVenue]) -> Total:
    """A venue's turnover is wrong if its prices are."""
    known, missing = [], []
    for each in entries:
        why = each.left_out(PRICE)
        if why is None and each.volume_usd is not None:
            known.append(each)
        else:
            missing.append(_last(each, why or "it has no current volume", "volume_24h"))
    usd, coins = [each.volume_usd for each in known], [each.volume_coins for each in known]
    return Total(sum_known(usd), None if None in coins else sum_known(coins), missing)


def _whole_funding(entries: Sequence[CrossVenue], weighed: Sequence[CrossVenue]) -> float | None:
    rates: list[tuple[float | None, float | None]] = []
    for each in entries:
        last = [(old.open_interest_usd, old.funding_8h_pct) for old in each.last]
        is_known = each in weighed
        rates += [(each.interest_usd, each.funding_8h_pct)] if is_known else last or [(None, None)]
    known = [(usd, pct) for usd, pct in rates if usd is not None and pct is not None]
    return weighted_mean(known) if len(known) == len(rates) else None


def _missing(entries: Sequence[CrossVenue], *also: str) -> list[Missing]:
    reasons = [(entry, entry.missing(*also)) for entry in entries]
    return [_last(entry, why, "open_interest") for entry, why in reasons if why is not None]


def _last(entry: CrossVenue, why: str, measure: str) -> Missing:
    """A missing venue, and how large it last was."""
    known = [each for each in entry.last if getattr(each, f"{measure}_usd") is not None]
    usd = [getattr(each, f"{measure}_usd") for each in known]
    coins = [getattr(each, f"{measure}_coins") for each in known]
    return Missing(
        entry.venue,
        why,
        sum_known(usd),
        None
        if None in coins
        else sum_known(size * each.multiplier for size, each in zip(coins, known, strict=True)),
        min((each.at for each in known), default=None),
    )


def _common_end(entries: Iterable[CrossVenue]) -> int | None:
    """The end of the windows that most venues know; of two, the later one."""
    ends = Counter(settled.end for entry in entries for settled in entry.settled_choices)
    return max(ends, key=lambda end: (ends[end], end), default=None)


def _settled(entry: CrossVenue, end: int | None) -> CrossVenue:
    if not entry.settled_choices:
        return entry
    known = (settled for settled in entry.settled_choices if settled.end == end)
    return entry._replace(settled=next(known, None))


def _spread(entries: Sequence[CrossVenue]) -> Spread | None:
    """None with fewer than two venues. Of equal ones, the first is named."""
    rates = [(entry.settled.pct_8h, entry.venue) for entry in entries if entry.settled is not None]
    pair, missing = widest_pair(rates), others(entries, (venue for _, venue in rates))
    if pair is None:
        return None
    pct, high, low = pair
    return (
        Spread(rates[high][1], rates[low][1], pct, missing)
        if pct
        else Spread(None, None, 0.0, missing)
    )


def widest_pair(rates: Sequence[tuple[float, str]]) -> tuple[float, int, int] | None:
    """The widest difference of rates between two venues, and the places of the two rates.

    A venue with two contracts of a coin has no difference with itself. Of equal ones, the first.
    """
    units = [round(rate * 10**RATE_DIGITS) for rate, _ in rates]  # differences are exact
    pairs = [
        (units[high] - units[low], high, low)
        for high, low in permutations(range(len(rates)), 2)
        if rates[high][1] != rates[low][1]
    ]
    if not pairs:
        return None
    widest, high, low = max(pairs, key=itemgetter(0))
    return widest / 10**RATE_DIGITS, high, low
