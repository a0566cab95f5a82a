"""The signals there are: always these, in this order (pure)."""

import logging
from collections.abc import Callable, Mapping
from inspect import getdoc
from typing import NamedTuple

from barograph.markets.trailing import Evidence
from barograph.signals.methods import (
    btc_funding_regime,
    btc_long_accounts,
    btc_open_interest_trend,
    btc_realised_volatility,
    funding_breadth,
    liquidation_pressure,
)
from barograph.signals.records import NOT_KNOWN, Finding, Signal, Signals

log = logging.getLogger(__name__)


class Method(NamedTuple):
    """A signal's stable key, its name, and how it is judged."""

    key: str
    name: str
    judge: Callable[[Evidence, str | None], Finding]

    @property
    def explanation(self) -> str:
        """The method in words: its docstring."""
        return getdoc(self.judge) or ""


METHODS = (
    Method("btc-funding-regime", "BTC funding regime", btc_funding_regime),
    Method("funding-breadth", "Funding breadth", funding_breadth),
    Method("liquidation-pressure", "Liquidation pressure", liquidation_pressure),
    Method("btc-long-accounts", "BTC long accounts", btc_long_accounts),
    Method("btc-open-interest-trend", "BTC open-interest trend", btc_open_interest_trend),
    Method("btc-realised-volatility", "BTC realised volatility", btc_realised_volatility),
)
BY_KEY = {method.key: method for method in METHODS}


def judge_all(evidence: Evidence, previous: Mapping[str, str]) -> Signals:
    """Judge every signal; `previous` are the last labels by key."""
    at = evidence.reading.as_of
    found = [(each, _judge(each, evidence, previous.get(each.key))) for each in METHODS]
    return Signals(
        at,
        evidence.reading.source,
        tuple(
            Signal(method.key, method.name, finding.label, finding.value, at)
            for method, finding in found
        ),
    )


def _judge(method: Method, evidence: Evidence, previous: str | None) -> Finding:
    try:
        return method.judge(evidence, previous)
    except Exception:
        # A mistake in a method must not stop measuring, nor the other signals.
        log.exception("signal cannot be judged", extra={"signal": method.key})
        return NOT_KNOWN
