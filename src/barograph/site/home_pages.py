"""The content of the home page (pure): the market at a glance."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import price, rate, usd
from barograph.kit.timestamps import DAY, MINUTE
from barograph.markets.documents import citation, market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.perpetuals import DayChange, day_change
from barograph.markets.records import MAJORS, Perpetual
from barograph.markets.regime import Label, describe
from barograph.markets.samples import LiquidationSeries, Measure, PastRegime
from barograph.markets.view import UNAVAILABLE, MarketView, is_fresh
from barograph.site.charts.sparkline import sparkline
from barograph.site.market_pages import price_heading
from barograph.site.movers import MoverList, change_text, day_movers
from barograph.site.status_pages import title_of
from barograph.site.templating import date_and_time, duration_text, shown, soon
from barograph.site.tints import change_tint, funding_tint
from barograph.status.rules import Condition, ServiceStatus

DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""The past instants whose regimes are shown."""

Weeks = Mapping[str, Mapping[Measure, Sequence[float | None]]]
"""The values of the last week, by symbol."""

_OF_ACCOUNTS = "of accounts with a position, not of money"
_FAILING = ("degraded", "down")
_SENTENCES: dict[Label, str] = {
    "short-crowded": "Shorts are crowded in BTC perpetuals.",
    "short-leaning": "BTC perpetuals lean short.",
    "neutral": "Funding of BTC perpetuals is balanced.",
    "long-leaning": "BTC perpetuals lean long.",
    "long-crowded": "Longs are crowded in BTC perpetuals.",
    "unknown": "The regime of BTC perpetuals is unknown.",
}


class RegimeAt(NamedTuple):
    """The regime at one instant."""

    when: str
    label: str | None
    funding_8h_pct: float | None
    otherwise: str
    """What is shown without a label."""

    at: int | None = None
    """The hour of a past rate."""

    is_backfilled: bool = False
    """Whether a past rate is the last settled one, from the exchange's own history."""


class Asset(NamedTuple):
    """A major asset; without a contract it isn't listed now."""

    symbol: str
    contract: Perpetual | None
    funding_8h_pct: float | None
    long_account_pct: float | None
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
    sentence: str
    note: str
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
    if view.lacks_liquidations:
        counted = None
    if counted is not None and not is_fresh(counted.as_of, view.limits.liquidations, view.now):
        counted = None
    if counted is not None:
        until = min(until, counted.as_of + view.limits.liquidations)
    regime, liquidated = view.regime, view.liquidations
    first_at = None if counted is None else _total_at(counted, view)
    label: Label = "unknown" if regime is None else regime.label
    return MarketNow(
        as_of=view.perpetuals.as_of,
        until=until,
        reading_until=view.until,
        source=view.perpetuals.source,
        sentence=_SENTENCES[label],
        note="The regime has not been updated recently." if regime is None else describe(regime),
        label=label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        price_heading=price_heading(view.perpetuals.venue),
        assets=tuple(_asset(view, symbol) for symbol in MAJORS),
        long_accounts_note=UNAVAILABLE if view.lacks_long_accounts else _OF_ACCOUNTS,
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_in=_countdown(first_at, view.now),
        liquidated_note=_liquidated_note(counted, first_at, view),
        sides=_sides(view.liquidations),
        movers=day_movers(view),
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def figures_of(asset: Asset, heading: str, weeks: Weeks) -> list[Figure]:
    """The numbers of an asset; `heading` is that of its price."""
    contract, change, week = asset.contract, asset.change, weeks.get(asset.symbol, {})
    last = None if contract is None else contract.last_price
    interest = None if contract is None else contract.open_interest_usd
    funding, long = asset.funding_8h_pct, asset.long_account_pct

    def line(measure: Measure) -> Markup:
        return sparkline(week.get(measure, ()))

    return [
        Figure(heading, shown(last, price), "", *_moved(change.price_pct), line("price")),
        Figure(
            *("Funding per 8 h", shown(funding, rate), funding_tint(funding)),
            *("", "", line("funding")),
        ),
        Figure(
            *("Open interest", shown(interest, usd), ""),
            *(*_moved(change.open_interest_pct), line("open-interest")),
        ),
        Figure("Long accounts", shown(long, "{:.1f} %".format), "", "", "", line("long-accounts")),
    ]


def _moved(percent: float | None) -> tuple[str, str]:
    return shown(percent, change_text), change_tint(percent)


def liquidation_line(series: LiquidationSeries | None) -> Markup:
    """The total of each full hour that we covered."""
    columns = () if series is None else series.columns
    return sparkline(
        [
            None if each.partial else (each.long_usd or 0.0) + (each.short_usd or 0.0)
            for each in columns[:-1]
        ]
    )


class Health(NamedTuple):
    """The status of the service in a few words."""

    status: Condition
    text: str
    max_age_seconds: float
    """The freshness limit of the market reading."""


def health_of(status: ServiceStatus) -> Health:
    """The status, with the names of the parts that fail."""
    failing = [title_of(each.name) for each in status.checks if each.status in _FAILING]
    text = ", ".join(failing) or "All components are working."
    return Health(status.status, text, status.feed.max_age_seconds)


def past_regimes(past: Sequence[PastRegime] | None) -> list[RegimeAt]:
    """The regime at `DAYS_AGO`; `past` is None if the database is unavailable."""
    if past is None:
        return [RegimeAt(when, None, None, "unavailable") for when in DAYS_AGO]
    return [_past(when, regime) for when, regime in zip(DAYS_AGO, past, strict=True)]


def _past(when: str, regime: PastRegime) -> RegimeAt:
    # Back-filled hours have a rate, but the regime of that time was never judged.
    otherwise = "not classified" if regime.is_backfilled else "not recorded"
    label, rate, at, is_backfilled = regime
    return RegimeAt(when, label, rate, otherwise, at, is_backfilled)


def _asset(view: MarketView, symbol: str) -> Asset:
    contract = view.by_name.get(symbol)
    if contract is None:
        return Asset(symbol, None, None, None)
    share = view.share(contract.contract)
    return Asset(
        symbol,
        contract,
        contract.funding_8h_pct,
        None if share is None else share.long_account_pct,
        day_change(view, contract),
    )


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
    # Truncated, not rounded: 94.97 must not look like the required 95.0.
    covered = Decimal(str(counted.watched_pct)).quantize(Decimal("0.1"), ROUND_DOWN)
    if view.liquidations is None:
        return f"only {covered} % of the day covered; {view.limits.min_coverage_pct:g} % needed"
    most = "" if counted.top_asset is None else f", most in {counted.top_asset}"
    return f"all contracts{most}; {covered} % of the day covered"


def _total_at(counted: LiquidationTotals, view: MarketView) -> int | None:
    """When there will be a total; None if there is one, or while no stream is connected."""
    heard_at = counted.watched_until
    if heard_at is None or not is_fresh(heard_at, view.limits.liquidations, view.now):
        return None
    return counted.covered_at


def _countdown(first_at: int | None, now: int) -> str:
    if first_at is None:
        return ""
    return f"in {duration_text(max(MINUTE, first_at - now + MINUTE - 1))}"


def _sides(liquidated: LiquidationTotals | None) -> tuple[LiquidatedSide, ...]:
    if liquidated is None or liquidated.long_pct is None:
        return ()
    shares = {"Longs": liquidated.long_pct, "Shorts": 100 - liquidated.long_pct}
    return tuple(
        LiquidatedSide(name, liquidated.total_usd * share / 100, share)
        for name, share in shares.items()
    )
