"""What pages say about coins at all venues, and what is missing from a total (pure)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import rate, usd
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import PRICE, CrossCoin, CrossVenue, Missing, Total
from barograph.markets.perpetuals import percent_change
from barograph.site.templating import shown
from barograph.venues.records import PastValues, Perpetual
from barograph.venues.registry import VENUES

Pages = Callable[[CrossCoin], str | None]
"""The page of a coin."""


def titles_of(venues: Iterable[str]) -> str:
    """The names of venues, each once."""
    return ", ".join(dict.fromkeys(VENUES[venue].title for venue in venues))


def venues_text(market: CrossMarket) -> str:
    """What totals are about: `all venues (3): Bybit, Hyperliquid, Binance`, or one venue alone."""
    count = len(market.facts)
    start = "" if count == 1 else f"all venues ({count}): "
    return start + titles_of(market.facts)


def missing_text(missing: Sequence[Missing]) -> str:
    """What is missing from a total: `without Binance, last $5.60B`; empty if nothing is."""
    if not missing:
        return ""
    last = sum(each.last_usd or 0.0 for each in missing)
    size = f", last {usd(last)}" if last else ", size unknown"
    return f"without {titles_of(each.venue for each in missing)}{size}"


def total_note(total: Total) -> str:
    """What is missing from a sum; empty if all is there, and if nothing is known."""
    return "" if total.usd is None else missing_text(total.missing)


def short_total(total: Total) -> str:
    """A sum, and after it what was missing: `$9.93B +$5.60B`."""
    last = sum(each.last_usd or 0.0 for each in total.missing)
    return shown(total.usd, usd) + (
        f" +{usd(last)}" if last else " partial" if total.missing else ""
    )


def total_text(total: Total) -> str:
    """A sum in USD, with what is missing from it."""
    return _with(shown(total.usd, usd), total_note(total))


def interest_text(coin: CrossCoin) -> str:
    """Open interest of all venues, and which of them are missing."""
    return total_text(coin.open_interest)


def funding_text(coin: CrossCoin) -> str:
    """Weighted funding, and which venues are missing."""
    return _with(shown(coin.funding_8h_pct, rate), missing_text(coin.funding_missing))


def _with(text: str, missing: str) -> str:
    return f"{text} ({missing})" if missing else text


class MarketTotals(NamedTuple):
    """All coins together."""

    coins: int
    open_interest: Total
    volume: Total
    funding_8h_pct: float | None
    """Weighted by open interest."""

    positions_pct: float | None
    """The change of open interest in 24 hours without the effect of prices, at the venues that are
    known at both ends."""


def market_totals(market: CrossMarket) -> MarketTotals:
    """Sum up all coins."""
    coins = market.coins.values()
    rates = [
        (coin.open_interest.usd, coin.funding_8h_pct)
        for coin in coins
        if coin.open_interest.usd is not None and coin.funding_8h_pct is not None
    ]
    held = sum(interest for interest, _ in rates)
    changes = [coin.change for coin in coins if coin.change is not None]
    moved = [
        (each.change_usd - each.price_effect_usd, each.before_usd)
        for each in changes
        if each.price_effect_usd is not None
    ]
    before = sum(usd_before for _, usd_before in moved)
    return MarketTotals(
        len(coins),
        _summed(coin.open_interest for coin in coins),
        _summed(coin.volume for coin in coins),
        sum(interest * pct for interest, pct in rates) / held if held else None,
        100 * sum(positions for positions, _ in moved) / before if before else None,
    )


def _summed(totals: Iterable[Total]) -> Total:
    known, missing = [], defaultdict[str, list[Missing]](list)
    for total in totals:
        known += [] if total.usd is None else [total.usd]
        for each in total.missing:
            missing[each.venue].append(each)
    return Total(sum(known) if known else None, None, [_merged(each) for each in missing.values()])


def _merged(missing: Sequence[Missing]) -> Missing:
    last = [each.last_usd for each in missing if each.last_usd is not None]
    return missing[0]._replace(last_usd=sum(last) if last else None, last_coins=None)


def absent_text(market: CrossMarket, total: Total) -> str:
    """Which venues are missing as a whole, and what their part of a total last was."""
    fresh = {reading.venue for reading in market.fresh}
    gone = missing_text([each for each in total.missing if each.venue not in fresh])
    rest = [each for each in total.missing if each.venue in fresh and each.last_usd]
    some = f"without some coins at {titles_of(each.venue for each in rest)}" if rest else ""
    if rest:
        some += f", last {usd(sum(each.last_usd or 0.0 for each in rest))}"
    return "; ".join(filter(None, (gone, some)))


class Part(NamedTuple):
    """The part of a venue in the open interest of a coin, or of the market."""

    venue: str
    pct: float | None
    """Of the total with what is missing; None if unknown."""

    state: str = "ok"
    """If it is not `ok`, the part is missing, and was this large when it was last known."""

    @property
    def text(self) -> str:
        """Such as `Bybit 25 %`, or `Bybit (unavailable, last 25 %)`."""
        title, share = VENUES[self.venue].title, ""
        if self.pct is not None:
            share = "under 1 %" if 0 < self.pct < 1 else f"{self.pct:.0f} %"
        if self.state == "ok":
            return f"{title} {share}".rstrip()
        return f"{title} ({self.state}{f', last {share}' if share else ''})"


def parts_of(coin: CrossCoin) -> list[Part]:
    """The part of each venue that lists a coin."""
    total = coin.open_interest.with_missing_usd
    parts = []
    for entry in coin.venues:
        pct, reason = coin.share_pct(entry), entry.missing()
        if reason is not None and total and entry.state != "different asset":
            last = sum(known.open_interest_usd for known in entry.last)
            pct = 100 * last / total if last else None
        state = entry.state if reason is None or entry.state != "ok" else "unknown"
        is_counted = reason is None and state == "disputed"  # of another measure
        parts.append(Part(entry.venue, pct, "ok" if is_counted else state))
    return parts


def market_parts(market: CrossMarket) -> dict[str, Part]:
    """The part of each venue in the open interest of all coins."""
    known: dict[str, float] = defaultdict(float)
    missing = {each.venue: each.last_usd for each in market_totals(market).open_interest.missing}
    for coin in market.coins.values():
        for entry in coin.venues:
            if entry.state != "different asset" and entry.missing() is None:
                known[entry.venue] += entry.interest_usd or 0.0
    total = sum(known.values()) + sum(last or 0.0 for last in missing.values())
    fresh = {reading.venue for reading in market.fresh}
    parts = {}
    for venue in market.facts:
        held = known[venue] + (missing.get(venue) or 0.0)
        state = "ok" if venue in fresh else "unavailable"
        parts[venue] = Part(venue, 100 * held / total if total and held else None, state)
    return parts


def part_bar(parts: Iterable[Part]) -> Markup:
    """Draw the parts in the colours of their venues; the text beside it says the same."""
    left, drawn = 0.0, ""
    for part in parts:
        width = part.pct or 0.0
        kind = f"of-{part.venue}" if part.state == "ok" else "missing"
        drawn += f'<path class="{kind}" d="M{left:.1f} 0h{width:.1f}v1h-{width:.1f}z"/>'
        left += width
    # Safe: it holds only numbers and names of venues.
    return Markup(  # noqa: S704
        '<svg class="parts" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f"{drawn}</svg>"
    )


def change_sentence(coin: CrossCoin) -> str:
    """What happened to price and positions in 24 hours, and what each did to open interest."""
    change = coin.change
    if change is None:
        return ""
    quadrant, text = change.quadrant, ""
    if quadrant is not None:
        text = f"In 24 hours: price {quadrant[0]}, positions {quadrant[1]}. "
    moved = f"Open interest changed by {_signed(change.change_usd)}"
    if change.price_effect_usd is not None:
        positions = change.change_usd - change.price_effect_usd
        moved += (
            f": {_signed(change.price_effect_usd)} because of the price, {_signed(positions)} "
            "because of positions"
        )
    return f"{text}{moved}. Both ends have the same venues: {titles_of(change.venues)}."


def _signed(amount: float) -> str:
    return f"{'-' if amount < 0 else '+'}{usd(abs(amount))}"


class Priced(NamedTuple):
    """The contract whose price stands for a coin."""

    venue: str
    contract: Perpetual
    as_of: int
    before: PastValues | None
    """Its values of 24 hours ago."""

    @property
    def price(self) -> float:
        """The price of one coin."""
        return self.contract.last_price / self.contract.multiplier

    @property
    def day_pct(self) -> float | None:
        """The change of the price in 24 hours."""
        before = None if self.before is None else self.before.last_price
        return percent_change(self.contract.last_price, before)


def priced_at(coin: CrossCoin) -> list[Priced]:
    """The contracts whose prices count, the largest open interest first."""
    known = sorted(coin.venues, key=lambda each: (each.venue != coin.deepest, -_held(each)))
    return [
        Priced(each.venue, each.contract, each.as_of, each.before)
        for each in known
        if each.contract is not None
        and each.as_of is not None
        and each.state != "different asset"
        and PRICE not in each.disputed
    ]


def _held(entry: CrossVenue) -> float:
    return entry.interest_usd or 0.0


def priced_entry(coin: CrossCoin) -> Priced | None:
    """The contract whose price stands for a coin: that of the largest venue."""
    return next(iter(priced_at(coin)), None)


def day_change(coin: CrossCoin) -> float | None:
    """The change of the price in 24 hours, at the largest venue that has both prices."""
    return next((pct for each in priced_at(coin) if (pct := each.day_pct) is not None), None)


def funding_change(coin: CrossCoin) -> float | None:
    """The change of weighted funding in 24 hours, in percent, with the weights of now.

    Only contracts count that are known at both ends.
    """
    pairs = [
        (weight, entry.funding_8h_pct - entry.before.funding_8h_pct)
        for entry, weight in zip(coin.venues, coin.weights, strict=True)
        if weight
        and entry.funding_8h_pct is not None
        and entry.before is not None
        and entry.before.funding_8h_pct is not None
    ]
    total = sum(weight for weight, _ in pairs)
    return sum(weight * moved for weight, moved in pairs) / total if total else None
