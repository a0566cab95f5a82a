"""Movers: large enough contracts, the largest change first, in either direction."""

from typing import Any

import pytest

from barograph.kit.timestamps import DAY
from barograph.markets.cross import VenueFacts, cross_market
from barograph.markets.last_known import LastKnown, with_reading
from barograph.markets.samples import LiquidatedHour
from barograph.markets.symbols import index_of
from barograph.markets.view import FreshnessLimits, MarketView
from barograph.site.coin_text import market_totals
from barograph.site.home_content import (
    FLOOR_USD,
    SHOWN,
    Mover,
    MoverList,
    change_text,
    day_movers,
    hour_movers,
)
from barograph.venues.records import Frame, PastValues, Perpetual, Perpetuals
from barograph.venues.registry import HYPERLIQUID, VENUES
from support.clock import START
from support.markets import BTC, changed, reading

LIMITS = FreshnessLimits(
    perpetuals=30_000, long_accounts=1_800_000, liquidations=60_000, min_coverage_pct=95.0
)


def a_contract(base: str, **fields: Any) -> Perpetual:
    held = {"open_interest_usd": float(FLOOR_USD), "open_interest_coins": 1.0, "last_price": 100.0}
    known = {**held, "funding_rate_pct": 0.01, **fields}
    return changed(BTC, base=base, contract=f"{base}USDT", **known)


def a_view(*contracts: Perpetual, before: dict[str, PastValues] | None = None) -> MarketView:
    listed = reading(contracts=contracts)
    ago = {f"{base}USDT": values for base, values in (before or {}).items()}
    return MarketView(
        START, LIMITS, listed, index_of(listed), {}, None, None, Frame(START - DAY, ago)
    )


def a_market(
    *contracts: Perpetual, before: dict[str, PastValues] | None = None
) -> tuple[MoverList, ...]:
    view = a_view(*contracts, before=before)
    facts = VenueFacts(VENUES["bybit"], view.perpetuals, day_ago=view.day_ago)
    market = cross_market({"bybit": facts}, LIMITS, START)
    return day_movers(market)


def past(price: Any, interest: float | None = None, rate: float | None = None) -> Any:
    return PastValues(price, interest and 1e9, interest, rate)


def test_falls_count_as_much_as_rises_and_no_change_is_no_move() -> None:
    bases = [*"ABCDEFG"]
    priced = {base: past(100.0 - n) for n, base in enumerate(bases)} | {"G": past(200.0)}

    by_price, by_interest, by_funding = a_market(*map(a_contract, bases), before=priced)

    assert [each.name for each in by_price.movers] == ["G", "F", "E", "D", "C"]
    assert by_price.movers[0] == Mover("G", "/markets/G", "-50.0 %", "tint-down-4", "100.000")
    assert (by_interest.movers, by_funding.movers) == ([], [])
    assert by_funding.otherwise == "We have no reading from 24 hours ago."


def test_dust_is_no_mover() -> None:
    small = a_contract("DUST", open_interest_usd=FLOOR_USD - 0.01)
    unknown = a_contract("NONE", open_interest_usd=None)
    before = {"DUST": past(1.0, 1.0, 1.0), "NONE": past(1.0, 1.0, 1.0)}

    assert not any(each.movers for each in a_market(small, unknown, before=before))


def test_funding_is_compared_with_the_rate_of_a_day_ago() -> None:
    four_hourly = a_contract("A", funding_rate_pct=-0.02, funding_interval_hours=4)
    before = {"A": past(None, 2.0, 0.01), "B": past(None, None, 0.0)}

    _, by_interest, by_funding = a_market(four_hourly, a_contract("B"), before=before)

    assert by_funding.movers == [
        Mover("A", "/markets/A", "-0.0500 pp", "tint-down-3", "-0.0400 %"),
        Mover("B", "/markets/B", "+0.0100 pp", "tint-up-1", "+0.0100 %"),
    ]
    assert by_interest.movers == [Mover("A", "/markets/A", "-50.0 %", "tint-down-4", "$10.00M")]


def test_a_funding_move_is_the_same_while_a_venue_is_away() -> None:
    rates = {"bybit": (0.02, 0.01), "hyperliquid": (-0.05, 0.03)}
    now, frames, seen = START, {}, list[object]()
    for venue, (_, before) in rates.items():
        frames[venue] = Frame(START - DAY, {"AUSDT": past(100.0, 1.0, before)})
    for age in (0, LIMITS.perpetuals):
        facts = {}
        for venue, (pct, _) in rates.items():
            at = now - (age if venue == "hyperliquid" else 0)
            listed = Perpetuals(at, venue, (a_contract("A", funding_rate_pct=pct),), venue=venue)
            known = with_reading(LastKnown(), listed)
            facts[venue] = VenueFacts(VENUES[venue], listed, day_ago=frames[venue], known=known)
        market = cross_market(facts, LIMITS, now)
        seen.append((day_movers(market)[2].movers[0].chip, market_totals(market).funding_8h_pct))

    assert seen == [("-0.0350 pp", pytest.approx(-0.015))] * 2


def test_liquidations_of_the_hour_are_summed_by_symbol_with_their_coverage() -> None:
    view = a_view(a_contract("BTC"), changed(a_contract("BTC"), contract="BTCPERP"))
    sums = {"BTCUSDT": (300.0, 0.0), "BTCPERP": (0.0, 100.0), "GONEUSDT": (0.0, 500.0)}

    found = hour_movers(view, LiquidatedHour(START, 99.5, sums))

    assert found.movers == [
        Mover("GONEUSDT", None, "$500", "", "0 % longs"),
        Mover("BTC", "/markets/BTC", "$400", "", "75 % longs"),
    ]
    disputed = hour_movers(view, LiquidatedHour(START, 99.5, sums, is_disputed=True))
    assert {(each.tint, each.rest) for each in disputed.movers} == {("", "sides disputed")}
    assert found.note == "20:20\N{EN DASH}21:20 UTC, 99.5 % covered"
    many = {f"C{n}": (float(n), 0.0) for n in range(2 * SHOWN)}
    assert len(hour_movers(view, LiquidatedHour(START, 100.0, many)).movers) == SHOWN


def test_an_hour_without_numbers_says_why() -> None:
    here = a_view(a_contract("BTC"))
    elsewhere = here._replace(limits=LIMITS._replace(primary=HYPERLIQUID))
    hours = {
        "Recorded data is temporarily unavailable.": hour_movers(here, None),
        "Unknown: we did not cover this hour.": hour_movers(here, LiquidatedHour(START, 0.0, {})),
        "Nothing was liquidated.": hour_movers(here, LiquidatedHour(START, 100.0, {})),
        "Liquidations are unavailable while this venue is in use.": hour_movers(
            elsewhere, LiquidatedHour(START, 100.0, {"BTCUSDT": (1.0, 1.0)})
        ),
    }

    for words, hour in hours.items():
        assert (list(hour.movers), hour.otherwise) == ([], words)


def test_a_change_that_rounds_to_nothing_has_no_sign() -> None:
    said = [change_text(change) for change in (-0.04, 0.0, 0.05, -1.25)]
    assert said == ["0.0 %", "0.0 %", "+0.1 %", "-1.2 %"]
