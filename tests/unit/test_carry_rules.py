"""What positions earned: the best pair, its change, and venues that are down or left out."""

from typing import Any

import pytest

from barograph.kit.timestamps import iso_timestamp
from barograph.markets.carry import CarryCoin, carry
from barograph.markets.cross import VenueFacts, cross_market
from barograph.markets.disputes import Dispute
from barograph.markets.last_known import LastKnown, with_reading
from barograph.markets.settlements import SHORTEST_WINDOW, SettledSums, SettledWindows
from barograph.markets.view import FreshnessLimits
from barograph.venues.records import Perpetual, Perpetuals
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID, VENUES
from support.markets import BTC, changed

NOW, LIMITS = 1_700_000_000_000, FreshnessLimits(30_000)
END = NOW // SHORTEST_WINDOW * SHORTEST_WINDOW
WEEK = {BYBIT: (0.2, 0.1), HYPERLIQUID: (0.5, 0.6), BINANCE: (0.1, 0.3)}
"""What each venue settled in 7 days, and in the 7 days before."""


def sums(venue: str, end: int = END) -> SettledSums:
    now, before = WEEK[venue]
    return SettledSums(end, 0.01, 0.03, now, before=(None, None, before, None))


def contract(venue: str, mark: float = 100.0) -> Perpetual:
    return changed(BTC, contract=VENUES[venue].contract("BTC"), last_price=mark, mark_price=mark)


def facts(venue: str, *, age: int = 0, mark: float = 100.0, **fields: Any) -> VenueFacts:
    reading = Perpetuals(NOW - age, venue, (contract(venue, mark),), venue=venue)
    settled = fields.pop("settled", (sums(venue),))
    windows = SettledWindows({VENUES[venue].contract("BTC"): settled})
    known = with_reading(LastKnown(), reading)
    return VenueFacts(VENUES[venue], reading, settled=windows, known=known, **fields)


def btc(window: str = "7d", **others: VenueFacts) -> CarryCoin:
    known = {venue: others.get(venue, facts(venue)) for venue in WEEK}
    (found,) = carry(cross_market(known, LIMITS, NOW), window)
    return found


def pair(coin: CarryCoin) -> tuple[str | None, str | None, float | None]:
    return coin.shortVenue, coin.longVenue, coin.pairPct


YEARLY = (20.85714286, 5.21428571)
"""0.4 % in 7 days, and 0.1 % more than before."""


def test_the_best_pair_is_short_where_funding_was_highest_and_its_change_is_of_the_same_two() -> (
    None
):
    found = btc()

    assert pair(found) == (HYPERLIQUID, BINANCE, 0.4)
    assert (found.pairYearlyPct, found.pairYearlyPctChange) == YEARLY
    assert (found.settledTo, found.missing) == (iso_timestamp(END), [])
    assert [each.settledPct for each in found.venues] == [0.2, 0.5, 0.1]


def test_without_the_window_before_there_is_a_pair_but_no_change() -> None:
    found = btc(binance=facts(BINANCE, settled=(SettledSums(END, 0.01, 0.03, 0.1),)))

    assert (found.pairPct, found.pairYearlyPctChange) == (0.4, None)


def test_a_venue_that_goes_down_changes_nothing_while_it_covers_the_same_hours() -> None:
    down = facts(HYPERLIQUID, age=60_000, mark=130.0, failure="unreachable", failing_since=NOW)
    found = btc(hyperliquid=down)

    assert (pair(found), found.missing) == (pair(btc()), [])
    assert found.venues[1].state == "unavailable"
    assert (found.venues[1].reason or "").startswith("unreachable since")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (facts(HYPERLIQUID, settled=(sums(HYPERLIQUID, END - SHORTEST_WINDOW),)), "every settle"),
        (facts(HYPERLIQUID, settled=(SettledSums(END, 0.01),)), "every settlement of the 7d to"),
        (VenueFacts(VENUES[HYPERLIQUID]), "no reading"),
        (
            facts(
                HYPERLIQUID,
                disputed={"funding": Dispute(HYPERLIQUID, "funding", END - 1, "it jumped")},
            ),
            "it jumped; what it settled after 2023-11-14T15:59:59.999Z is disputed",
        ),
    ],
)
def test_a_venue_that_is_not_compared_is_named_with_the_reason(
    other: VenueFacts, reason: str
) -> None:
    found = btc(hyperliquid=other)

    assert pair(found) == (BYBIT, BINANCE, 0.1)
    assert found.missing == [HYPERLIQUID]
    (entry,) = [each for each in found.venues if each.venue == HYPERLIQUID]
    assert reason in (entry.reason or "")


@pytest.mark.parametrize("age", [0, 60_000])
def test_another_asset_of_the_same_name_is_not_compared_also_when_its_venue_is_down(
    age: int,
) -> None:
    other = facts(HYPERLIQUID, age=age, mark=3.0)
    assert other.reading is not None
    known = with_reading(LastKnown(), other.reading, [other.reading.contracts[0].contract])
    found = btc(hyperliquid=other._replace(known=known))

    assert (found.shortVenue, found.missing) == (BYBIT, [])
    assert found.venues[1].state == "different asset"


def test_one_venue_has_no_pair_and_equal_ones_have_one_of_zero() -> None:
    (alone,) = carry(cross_market({BYBIT: facts(BYBIT)}, LIMITS, NOW), "7d")

    assert pair(alone) == (None, None, None)
    assert pair(btc("8h")) == (None, None, 0.0)
    assert btc("30d").pairPct is None
