"""The spread of funding between venues: compared with the same venues, or unknown."""

import re

import pytest

from barograph.briefs.rules import MARKET_RULES, funding_spread
from barograph.briefs.texts import write_brief
from barograph.kit.timestamps import DAY, HOUR
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import FundingSpread, MarketEvidence, SpreadRecord, funding_spreads
from barograph.markets.records import Perpetuals
from barograph.signals.methods import cross_venue_funding, judge_all
from barograph.signals.records import UNKNOWN, Signal
from support.evidence import AT, FORTNIGHT, closed, evidence
from support.markets import BTC, SOURCE, changed


def recorded(count: int, venues: tuple[str, ...] = ("bybit", "binance")) -> SpreadRecord:
    """Hours whose spreads between the first and the last venue are 0.001 %, 0.002 % and so on."""
    record = SpreadRecord()
    for number in range(count):
        for place, venue in enumerate(venues):
            rate = 0.001 * (number + 1) * place / (len(venues) - 1)
            record.add(venue, "BTC", AT - (number + 1) * HOUR, rate)
    return record


def now(record: SpreadRecord, **rates: float) -> dict[str, FundingSpread]:
    readings = {
        venue: Perpetuals(AT, f"source of {venue}", (changed(BTC, funding_rate_pct=rate),))
        for venue, rate in rates.items()
    }
    return funding_spreads(readings, record)


def seen(record: SpreadRecord, **rates: float) -> MarketEvidence:
    return evidence(spreads=now(record, **rates), closed_hour=closed())


@pytest.mark.parametrize(
    ("binance", "label"), [(0.01, "narrow"), (0.2, "typical"), (0.31, "wide"), (-0.31, "wide")]
)
def test_a_spread_is_judged_by_its_percentile(binance: float, label: str) -> None:
    found = cross_venue_funding(seen(recorded(FORTNIGHT), bybit=0.0, binance=binance), None)

    assert found.label == label
    assert f"{abs(binance):.4f} % per 8 h" in found.value
    assert re.search(r"higher than (\d+(\.\d)? %|in all) of 336 hours", found.value)


def test_hours_without_one_of_the_venues_do_not_count() -> None:
    record = recorded(400)
    for number in range(20):
        record.add("hyperliquid", "BTC", AT - (number + 1) * HOUR, 5.0, is_backfilled=number == 0)

    three = now(record, bybit=0.0, binance=0.1, hyperliquid=0.2)["BTC"]
    two = now(record, bybit=0.0, binance=0.1)["BTC"]

    assert (len(three.hours), len(two.hours)) == (20, 400)
    assert (three.ends, three.spread_pct) == (("bybit", "hyperliquid"), 0.2)
    assert sum(each.is_backfilled for each in three.hours) == 1


@pytest.mark.parametrize(
    ("spreads", "basis"),
    [
        (None, "this instance reads only one"),
        ({}, "Fewer than two venues"),
        (now(recorded(FORTNIGHT - 1), bybit=0.0, binance=0.1), "needs 336 hours of the same"),
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
    judged = judge_all(seen(recorded(FORTNIGHT), bybit=0.0, binance=0.1), NO_FIGURES, {})

    assert judged.source == f"{SOURCE}; source of bybit; source of binance"


def test_a_spread_at_the_edge_of_its_history_is_a_brief_that_names_both_venues() -> None:
    rule = next(each for each in MARKET_RULES if each.id == "funding-spread")
    found = seen(recorded(400), bybit=-0.01, binance=0.385)
    (draft,) = funding_spread(found)
    brief = write_brief(rule, draft, found)

    assert draft.subject == "btc"
    assert "-0.0100 % at Bybit" in brief.summary
    assert "+0.3850 % at Binance" in brief.summary
    assert brief.source == "source of bybit; source of binance"
    assert (rule.category, rule.cooldown) == ("funding", 2 * DAY)
    assert not list(funding_spread(seen(recorded(400), bybit=-0.01, binance=0.37)))
