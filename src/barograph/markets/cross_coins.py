"""One coin at several venues: what is summed, weighted and compared (pure).

A sum has what is known, names the venues that are missing, and says how large they last were.
Changes compare the same venues at both ends. Values that disagree are shown beside each other and
never averaged.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import permutations
from operator import itemgetter
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.markets.last_known import KnownValues
from barograph.markets.settlements import RATE_DIGITS, SettledSums
from barograph.venues.records import PastValues, Perpetual
from barograph.venues.registry import VENUES

State = Literal["ok", "disputed", "different asset", "stale", "unavailable", "not listed"]
Direction = Literal["up", "down", "flat"]

PRICE, FUNDING, OPEN_INTEREST = "price", "funding", "open-interest"
"""The measures whose dispute leaves a venue out of a result."""

MAX_DIFFERENCE = 0.05
"""How far a mark may be from that of the deepest venue before it counts as another asset."""

FLAT_PCT = 1.0
"""A price or a number of coins that changed less in 24 hours is flat."""


class CrossVenue(NamedTuple):
    """One coin at one venue. A venue with two contracts of a coin has two of these."""

    venue: str
    state: State
    reason: str | None = None
    contract: Perpetual | None = None
    """None without a fresh reading."""

    as_of: int | None = None
    price: float | None = None
    """The mark price of one coin."""

    interest_usd: float | None = None
    """Open interest, one-sided."""

    interest_coins: float | None = None
    """In single coins, whatever the contract's multiplier."""

    volume_usd: float | None = None
    volume_coins: float | None = None
    """In single coins, too."""

    funding_8h_pct: float | None = None
    """The live rate: an estimate of the next settlement."""

    settled: SettledSums | None = None
    """What it settled in the windows of its coin; None if the shortest of them is unknown."""

    settled_choices: Sequence[SettledSums] = ()
    """The same, for the windows that ended last."""

    liquidated_last: tuple[float, float] | None = None
    """The last known liquidations of a venue that is missing."""

    liquidated_usd: tuple[float, float] | None = None
    """Longs and shorts of 24 hours; None if unknown, or if we covered too little."""

    disputed: tuple[str, ...] = ()
    last: Sequence[KnownValues] = ()
    """The last known values of its contracts, to say how large it was if it is missing."""

    day_ago: int = 0
    before: PastValues | None = None
    """The values of its contract 24 hours ago, at `day_ago`."""

    last_before: Sequence[PastValues | None] = ()
    """The values of the contracts of `last` at `day_ago`."""

    @property
    def interest_at(self) -> int | None:
        """When the open interest was counted."""
        if self.contract is None or self.interest_usd is None:
            return None
        return self.contract.open_interest_at or self.as_of

    def left_out(self, *measures: str) -> str | None:
        """Why it doesn't count if these measures have to be right; None if it does."""
        if self.contract is None:
            return self.reason
        found = [each for each in self.disputed if each in measures]
        return f"disputed: {', '.join(found)}" if found else None

    def missing(self) -> str | None:
        """Why the open interest doesn't count; None if it does."""
        found = self.left_out(PRICE, OPEN_INTEREST)
        if found is None and self.interest_usd is None:
            return "it has no current open interest"
        return found


class Missing(NamedTuple):
    """A venue without which a result is partial, and how large it last was."""

    venue: str
    reason: str
    last_usd: float | None = None
    last_coins: float | None = None
    last_at: int | None = None


class Total(NamedTuple):
    """A sum of what is known."""

    usd: float | None
    """None if it is known at no venue."""

    coins: float | None
    """None also if a venue sends only USD."""

    missing: Sequence[Missing]

    @property
    def at_least_usd(self) -> float | None:
        """The sum with the last values of missing venues, as far as these are known."""
        return _sum([self.usd, *(each.last_usd for each in self.missing)])

    @property
    def with_missing_usd(self) -> float | None:
        """The same; None if the size of a missing venue is unknown."""
        is_known = all(each.last_usd is not None for each in self.missing)
        return self.at_least_usd if is_known else None


class PriceRange(Struct, frozen=True, rename="camel"):
    """The lowest and the highest mark price of one coin."""

    lowest: float
    lowest_venue: str
    highest: float
    highest_venue: str
    missing: tuple[str, ...] = ()
    """The venues whose price is unknown or disputed."""


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
    """As `CrossCoin.price_pct`."""

    @property
    def usd_pct(self) -> float | None:
        """The change in percent."""
        return 100 * self.change_usd / self.before_usd if self.before_usd else None

    @property
    def quadrant(self) -> tuple[Direction, Direction] | None:
        """The directions of the price and of the positions."""
        if self.price_pct is None or self.coins_pct is None:
            return None
        return _direction(self.price_pct), _direction(self.coins_pct)


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
    """The change of the price in 24 hours, at the largest venue with a price at both ends."""

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
        return 100 * (entry.interest_usd or 0.0) / (_sum(e.interest_usd for e in self.weighed) or 1)


def coin_of_venues(
    asset: str, listed: Sequence[CrossVenue], wrong: Collection[str] = ()
) -> CrossCoin:
    """Compare the venues; the prices of those in `wrong` differ at most coins."""
    entries = compared_prices(listed, wrong)
    settled_to = _common_end(entry for entry in entries if entry.state != "different asset")
    entries = [_settled(entry, settled_to) for entry in entries]
    expected = [entry for entry in entries if entry.state != "different asset"]
    known_prices = sorted(priced(expected), key=depth, reverse=True)
    reasons = [entry.missing() for entry in expected]
    counted = [each for each, why in zip(expected, reasons, strict=True) if why is None]
    weighed = [each for each in counted if FUNDING not in each.disputed]
    weight = _sum(each.interest_usd for each in weighed)
    funding = [(each.interest_usd or 0.0) * (each.funding_8h_pct or 0.0) for each in weighed]
    price_pct = _price_change(known_prices)
    known = (each.liquidated_usd or each.liquidated_last for each in expected)
    seen = [each for each in known if each is not None]
    return CrossCoin(
        asset=asset,
        venues=entries,
        counted=counted,
        deepest=known_prices[0].entry.venue if known_prices else None,
        open_interest=_interest(counted, _missing(expected, reasons)),
        change=_change(expected, reasons, price_pct),
        volume=_volume(expected),
        funding_8h_pct=sum(funding) / weight if weight else None,
        funding_with_missing_8h_pct=_whole_funding(expected, weighed),
        weighed=weighed if weight else [],
        priced=known_prices,
        price_pct=price_pct,
        funding_missing=_missing(
            expected,
            [why or each.left_out(FUNDING) for each, why in zip(expected, reasons, strict=True)],
        ),
        settled_to=settled_to,
        spread=_spread(expected),
        prices=_price_range(known_prices, expected),
        liquidated_usd=(sum(each[0] for each in seen), sum(each[1] for each in seen))
        if seen
        else None,
        liquidations_incomplete=[
            each.venue
            for each in expected
            if each.liquidated_usd is None or VENUES[each.venue].liquidations != "all"
        ],
    )


def compared_prices(listed: Sequence[CrossVenue], wrong: Collection[str]) -> list[CrossVenue]:
    """The venues, marked if their price is too far from that of the deepest one."""
    reference = _reference(each for each in listed if each.venue not in wrong)
    return [_compared(each, reference, wrong) for each in listed]


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


def _interest(counted: Sequence[CrossVenue], missing: Sequence[Missing]) -> Total:
    coins = [each.interest_coins for each in counted]
    usd = _sum(each.interest_usd for each in counted)
    return Total(usd, None if None in coins else _sum(coins), missing)


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
    return Total(_sum(usd), None if None in coins else _sum(coins), missing)


def _whole_funding(entries: Sequence[CrossVenue], weighed: Sequence[CrossVenue]) -> float | None:
    rates: list[tuple[float | None, float | None]] = []
    for each in entries:
        last = [(old.open_interest_usd, old.funding_8h_pct) for old in each.last]
        is_known = each in weighed
        rates += [(each.interest_usd, each.funding_8h_pct)] if is_known else last or [(None, None)]
    known = [(usd, pct) for usd, pct in rates if usd is not None and pct is not None]
    total = sum(usd for usd, _ in known)
    if len(known) < len(rates) or not total:
        return None
    return sum(usd * pct for usd, pct in known) / total


def _missing(entries: Sequence[CrossVenue], reasons: Sequence[str | None]) -> list[Missing]:
    return [
        _last(entry, why, "open_interest")
        for entry, why in zip(entries, reasons, strict=True)
        if why is not None
    ]


def _last(entry: CrossVenue, why: str, measure: str) -> Missing:
    """A missing venue, and how large it last was."""
    known = [each for each in entry.last if getattr(each, f"{measure}_usd") is not None]
    usd = [getattr(each, f"{measure}_usd") for each in known]
    coins = [getattr(each, f"{measure}_coins") for each in known]
    return Missing(
        entry.venue,
        why,
        _sum(usd),
        None
        if None in coins
        else _sum(size * each.multiplier for size, each in zip(coins, known, strict=True)),
        min((each.at for each in known), default=None),
    )


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


def _ends(entry: CrossVenue, reason: str | None) -> Iterator[_Ends]:
    """The contracts of an entry; a venue that is missing has its last known values."""
    pairs: Iterable[tuple[Perpetual | KnownValues, PastValues | None]]
    pairs = zip(entry.last, entry.last_before, strict=False)
    if reason is None and entry.contract is not None:
        pairs = [(entry.contract, entry.before)]
    for now, before in pairs:
        usd = now.open_interest_usd
        if before is not None and before.open_interest_usd is not None and usd is not None:
            price = now.price if isinstance(now, KnownValues) else now.last_price
            coins, usd_before = now.open_interest_coins, before.open_interest_usd
            yield _Ends(entry, price, usd, coins, now.multiplier, before, usd_before)


def _change(
    entries: Sequence[CrossVenue], reasons: Sequence[str | None], price_pct: float | None
) -> Change | None:
    """The same contracts at both ends."""
    pairs = [
        ends for entry, why in zip(entries, reasons, strict=True) for ends in _ends(entry, why)
    ]
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
        price_effect_usd=_sum(effects) if has_coins else None,
        coins_pct=100 * (coins_now / coins - 1) if has_coins and coins else None,
        price_pct=price_pct,
    )


def _price_change(prices: Sequence[Priced]) -> float | None:
    """Of the largest venue that has both prices, because a missing one's is not of now."""
    for each in prices:
        now, before = each.entry.contract, each.entry.before
        if now is not None and before is not None and before.last_price:
            return 100 * (now.last_price / before.last_price - 1)
    return None


def _direction(pct: float) -> Direction:
    if abs(pct) < FLAT_PCT:
        return "flat"
    return "up" if pct > 0 else "down"


def _price_range(prices: Sequence[Priced], entries: Sequence[CrossVenue]) -> PriceRange | None:
    known = [(each.price, each.entry.venue) for each in prices]
    if not known:
        return None
    return PriceRange(*min(known), *max(known), others(entries, (venue for _, venue in known)))


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


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


def others(entries: Iterable[CrossVenue], known: Iterable[str]) -> tuple[str, ...]:
    """The venues that list the coin, without those that are known."""
    names = {*known}
    return tuple(
        dict.fromkeys(
            each.venue
            for each in entries
            if each.venue not in names and each.state != "different asset"
        )
    )
