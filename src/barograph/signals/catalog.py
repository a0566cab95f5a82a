"""The signals there are: always these, in this order (pure)."""

import logging
from collections.abc import Callable, Mapping
from inspect import getdoc

from msgspec import Struct

from barograph.macro.evidence import MacroEvidence
from barograph.markets.trailing import Evidence
from barograph.signals.macro_methods import btc_etf_flow, us_rates
from barograph.signals.methods import (
    btc_funding_regime,
    btc_long_accounts,
    btc_open_interest_trend,
    btc_realised_volatility,
    funding_breadth,
    liquidation_pressure,
)
from barograph.signals.records import NOT_KNOWN, UNKNOWN, Finding, Signal, Signals

log = logging.getLogger(__name__)


class Method(Struct, frozen=True):
    """A signal's stable key, its name, and how it is judged; what by, its two kinds say."""

    key: str
    name: str
    judge: Callable[..., Finding]

    @property
    def explanation(self) -> str:
        """The method in words: its docstring."""
        return getdoc(self.judge) or ""


class MarketMethod(Method, frozen=True):
    """Judged by a reading of the exchange and by the label before: no older than its feed."""

    judge: Callable[[Evidence, str | None], Finding]


class MacroMethod(Method, frozen=True):
    """Judged by daily figures, at whose age it looks itself, also while the exchange fails."""

    judge: Callable[[MacroEvidence], Finding]


MARKET_METHODS = (
    MarketMethod("btc-funding-regime", "BTC funding regime", btc_funding_regime),
    MarketMethod("funding-breadth", "Funding breadth", funding_breadth),
    MarketMethod("liquidation-pressure", "Liquidation pressure", liquidation_pressure),
    MarketMethod("btc-long-accounts", "BTC long accounts", btc_long_accounts),
    MarketMethod("btc-open-interest-trend", "BTC open-interest trend", btc_open_interest_trend),
    MarketMethod("btc-realised-volatility", "BTC realised volatility", btc_realised_volatility),
)
MACRO_METHODS = (
    MacroMethod("btc-etf-flow", "BTC ETF flow", btc_etf_flow),
    MacroMethod("us-rates", "US rates", us_rates),
)
METHODS: tuple[Method, ...] = (*MARKET_METHODS, *MACRO_METHODS)
BY_KEY = {method.key: method for method in METHODS}
DAILY = frozenset(method.key for method in MACRO_METHODS)
"""What rests on figures that come once a day, and is judged also while the exchange fails."""


def judge_all(evidence: Evidence, macro: MacroEvidence, previous: Mapping[str, str]) -> Signals:
    """Judge every signal; `previous` are the last labels by key."""
    at = evidence.reading.as_of
    market = [_judge(each, at, evidence, previous.get(each.key)) for each in MARKET_METHODS]
    return _signals(at, evidence.reading.source, macro, market)


def judge_macro(macro: MacroEvidence, venue: str, last: Signals | None) -> Signals:
    """Judge what rests on daily figures; the signals of the market stay as they were judged."""
    known = {} if last is None else {each.key: each for each in last.signals}
    market = [
        known.get(each.key, Signal(each.key, each.name, *NOT_KNOWN, macro.at))
        for each in MARKET_METHODS
    ]
    return _signals(macro.at, venue, macro, market)


def _signals(at: int, venue: str, macro: MacroEvidence, market: list[Signal]) -> Signals:
    others = [_judge(each, at, macro) for each in MACRO_METHODS]
    are_known = any(each.label != UNKNOWN for each in others)
    sources = dict.fromkeys([venue, *(macro.sources if are_known else [])])
    return Signals(at, "; ".join(sources), (*market, *others))


def _judge(method: Method, at: int, *seen: object) -> Signal:
    try:
        finding = method.judge(*seen)
    except Exception:
        # A mistake in a method must not stop measuring, nor the other signals.
        log.exception("signal cannot be judged", extra={"signal": method.key})
        finding = NOT_KNOWN
    return Signal(method.key, method.name, *finding, at)
