"""How each signal is judged (pure). The docstrings are what the developer page shows.

A method looks at the evidence and at its own last label, and says what it finds; without enough
evidence it says `unknown`.
"""

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.regime import EDGES_PCT, eight_hour_rate
from barograph.markets.trailing import (
    FORTNIGHT_OF_HOURS,
    WEEK_OF_HOURS,
    Evidence,
    change_pct,
    ordered_percentile_rank,
)
from barograph.markets.words import usd
from barograph.signals.bands import Bands
from barograph.signals.records import NOT_KNOWN, Finding

_, SHORT_EDGE_PCT, LONG_EDGE_PCT, _ = EDGES_PCT
BREADTH = Bands(("shorts-pay", "balanced", "longs-pay"), (-20, 20), usual=1, margin=3)
PRESSURE = Bands(("quiet", "normal", "elevated", "extreme"), (20, 90, 99), usual=1, margin=2)
POSITIONING = Bands(("short-extreme", "typical", "long-extreme"), (5, 95), usual=1, margin=3)
TREND = Bands(("falling", "flat", "rising"), (-5, 5), usual=1, margin=1)
VOLATILITY = Bands(("calm", "normal", "turbulent"), (20, 80), usual=1, margin=5)


def btc_funding_regime(evidence: Evidence, _previous: str | None) -> Finding:
    """The regime of the BTC perpetual's funding rate, brought to eight hours.

    short-crowded at -0.03 % or less, short-leaning below -0.005 %, neutral, long-leaning from
    +0.015 %, long-crowded from +0.03 %. A label is left 0.0025 % inside its edge, and a new one
    is taken only after it has lasted.
    """
    regime = evidence.regime
    if regime.funding_8h_pct is None:
        return NOT_KNOWN
    return Finding(regime.label, f"{regime.funding_8h_pct:+.4f} % per 8 h")


def funding_breadth(evidence: Evidence, previous: str | None) -> Finding:
    """How many of all perpetuals pay more than rest, less how many pay the other way.

    Each contract's rate is brought to eight hours. The share of contracts at +0.015 % or more,
    less the share at -0.005 % or less, in points: longs-pay from +20, shorts-pay from -20,
    balanced between; a label is left 3 points inside its edge.
    """
    contracts = evidence.reading.contracts
    if not contracts:
        return NOT_KNOWN
    rates = [
        eight_hour_rate(each.funding_rate_pct, each.funding_interval_hours) for each in contracts
    ]
    above = 100 * sum(rate >= LONG_EDGE_PCT for rate in rates) / len(rates)
    below = 100 * sum(rate <= SHORT_EDGE_PCT for rate in rates) / len(rates)
    value = f"{above:.0f} % above and {below:.0f} % below rest, of {len(rates)} contracts"
    return Finding(BREADTH.label(above - below, previous), value)


def liquidation_pressure(evidence: Evidence, previous: str | None) -> Finding:
    """The liquidations of the last sixty minutes against the hours of up to 30 days.

    The percentile of their total in USD among all hours that were watched: quiet up to the 20th,
    normal, elevated from the 90th, extreme from the 99th; a label is left 2 points inside its
    edge. Unknown when
    too little of the last hour was watched, or with less than seven days of hours to compare with.
    """
    known = evidence.trailing.liquidation_totals(evidence.min_watched_pct)
    if evidence.last_hour.watched_pct < evidence.min_watched_pct or len(known) < WEEK_OF_HOURS:
        return NOT_KNOWN
    total = evidence.last_hour.total_usd
    rank = ordered_percentile_rank(total, known)
    value = f"{usd(total)} in an hour, percentile {rank:.0f} of {len(known)} hours"
    return Finding(PRESSURE.label(rank, previous), value)


def btc_long_accounts(evidence: Evidence, previous: str | None) -> Finding:
    """The share of accounts that are long BTC, against its own hours of up to 30 days.

    Its percentile among the hourly shares: long-extreme from the 95th, short-extreme up to
    the 5th, typical between; a label is left 3 points inside its edge. It counts accounts, not
    money. Unknown without a fresh share, or with less than fourteen days of hours to compare with.
    """
    share = evidence.long_account_pct.get("BTC")
    known = evidence.trailing.long_accounts("BTC")
    if share is None or len(known) < FORTNIGHT_OF_HOURS:
        return NOT_KNOWN
    rank = ordered_percentile_rank(share, known)
    value = f"{share:.1f} % of accounts, percentile {rank:.0f} of {len(known)} hours"
    return Finding(POSITIONING.label(rank, previous), value)


def btc_open_interest_trend(evidence: Evidence, previous: str | None) -> Finding:
    """The change of BTC open interest in 24 hours, counted in coins so that price cannot move it.

    rising from +5 %, falling from -5 %, flat between; a label is left 1 point inside its edge.
    Compared with the record of the full hour nearest to 24 hours ago; unknown without it.
    """
    bitcoin = evidence.majors.get("BTC")
    before = evidence.trailing.hour_at("BTC", evidence.reading.as_of - DAY)
    if bitcoin is None or before is None or before.open_interest_coins <= 0:
        return NOT_KNOWN
    coins = bitcoin.open_interest_usd / bitcoin.last_price
    change = change_pct(before.open_interest_coins, coins)
    return Finding(TREND.label(change, previous), f"{change:+.1f} % in 24 h")


def btc_realised_volatility(evidence: Evidence, previous: str | None) -> Finding:
    """The volatility of BTC's hourly returns over 24 hours, against its own of up to 30 days.

    Annualised without subtracting a mean. Its percentile among the same figure at each recorded
    hour: calm up to the 20th, normal, turbulent from the 80th; a label is left 5 points inside
    its edge. Unknown
    when an hour of the last day is missing, or with less than fourteen days to compare with.
    """
    hours = evidence.trailing.hours("BTC", since=evidence.reading.as_of - 2 * HOUR)
    known = evidence.trailing.volatility("BTC")
    if not hours or hours[-1].volatility_pct is None or len(known) < FORTNIGHT_OF_HOURS:
        return NOT_KNOWN
    swing = hours[-1].volatility_pct
    rank = ordered_percentile_rank(swing, known)
    value = f"{swing:.0f} % a year, percentile {rank:.0f} of {len(known)} hours"
    return Finding(VOLATILITY.label(rank, previous), value)
