"""How the signals of daily figures are judged (pure). The developer page shows the docstrings.

They rest on what issuers, operators and the US Treasury publish, not on the exchange.
"""

from functools import lru_cache

from barograph.macro.evidence import MacroEvidence, curve, flow_regime, flow_week
from barograph.signals.records import NOT_KNOWN, Finding

# Figures come once a day and are asked about every minute: the same ones are judged once.
_flow_regime = lru_cache(maxsize=1)(flow_regime)


def btc_etf_flow(evidence: MacroEvidence) -> Finding:
    """Five days of net flow into BTC ETFs, in percent of their assets, as far as they are covered.

    accumulation from +0.5 % with inflows on four of the five days, distribution from -0.5 % with
    outflows on four of them, mixed otherwise; a label is left inside 0.25 %. The value names the
    newest day and the funds that are counted. Unknown with less than 20 days of figures, when a
    flow of the five days is missing, or when the newest day is more than two US business days old.
    """
    week = flow_week(evidence)
    if week is None:
        return NOT_KNOWN
    newest = week.days[-1].day
    value = (
        f"{week.share_pct:+.2f} % of assets in {len(week.days)} days to {newest} ({week.coverage})"
    )
    return Finding(_flow_regime(evidence.etf), value)


def us_rates(evidence: MacroEvidence) -> Finding:
    """How US Treasury par yields moved over 20 published days: the 10-year one and the slope.

    The slope is the 10-year yield less the 3-month one. bear when the 10-year yield rose by 5
    basis points or more, bull when it fell by as much; steepening and flattening likewise for the
    slope; consolidation when neither moved so far. The value names the newest day.
    Unknown with less than 21 days of both yields, or when that day is more than two US business
    days old.
    """
    now = curve(evidence)
    if now is None:
        return NOT_KNOWN
    change, slope = 100 * now.us10y_change, 100 * now.slope
    value = (
        f"10y {now.us10y:.2f} %, {change:+.0f} bp in 20 days; slope {slope:+.0f} bp; of {now.day}"
    )
    return Finding(now.move, value)
