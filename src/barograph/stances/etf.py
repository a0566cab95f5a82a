"""The rule of `btc-etf-stance`, from the flows of the covered BTC ETFs (pure).

A leg is one data day. Accumulation needs five days of net inflow of at least 0.5 % of assets and
four positive days; distribution is the mirror of that.
"""

from collections.abc import Sequence
from datetime import date

from barograph.history.records import Decision, Leg, LegEvidence, NotIssuedYet, Proposal
from barograph.kit.business_days import next_trading_day, trading_days
from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.macro.evidence import (
    ENTER_PCT,
    NEEDED_FLOW_DAYS,
    complete_week,
    is_recent,
    next_flow_regime,
)
from barograph.macro.series import EtfDay, EtfSeries
from barograph.stances.rules import BY, condition, day_period, expires_after

KIND = "btc-etf-stance"
METHOD = "btc-etf/1"
PUBLICATION_LAG = 1


def propose(
    series: EtfSeries, *, now: int, today: date, grace: int, previous: str | None
) -> Proposal | NotIssuedYet | str:
    """Propose a stance on the newest day; a text says why that is impossible.

    `previous` is the last regime, which ends at half of the threshold that began it.
    """
    days = series.days
    if not days:
        return _waiting(0, today.isoformat(), grace)
    newest = days[-1]
    expires_at = expires_after(newest.day, grace, lag=PUBLICATION_LAG, following=next_trading_day)
    if now >= expires_at or not is_recent(newest.day, today, trading_days):
        return f"the newest holdings are from {newest.day}"
    if len(days) < NEEDED_FLOW_DAYS:
        return _waiting(len(days), newest.day, grace)
    week = complete_week(series, len(days))
    if week is None:
        return f"a flow of the five days up to {newest.day} is unknown"
    regime = next_flow_regime(week, previous)
    period = day_period(newest.day)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{period['start']}",
        issued_at=now,
        expires_at=expires_at,
        leg=Leg(
            period=period,
            levels={
                "netFlowUsd": week.flows[-1],
                "flow5dUsd": week.flow_usd,
                "flow5dPctAum": week.share_pct,
                "holdingsBtc": newest.holdings_btc,
                "streakDays": streak(week.flows),
                "regime": regime,
                "knownDays": len(days),
            },
            decision=_decide(regime, week.share_pct, week.coverage_text),
            conditions=list(_CONDITIONS),
            method=METHOD,
            evidence=_evidence(week.days, week.coverage, previous),
        ),
    )


def _waiting(known: int, newest_day: str, grace: int) -> NotIssuedYet:
    """When enough days will be known; a holdings file covers one day."""
    missing = NEEDED_FLOW_DAYS - known
    lag = missing - 1 + PUBLICATION_LAG
    until = expires_after(newest_day, grace, lag=lag, following=next_trading_day)
    return NotIssuedYet(f"{known} of {NEEDED_FLOW_DAYS} days are known", until)


def streak(flows: Sequence[float]) -> int:
    """How many days in a row have flows of the newest day's sign; negative for outflows."""
    sign = (flows[-1] > 0) - (flows[-1] < 0)
    length = 0
    for flow in reversed(flows):
        if sign == 0 or (flow > 0) - (flow < 0) != sign:
            break
        length += 1
    return sign * length


def _decide(regime: str, share_pct: float, coverage: str) -> Decision:
    labels = {"accumulation": "constructive", "distribution": "cautious", "mixed": "neutral"}
    confidence = "high" if abs(share_pct) >= 2 * ENTER_PCT else "medium"
    words = f"Five days of net flow are {share_pct:+.2f} % of assets ({coverage}): {regime}."
    return Decision(labels[regime], confidence, words, BY)


def _evidence(week: Sequence[EtfDay], coverage: str, previous: str | None) -> LegEvidence:
    return LegEvidence(
        # A day can name several publishers; each is named once.
        source="; ".join(sorted({name for day in week for name in day.source.split("; ")})),
        observed_at=iso_timestamp(max(day.observed_at for day in week)),
        inputs={
            "coverage": coverage,
            "previous_regime": previous,
            "days": [_day(day) for day in week],
        },
    )


def _day(day: EtfDay) -> Json:
    return {
        "day": day.day,
        "net_flow_usd": day.net_flow_usd,
        "aum_usd": day.aum_usd,
        "holdings_btc": day.holdings_btc,
    }


_CONDITIONS = tuple(
    condition(
        f"five days of flow reach {edge:+g} % of assets", "levels.flow5dPctAum", compare, edge
    )
    for compare, edge in ((">=", ENTER_PCT), ("<=", -ENTER_PCT))
)
