"""The rules that write briefs, about the market and about daily figures (pure).

Each rule states what was measured: no cause, no forecast and no advice. The headline begins with
the news and its number. A rule looks at the evidence of one reading and drafts a brief for
everything that it finds. It writes about one subject at most once per cooldown. Daily figures stay
the newest for days, so their rules write only within one cooldown after the figures were read. The
docstrings are printed in the briefs.
"""

from collections.abc import Iterator, Sequence

from barograph.briefs.records import Citation, Draft, Rule
from barograph.kit.text import coverage, percentile_text, price, rate, usd
from barograph.kit.timestamps import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    day_text,
    iso_timestamp,
    span_text,
    time_text,
)
from barograph.macro.evidence import MacroEvidence, curve_turn, day_start, flow_week
from barograph.markets.evidence import (
    FORTNIGHT_OF_HOURS,
    FORTNIGHT_OF_WINDOWS,
    TRAILING,
    WEEK_OF_HOURS,
    Hour,
    MarketEvidence,
    backfill_basis,
    change_pct,
    coins_change_pct,
    compared_period,
    percentile_rank,
)
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.settlements import SettledFunding
from barograph.venues.records import MAJORS, eight_hour_rate
from barograph.venues.registry import VENUES

OPEN_INTEREST_MOVE_PCT = 8.0
CONSTANT_PRICE_PCT = 1.0
BURST_PERCENTILE = 99.0
EXTREME_PERCENTILE = 97.5
HALF_PCT = 50.0
STREAK_COOLDOWN = 5 * DAY
TURN_COOLDOWN = 3 * DAY


def regime_change(evidence: MarketEvidence) -> Iterator[Draft]:
    """The label of the BTC funding regime changed. Changes from or to unknown are left out."""
    before, after, pct = evidence.previous_regime, evidence.regime, evidence.regime.funding_8h_pct
    if before is None or pct is None or "unknown" in (labels := {before.label, after.label}):
        return
    if len(labels) == 1:
        return
    yield Draft(
        subject=after.label,
        headline=f"BTC funding turns {after.label}: {rate(pct)} per 8 h",
        sentence=f"The BTC funding regime changed from {before.label} to {after.label} at "
        f"{rate(pct)} per 8 hours. It had been {before.label} since "
        f"{time_text(before.since)}.",
        coins=["BTC"],
        window=(before.since, after.as_of),
        inputs={
            "label_before": before.label,
            "label_after": after.label,
            "funding_8h_pct": pct,
        },
    )


def funding_flip(evidence: MarketEvidence) -> Iterator[Draft]:
    """The settled funding of BTC, ETH or SOL changed its sign since the last nonzero rate.

    The rates are those that the exchange itself reports, usually minutes after the settlement.
    """
    bases = {perpetual.contract: base for base, perpetual in evidence.majors.items()}
    for settled in evidence.settlements:
        before = evidence.trailing.signed_before(settled)
        if before is None or before.funding_rate_pct * settled.funding_rate_pct >= 0:
            continue
        base = bases.get(settled.contract, settled.contract)
        sign = "positive" if settled.funding_rate_pct > 0 else "negative"
        yield Draft(
            subject=base.lower(),
            headline=f"{base} funding turns {sign}: {_per_8h(settled)}",
            sentence=f"{base} funding was {_per_8h(settled)} at the settlement of "
            f"{time_text(settled.at)}, after {_per_8h(before)} at the settlement of "
            f"{time_text(before.at)}.",
            coins=[base],
            window=(before.at, settled.at),
            inputs={
                "contract": settled.contract,
                "settled_at": iso_timestamp(settled.at),
                "read_at": iso_timestamp(settled.read_at),
                "funding_rate_pct": settled.funding_rate_pct,
                "funding_interval_hours": settled.funding_interval_hours,
                "before_settled_at": iso_timestamp(before.at),
                "before_funding_rate_pct": before.funding_rate_pct,
                "before_funding_interval_hours": before.funding_interval_hours,
            },
        )


def open_interest_move(evidence: MarketEvidence) -> Iterator[Draft]:
    """Open interest of BTC, ETH or SOL moved by 8 % or more in 24 hours.

    Meanwhile, its price moved by at most 1 %. Open interest is measured in coins, so that the price
    alone has no effect.
    """
    at = evidence.reading.as_of
    for base, now in evidence.majors.items() if evidence.closed_hour is not None else ():
        before = evidence.day_before(base)
        coins = coins_change_pct(before, now)
        if before is None or coins is None or now.open_interest_usd is None:
            continue
        moved = change_pct(before.last_price, now.last_price)
        if abs(moved) > CONSTANT_PRICE_PCT or abs(coins) < OPEN_INTEREST_MOVE_PCT:
            continue
        way, verb = ("up", "rose") if coins > 0 else ("down", "fell")
        yield Draft(
            subject=base.lower(),
            headline=f"{base} open interest {way} {abs(coins):.1f} % in coins in 24 hours, "
            f"price {moved:+z.1f} %",
            sentence=f"Measured in coins, {base} open interest {verb} by {abs(coins):.1f} % in 24 "
            f"hours; it is {usd(now.open_interest_usd)} (one-sided). The {now.price_kind} "
            f"price {_moved(moved)} {price(now.last_price)} {now.quote}.",
            coins=[base],
            window=(evidence.day_ago.at, at),
            inputs={
                "contract": now.contract,
                "last_price": now.last_price,
                "last_price_before": before.last_price,
                "open_interest_usd": now.open_interest_usd,
                "open_interest_usd_before": before.open_interest_usd,
                "coins_change_pct": round(coins, 2),
            },
        )


def liquidation_burst(evidence: MarketEvidence) -> Iterator[Draft]:
    """Liquidations in one hour, in USD, reached the 99th percentile of the last 30 days' hours.

    Only hours with enough coverage count, and at least seven days of such hours are required. An
    hour whose sides are disputed gets no brief.
    """
    hour = None if evidence.lacks_liquidations else evidence.closed_hour
    known = evidence.trailing.liquidation_totals(evidence.min_watched_pct)
    if hour is None or hour.watched_pct < evidence.min_watched_pct or len(known) < WEEK_OF_HOURS:
        return
    rank = percentile_rank(hour.total_usd, known)
    is_disputed = evidence.trailing.disputed_sides.within(hour.at, hour.at + HOUR)
    if rank < BURST_PERCENTILE or hour.total_usd <= 0 or is_disputed:
        return
    assets = evidence.closed_hour_assets[:3]
    named = ", ".join(f"{asset} {usd(amount)}" for asset, amount in assets)
    longs = 100 * hour.long_usd / hour.total_usd
    share, side = (longs, "long") if longs >= HALF_PCT else (100 - longs, "short")
    covered = evidence.trailing.liquidation_hours(evidence.min_watched_pct)
    week = [each.total_usd for each in covered if each.at > hour.at - WEEK_OF_HOURS * HOUR]
    such = 1 + sum(percentile_rank(day, known) >= BURST_PERCENTILE for day in week)
    often = f", and one of {such} hours in 7 days at or above the 99th percentile"
    again = often if such > 1 else ""
    past = [(each.at, each.total_usd) for each in covered]
    largest = _standing(past, hour.total_usd, hour.at, "largest")
    yield Draft(
        subject="market",
        headline=f"{usd(hour.total_usd)} liquidated in an hour, "
        f"{share:.0f} % {side}s{_leader(hour, assets)}",
        sentence=f"{usd(hour.total_usd)} was liquidated on {span_text(hour.at, hour.at + HOUR)}, "
        f"{share:.0f} % of it {side}s. This hour is {largest}, "
        f"{percentile_text(hour.total_usd, known, compared_period(covered, hour.at))}{again}. "
        f"Largest: {named}. "
        f"We covered {coverage(hour.watched_pct)} of that hour.",
        coins=[asset for asset, _ in assets],
        window=(hour.at, hour.at + HOUR),
        inputs={
            "long_usd": hour.long_usd,
            "short_usd": hour.short_usd,
            "largest_usd": {asset: round(amount, 2) for asset, amount in assets},
            "watched_pct": hour.watched_pct,
            "percentile": round(rank, 4),
            "hours_compared": len(known),
            "such_hours_in_7_days": such,
        },
    )


def positioning_extreme(evidence: MarketEvidence) -> Iterator[Draft]:
    """The share of long accounts in BTC, ETH or SOL reached the top or bottom 2.5 % of its values.

    It is compared with its hourly values of the last 14 to 30 days. It counts accounts, not money.
    """
    at = evidence.reading.as_of
    for base, share in (
        evidence.long_account_pct.items() if evidence.closed_hour is not None else ()
    ):
        hours = evidence.trailing.hours(base)
        known = evidence.trailing.long_accounts(base)
        if len(known) < FORTNIGHT_OF_HOURS:
            continue
        rank = percentile_rank(share, known)
        if 100 - EXTREME_PERCENTILE < rank < EXTREME_PERCENTILE:
            continue
        end, sign = ("high", 1) if rank >= EXTREME_PERCENTILE else ("low", -1)
        shares = [(hour.at, hour.long_account_pct) for hour in hours]
        past = [(then, sign * each) for then, each in shares if each is not None]
        compared = [hour for hour in hours if hour.long_account_pct is not None]
        period = compared_period(compared, at)
        yield Draft(
            subject=f"{base.lower()}-{end}",
            headline=f"{share:.1f} % of {base} accounts are long, "
            f"{_standing(past, sign * share, at, f'{end}est')}",
            sentence=f"{share:.1f} % of accounts with a position in {base} were net long, "
            f"{percentile_text(share, known, period)}. In that time it ranged from "
            f"{known[0]:.1f} % to {known[-1]:.1f} %.{_basis(compared)}",
            coins=[base],
            window=(max(hours[0].at, at - TRAILING), at),
            inputs={
                "long_account_pct": share,
                "percentile": round(rank, 4),
                "hours_compared": len(known),
                "lowest_pct": known[0],
                "highest_pct": known[-1],
            },
        )


def volatility_extreme(evidence: MarketEvidence) -> Iterator[Draft]:
    """The 24-hour realised volatility of BTC, ETH or SOL reached the top 2.5 % of its values.

    It is computed from hourly returns, annualised without subtracting the mean, and compared with
    its value at each hour of the last 14 to 30 days. One price of the day that is far from both its
    neighbours is left out.
    """
    for base in MAJORS if evidence.closed_hour is not None else ():
        hours = evidence.trailing.hours(base, since=evidence.reading.as_of - 2 * HOUR)
        known = evidence.trailing.volatility(base)
        if not hours or hours[-1].volatility_pct is None or len(known) < FORTNIGHT_OF_HOURS:
            continue
        last, swing = hours[-1], hours[-1].volatility_pct
        rank = percentile_rank(swing, known)
        if rank < EXTREME_PERCENTILE:
            continue
        past = evidence.trailing.hours(base)
        compared = [each for each in past if each.volatility_pct is not None]
        values = [(each.at, each.volatility_pct or 0.0) for each in compared]
        yield Draft(
            subject=base.lower(),
            headline=f"{base} volatility at {swing:.0f} % annualised, "
            f"{_standing(values, swing, last.at, 'highest')}",
            sentence=f"{base}'s hourly returns over the 24 hours to {time_text(last.at)} had "
            f"an annualised volatility of {swing:.1f} %, "
            f"{percentile_text(swing, known, compared_period(compared, last.at))}."
            f"{_basis(compared)}",
            coins=[base],
            window=(last.at - DAY, last.at),
            inputs={
                "volatility_pct": round(swing, 4),
                "percentile": round(rank, 4),
                "hours_compared": len(known),
            },
        )


def funding_spread(evidence: MarketEvidence) -> Iterator[Draft]:
    """What venues settled for BTC, ETH or SOL differs more than in 97.5 % of the last 30 days.

    The difference is the highest sum of settled rates over eight hours less the lowest, over the
    same hours at every venue. It is compared with the same windows of the last 14 to 30 days.
    """
    spreads = evidence.spreads if evidence.closed_hour is not None else None
    for base, now in (spreads or {}).items():
        count, spread = len(now.windows), now.spread_pct
        if count < FORTNIGHT_OF_WINDOWS or now.rank < EXTREME_PERCENTILE or spread <= 0:
            continue
        low, high = (f"{rate(now.rates[end])} at {VENUES[end].title}" for end in now.ends)
        yield Draft(
            subject=base.lower(),
            headline=f"{base} funding differs by {spread:.4f} percentage points per 8 h between "
            f"{' and '.join(VENUES[end].title for end in now.ends)}",
            sentence=f"In the 8 hours to {time_text(now.end)}, settled {base} funding was {high} "
            f"and {low}. The difference is {spread:.4f} percentage points, "
            f"{percentile_text(spread, now.windows, f'{count} windows of 8 hours')} at the same "
            "venues.",
            coins=[base],
            window=(now.end - TRAILING, now.end),
            inputs={
                "settled_at": iso_timestamp(now.end),
                "funding_8h_pct": dict(now.rates),
                "spread_pct": round(spread, 6),
                "percentile": round(now.rank, 4),
                "windows_compared": count,
            },
            source="; ".join(now.sources),
        )


def outage(evidence: MarketEvidence) -> Iterator[Draft]:
    """There was no reading of the venue in use for longer than its freshness limit."""
    gap = evidence.outage
    if gap is None:
        return
    title = VENUES[gap.venue].title
    why = f"{title}: {gap.kind}" if gap.kind else f"no failure of {title} was recorded"
    span = gap.until - gap.since
    seconds = f"{span / SECOND:.0f}"
    length = f"{seconds} seconds" if span < 2 * MINUTE else f"{span / MINUTE:.1f} minutes"
    yield Draft(
        subject="market-data",
        headline=f"No data of {title} for {length}",
        sentence=f"No usable reading of {title} was stored on {span_text(gap.since, gap.until)} "
        f"({seconds} s; {why}). Nothing "
        "is known about this venue in between, and its liquidations of that time may be missing.",
        coins=[],
        window=(gap.since, gap.until),
        inputs={
            "since": iso_timestamp(gap.since),
            "until": iso_timestamp(gap.until),
            "kind": gap.kind,
        },
    )


def venue_switch(evidence: MarketEvidence) -> Iterator[Draft]:
    """Another venue took the place of the one that was in use.

    Everything that is published from then on, and everything that it is compared with, comes from
    the new venue.
    """
    switch = evidence.switch
    if switch is None:
        return
    before, after = VENUES[switch.before].title, VENUES[switch.after].title
    yield Draft(
        subject=switch.after,
        headline=f"Market data now comes from {after} instead of {before}",
        sentence=f"{after} has been in use since {time_text(switch.at)}, instead of {before}. "
        f"Reason: {switch.reason}. Prices, funding and open interest before and after that time "
        "come from different venues, so don't compare them.",
        coins=[],
        window=(switch.at, switch.at),
        inputs={
            "before": switch.before,
            "after": switch.after,
            "at": iso_timestamp(switch.at),
            "reason": switch.reason,
        },
    )


def liquidation_coverage(evidence: MarketEvidence) -> Iterator[Draft]:
    """We covered too little of an hour to publish its liquidations.

    This rule applies only after an earlier hour had enough coverage, so never at the first start.
    """
    hour, needed = evidence.closed_hour, evidence.min_watched_pct
    if hour is None or hour.watched_pct >= needed or evidence.lacks_liquidations:
        return
    if not evidence.trailing.liquidation_hours(needed):
        return
    covered = coverage(hour.watched_pct)
    yield Draft(
        subject="liquidations",
        headline=f"Only {covered} of an hour's liquidations covered",
        sentence=f"We covered {covered} of {span_text(hour.at, hour.at + HOUR)} "
        f"for liquidations; {needed:g} % is needed. There is no history to fill the gap from.",
        coins=[],
        window=(hour.at, hour.at + HOUR),
        inputs={"watched_pct": hour.watched_pct, "needed_pct": needed},
    )


def etf_streak(evidence: MacroEvidence) -> Iterator[Draft]:
    """Net flow over five days reached 0.5 % of assets, and at least four days had the same sign.

    A flow is the operator's own figure, or the change in a fund's shares times their net asset
    value. Only the named funds count.
    """
    week = flow_week(evidence)
    if week is None or week.side is None:
        return
    read_at = max(day.observed_at for day in week.days)
    if evidence.at - read_at >= STREAK_COOLDOWN:
        return
    first, newest = week.days[0], week.days[-1]
    counted = week.inflow_days if week.side == "inflows" else week.outflow_days
    sign, way = ("+", "into") if week.flow_usd > 0 else ("-", "out of")
    yield Draft(
        subject=f"btc-{week.side}",
        headline=f"{usd(abs(week.flow_usd))} {way} BTC ETFs in five days, "
        f"{abs(week.share_pct):.2f} % of assets ({week.coverage_text})",
        sentence=f"Net flow over the 5 days from {_day(first.day)} to {_day(newest.day)} was "
        f"{sign}{usd(abs(week.flow_usd))}, or {week.share_pct:+.2f} % of {usd(newest.aum_usd)} in "
        f"assets; {counted} of the 5 days had {week.side}. "
        f"Coverage: {week.coverage_text}.",
        coins=["BTC"],
        window=(day_start(first.day), day_start(newest.day, following=True)),
        inputs={
            "coverage": week.coverage,
            "flow_5d_usd": week.flow_usd,
            "flow_5d_pct": week.share_pct,
            "aum_usd": newest.aum_usd,
            "days": [{"day": day.day, "net_flow_usd": day.net_flow_usd} for day in week.days],
        },
        cited=Citation(
            "; ".join(sorted({day.source for day in week.days})), _day(newest.day), read_at
        ),
    )


def curve_turn_of_sign(evidence: MacroEvidence) -> Iterator[Draft]:
    """The slope of US Treasury par yields, 10 years less 3 months, changed its sign.

    Within 5 basis points of zero the slope keeps its last sign.
    """
    turn = curve_turn(evidence)
    if turn is None or evidence.at - turn.after.observed_at >= TURN_COOLDOWN:
        return
    before, after = turn.before, turn.after
    sign = "positive" if after.value > 0 else "negative"
    yield Draft(
        subject="10y-3m",
        headline=f"US 10-year less 3-month yield turns {sign}: {100 * after.value:+.0f} bp",
        sentence=f"The US 10-year par yield less the 3-month one was {100 * after.value:+.0f} bp "
        f"on {_day(after.day)} ({turn.us10y:.2f} % less {turn.us3m:.2f} %), after "
        f"{100 * before.value:+.0f} bp on {_day(before.day)}.",
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
        cited=Citation(after.source, _day(after.day), after.observed_at),
    )


def _basis(compared: Sequence[Hour]) -> str:
    """A sentence about the back-filled hours; empty if there are none."""
    basis = backfill_basis(compared)
    return "" if basis is None else f" {basis}"


def _moved(pct: float) -> str:
    shown = f"{abs(pct):.1f} %"
    if shown == "0.0 %":
        return "is unchanged at"
    return f"{'rose' if pct > 0 else 'fell'} by {shown} to"


def _per_8h(settled: SettledFunding) -> str:
    pct = eight_hour_rate(settled.funding_rate_pct, settled.funding_interval_hours)
    return f"{rate(pct)} per 8 h"


def _day(day: str) -> str:
    return day_text(day_start(day))


def _standing(past: Sequence[tuple[int, float]], value: float, at: int, most: str) -> str:
    """Since when no value was more extreme: `the highest in 12 days`."""
    first = past[0][0] - HOUR if past else at  # a value stands for the hour before it
    days = (at - max((then for then, each in past if each > value), default=first)) // DAY
    if days > 1:
        return f"the {most} in {days} days"
    return f"among the {most} in {(at - first) // DAY} days"


def _leader(hour: LiquidationHour, assets: Sequence[tuple[str, float]]) -> str:
    if not assets:
        return ""
    asset, amount = assets[0]
    return f", mostly {asset}" if 2 * amount >= hour.total_usd else f", led by {asset}"


MARKET_RULES = (
    Rule("regime-change", "funding", 0, regime_change),
    Rule("funding-flip", "funding", 0, funding_flip),
    Rule("open-interest-move", "open-interest", 2 * DAY, open_interest_move),
    Rule("liquidation-burst", "liquidations", 6 * HOUR, liquidation_burst),
    Rule("positioning-extreme", "positioning", 2 * DAY, positioning_extreme),
    Rule("volatility-extreme", "market", 3 * DAY, volatility_extreme),
    Rule("funding-spread", "funding", 2 * DAY, funding_spread),
    Rule("outage", "data-quality", 0, outage),
    Rule("venue-switch", "data-quality", 0, venue_switch),
    Rule("liquidation-coverage", "data-quality", DAY, liquidation_coverage),
)
MACRO_RULES = (
    Rule("etf-streak", "etf-flows", STREAK_COOLDOWN, etf_streak),
    Rule("curve-turn", "rates", TURN_COOLDOWN, curve_turn_of_sign),
)
