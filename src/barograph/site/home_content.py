"""The content of the home page (pure): the market at a glance, and what moved most."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import coverage, price, rate, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.documents import citation, market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.perpetuals import DayChange, day_change
from barograph.markets.regime import Label, Regime
from barograph.markets.samples import LiquidatedHour, LiquidationSeries, Measure
from barograph.markets.symbols import symbol_of
from barograph.markets.view import UNAVAILABLE, MarketView, is_fresh
from barograph.site.charts.small import sparkline
from barograph.site.market_facts import price_heading
from barograph.site.templating import (
    change_tint,
    date_and_time,
    duration_text,
    funding_tint,
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
    symbol: str | None
    """The symbol of its page; None if it has none."""

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


def day_movers(view: MarketView) -> tuple[MoverList, ...]:
    """The largest 24-hour changes of price, open interest and funding, in either direction."""
    moved = [
        (contract, day_change(view, contract))
        for contract in view.perpetuals.contracts
        if contract.open_interest_usd is not None and contract.open_interest_usd >= FLOOR_USD
    ]
    prices = [(day.price_pct, each, price(each.last_price)) for each, day in moved]
    interest = [
        (day.open_interest_coins_pct, each, usd(each.open_interest_usd or 0.0))
        for each, day in moved
    ]
    funding = [(_basis_points(each, day), each, rate(each.funding_8h_pct)) for each, day in moved]
    return (
        MoverList("Price", _largest(view, prices, change_text)),
        MoverList(_INTEREST, _largest(view, interest, change_text)),
        MoverList("Funding per 8 h", _largest(view, funding, _points_text)),
    )


def hour_movers(view: MarketView, hour: LiquidatedHour | None) -> MoverList:
    """The symbols with the largest liquidations of the last hour; `hour` is None if unreadable."""
    if view.lacks_liquidations:
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
    view: MarketView,
    rows: Iterable[tuple[float | None, Perpetual, str]],
    write: Callable[[float], str],
) -> list[Mover]:
    known = [(by, each, level) for by, each, level in rows if by is not None and by != 0]
    return [
        Mover(each.base, symbol_of(view.by_name, each), write(by), change_tint(by), level)
        for by, each, level in nlargest(SHOWN, known, key=lambda row: abs(row[0]))
    ]


def _basis_points(each: Perpetual, day: DayChange) -> float | None:
    """The change of the rate; one basis point is tinted like one percent."""
    before = day.funding_8h_before_pct
    return None if before is None else round(100 * (each.funding_8h_pct - before), 2)


def _points_text(basis_points: float) -> str:
    return f"{basis_points / 100:+.4f} pp"


def _liquidated(view: MarketView, name: str, longs: float, shorts: float) -> Mover:
    listed = view.by_name.get(name.upper())
    symbol = None if listed is None else symbol_of(view.by_name, listed)
    share = f"{100 * longs / (longs + shorts):.0f} % longs" if longs + shorts else ""
    return Mover(name, symbol, usd(longs + shorts), "", share)


DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""The past instants whose regimes are shown."""

Weeks = Mapping[str, Mapping[Measure, Sequence[float | None]]]
"""The values of the last week, by symbol."""

_OF_ACCOUNTS = "share of the accounts with a position, not of money"


class Asset(NamedTuple):
    """A major asset; without a contract it isn't listed now."""

    symbol: str
    contract: Perpetual | None
    long_account_pct: float | None = None
    change: DayChange = DayChange()


class Figure(NamedTuple):
    """One number of an asset, with what it did in a day and a week."""

    heading: str
    text: str
    tint: str
    """Of the number itself; empty for none."""

    change: str
    change_tint: str
    line: Markup


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
    price_heading: str
    assets: tuple[Asset, ...]
    long_accounts_note: str
    liquidated_usd: float | None
    liquidated_in: str
    """When a total appears, such as `in 13 h 20 min`; empty if there is one."""

    liquidated_note: str
    """What the amount covers, or why it is missing."""

    sides: tuple[LiquidatedSide, ...]
    movers: tuple[MoverList, ...]
    """The largest 24-hour changes."""

    citation: str


def market_now(view: MarketView, counted: LiquidationTotals | None) -> MarketNow:
    """Collect the fresh market data; `counted` is the newest count of liquidations.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    until = market_state_document(view).until
    limit = view.limits.liquidations
    if view.lacks_liquidations or counted is None or not is_fresh(counted.as_of, limit, view.now):
        counted = None
    else:
        until = min(until, counted.as_of + limit)
    regime, liquidated = view.regime, view.liquidations
    first_at = None if counted is None else _total_at(counted, view)
    assets = tuple(_asset(view, symbol) for symbol in MAJORS)
    return MarketNow(
        as_of=view.perpetuals.as_of,
        until=until,
        reading_until=view.until,
        source=view.perpetuals.source,
        headline=_headline(assets[0]),
        lead=_lead(assets[0], regime, liquidated, VENUES[view.perpetuals.venue].title),
        label="unknown" if regime is None else regime.label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        price_heading=price_heading(view.perpetuals.venue),
        assets=assets,
        long_accounts_note=UNAVAILABLE if view.lacks_long_accounts else _OF_ACCOUNTS,
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_in="" if first_at is None else _countdown(first_at, view.now),
        liquidated_note=_liquidated_note(counted, first_at, view),
        sides=_sides(liquidated),
        movers=day_movers(view),
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def figures_of(asset: Asset, heading: str, weeks: Weeks) -> list[Figure]:
    """The numbers of an asset; `heading` is that of its price."""
    contract, change, week = asset.contract, asset.change, weeks.get(asset.symbol, {})
    last, funding, interest = (
        (None, None, None)
        if contract is None
        else (contract.last_price, contract.funding_8h_pct, contract.open_interest_usd)
    )

    long = shown(asset.long_account_pct, "{:.1f} %".format)

    def line(measure: Measure) -> Markup:
        return sparkline(week.get(measure, ()))

    return [
        Figure(heading, shown(last, price), "", *_moved(change.price_pct), line("price")),
        Figure(
            *("Funding per 8 h", shown(funding, rate), funding_tint(funding)),
            *("", "", line("funding")),
        ),
        Figure(
            *(_INTEREST, shown(interest, usd), ""),
            *(*_moved(change.open_interest_coins_pct), line("open-interest")),
        ),
        Figure("Long accounts", long, "", "", "", line("long-accounts")),
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
    if btc.contract is None:
        return "The exchange in use doesn't list BTC."
    level = f"{price(btc.contract.last_price)} {btc.contract.quote}"
    percent = btc.change.price_pct
    if percent is None:
        return f"BTC is at {level}."
    return f"BTC {_direction(percent)} in 24 hours {'to' if round(percent, 1) else 'at'} {level}."


def _lead(
    btc: Asset, regime: Regime | None, liquidated: LiquidationTotals | None, venue: str
) -> str:
    """A sentence for each of open interest, funding and liquidations; none for what is unknown."""
    said: list[str] = []
    interest = None if btc.contract is None else btc.contract.open_interest_usd
    if interest is not None:
        said.append(f"Its open interest is {usd(interest)}{_in_coins(btc)}.")
    if regime is not None and regime.funding_8h_pct is not None:
        paid = f"{abs(regime.funding_8h_pct):.4f} %"
        payer, payee = ("Longs", "shorts") if regime.funding_8h_pct > 0 else ("Shorts", "longs")
        pays = "Neither side pays" if paid == "0.0000 %" else f"{payer} pay {payee} {paid} per 8 h"
        said.append(f"{pays} (regime: {regime.label}).")
    if liquidated is not None:
        sides = sorted(_sides(liquidated), key=lambda each: -each.share_pct)
        most = "".join(f", {side.share_pct:.1f} % of it {side.name.lower()}" for side in sides[:1])
        amount = usd(liquidated.total_usd) if liquidated.total_usd else "nothing"
        said.append(f"In 24 hours, {amount} was liquidated at {venue}{most}.")
    return " ".join(said)


def _in_coins(btc: Asset) -> str:
    """The change of open interest; it names its unit, because the level is in USD."""
    coins = btc.change.open_interest_coins_pct
    if coins is None:
        return ""
    moved = (
        f"{'up' if coins > 0 else 'down'} {abs(coins):.1f} %" if round(coins, 1) else "unchanged"
    )
    return f", {moved} in coins over 24 hours"


def _direction(percent: float) -> str:
    if not round(percent, 1):
        return "is unchanged"
    return f"{'rose' if percent > 0 else 'fell'} {abs(percent):.1f} %"


def _asset(view: MarketView, symbol: str) -> Asset:
    contract = view.by_name.get(symbol)
    if contract is None:
        return Asset(symbol, None)
    share = view.share(contract.contract)
    long = None if share is None else share.long_account_pct
    return Asset(symbol, contract, long, day_change(view, contract))


def _liquidated_note(
    counted: LiquidationTotals | None, first_at: int | None, view: MarketView
) -> str:
    if counted is None:
        return UNAVAILABLE if view.lacks_liquidations else "no recent count"
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
