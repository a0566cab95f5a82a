"""What pages say about coins at all venues, and what is missing from a total (pure)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import usd
from barograph.markets.cross import CrossMarket, total_of
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_entries import PRICE, CrossVenue, Missing, Total, weighted_mean
from barograph.site.templating import shown
from barograph.venues.registry import VENUES


def titles_of(venues: Iterable[str]) -> str:
    """The names of venues, each once."""
    return ", ".join(dict.fromkeys(VENUES[venue].title for venue in venues))


def venues_text(market: CrossMarket) -> str:
    """What totals are about: `all venues (3): Bybit, Hyperliquid, Binance`, or one venue alone."""
    count = len(market.facts)
    start = "" if count == 1 else f"all venues ({count}): "
    return start + titles_of(market.facts)


def missing_text(
    result: float | None, missing: Sequence[Missing], known: Collection[str] = (), of: str = ""
) -> str:
    """What a result is without: `without Binance, last $5.60B`.

    It is empty if nothing is missing, and if nothing is known. In the total of the market, the
    venues in `known` lack only some coins. `of` names the amount where no heading does.
    """
    lacks = [each for each in missing if each.last_usd or each.venue not in known]
    last = sum(each.last_usd or 0.0 for each in lacks)
    if not lacks or (result is None and not last):
        return ""
    names = (
        f"{'some coins at ' * (each.venue in known)}{VENUES[each.venue].title}" for each in lacks
    )
    size = f", last {of}{usd(last)}" if last else ", size unknown"
    return f"without {', '.join(dict.fromkeys(names))}{size}"


def missing_rates(coin: CrossCoin) -> str:
    """What the weighted rate is without: `without Binance, last open interest $5.60B`."""
    return missing_text(coin.funding_8h_pct, coin.funding_missing, of="open interest ")


def partial_text(market: CrossMarket) -> str:
    """What the totals of all coins are without, for places without a heading."""
    held = market.open_interest
    return missing_text(held.usd, held.missing, market.by_venue, "open interest ")


def kept_text(market: CrossMarket, what: str) -> str:
    """Whose last values a result has: `with the last rates of Binance`."""
    names = titles_of(each.venue for each in market.open_interest.missing if each.last_usd)
    return f"with the last {what} of {names}" if names else ""


def short_missing(missing: Sequence[Missing], show: Callable[[float], str] = usd) -> str:
    """The same below a number in little space: `Binance last $5.60B`, or `without Binance`."""
    last = sum(each.last_usd or 0.0 for each in missing)
    names = briefly(each.venue for each in missing)
    return f"{names} last {show(last)}" if last else f"without {names}" if missing else ""


def briefly(venues: Iterable[str]) -> str:
    """The name of one venue, or how many there are."""
    names = {*venues}
    return titles_of(names) if len(names) == 1 else f"{len(names)} venues"


def short_total(total: Total) -> str:
    """A sum, and after it what is missing: `$9.93B, Binance last $5.60B`."""
    return ", ".join(filter(None, (shown(total.usd, usd), short_missing(total.missing))))


def volume_shares(market: CrossMarket) -> dict[str, float]:
    """The share of each venue in the volume of all coins, what is missing included, in percent."""
    whole, shares = 0.0, dict.fromkeys(market.facts, 0.0)
    for coin in market.coins.values():
        total = coin.volume.with_missing_usd
        if total is None:
            continue
        whole += total
        for entry in coin.venues:
            if entry.state != "different asset" and PRICE not in entry.disputed:
                shares[entry.venue] += entry.volume_usd or 0.0
    return {venue: 100 * usd / whole for venue, usd in shares.items() if usd}


def ranked_funding(coin: CrossCoin) -> float | None:
    """The weighted rate for order and filters, without a step where a venue fails.

    If a missing venue never had a rate, it is that of the others.
    """
    whole = coin.funding_with_missing_8h_pct
    return coin.funding_8h_pct if whole is None else whole


def tinted_funding(coin: CrossCoin) -> float | None:
    """The weighted rate for colours: the one that pages show, so that they never contradict it."""
    return ranked_funding(coin) if coin.funding_8h_pct is None else coin.funding_8h_pct


def entries_at(coin: CrossCoin, venue: str) -> list[CrossVenue]:
    """The contracts of a coin at a venue, the largest open interest first."""
    entries = [entry for entry in coin.venues if entry.venue == venue]
    return sorted(entries, key=lambda entry: -(entry.interest_usd or 0.0))


class MarketTotals(NamedTuple):
    """All coins together."""

    coins: int
    open_interest: Total
    volume: Total
    funding_8h_pct: float | None
    """Weighted by open interest; of all coins, with the last known rates of missing venues."""

    positions_pct: float | None
    """The change of open interest in 24 hours without the effect of prices, at the venues that are
    known at both ends."""

    known: Collection[str] = ()
    """Of the market: the venues that lack only some coins if they are missing."""

    rate_note: str = ""
    """What the rate lacks, or has only the last values of."""


def market_totals(market: CrossMarket) -> MarketTotals:
    """Sum up all coins."""
    coins = market.coins.values()
    rates, moved, before = [], 0.0, 0.0
    for coin in coins:
        interest, pct = coin.open_interest.at_least_usd, ranked_funding(coin)
        if interest and pct is not None:
            rates.append((interest, pct))
        if coin.change is not None and coin.change.price_effect_usd is not None:
            moved += coin.change.change_usd - coin.change.price_effect_usd
            before += coin.change.before_usd
    return MarketTotals(
        len(coins),
        market.open_interest,
        total_of(coin.volume for coin in coins),
        weighted_mean(rates),
        100 * moved / before if before else None,
        market.by_venue,
        kept_text(market, "rates") or partial_text(market),
    )


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
            pct = 100 * entry.held_usd / total if entry.held_usd else None
        state = entry.state if reason is None or entry.state != "ok" else "unknown"
        is_counted = reason is None and state == "disputed"  # of another measure
        parts.append(Part(entry.venue, pct, "ok" if is_counted else state))
    return parts


def market_parts(market: CrossMarket) -> list[Part]:
    """The part of each venue in the open interest of all coins, and what is missing of it."""
    whole, lacks = market.open_interest.with_missing_usd or 1.0, market.open_interest.missing
    parts = [Part(venue, 100 * usd / whole) for venue, usd in market.by_venue.items()]
    return parts + [
        Part(each.venue, 100 * each.last_usd / whole if each.last_usd else None, "missing")
        for each in lacks
        if each.last_usd or each.venue not in market.by_venue
    ]


def part_bar(parts: Iterable[Part]) -> Markup:
    """Draw the parts in the colours of their venues."""
    return bar(
        (f"of-{part.venue}" if part.state == "ok" else "missing", part.pct or 0.0) for part in parts
    )


def bar(parts: Iterable[tuple[str, float]]) -> Markup:
    """Draw classes and their percentages side by side; the text beside it says the same."""
    left, drawn = 0.0, ""
    for kind, width in parts:
        drawn += f'<path class="{kind}" d="M{left:.1f} 0h{width:.1f}v1h-{width:.1f}z"/>'
        left += width
    # Safe: it holds only numbers and names of classes.
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
    moved = f"Open interest changed by {signed_usd(change.change_usd)}"
    if change.price_effect_usd is not None:
        positions = change.change_usd - change.price_effect_usd
        moved += (
            f": {signed_usd(change.price_effect_usd)} because of the price, "
            f"{signed_usd(positions)} because of positions"
        )
    return f"{text}{moved}. Venues compared: {titles_of(change.venues)}{last_compared(coin)}."


def last_compared(coin: CrossCoin) -> str:
    """The missing venues in the change of a coin: `, with the last value of Binance`."""
    lacks = {each.venue for each in coin.open_interest.missing}
    last = () if coin.change is None else [each for each in coin.change.venues if each in lacks]
    return f", with the last value of {titles_of(last)}" if last else ""


def signed_usd(amount: float, show: Callable[[float], str] = usd) -> str:
    """An amount with its sign, such as `-$1.23M`."""
    return f"{'-' if amount < 0 else '+'}{show(abs(amount))}"


def funding_change(coin: CrossCoin) -> float | None:
    """The change of weighted funding in 24 hours, in percent, with the weights of now.

    Only contracts count that are known at both ends. A missing venue has its last values.
    """
    pairs = [
        (now.open_interest_usd or 0.0, now.funding_8h_pct - then.funding_8h_pct)
        for entry in coin.venues
        if entry.state != "different asset"
        for now, then in entry.ends(is_missing=entry not in coin.weighed)
        if now.funding_8h_pct is not None and then is not None and then.funding_8h_pct is not None
    ]
    return weighted_mean(pairs)
