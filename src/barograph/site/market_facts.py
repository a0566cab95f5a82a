"""The content of `/markets/{coin}` for one venue (pure): the facts about a perpetual."""

from typing import NamedTuple

from markupsafe import Markup

from barograph import NOTICE, SITE_NAME
from barograph.kit.text import coverage, price, rate, usd
from barograph.markets.perpetuals import DayChange, day_change, week_change
from barograph.markets.symbols import symbol_of
from barograph.markets.view import MarketView
from barograph.site.series_charts import NOTES
from barograph.site.templating import UNKNOWN, moment, utc_text
from barograph.venues.records import (
    Frame,
    LongAccounts,
    Perpetual,
    Perpetuals,
    classes_left_out,
)
from barograph.venues.registry import VENUES


class MarketFact(NamedTuple):
    """One number about a perpetual, with its unit, time and meaning."""

    name: str
    value: str
    note: str
    read_at: int | None
    meaning: str


NAMES = {
    "lastPrice": "Last price",
    "fundingRatePct8h": "Funding per 8 hours",
    "openInterestUsd": "Open interest",
    "longAccountPct": "Long accounts",
    "usd": "Liquidations in 24 hours",
}
MEANINGS = {
    "lastPrice": (
        "Price of the last trade, in USDT. A multiplier contract such as 1000PEPE is priced per "
        "1,000 coins. Changes compare with our readings of 24 hours and 7 days ago, within 5 "
        "minutes."
    ),
    "fundingRatePct8h": (
        "The rate of the current funding interval, in percent of the position's value. If it is "
        "positive, longs pay shorts. “As stated” uses the contract's own interval. “Per 8 hours” "
        "makes contracts comparable."
    ),
    "openInterestUsd": (
        f"{NOTES['open-interest']} The USD value also changes with the price; the number of coins "
        "doesn't."
    ),
    "longAccountPct": NOTES["long-accounts"],
    "usd": (
        "USD value of the positions that the exchange closed by force, at the price that it "
        "reports. “At least” means that it doesn't publish all of them. "
        "A liquidated long was a bet on a higher price."
    ),
}


MARK_PRICE = (
    "The exchange's mark price, in USD. A multiplier contract such as kPEPE is priced per 1,000 "
    "coins. Changes compare with our readings of 24 hours and 7 days ago, within 5 minutes."
)


class MarketFacts(NamedTuple):
    """The fresh data about one perpetual."""

    perpetual: Perpetual
    as_of: int
    source: str
    until: int
    """When the first of its numbers expires."""

    reading_until: int
    """When the market reading itself expires."""

    facts: tuple[MarketFact, ...]
    citation: str


def market_facts(
    view: MarketView, perpetual: Perpetual, week_ago: Frame | None = None
) -> MarketFacts:
    """Collect the fresh data about one perpetual."""
    share = view.share(perpetual.contract)
    until = view.liquidations_until
    if share is not None:
        until = min(until, share.sampled_at + view.limits.long_accounts)
    as_of, source = view.perpetuals.as_of, view.perpetuals.source
    symbol = symbol_of(view.by_name, perpetual) or perpetual.contract
    citation = (
        f"{SITE_NAME}, {symbol} perpetual as of {utc_text(as_of)}. Source: {source}. {NOTICE}"
    )
    change = day_change(view, perpetual)
    facts = (
        _price(perpetual, change, week_change(view, week_ago, perpetual), as_of),
        _funding(perpetual, as_of),
        _interest(perpetual, change, as_of),
        _long_accounts(share, missing_shares(view)),
        _liquidations(view, perpetual),
    )
    return MarketFacts(perpetual, as_of, source, until, view.until, facts, citation)


def missing_shares(view: MarketView) -> str:
    """Why a long-account share is unknown."""
    title = VENUES[view.perpetuals.venue].title
    return f"not published by {title}" if view.lacks_long_accounts else "no recent sample"


def missing_liquidations(view: MarketView) -> str:
    """Why there is no total of liquidations."""
    venue, watched = VENUES[view.perpetuals.venue], view.watched
    if venue.liquidations == "none":
        return f"{venue.title} publishes none"
    if watched is None:
        return "no current data"
    if watched.watched_pct < view.limits.min_coverage_pct:
        return f"we covered only {coverage(watched.watched_pct)} of the last 24 hours"
    return f"{venue.title} doesn't publish all of them"


def _fact(field: str, value: str, note: str, read_at: int | None) -> MarketFact:
    return MarketFact(NAMES[field], value, note, read_at, MEANINGS[field])


def _price(perpetual: Perpetual, change: DayChange, weekly: float | None, as_of: int) -> MarketFact:
    changes = [
        f"{percent:+.2f} % in {period}"
        for percent, period in ((change.price_pct, "24 h"), (weekly, "7 days"))
        if percent is not None
    ]
    note = ", ".join([perpetual.quote, *changes])
    fact = _fact("lastPrice", price(perpetual.last_price), note, as_of)
    if perpetual.price_kind == "mark":
        return fact._replace(name="Mark price", meaning=MARK_PRICE)
    return fact


def _funding(perpetual: Perpetual, as_of: int) -> MarketFact:
    note = Markup(
        '{} per {:g} h as stated, next settlement {} <span data-until="{}"></span>'
    ).format(
        exact_rate(perpetual.funding_rate_pct),
        perpetual.funding_interval_hours,
        moment(perpetual.next_funding_time),
        perpetual.next_funding_time,
    )
    return _fact("fundingRatePct8h", rate(perpetual.funding_8h_pct), note, as_of)


def _interest(perpetual: Perpetual, change: DayChange, as_of: int) -> MarketFact:
    dollars = perpetual.open_interest_usd
    value = UNKNOWN if dollars is None else usd(dollars)
    counted = as_of if perpetual.open_interest_at is None else perpetual.open_interest_at
    moved = change.open_interest_coins_pct
    changes = [] if moved is None else [f"{moved:+.2f} % in coins in 24 h"]
    note = "; ".join([*changes, _coins_text(perpetual)])
    return _fact("openInterestUsd", value, note, None if dollars is None else counted)


def _long_accounts(share: LongAccounts | None, missing: str) -> MarketFact:
    if share is None:
        return _fact("longAccountPct", UNKNOWN, missing, None)
    value = f"{share.long_account_pct:.1f} %"
    return _fact("longAccountPct", value, "of accounts with a position", share.sampled_at)


def _liquidations(view: MarketView, perpetual: Perpetual) -> MarketFact:
    totals, kind = view.watched, VENUES[view.perpetuals.venue].liquidations
    if kind == "none" or totals is None or totals.watched_pct < view.limits.min_coverage_pct:
        return _fact("usd", UNKNOWN, missing_liquidations(view), None)
    if totals.by_contract is None:
        return _fact("usd", UNKNOWN, "sides were disputed", None)
    if perpetual.contract in view.perpetuals.unwatched:
        return _fact("usd", UNKNOWN, "not published for this contract", None)
    longs, shorts = totals.by_contract.get(perpetual.contract, (0.0, 0.0))
    covered, total = coverage(totals.watched_pct), longs + shorts
    note = f"{usd(longs)} longs, {usd(shorts)} shorts; {covered} of the time covered"
    return _fact("usd", usd(total) if kind == "all" else at_least(total), note, totals.as_of)


def _coins_text(perpetual: Perpetual) -> str:
    """Open interest in coins, if the exchange gave them."""
    if perpetual.open_interest_coins is None:
        known = perpetual.open_interest_usd is not None
        return "in USD" if known else "not published by the exchange, or disputed"
    # A multiplier contract such as 1000PEPE begins with a digit.
    is_multiple = perpetual.multiplier != 1 or perpetual.base[:1].isdigit()
    return (
        f"{perpetual.open_interest_coins:,.0f} {'units of ' if is_multiple else ''}{perpetual.base}"
    )


def at_least(amount: float) -> Markup:
    """A lower bound in large type."""
    return Markup("<small>at least</small> {}").format(usd(amount))


def exact_rate(percent: float) -> str:
    """A rate with all digits that the exchange gave, and at least four decimals."""
    whole, _, digits = f"{percent:+.10f}".partition(".")
    return f"{whole}.{digits.rstrip('0').ljust(4, '0')} %"


def price_heading(venue: str) -> str:
    """The heading of a venue's prices."""
    kind = "Price" if VENUES[venue].price_kind == "last" else "Mark price"
    return f"{kind} ({VENUES[venue].quote})"


def left_out_text(reading: Perpetuals) -> str:
    """A sentence about the contracts that are not crypto; empty if there are none."""
    if not reading.left_out:
        return ""
    total = sum(reading.left_out.values())
    contracts = "1 contract that is" if total == 1 else f"{total:,} contracts that are"
    return f"We leave out {contracts} not crypto: {classes_left_out(reading)}."
