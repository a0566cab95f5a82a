"""`btc-etf-stance`: what the flows of BTC ETFs say, as far as they are covered (pure).

A leg is one data day. Five days of net flow are compared with the assets; accumulation needs half
a percent of them and four positive days, distribution the mirror of that.
"""

from collections.abc import Sequence
from datetime import date

from barograph.history.records import Decision, Leg, LegEvidence, Proposal, Waiting
from barograph.kit.business_days import next_trading_day, trading_days
from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.macro.evidence import (
    ENTER_PCT,
    FLOW_DAYS,
    NEEDED_FLOW_DAYS,
    complete_week_of_flows,
    is_recent,
    next_flow_regime,
)
from barograph.macro.series import EtfDay, EtfSeries
from barograph.stances.rules import condition, day_period, day_start, expires_after

KIND = "btc-etf-stance"
METHOD = "btc-etf/1"
BY = "rule"
PUBLICATION_LAG = 1


def propose(
    series: EtfSeries, *, now: int, today: date, grace: int, previous: str | None
) -> Proposal | Waiting | str:
    """Judge the newest day; a text says why that is not possible.

    `previous` is the last regime, which is left only at half of what it was entered at.
    """
    days, coverage = series.days, series.coverage
    if not days:
        return _waiting(0, today.isoformat(), grace)
    newest, week = days[-1], days[-FLOW_DAYS:]
    expires_at = expires_after(newest.day, grace, lag=PUBLICATION_LAG, following=next_trading_day)
    if now >= expires_at or not is_recent(newest.day, today, trading_days):
        return f"the newest holdings are of {newest.day}"
    if len(days) < NEEDED_FLOW_DAYS:
        return _waiting(len(days), newest.day, grace)
    flows = complete_week_of_flows(week)
    if flows is None or newest.aum_usd <= 0:
        return f"the flows of five days up to {newest.day} are not all known"
    flow = round(sum(flows), 2)
    share = round(100 * flow / newest.aum_usd, 4)
    found = next_flow_regime(share, flows, previous)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{day_start(newest.day)}",
        issued_at=now,
        expires_at=expires_at,
        leg=Leg(
            period=day_period(newest.day),
            levels={
                "netFlowUsd": flows[-1],
                "flow5dUsd": flow,
                "flow5dPctAum": share,
                "holdingsBtc": newest.holdings_btc,
                "streakDays": streak(flows),
                "regime": found,
            },
            decision=_decide(found, share, coverage),
            conditions=list(_CONDITIONS),
            method=METHOD,
            evidence=_evidence(week, coverage, previous),
        ),
    )


def _waiting(known: int, newest_day: str, grace: int) -> Waiting:
    """A holdings file covers one day, so days become known one by one."""
    missing = NEEDED_FLOW_DAYS - known
    lag = missing - 1 + PUBLICATION_LAG
    until = expires_after(newest_day, grace, lag=lag, following=next_trading_day)
    return Waiting(f"{known} of {NEEDED_FLOW_DAYS} days are known", until)


def streak(flows: Sequence[float]) -> int:
    """How many days in a row, up to the newest, had flows of its sign; negative for outflows."""
    sign = (flows[-1] > 0) - (flows[-1] < 0)
    length = 0
    for flow in reversed(flows):
        if sign == 0 or (flow > 0) - (flow < 0) != sign:
            break
        length += 1
    return sign * length


def _decide(found: str, share_pct: float, coverage: str) -> Decision:
    labels = {"accumulation": "constructive", "distribution": "cautious", "mixed": "neutral"}
    confidence = "high" if abs(share_pct) >= 2 * ENTER_PCT else "medium"
    words = f"Five days of net flow are {share_pct:+.2f} % of assets ({coverage}): {found}."
    return Decision(labels[found], confidence, words, BY)


def _evidence(week: Sequence[EtfDay], coverage: str, previous: str | None) -> LegEvidence:
    return LegEvidence(
        source="; ".join(sorted({each.source for each in week})),
        observed_at=iso_timestamp(max(each.observed_at for each in week)),
        inputs={
            "coverage": coverage,
            "previous_regime": previous,
            "days": [_day(each) for each in week],
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
