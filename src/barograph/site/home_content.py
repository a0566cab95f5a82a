"""The content of the home page (pure): the market at a glance, and what moved most."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from markupsafe import Markup

from barograph.errors import UpstreamUnavailable
from barograph.kit.text import coverage, price, rate, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.documents import market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.regime import Label, Regime
from barograph.markets.samples import LiquidatedHour, LiquidationSeries, Measure
from barograph.markets.view import UNAVAILABLE, MarketView, is_fresh
from barograph.site.charts.small import sparkline
from barograph.site.coin_text import (
    MarketTotals,
    funding_change,
    last_compared,
    market_totals,
    missing_rates,
    missing_text,
    partial_text,
    short_total,
    venues_text,
)
from barograph.site.paths import coin_page
from barograph.site.templating import (
    UNKNOWN,
    change_tint,
    date_and_time,
    duration_text,
    funding_tint,
    interest_tint,
    shown,
    soon,
    utc_text,
)
from barograph.venues.records import MAJORS, Perpetual
from barograph.venues.registry import VENUES

FLOOR_USD = 10_000_000
"""Smaller open interest doesn't count: a few trades move it."""

SHOWN = 5
_HOUR = "Liquidated, last hour"
_INTEREST = "Open interest (change in coins)"
"""The level is in USD, so the change beside it names its own unit."""


class Mover(NamedTuple):
    """One line of a list."""

    name: str
    path: str | None
    """Its page; None if it has none."""

    chip: str
    """The number that it is listed for."""

    tint: str
    rest: str


class MoverList(NamedTuple):
    """The largest movers by one measure, the largest first."""

    title: str
    movers: Sequence[Mover]
    otherwise: str = "We have no reading from 24 hours ago."
    """What is shown without movers."""

    note: str = ""


def day_movers(market: CrossMarket) -> tuple[MoverList, ...]:
    """The largest 24-hour changes of price, open interest and funding, in either direction."""
    prices, interest, funding = [], [], []
    for coin in market.coins.values():
        held, change = coin.open_interest.at_least_usd, coin.change
        if held is None or held < FLOOR_USD:
            continue
        if coin.priced:
            prices.append((coin.price_pct, coin, price(coin.priced[0].last_price)))
        if change is not None:
            interest.append((change.coins_pct, coin, short_total(coin.open_interest)))
        if coin.funding_8h_pct is not None:
            level = f"{rate(coin.funding_8h_pct)}{' partial' if coin.funding_missing else ''}"
            funding.append((_basis_points(coin), coin, level))
    return (
        MoverList("Price", _largest(prices, change_text)),
        MoverList(_INTEREST, _largest(interest, change_text, interest_tint)),
        MoverList("Funding per 8 h", _largest(funding, _points_text)),
    )


def hour_movers(view: MarketView | None, hour: LiquidatedHour | None) -> MoverList:
    """The symbols with the largest liquidations of the last hour; `hour` is None if unreadable."""
    if view is None or view.lacks_liquidations:
        return MoverList(_HOUR, (), f"Liquidations are {UNAVAILABLE}.")
    if hour is None:
        return MoverList(_HOUR, (), "Recorded data is temporarily unavailable.")
    since, until = (utc_text(at)[11:16] for at in (hour.until - HOUR, hour.until))
    note = f"{since}\N{EN DASH}{until} UTC, {coverage(hour.watched_pct)} covered"
    if not hour.watched_pct:
        return MoverList(_HOUR, (), "Unknown: we did not cover this hour.", note)
    sums: dict[str, tuple[float, float]] = {}
    for contract, (longs, shorts) in hour.by_contract.items():
        listed = view.by_name.get(contract.upper())
        name = contract if listed is None else listed.base
        before = sums.get(name, (0.0, 0.0))
        sums[name] = before[0] + longs, before[1] + shorts
    largest = nlargest(SHOWN, sums.items(), key=lambda each: sum(each[1]))
    movers = [_liquidated(view, name, *sides) for name, sides in largest]
    if hour.is_disputed:
        movers = [mover._replace(rest="sides disputed") for mover in movers]
    return MoverList(_HOUR, movers, "Nothing was liquidated.", note)


def change_text(percent: float) -> str:
    """A change with its sign, such as `+1.3 %`."""
    return f"{percent:+.1f} %" if round(percent, 1) else "0.0 %"


def _largest(
    rows: Iterable[tuple[float | None, CrossCoin, str]],
    write: Callable[[float], str],
    tint: Callable[[float], str] = change_tint,
) -> list[Mover]:
    known = [(by, coin, level) for by, coin, level in rows if by is not None and by != 0]
    return [
        Mover(coin.asset, coin_page(coin.asset), write(by), tint(by), level)
        for by, coin, level in nlargest(SHOWN, known, key=lambda row: abs(row[0]))
    ]


def _basis_points(coin: CrossCoin) -> float | None:
    """The change of the rate; one basis point is tinted like one percent."""
    moved = funding_change(coin)
    return None if moved is None else round(100 * moved, 2)


def _points_text(basis_points: float) -> str:
    return f"{basis_points / 100:+.4f} pp"


def _liquidated(view: MarketView, name: str, longs: float, shorts: float) -> Mover:
    listed = view.by_name.get(name.upper())
    share = f"{100 * longs / (longs + shorts):.0f} % longs" if longs + shorts else ""
    path = None if listed is None else coin_page(listed.asset)
    return Mover(name, path, usd(longs + shorts), "", share)


DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""The past instants whose regimes are shown."""

Weeks = Mapping[str, Mapping[Measure, Sequence[float | None]]]
"""The values of the last week, by symbol."""

_OF_ACCOUNTS = "share of the accounts with a position, not of money"


class Asset(NamedTuple):
    """A major asset; without a coin no venue lists it now."""

    symbol: str
    coin: CrossCoin | None = None
    contract: Perpetual | None = None
    """At the venue in use."""

    long_account_pct: float | None = None


class Figure(NamedTuple):
    """One number of an asset, with what it did in a day and a week."""

    heading: str
    text: str
    tint: str = ""
    """Of the number itself; empty for none."""

    change: str = ""
    change_tint: str = ""
    line: Markup = Markup()
    note: str = ""
    """Whose number it is, or what is missing from it."""


class LiquidatedSide(NamedTuple):
    """The liquidations of longs or of shorts in 24 hours."""

    name: str
    notional_usd: float
    share_pct: float


class MarketNow(NamedTuple):
    """The fresh market data that the page shows."""

    as_of: int
    until: int
    """When the first of these values expires."""

    reading_until: int
    """When the market reading itself expires."""

    source: str
    headline: str
    """The price of BTC, and its change in 24 hours."""

    lead: str
    """Open interest, funding and liquidations."""

    label: Label
    funding_8h_pct: float | None
    assets: tuple[Asset, ...]
    totals: MarketTotals
    venues: str
    """The venues of the totals."""

    missing: str
    """What is missing from the total of the market; empty if nothing is."""

    in_use: str
    """The title of the venue of regime, long accounts and next settlement."""

    long_accounts_note: str
    liquidated_usd: float | None
    liquidated_in: str
    """When a total appears, such as `in 13 h 20 min`; empty if there is one."""

    liquidated_note: str
    """What the amount covers, or why it is missing."""

    sides: tuple[LiquidatedSide, ...]
    movers: tuple[MoverList, ...]
    """The largest 24-hour changes."""


def market_now(
    market: CrossMarket, view: MarketView | None, counted: LiquidationTotals | None
) -> MarketNow:
    """Collect the fresh market data; `counted` is the newest count of liquidations.

    `view` is the venue in use, None without a fresh reading of it.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    if not any(symbol in market.coins for symbol in MAJORS):
        raise UpstreamUnavailable
    until = market.until
    limit = market.limits.liquidations
    if view is not None:
        until = min(until, market_state_document(view).until)
    lacks = view is None or view.lacks_liquidations
    if lacks or counted is None or not is_fresh(counted.as_of, limit, market.now):
        counted = None
    else:
        until = min(until, counted.as_of + limit)
    regime, liquidated = (None, None) if view is None else (view.regime, view.liquidations)
    first_at = None if counted is None or view is None else _total_at(counted, view)
    assets = tuple(_asset(market, view, symbol) for symbol in MAJORS)
    totals, venues = market_totals(market), venues_text(market)
    in_use = VENUES[market.limits.primary if view is None else view.perpetuals.venue].title
    lacks_shares = view is None or view.lacks_long_accounts
    return MarketNow(
        as_of=market.as_of,
        until=until,
        reading_until=market.as_of + market.limits.perpetuals,
        source=market.source,
        headline=_headline(assets[0]),
        lead=_lead(assets[0], venues, regime, liquidated, in_use),
        label="unknown" if regime is None else regime.label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        assets=assets,
        totals=totals,
        venues=venues,
        missing=partial_text(market),
        in_use=in_use,
        long_accounts_note=UNAVAILABLE if lacks_shares else _OF_ACCOUNTS,
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_in="" if first_at is None else _countdown(first_at, market.now),
        liquidated_note=_liquidated_note(counted, first_at, view),
        sides=_sides(liquidated),
        movers=day_movers(market),
    )


def figures_of(asset: Asset, in_use: str, weeks: Weeks) -> list[Figure]:
    """The numbers of an asset; `in_use` is the venue of its long accounts."""
    coin, week = asset.coin, weeks.get(asset.symbol, {})
    share = shown(asset.long_account_pct, "{:.1f} %".format)
    accounts = sparkline(week.get("long-accounts", ()))
    long = Figure(f"Long accounts at {in_use}", share, line=accounts)
    if coin is None or not coin.priced:
        return [*(Figure(heading, UNKNOWN) for heading in HEADINGS), long]
    priced = coin.priced[0]
    note = f"{priced.contract.quote} at {VENUES[priced.entry.venue].title}"
    line = sparkline(week.get("price", ()))
    moved = None if coin.change is None else coin.change.coins_pct
    totals = MarketTotals(1, coin.open_interest, coin.volume, coin.funding_8h_pct, moved)
    totals = totals._replace(rate_note=missing_rates(coin))
    return [
        Figure(HEADINGS[0], price(priced.last_price), "", *_moved(coin.price_pct), line, note),
        *_sums(totals, week),
        long,
    ]


def market_figures(totals: MarketTotals) -> list[Figure]:
    """The numbers of all coins together, in the same columns."""
    count = Figure("Coins", f"{totals.coins:,} coins")
    return [count, *_sums(totals), Figure("Long accounts", "by coin")]


HEADINGS = ("Price", "Funding per 8 h", _INTEREST, "Volume 24 h")


def _sums(
    totals: MarketTotals, week: Mapping[Measure, Sequence[float | None]] = {}
) -> list[Figure]:
    """What adds up over venues, or is a mean of them."""
    rates, interest = (sparkline(week.get(each, ())) for each in ("funding", "open-interest"))
    pct, held, volume = totals.funding_8h_pct, totals.open_interest, totals.volume
    positions = totals.positions_pct
    moved = shown(positions, change_text), interest_tint(positions)
    lacks = [missing_text(each.usd, each.missing, totals.known) for each in (held, volume)]
    return [
        Figure(HEADINGS[1], shown(pct, rate), funding_tint(pct), line=rates, note=totals.rate_note),
        Figure(_INTEREST, shown(held.usd, usd), "", *moved, interest, lacks[0]),
        Figure(HEADINGS[3], shown(volume.usd, usd), note=lacks[1]),
    ]


def _moved(percent: float | None) -> tuple[str, str]:
    return shown(percent, change_text), change_tint(percent)


def liquidation_line(series: LiquidationSeries | None) -> Markup:
    """The total of each full hour that we covered."""
    columns = () if series is None else series.columns
    return sparkline(
        [
            None if column.partial else (column.long_usd or 0.0) + (column.short_usd or 0.0)
            for column in columns[:-1]
        ]
    )


def _headline(btc: Asset) -> str:
    if btc.coin is None or not btc.coin.priced:
        return "No venue has a current price of BTC."
    priced = btc.coin.priced[0]
    level = f"{price(priced.last_price)} {priced.contract.quote}"
    level += f" at {VENUES[priced.entry.venue].title}"
    percent = btc.coin.price_pct
    if percent is None:
        return f"BTC is at {level}."
    return f"BTC {_direction(percent)} in 24 hours {'to' if round(percent, 1) else 'at'} {level}."


def _lead(
    btc: Asset, venues: str, regime: Regime | None, liquidated: LiquidationTotals | None, venue: str
) -> str:
    """A sentence for each of open interest, funding and liquidations; none for what is unknown."""
    said: list[str] = []
    if btc.coin is not None and (interest := btc.coin.open_interest).usd is not None:
        missing = missing_text(interest.usd, interest.missing)
        where = venues.partition(" (")[0]  # `all venues`, or the only one
        where += missing and f" ({missing})"
        said.append(f"Its open interest at {where} is {usd(interest.usd)}{_in_coins(btc.coin)}.")
    if regime is not None and regime.funding_8h_pct is not None:
        paid = f"{abs(regime.funding_8h_pct):.4f} %"
        payer, payee = ("Longs", "shorts") if regime.funding_8h_pct > 0 else ("Shorts", "longs")
        pays = "neither side pays" if paid == "0.0000 %" else f"{payer} pay {payee} {paid} per 8 h"
        said.append(f"At {venue}, {pays[0].lower()}{pays[1:]} (regime: {regime.label}).")
    if liquidated is not None:
        sides = sorted(_sides(liquidated), key=lambda each: -each.share_pct)
        most = "".join(f", {side.share_pct:.1f} % of it {side.name.lower()}" for side in sides[:1])
        amount = usd(liquidated.total_usd) if liquidated.total_usd else "nothing"
        said.append(f"Over all coins, {amount} was liquidated at {venue} in 24 hours{most}.")
    return " ".join(said)


def _in_coins(coin: CrossCoin) -> str:
    """The change of open interest; it names its unit, because the level is in USD."""
    coins = None if coin.change is None else coin.change.coins_pct
    if coins is None:
        return ""
    moved = (
        f"{'up' if coins > 0 else 'down'} {abs(coins):.1f} %" if round(coins, 1) else "unchanged"
    )
    return f", {moved} in coins over 24 hours{last_compared(coin)}"


def _direction(percent: float) -> str:
    if not round(percent, 1):
        return "is unchanged"
    return f"{'rose' if percent > 0 else 'fell'} {abs(percent):.1f} %"


def _asset(market: CrossMarket, view: MarketView | None, symbol: str) -> Asset:
    coin = market.coins.get(symbol)
    contract = None if view is None else view.by_name.get(symbol)
    if view is None or contract is None:
        return Asset(symbol, coin)
    share = view.share(contract.contract)
    return Asset(symbol, coin, contract, None if share is None else share.long_account_pct)


def _liquidated_note(
    counted: LiquidationTotals | None, first_at: int | None, view: MarketView | None
) -> str:
    if counted is None or view is None:
        is_lacking = view is not None and view.lacks_liquidations
        return UNAVAILABLE if is_lacking else "no recent count"
    if first_at is not None and counted.watching_since is not None:
        return (
            f"The 24-hour total appears at about {soon(first_at, view.now)}. We have covered "
            f"{duration_text(round(counted.watched_pct / 100 * DAY))} of the last 24 hours, and "
            f"began on {date_and_time(counted.watching_since)}."
        )
    covered = coverage(counted.watched_pct)
    if view.liquidations is None:
        return f"only {covered} of the day covered; {view.limits.min_coverage_pct:g} % needed"
    most = "" if counted.top_asset is None else f", most in {counted.top_asset}"
    return f"all contracts{most}; {covered} of the day covered"


def _total_at(counted: LiquidationTotals, view: MarketView) -> int | None:
    """When there will be a total; None if there is one, or while no stream is connected."""
    heard_at = counted.watched_until
    if heard_at is None or not is_fresh(heard_at, view.limits.liquidations, view.now):
        return None
    return counted.covered_at


def _countdown(first_at: int, now: int) -> str:
    return f"in {duration_text(max(MINUTE, first_at - now + MINUTE - 1))}"


def _sides(liquidated: LiquidationTotals | None) -> tuple[LiquidatedSide, ...]:
    if liquidated is None or liquidated.long_pct is None:
        return ()
    shares = {"Longs": liquidated.long_pct, "Shorts": 100 - liquidated.long_pct}
    return tuple(
        LiquidatedSide(name, liquidated.total_usd * share / 100, share)
        for name, share in shares.items()
    )
