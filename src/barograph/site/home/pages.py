"""What the home page says (pure): the market at a glance, and how it came there."""

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import NamedTuple

from barograph.markets.documents import citation, market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import MAJORS, Perpetual
from barograph.markets.regime import BASIS, Label, Regime, describe, eight_hour_rate
from barograph.markets.samples import PastRegime
from barograph.markets.view import MarketView, is_fresh

DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""With what the regime of now is compared."""

_SENTENCES: dict[Label, str] = {
    "short-crowded": "Shorts are crowded in BTC perpetuals.",
    "short-leaning": "BTC perpetuals lean short.",
    "neutral": "Funding of BTC perpetuals is balanced.",
    "long-leaning": "BTC perpetuals lean long.",
    "long-crowded": "Longs are crowded in BTC perpetuals.",
    "unknown": "How BTC perpetuals stand is not known.",
}


class Standing(NamedTuple):
    """The regime of one instant; without a label it is said why."""

    when: str
    label: str | None
    funding_8h_pct: float | None
    otherwise: str
    at: int | None = None
    """When the rate was measured, of an instant that is past."""


class Asset(NamedTuple):
    """One major asset; without a contract it is not listed now."""

    symbol: str
    contract: Perpetual | None
    funding_8h_pct: float | None
    long_account_pct: float | None


class Side(NamedTuple):
    """One side of the liquidations of 24 hours."""

    name: str
    notional_usd: float
    share_pct: float


class Now(NamedTuple):
    """What is fresh."""

    as_of: int
    until: int
    """When the first of it reaches its bound."""

    bound: int
    """When the reading itself does: from then on nothing of it is of now."""

    source: str
    sentence: str
    basis: str
    note: str
    label: Label
    funding_8h_pct: float | None
    assets: tuple[Asset, ...]
    liquidated_usd: float | None
    liquidated_note: str
    """What the amount covers, or why there is none."""

    sides: tuple[Side, ...]
    citation: str

    @property
    def first(self) -> Asset:
        """BTC."""
        return self.assets[0]


def market_now(view: MarketView, counted: LiquidationTotals | None) -> Now:
    """Gather what is fresh; `counted` are the liquidations that were counted last.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    until = market_state_document(view).until
    recent = _recent(counted, view)
    if recent is not None:
        until = min(until, recent.as_of + view.bounds.liquidations)
    regime = view.regime
    liquidated = view.liquidations
    return Now(
        as_of=view.perpetuals.as_of,
        until=until,
        bound=view.until,
        source=view.perpetuals.source,
        sentence=_SENTENCES["unknown" if regime is None else regime.label],
        basis=BASIS,
        note=_note(regime),
        label="unknown" if regime is None else regime.label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        assets=tuple(_asset(view, symbol) for symbol in MAJORS),
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_note=_liquidated_note(recent, view),
        sides=_sides(view),
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def standings(now: Now | None, before: Sequence[PastRegime] | None) -> list[Standing]:
    """The regime now and at the instants of `DAYS_AGO`; None is a record that cannot be read."""
    return [
        Standing("Now", None, None, "stale")
        if now is None
        else Standing("Now", now.label, now.funding_8h_pct, ""),
        *(
            Standing(when, None, None, "not known")
            if before is None
            else _past(when, before[number])
            for number, when in enumerate(DAYS_AGO)
        ),
    ]


def _past(when: str, regime: PastRegime) -> Standing:
    return Standing(when, regime.label, regime.funding_8h_pct, "not recorded", regime.at)


def _note(regime: Regime | None) -> str:
    return "The regime has not been judged recently." if regime is None else describe(regime)


def _asset(view: MarketView, symbol: str) -> Asset:
    contract = view.by_name.get(symbol)
    if contract is None:
        return Asset(symbol, None, None, None)
    share = view.share(contract.contract)
    return Asset(
        symbol,
        contract,
        eight_hour_rate(contract.funding_rate_pct, contract.funding_interval_hours),
        None if share is None else share.long_account_pct,
    )


def _recent(counted: LiquidationTotals | None, view: MarketView) -> LiquidationTotals | None:
    """What was counted, unless that is too long ago, however much of the day was watched."""
    if counted is None or not is_fresh(counted.as_of, view.bounds.liquidations, view.now):
        return None
    return counted


def _liquidated_note(counted: LiquidationTotals | None, view: MarketView) -> str:
    if counted is None:
        return "not counted recently"
    # Cut, not rounded: 94.97 is not the 95.0 that would be enough.
    watched = Decimal(str(counted.watched_pct)).quantize(Decimal("0.1"), ROUND_DOWN)
    if view.liquidations is None:
        return f"{watched} % of the day watched, {view.bounds.min_coverage_pct:g} % are needed"
    most = "" if counted.top_asset is None else f", most in {counted.top_asset}"
    return f"all contracts{most}; {watched} % of the day watched"


def _sides(view: MarketView) -> tuple[Side, ...]:
    liquidated = view.liquidations
    if liquidated is None or liquidated.long_pct is None:
        return ()
    return tuple(
        Side(name, liquidated.total_usd * share / 100, share)
        for name, share in (
            ("Longs", liquidated.long_pct),
            ("Shorts", 100 - liquidated.long_pct),
        )
    )
