"""The method of each signal (pure). The site shows the docstrings as the signal's description.

A method judges by the evidence and its own last signal. Without enough evidence it returns
`unknown`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import getdoc
from typing import NamedTuple, get_args

from msgspec import Struct

from barograph.kit.text import percentile_text, rate, usd
from barograph.kit.timestamps import HOUR
from barograph.macro.evidence import (
    CURVE_MOVES,
    FlowRegime,
    MacroEvidence,
    flow_regime,
    flow_week,
    yield_curve,
)
from barograph.markets.cross_changes import FLAT_COINS_PCT
from barograph.markets.evidence import (
    FORTNIGHT_OF_HOURS,
    FORTNIGHT_OF_WINDOWS,
    WEEK_OF_HOURS,
    MarketEvidence,
    backfill_basis,
    coins_change_pct,
    compared_period,
    percentile_rank,
)
from barograph.markets.regime import EDGES_PCT, LABELS
from barograph.markets.view import UNAVAILABLE
from barograph.signals.records import NOT_KNOWN, UNKNOWN, Signal, SignalResult, Signals
from barograph.venues.registry import VENUES

log = logging.getLogger(__name__)

NOT_AT_THIS_VENUE = NOT_KNOWN._replace(basis=f"{UNAVAILABLE.capitalize()}.")
"""For what the venue in use doesn't publish."""


HOLD = HOUR
"""A label goes back towards the middle after this time, and is not continued after a longer gap."""


class Bands(NamedTuple):
    """Labels from low to high, the edges between them, and the index of the middle label.

    An edge belongs to the label further from the middle. Away from the middle, or across it, a
    label follows its value at once. It goes back once every value that we judged for `hold` was
    more than `margin` behind its edge. Both sides of the middle are treated alike.
    """

    labels: Sequence[str]
    edges: Sequence[float]
    middle: int
    margin: float
    hold: int = HOLD

    def own_label(self, value: float) -> str:
        """The label of a value on its own."""
        return self.labels[self._index(value, 0)]

    def label(self, value: float, at: int, last: Signal | None) -> tuple[str, int | None]:
        """The label of a value at `at`, and since when it waits to go back.

        Without a last label, after `unknown` and after a gap, the value decides alone.
        """
        wanted, held = self._index(value, 0), self._index(value, self.margin)
        if last is None or last.label not in self.labels or not 0 <= at - last.as_of <= HOLD:
            return self.labels[wanted], None
        here = self.labels.index(last.label)
        if self.middle < here and wanted < here:
            back = min(here, max(held, wanted))
        elif here < self.middle and here < wanted:
            back = max(here, min(held, wanted))
        else:
            return self.labels[wanted], None
        if back == here or (back - self.middle) * (here - self.middle) < 0:
            return self.labels[back], None
        since = at if last.back_since is None else last.back_since
        return (self.labels[back], None) if at - since >= self.hold else (last.label, since)

    def _index(self, value: float, margin: float) -> int:
        """The label's index when every edge is `margin` closer to the middle."""
        index = 0
        for number, edge in enumerate(self.edges):
            index += value > edge + margin if number < self.middle else value >= edge - margin
        return index


_, SHORT_EDGE_PCT, LONG_EDGE_PCT, _ = EDGES_PCT
BREADTH = Bands(("shorts-pay", "balanced", "longs-pay"), (-20, 20), middle=1, margin=3)
PRESSURE = Bands(("quiet", "normal", "elevated", "extreme"), (20, 90, 99), middle=1, margin=10)
POSITIONING = Bands(("short-extreme", "typical", "long-extreme"), (5, 95), middle=1, margin=10)
TREND = Bands(
    ("falling", "flat", "rising"), (-FLAT_COINS_PCT, FLAT_COINS_PCT), middle=1, margin=2.5
)
SPREAD = Bands(("narrow", "typical", "wide"), (10, 90), middle=1, margin=10)
EQUAL = "equal"
"""The compared venues settled the same."""
VOLATILITY = Bands(("calm", "normal", "turbulent"), (20, 80), middle=1, margin=10)


def btc_funding_regime(evidence: MarketEvidence, _last: Signal | None) -> SignalResult:
    """The regime of the BTC perpetual's funding rate, converted to eight hours.

    The regime is short-crowded at -0.03 % or less, short-leaning below -0.005 %, long-leaning from
    +0.015 %, long-crowded from +0.03 %, neutral in between. On the way back towards neutral, the
    rate must pass the edge by 0.0025 %. A new label must hold for 15 minutes before it takes
    effect.
    """
    regime = evidence.regime
    if regime.funding_8h_pct is None:
        return NOT_KNOWN
    return SignalResult(regime.label, f"{rate(regime.funding_8h_pct)} per 8 h")


def funding_breadth(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """The share of perpetuals with high funding, less the share with clearly negative funding.

    Each contract's rate is converted to eight hours. The value is the share of contracts at +0.015
    % or more, less the share at -0.005 % or less, in points: longs-pay from +20, shorts-pay from
    -20, balanced in between. The label goes back to balanced only after the value has been more
    than 3 points inside the edge for 60 minutes.
    """
    contracts = evidence.reading.contracts
    if not contracts:
        return NOT_KNOWN
    rates = [perpetual.funding_8h_pct for perpetual in contracts]
    above = 100 * sum(each >= LONG_EDGE_PCT for each in rates) / len(rates)
    below = 100 * sum(each <= SHORT_EDGE_PCT for each in rates) / len(rates)
    value = (
        f"{above:.0f} % of {len(rates)} contracts have high funding, {below:.0f} % clearly "
        "negative funding"
    )
    return _banded(BREADTH, above - below, value, evidence, last)


def liquidation_pressure(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """Liquidations in the last 60 minutes, compared with every recorded hour of the last 30 days.

    The label follows the percentile of the liquidations' USD total among all hours that we watched:
    quiet up to the 20th, elevated from the 90th, extreme from the 99th, normal in between. The
    label goes back towards normal only after the percentile has been more than 10 points inside the
    edge for 60 minutes. The signal is unknown if we watched too little of the last hour, or fewer
    than 168 of the hours before.
    """
    known = evidence.trailing.liquidation_totals(evidence.min_watched_pct)
    if evidence.lacks_liquidations:
        return NOT_AT_THIS_VENUE
    if len(known) < WEEK_OF_HOURS:
        return _too_few(known, WEEK_OF_HOURS, "hours that we watched ourselves")
    if evidence.last_hour.watched_pct < evidence.min_watched_pct:
        return NOT_KNOWN
    total = evidence.last_hour.total_usd
    covered = evidence.trailing.liquidation_hours(evidence.min_watched_pct)
    period = compared_period(covered, evidence.reading.as_of)
    value = f"{usd(total)} in an hour, {percentile_text(total, known, period)}"
    return _banded(PRESSURE, percentile_rank(total, known), value, evidence, last)


def btc_long_accounts(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """The share of accounts that are long BTC, compared with its hourly values of the last 30 days.

    The label follows the percentile of the share among its hourly values of the last 30 days:
    long-extreme from the 95th, short-extreme up to the 5th, typical in between. The label goes back
    to typical only after the percentile has been more than 10 points inside the edge for 60
    minutes. The share counts accounts, not money. The signal is unknown without a fresh value, or
    with less than fourteen days of hourly data.
    """
    if evidence.lacks_long_accounts:
        return NOT_AT_THIS_VENUE
    share = evidence.long_account_pct.get("BTC")
    known = evidence.trailing.long_accounts("BTC")
    if len(known) < FORTNIGHT_OF_HOURS:
        return _too_few(known, FORTNIGHT_OF_HOURS)
    if share is None:
        return NOT_KNOWN
    compared = [
        hour for hour in evidence.trailing.hours("BTC") if hour.long_account_pct is not None
    ]
    period = compared_period(compared, evidence.reading.as_of)
    value = f"{share:.1f} % of accounts, {percentile_text(share, known, period)}"
    rank, basis = percentile_rank(share, known), backfill_basis(compared)
    return _banded(POSITIONING, rank, value, evidence, last, basis=basis)


def btc_open_interest_trend(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """The 24-hour change in BTC open interest, measured in coins so that the price has no effect.

    The trend is rising from +5 %, falling from -5 %, flat in between. The label goes back to flat
    only after the change has been more than 2.5 points inside the edge for 60 minutes. We compare
    with our own reading from within 5 minutes of 24 hours ago. Without one, the signal is unknown.
    """
    change = coins_change_pct(evidence.day_before("BTC"), evidence.majors.get("BTC"))
    if change is None:
        return NOT_KNOWN
    return _banded(TREND, change, f"{change:+z.1f} % in coins in 24 h", evidence, last)


def btc_realised_volatility(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """The 24-hour volatility of BTC's hourly returns, compared with its values of the last 30 days.

    The volatility is annualised without subtracting the mean. One price is left out, because it may
    be wrong, if the moves to it and away from it exceed three standard deviations and one takes
    back at least half of the other. For the same reason, a sudden move in the first or last hour
    counts only up to that limit.
    The label follows the percentile among the values computed for each recorded hour: calm up to
    the 20th, turbulent from the 80th, normal in between. The label goes back to normal only after
    the percentile has been more than 10 points inside the edge for 60 minutes. The signal is
    unknown if an hour of the last day is missing, or with less than fourteen days of hourly data.
    """
    hours = evidence.trailing.hours("BTC", since=evidence.reading.as_of - 2 * HOUR)
    known = evidence.trailing.volatility("BTC")
    if len(known) < FORTNIGHT_OF_HOURS:
        return _too_few(known, FORTNIGHT_OF_HOURS)
    if not hours or hours[-1].volatility_pct is None:
        return NOT_KNOWN
    swing = hours[-1].volatility_pct
    compared = [hour for hour in evidence.trailing.hours("BTC") if hour.volatility_pct is not None]
    period = compared_period(compared, evidence.reading.as_of)
    value = f"{swing:.0f} % annualised, {percentile_text(swing, known, period)}"
    rank, basis = percentile_rank(swing, known), backfill_basis(compared)
    return _banded(VOLATILITY, rank, value, evidence, last, basis=basis)


def cross_venue_funding(evidence: MarketEvidence, last: Signal | None) -> SignalResult:
    """How far settled BTC funding differs between venues, compared with the last 30 days.

    For each venue we add up the rates that it settled in the same eight hours, which end at 00:00,
    08:00 or 16:00 UTC. The value is the highest sum less the lowest. The label is equal if the
    venues settled the same. Otherwise it follows the percentile of the value among all such windows
    of the last 30 days: narrow up to the 10th, wide from the 90th, typical in between. The label
    goes back to typical only after the percentile has been more than 10 points inside the edge for
    60 minutes. The signal is unknown if fewer than two venues with a fresh reading have reported
    these hours, or with less than fourteen days of such windows.
    """
    if evidence.spreads is None:
        return NOT_KNOWN._replace(basis="It compares venues, and this instance reads only one.")
    spread = evidence.spreads.get("BTC")
    if spread is None:
        return NOT_KNOWN._replace(basis="Fewer than two venues report settled BTC funding.")
    if spread.spread_pct == 0:
        *others, last_one = (VENUES[venue].title for venue in spread.rates)
        return SignalResult(EQUAL, f"{', '.join(others)} and {last_one} settled the same over 8 h")
    count = len(spread.windows)
    if count < FORTNIGHT_OF_WINDOWS:
        return _too_few(spread.windows, FORTNIGHT_OF_WINDOWS, "windows of 8 hours")
    low, high = (VENUES[end].title for end in spread.ends)
    period = f"the last {count} windows of 8 hours"
    value = (
        f"{high} settled {spread.spread_pct:.4f} percentage points more than {low} over 8 h; the "
        f"difference is {percentile_text(spread.spread_pct, spread.windows, period)}"
    )
    return _banded(SPREAD, spread.rank, value, evidence, last)


def _banded(
    bands: Bands,
    number: float,
    value: str,
    evidence: MarketEvidence,
    last: Signal | None,
    *,
    basis: str | None = None,
) -> SignalResult:
    """The result of a method by its number; the value says so if an earlier label still holds."""
    label, back_since = bands.label(number, evidence.reading.as_of, last)
    own = bands.own_label(number)
    held = "" if own == label else f", not yet back to {own}"
    return SignalResult(label, value + held, basis, back_since)


def _too_few(known: Sequence[object], needed: int, what: str = "hours") -> SignalResult:
    return NOT_KNOWN._replace(basis=f"It needs {needed} {what}, and we have {len(known)}.")


# Figures change once per day and are judged every minute, so the result is cached.
_flow_regime = lru_cache(maxsize=1)(flow_regime)


def btc_etf_flow(evidence: MacroEvidence) -> SignalResult:
    """Net flow into the covered BTC ETFs over five days, in percent of their assets.

    The label is accumulation from +0.5 % with inflows on four of the five days, distribution from
    -0.5 % with outflows on four of them, mixed otherwise. The first two last until the flow is back
    within 0.25 % of zero. The value names the newest day and the funds that count. The signal is
    unknown with less than 20 days of figures, if a flow of the five days is missing, or if the
    newest day is more than two US business days old.
    """
    week = flow_week(evidence)
    if week is None:
        return NOT_KNOWN
    newest = week.days[-1].day
    value = (
        f"{week.share_pct:+.2f} % of assets in {len(week.days)} days to {newest} "
        f"({week.coverage_text})"
    )
    return SignalResult(_flow_regime(evidence.etf), value)


def us_rates(evidence: MacroEvidence) -> SignalResult:
    """How the 10-year US Treasury par yield and the slope of the curve moved over 20 days of data.

    The slope is the 10-year yield less the 3-month yield. Each is compared with its usual move over
    20 days: 5.6 times the mean size of its last 60 daily changes, which is one standard deviation
    of a random walk. The label is bear if the 10-year yield rose by its usual move or more, bull if
    it fell by as much; steepening and flattening likewise for the slope; consolidation if neither
    moved that far. The value names the newest day. The signal is unknown with less than 61 days of
    both yields, or if the newest day is more than two US business days old.
    """
    now = yield_curve(evidence)
    if now is None:
        return NOT_KNOWN
    change, slope_change = now.us10y_change, now.slope_change
    value = (
        f"10y {now.us10y:.2f} %, {100 * change.points:+.0f} bp in 20 days ({abs(change.moves):.2f} "
        f"times the usual move); slope {100 * now.slope:+.0f} bp, {100 * slope_change.points:+.0f} "
        f"bp in 20 days ({abs(slope_change.moves):.2f} times); as of {now.day}"
    )
    return SignalResult(now.move, value)


class Method(Struct, frozen=True):
    """A signal's stable key, its name, and the function that judges it."""

    key: str
    name: str
    judge: Callable[..., SignalResult]
    labels: Sequence[str]
    """What it can say besides `unknown`."""

    @property
    def explanation(self) -> tuple[str, str]:
        """The method in one sentence, and its rules: the docstring's paragraphs."""
        sentence, _, rules = (getdoc(self.judge) or "").partition("\n\n")
        return " ".join(sentence.split()), " ".join(rules.split())


MARKET_METHODS = (
    Method("btc-funding-regime", "BTC funding regime", btc_funding_regime, LABELS),
    Method("funding-breadth", "Funding breadth", funding_breadth, BREADTH.labels),
    Method("liquidation-pressure", "Liquidation pressure", liquidation_pressure, PRESSURE.labels),
    Method("btc-long-accounts", "BTC long accounts", btc_long_accounts, POSITIONING.labels),
    Method(
        "btc-open-interest-trend", "BTC open-interest trend", btc_open_interest_trend, TREND.labels
    ),
    Method(
        "btc-realised-volatility",
        "BTC realised volatility",
        btc_realised_volatility,
        VOLATILITY.labels,
    ),
    Method(
        "cross-venue-funding", "Cross-venue funding", cross_venue_funding, (*SPREAD.labels, EQUAL)
    ),
)
"""These judge by market evidence and their last signal."""

MACRO_METHODS = (
    Method("btc-etf-flow", "BTC ETF flow", btc_etf_flow, get_args(FlowRegime)),
    Method("us-rates", "US rates", us_rates, CURVE_MOVES),
)
"""These judge by daily figures and check their age, also while the exchange fails."""

METHODS = (*MARKET_METHODS, *MACRO_METHODS)
CHANGING = frozenset({"btc-funding-regime", "liquidation-pressure", "btc-open-interest-trend"})
"""The signals whose labels are judged between two full hours of a replay. Volatility is by the
hour, and the others change slowly."""

BY_KEY = {method.key: method for method in METHODS}
DAILY = frozenset(method.key for method in MACRO_METHODS)
"""The signals from daily figures, which are judged also while the exchange fails."""


def judge_all(
    evidence: MarketEvidence, macro: MacroEvidence, last: Mapping[str, Signal]
) -> Signals:
    """Judge every signal; `last` holds the last signals by key."""
    at = evidence.reading.as_of
    market = [_judge(method, at, evidence, last.get(method.key)) for method in MARKET_METHODS]
    spread = (evidence.spreads or {}).get("BTC")
    venues = [evidence.reading.source, *([] if spread is None else spread.sources)]
    return _signals(at, venues, macro, market)


def judge_changing(evidence: MarketEvidence, last: Signals) -> Signals:
    """Judge the signals of `CHANGING`; the others stay as they were."""
    at = evidence.reading.as_of
    signals = (
        _judge(BY_KEY[signal.key], at, evidence, signal) if signal.key in CHANGING else signal
        for signal in last.signals
    )
    return Signals(at, last.source, tuple(signals))


def judge_macro(macro: MacroEvidence, venue: str, last: Signals | None) -> Signals:
    """Judge the signals from daily figures; the market's signals stay as they were."""
    known = {} if last is None else {signal.key: signal for signal in last.signals}
    market = [
        known.get(method.key, _signal(method, NOT_KNOWN, macro.at)) for method in MARKET_METHODS
    ]
    return _signals(macro.at, [venue], macro, market)


def _signals(at: int, venues: Sequence[str], macro: MacroEvidence, market: list[Signal]) -> Signals:
    others = [_judge(method, at, macro) for method in MACRO_METHODS]
    are_known = any(other.label != UNKNOWN for other in others)
    sources = dict.fromkeys([*venues, *(macro.sources if are_known else [])])
    return Signals(at, "; ".join(sources), (*market, *others))


def _judge(method: Method, at: int, *seen: object) -> Signal:
    try:
        finding = method.judge(*seen)
    except Exception:
        # A bug in one method must not stop the measuring or the other signals.
        log.exception("signal cannot be judged", extra={"signal": method.key})
        finding = NOT_KNOWN
    return _signal(method, finding, at)


def _signal(method: Method, result: SignalResult, at: int) -> Signal:
    label, value, basis, back_since = result
    return Signal(method.key, method.name, label, value, at, basis, back_since)
