"""`btc-etf-stance`: what the flows of BTC ETFs say, as far as they are covered (pure).

A leg is one data day. Five days of net flow are compared with the assets; accumulation needs half
a percent of them and four positive days, distribution the mirror of that.
"""

from collections.abc import Sequence
from datetime import date

from barograph.business_days import business_days
from barograph.kit.canonical import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.macro.series import EtfDay, EtfSeries
from barograph.stances.conditions import condition
from barograph.stances.expiry import day_start, expires_after, is_recent
from barograph.stances.records import Decision, Leg, LegEvidence, Proposal

KIND = "btc-etf-stance"
METHOD = "btc-etf/1"
BY = "rule"
NEEDED_DAYS = 20
FLOW_DAYS = 5
STREAK_DAYS = 4
ENTER_PCT, LEAVE_PCT = 0.5, 0.25
STALE_BUSINESS_DAYS = 2
PUBLICATION_LAG = 1


def propose(
    series: EtfSeries, *, now: int, today: date, grace: int, previous: str | None
) -> Proposal | str:
    """Judge the newest day; a text says why that is not possible.

    `previous` is the last regime, which is left only at half of what it was entered at.
    """
    days, coverage = series.days, series.coverage
    if len(days) < NEEDED_DAYS:
        return f"{len(days)} of {NEEDED_DAYS} days are known"
    newest, week = days[-1], days[-FLOW_DAYS:]
    expires_at = expires_after(newest.day, grace, lag=PUBLICATION_LAG)
    if now >= expires_at or not is_recent(newest.day, today, STALE_BUSINESS_DAYS):
        return f"the newest holdings are of {newest.day}"
    flows = [each.net_flow_usd for each in week if each.net_flow_usd is not None]
    if len(flows) < FLOW_DAYS or newest.aum_usd <= 0 or _has_gap(week):
        return f"the flows of five days up to {newest.day} are not all known"
    flow = round(sum(flows), 2)
    share = round(100 * flow / newest.aum_usd, 4)
    found = regime(share, flows, previous)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{day_start(newest.day)}",
        issued_at=now,
        expires_at=expires_at,
        leg=Leg(
            period={"start": day_start(newest.day), "end": day_start(newest.day, following=True)},
            levels={
                "netFlowUsd": flows[-1],
                "flow5dUsd": flow,
                "flow5dPctAum": share,
                "holdingsBtc": newest.holdings_btc,
                "streakDays": streak(flows),
                "regime": found,
            },
            decision=_decide(found, share, coverage),
            conditions=[
                condition(
                    "five days of flow reach +0.5 % of assets",
                    "levels.flow5dPctAum",
                    ">=",
                    ENTER_PCT,
                ),
                condition(
                    "five days of flow reach -0.5 % of assets",
                    "levels.flow5dPctAum",
                    "<=",
                    -ENTER_PCT,
                ),
            ],
            method=METHOD,
            evidence=LegEvidence(
                source="; ".join(sorted({each.source for each in week})),
                observed_at=iso_timestamp(max(each.observed_at for each in week)),
                inputs={
                    "coverage": coverage,
                    "previous_regime": previous,
                    "days": [_day(each) for each in week],
                },
            ),
        ),
    )


def regime(share_pct: float, flows: Sequence[float], previous: str | None) -> str:
    """`accumulation`, `distribution` or `mixed`, with hysteresis."""
    positive, negative = sum(each > 0 for each in flows), sum(each < 0 for each in flows)
    if share_pct >= ENTER_PCT and positive >= STREAK_DAYS:
        return "accumulation"
    if share_pct <= -ENTER_PCT and negative >= STREAK_DAYS:
        return "distribution"
    if previous == "accumulation" and share_pct >= LEAVE_PCT:
        return "accumulation"
    if previous == "distribution" and share_pct <= -LEAVE_PCT:
        return "distribution"
    return "mixed"


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


def _has_gap(week: Sequence[EtfDay]) -> bool:
    """Whether a business day is missing; a day more than those is none."""
    days = [date.fromisoformat(each.day) for each in week]
    return not set(business_days(days[0], days[-1])) <= set(days)


def _day(day: EtfDay) -> Json:
    return {
        "day": day.day,
        "net_flow_usd": day.net_flow_usd,
        "aum_usd": day.aum_usd,
        "holdings_btc": day.holdings_btc,
    }
