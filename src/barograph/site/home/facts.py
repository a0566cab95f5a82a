"""What the home page says (pure): the market at a glance, and how it came there."""

from collections.abc import Sequence
from typing import NamedTuple

from barograph.markets.documents import citation, market_state_document
from barograph.markets.history import RegimeChange
from barograph.markets.records import MAJORS, Perpetual
from barograph.markets.regime import BASIS, Label, Regime, describe, eight_hour_rate
from barograph.markets.view import MarketView

DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""With what the regime of now is compared."""

_SENTENCES: dict[Label, str] = {
    "short-crowded": "Shorts are crowded.",
    "short-leaning": "The market leans short.",
    "neutral": "The market is balanced.",
    "long-leaning": "The market leans long.",
    "long-crowded": "Longs are crowded.",
    "unknown": "How the market stands is not known.",
}


class Standing(NamedTuple):
    """The regime of one instant; without a label where nothing was recorded."""

    when: str
    label: str | None
    funding_8h_pct: float | None


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
    source: str
    sentence: str
    basis: str
    note: str
    label: Label
    funding_8h_pct: float | None
    assets: tuple[Asset, ...]
    liquidated_usd: float | None
    sides: tuple[Side, ...]
    top_asset: str | None
    citation: str

    @property
    def first(self) -> Asset:
        """BTC."""
        return self.assets[0]


def market_now(view: MarketView) -> Now:
    """Gather what is fresh.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    until = market_state_document(view).until
    regime = view.regime
    liquidated = view.liquidations
    return Now(
        as_of=view.perpetuals.as_of,
        until=until,
        source=view.perpetuals.source,
        sentence=_SENTENCES["unknown" if regime is None else regime.label],
        basis=BASIS,
        note=_note(regime),
        label="unknown" if regime is None else regime.label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        assets=tuple(_asset(view, symbol) for symbol in MAJORS),
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        sides=_sides(view),
        top_asset=None if liquidated is None else liquidated.top_asset,
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def standings(now: Now | None, before: Sequence[RegimeChange | None]) -> list[Standing]:
    """The regime now and at the instants of `DAYS_AGO`."""
    current = Standing("Now", None if now is None else now.label, now and now.funding_8h_pct)
    return [current, *map(_standing, DAYS_AGO, before)]


def _standing(when: str, change: RegimeChange | None) -> Standing:
    if change is None:
        return Standing(when, None, None)
    return Standing(when, change.label, change.funding_8h_pct)


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
