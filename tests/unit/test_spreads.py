"""The spread of funding between venues: compared with the same venues, or unknown."""

import re

import pytest

from barograph.briefs.rules import MARKET_RULES, funding_spread
from barograph.briefs.texts import write_brief
from barograph.kit.timestamps import DAY, HOUR
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import FORTNIGHT_OF_WINDOWS as FORTNIGHT
from barograph.markets.evidence import (
    FundingSpread,
    MarketEvidence,
    SettledRecord,
    funding_spreads,
)
from barograph.markets.settlements import SHORTEST_WINDOW as WINDOW
from barograph.signals.methods import cross_venue_funding, judge_all
from barograph.signals.records import UNKNOWN, Signal
from barograph.venues.records import Perpetuals
from support.evidence import AT, closed, evidence
from support.markets import BTC, SOURCE

END = AT // WINDOW * WINDOW


def recorded(count: int, **newest: float) -> SettledRecord:
    """Windows of Bybit and Binance with spreads of 0.001 %, 0.002 % and so on, before the newest.

    The newest window is that of all these venues.
    """
    past = {END - (number + 1) * WINDOW: 0.001 * (number + 1) for number in range(count)}
    windows = {"bybit": dict.fromkeys(past, 0.0), "binance": past}
    return {"BTC": {venue: {**windows.get(venue, {}), END: rate} for venue, rate in newest.items()}}


def now(record: SettledRecord, as_of: int = AT) -> dict[str, FundingSpread]:
    readings = {venue: Perpetuals(as_of, f"source of {venue}", (BTC,)) for venue in record["BTC"]}
    return funding_spreads(readings, record)


def seen(record: SettledRecord) -> MarketEvidence:
    return evidence(spreads=now(record), closed_hour=closed())


@pytest.mark.parametrize(
    ("binance", "label"),
    [(0.003, "narrow"), (0.02, "typical"), (0.05, "wide"), (-0.05, "wide"), (0.0, "equal")],
)
def test_a_spread_is_judged_by_its_percentile_and_zero_is_a_state_of_its_own(
    binance: float, label: str
) -> None:
    found = cross_venue_funding(seen(recorded(FORTNIGHT, bybit=0.0, binance=binance)), None)

    assert found.label == label
    if binance:
        high, low = ("Binance", "Bybit") if binance > 0 else ("Bybit", "Binance")
        more = f"{high} settled {abs(binance):.4f} percentage points more than {low} over 8 h"
        assert more in found.value
        compared = r"((higher|lower) than \d+(\.\d)? %|the (lowest|highest)) of the last 43 windows"
        assert re.search(compared, found.value)
    else:
        assert found.value == "Bybit and Binance settled the same over 8 h"


def test_only_the_same_windows_of_the_same_venues_are_compared() -> None:
    three = now(recorded(60, bybit=0.0, binance=0.1, hyperliquid=0.2))["BTC"]
    two = now(recorded(100, bybit=0.0, binance=0.1))["BTC"]

    assert (three.windows, two.end) == ([0.2], END)
    assert len(two.windows) == 90  # 30 days
    assert (three.ends, three.spread_pct) == (("bybit", "hyperliquid"), 0.2)


def test_late_reports_leave_the_window_before_and_older_ones_none() -> None:
    record = recorded(60, bybit=0.0, binance=0.1)

    assert now(record, END + 2 * WINDOW - 1)["BTC"].end == END
    assert now(record, END + 2 * WINDOW) == {}

    without = {"BTC": {**record["BTC"], "hyperliquid": {END - 2 * WINDOW: 0.5}}}
    assert now(without)["BTC"].rates == {"bybit": 0.0, "binance": 0.1}


@pytest.mark.parametrize(
    ("spreads", "basis"),
    [
        (None, "this instance reads only one"),
        ({}, "Fewer than two venues"),
        (now(recorded(FORTNIGHT - 2, bybit=0.0, binance=0.1)), "needs 42 windows of 8 hours"),
    ],
)
def test_without_two_venues_and_fourteen_days_the_signal_is_unknown_and_says_why(
    spreads: dict[str, FundingSpread] | None, basis: str
) -> None:
    last = Signal("cross-venue-funding", "n", "wide", "v", AT - HOUR)
    found = cross_venue_funding(evidence(spreads=spreads), last)

    assert found.label == UNKNOWN
    assert basis in (found.basis or "")
    assert not list(funding_spread(evidence(spreads=spreads, closed_hour=closed())))


def test_signals_name_every_venue_that_they_compare() -> None:
    judged = judge_all(seen(recorded(FORTNIGHT, bybit=0.0, binance=0.1)), NO_FIGURES, {})

    assert judged.source == f"{SOURCE}; source of bybit; source of binance"


def test_a_spread_at_the_edge_of_its_history_is_a_brief_that_names_both_venues() -> None:
    rule = next(each for each in MARKET_RULES if each.id == "funding-spread")
    found = seen(recorded(80, bybit=-0.01, binance=0.07))
    (draft,) = funding_spread(found)
    brief = write_brief(rule, draft, found)

    assert draft.subject == "btc"
    assert "-0.0100 % at Bybit" in brief.summary
    assert "+0.0700 % at Binance" in brief.summary
    assert brief.source == "source of bybit; source of binance"
    assert (rule.category, rule.cooldown) == ("funding", 2 * DAY)
    assert not list(funding_spread(seen(recorded(80, bybit=-0.01, binance=0.06))))
