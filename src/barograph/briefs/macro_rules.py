"""The rules that write briefs about daily figures (pure).

They say as little as those about the market: what was measured. Figures stay the newest for days,
so a rule speaks about them only in the time after they were read that its cooldown lasts: about
the same figures never twice. The docstrings are printed in the briefs.
"""

from collections.abc import Iterator

from barograph.briefs.records import Citation, Draft, Rule
from barograph.kit.text import usd
from barograph.kit.timestamps import DAY
from barograph.macro.evidence import MacroEvidence, curve_turn, day_start, flow_week

STREAK_COOLDOWN = 5 * DAY
TURN_COOLDOWN = 3 * DAY


def etf_streak(evidence: MacroEvidence) -> Iterator[Draft]:
    """Five days of net flow reached 0.5 % of assets, on at least four of them with the same sign.

    A flow is the operator's own figure, or the change of a fund's shares times their net asset
    value. Only the funds that are named are counted.
    """
    week = flow_week(evidence)
    if week is None or week.side is None:
        return
    read_at = max(each.observed_at for each in week.days)
    if evidence.at - read_at >= STREAK_COOLDOWN:
        return
    first, newest = week.days[0], week.days[-1]
    counted = week.inflow_days if week.side == "inflows" else week.outflow_days
    sign = "+" if week.flow_usd > 0 else "-"
    yield Draft(
        subject=f"btc-{week.side}",
        headline=f"BTC ETF {week.side} reach {abs(week.share_pct):.2f} % of assets in five days "
        f"({week.coverage})",
        sentence=f"Net flow on the five days from {first.day} to {newest.day} was "
        f"{sign}{usd(abs(week.flow_usd))}, {week.share_pct:+.2f} % of assets of "
        f"{usd(newest.aum_usd)}; {counted} of the days had {week.side}. "
        f"Coverage: {week.coverage}.",
        coins=["BTC"],
        window=(day_start(first.day), day_start(newest.day, following=True)),
        inputs={
            "coverage": week.coverage,
            "flow_5d_usd": week.flow_usd,
            "flow_5d_pct": week.share_pct,
            "aum_usd": newest.aum_usd,
            "days": [{"day": each.day, "net_flow_usd": each.net_flow_usd} for each in week.days],
        },
        cited=Citation("; ".join(sorted({each.source for each in week.days})), newest.day, read_at),
    )


def curve_turn_of_sign(evidence: MacroEvidence) -> Iterator[Draft]:
    """The slope of US Treasury par yields, 10 years less 3 months, took the other sign.

    It has a sign from 5 basis points on; nearer to zero it keeps the one that it had.
    """
    turn = curve_turn(evidence)
    if turn is None or evidence.at - turn.after.observed_at >= TURN_COOLDOWN:
        return
    before, after = turn.before, turn.after
    sign = "positive" if after.value > 0 else "negative"
    yield Draft(
        subject="10y-3m",
        headline=f"US 10-year less 3-month yield turns {sign}",
        sentence=f"The US 10-year par yield less the 3-month one was {100 * after.value:+.0f} bp "
        f"on {after.day} ({turn.us10y:.2f} % less {turn.us3m:.2f} %), after "
        f"{100 * before.value:+.0f} bp on {before.day}.",
        coins=[],
        window=(day_start(before.day), day_start(after.day, following=True)),
        inputs={
            "day": after.day,
            "us10y_pct": turn.us10y,
            "us3m_pct": turn.us3m,
            "slope_pct": after.value,
            "before_day": before.day,
            "before_slope_pct": before.value,
        },
        cited=Citation(after.source, after.day, after.observed_at),
    )


MACRO_RULES = (
    Rule("etf-streak", "etf-flows", STREAK_COOLDOWN, etf_streak),
    Rule("curve-turn", "rates", TURN_COOLDOWN, curve_turn_of_sign),
)
