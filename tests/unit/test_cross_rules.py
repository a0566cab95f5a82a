"""One coin at several venues: what is summed, weighted and compared, and what is left out."""

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.cross import MISSED_FOR, CrossMarket, VenueFacts, cross_market, other_assets
from barograph.markets.cross_coins import CrossCoin, Spread
from barograph.markets.cross_prices import PriceRange
from barograph.markets.disputes import Dispute, Measure
from barograph.markets.last_known import KEPT_FOR, KnownValues, LastKnown
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.reader import CrossReader
from barograph.markets.settlements import SHORTEST_WINDOW, SettledSums, SettledWindows
from barograph.markets.view import FreshnessLimits
from barograph.settings import Settings
from barograph.site.coin_text import volume_shares
from barograph.venues.records import Frame, PastValues, Perpetual, Perpetuals
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID, VENUES, coin_of
from support.clock import START as NOW

LIMITS = FreshnessLimits(30_000, 1_800_000, 90_000, 95.0)
STALE = NOW - 31_000
END = NOW // SHORTEST_WINDOW * SHORTEST_WINDOW
INTERVALS = {BYBIT: 8.0, HYPERLIQUID: 1.0, BINANCE: 4.0}
RATES = {BYBIT: 0.01, HYPERLIQUID: 0.004, BINANCE: -0.005}
"""Per interval: 0.01, 0.032 and -0.01 percent per 8 hours."""


def contract(venue: str, base: str = "BTC", price: float = 100.0, **fields: Any) -> Perpetual:
    coin, multiplier = coin_of(venue, base)
    sizes = {"open_interest_usd": 1_000.0, "open_interest_coins": 1_000.0 / price} | fields
    return Perpetual(
        contract=VENUES[venue].contract(base),
        base=base,
        last_price=price,
        funding_rate_pct=RATES[venue],
        funding_interval_hours=INTERVALS[venue],
        next_funding_time=NOW + MINUTE,
        coin=coin,
        multiplier=multiplier,
        **sizes,
    )


def settled(venue: str, **pct: float) -> SettledWindows:
    """What contracts settled over the newest 8 hours; by default, BTC at its live rate."""
    known = pct or {VENUES[venue].contract("BTC"): RATES[venue] * 8 / INTERVALS[venue]}
    return SettledWindows({name: (SettledSums(END, each),) for name, each in known.items()})


def facts(venue: str, *contracts: Perpetual, as_of: int = NOW, **fields: Any) -> VenueFacts:
    reading = Perpetuals(as_of, venue, contracts, venue=venue)
    return VenueFacts(VENUES[venue], reading, **{"settled": settled(venue), **fields})


def compared(*known: VenueFacts) -> CrossMarket:
    return cross_market({each.venue.name: each for each in known}, LIMITS, NOW)


def btc(*known: VenueFacts) -> CrossCoin:
    return compared(*known).coins["BTC"]


def disputing(venue: str, measure: Measure, **fields: Any) -> VenueFacts:
    """The facts of a venue with a measure that is disputed."""
    dispute = Dispute(venue, measure, NOW, "it doubled")
    return facts(venue, contract(venue, **fields), disputed={measure: dispute})


def totals(venue: str, usd: tuple[float, float], as_of: int = NOW) -> LiquidationTotals:
    known = {VENUES[venue].contract("BTC"): usd}
    return LiquidationTotals(as_of, 100.0, sum(usd), None, None, by_contract=known)


def last_known(venue: str, usd: float, base: str = "BTC", **fields: Any) -> LastKnown:
    """A contract, known a minute ago at a price of 100 per coin."""
    values = {"at": NOW - MINUTE, "multiplier": 1, "price": 100.0, **fields}
    known = KnownValues(asset=base, open_interest_usd=usd, open_interest_coins=usd / 100, **values)
    return LastKnown({VENUES[venue].contract(base): known})


def three(**changed: VenueFacts) -> list[VenueFacts]:
    return [
        changed.get(each, facts(each, contract(each))) for each in (BYBIT, HYPERLIQUID, BINANCE)
    ]


@pytest.mark.parametrize(
    ("away", "state", "reason"),
    [
        (facts(BINANCE, contract(BINANCE), as_of=STALE), "stale", "last reading"),
        (
            facts(BINANCE, contract(BINANCE), as_of=STALE, failure="forbidden", failing_since=NOW),
            "unavailable",
            "forbidden since",
        ),
        (VenueFacts(VENUES[BINANCE]), "unavailable", "no reading"),
        (facts(BINANCE, contract(BINANCE, open_interest_usd=None)), "ok", "no current"),
        (disputing(BINANCE, "open-interest"), "disputed", "disputed: open-interest"),
        (disputing(BINANCE, "price"), "disputed", "disputed: price"),
    ],
)
def test_a_sum_without_a_venue_is_partial_and_names_it_with_its_last_size(
    away: VenueFacts, state: str, reason: str
) -> None:
    known = last_known(BINANCE, 600.0, funding_8h_pct=-0.01)
    found = btc(*three(binance=away._replace(known=known)))

    assert found.funding_with_missing_8h_pct == pytest.approx((10 + 32 - 6) / 2_600)
    assert (found.open_interest.usd, found.open_interest.coins) == (2_000.0, 20.0)
    assert found.open_interest.with_missing_usd == 2_600.0
    assert found.funding_8h_pct == pytest.approx(0.021)
    assert weights(found) == [50.0, 50.0, None]
    assert [found.share_pct(each) for each in found.venues] == [100 / 2.6, 100 / 2.6, None]
    (missing,) = found.open_interest.missing
    assert (missing.venue, reason in missing.reason) == (BINANCE, True)
    assert missing[2:] == (600.0, 6.0, NOW - MINUTE)
    assert found.funding_missing == [missing]
    assert found.venues[2].state == state


def test_a_coin_keeps_its_rank_when_its_largest_venue_goes_down() -> None:
    names = ("XRP", "DOGE")
    small = facts(BYBIT, *(contract(BYBIT, each) for each in names))
    large = facts(BINANCE, contract(BINANCE, "DOGE", open_interest_usd=9e3), as_of=STALE)
    known = last_known(BINANCE, 9e3, "DOGE")

    assert list(compared(small, large._replace(known=known)).coins) == ["DOGE", "XRP"]
    old = LastKnown({"DOGEUSDT": replace(known.contracts["DOGEUSDT"], at=NOW - KEPT_FOR)})
    coin = compared(small, large._replace(known=old)).coins["DOGE"]
    assert (coin.open_interest.at_least_usd, coin.open_interest.with_missing_usd) == (1_000.0, None)
    assert coin.share_pct(coin.venues[0]) is None
    assert coin.open_interest.missing[0].last_usd is None


def test_another_asset_of_the_same_name_is_no_missing_part() -> None:
    away = facts(BINANCE, contract(BINANCE, price=1.0), as_of=STALE)
    found = btc(
        *three(
            binance=away._replace(known=last_known(BINANCE, 600.0, price=1.0, is_other_asset=True))
        )
    )

    assert found.venues[2].state == "different asset"
    assert found.open_interest == (2_000.0, 20.0, [])


def test_a_coin_stays_another_asset_while_the_deepest_venue_is_missing() -> None:
    small, other = (
        facts(BYBIT, contract(BYBIT)),
        facts(HYPERLIQUID, contract(HYPERLIQUID, price=3.0, open_interest_usd=2e3)),
    )
    was_other = last_known(HYPERLIQUID, 2e3, price=3.0, is_other_asset=True)
    away = facts(BINANCE, contract(BINANCE, open_interest_usd=9e3), as_of=STALE)
    found = btc(
        small, other._replace(known=was_other), away._replace(known=last_known(BINANCE, 9e3))
    )

    assert [each.state for each in found.venues] == ["ok", "different asset", "stale"]
    assert (found.deepest, found.open_interest.with_missing_usd) == (BYBIT, 10_000.0)


def test_a_contract_that_an_accepted_reply_lacks_is_missing_until_it_is_delisted() -> None:
    part = facts(BINANCE, contract(BINANCE, "ETH"), known=last_known(BINANCE, 600.0))
    (missing,) = btc(*three(binance=part)).open_interest.missing

    assert (missing.venue, missing.last_usd) == (BINANCE, 600.0)
    assert missing.reason == "its contract is not in the newest reply"
    gone = last_known(BINANCE, 600.0, at=NOW - MISSED_FOR)
    assert not btc(*three(binance=part._replace(known=gone))).open_interest.missing


@pytest.mark.parametrize(("as_of", "usd"), [(NOW, 3_000.0), (STALE, 2_600.0)])
def test_a_renamed_contract_counts_once_when_both_names_are_known(as_of: int, usd: float) -> None:
    old, new = contract(BINANCE), replace(contract(BINANCE), contract="BTCPERP")
    names = {
        each.contract: replace(last_known(BINANCE, 600.0).contracts["BTCUSDT"], at=at)
        for each, at in ((old, as_of - MINUTE), (new, as_of))
    }
    then = day_ago(BINANCE, 600.0, 6.0, 100.0)
    renamed = facts(BINANCE, new, as_of=as_of, known=LastKnown(names), day_ago=then)

    assert btc(*three(binance=renamed)).open_interest.with_missing_usd == usd


@pytest.mark.parametrize("price", [49.0, 151.0])
def test_a_price_that_moves_in_an_outage_makes_no_other_asset(price: float) -> None:
    live = [facts(each, contract(each, price=price)) for each in (BYBIT, HYPERLIQUID)]
    away = facts(BINANCE, contract(BINANCE), as_of=STALE, known=last_known(BINANCE, 9e3))
    found = btc(*live, away)

    assert [each.state for each in found.venues] == ["ok", "ok", "stale"]
    assert (found.open_interest.usd, found.open_interest.with_missing_usd) == (2e3, 11e3)


def test_the_collector_tells_other_assets_by_current_prices_of_all_venues() -> None:
    entries = contract(BYBIT, open_interest_usd=9e3), contract(HYPERLIQUID, price=3.0)
    readings = {
        name: Perpetuals(NOW, name, (each,), venue=name)
        for name, each in zip((BYBIT, HYPERLIQUID), entries, strict=True)
    }
    found = other_assets(readings, dict.fromkeys(readings, LastKnown()), {}, LIMITS, NOW)

    assert found == {HYPERLIQUID: {"BTC"}}


def test_what_jumped_is_missing_with_its_last_size_and_the_reason() -> None:
    whole = three()[2]
    assert whole.reading is not None
    doubted = {whole.reading.contracts[0].contract: "its open interest jumped from $4.00M"}
    known, none = last_known(BINANCE, 4e6), contract(BINANCE, open_interest_usd=None)
    for held, away in ((none,), []), ((), ["BTC"]):  # its open interest, or its price
        reading = replace(whole.reading, contracts=held, doubted=doubted, unusable=away)
        found = btc(*three(binance=whole._replace(reading=reading, known=known)))

        assert found.open_interest.usd == 2_000.0
        assert found.open_interest.with_missing_usd == 4_002_000.0
        assert "jumped from $4.00M" in (found.venues[2].reason or "")


def test_a_contract_that_is_held_back_keeps_what_it_settled_and_liquidated() -> None:
    usual = three()
    whole = usual[2]._replace(
        totals=totals(BINANCE, (20.0, 10.0)), known=last_known(BINANCE, 600.0)
    )
    assert whole.reading is not None
    gone = {"BTCUSDC": replace(last_known(BINANCE, 70.0).contracts["BTCUSDT"], at=NOW - DAY)}
    known = LastKnown(whole.known.contracts | gone)
    reading = replace(whole.reading, contracts=(), doubted={"BTCUSDT": "its price went up"})
    found = btc(*usual[:2], whole._replace(reading=reading, known=known))

    assert found.spread == btc(*usual[:2], whole).spread
    assert found.liquidated_usd == (20.0, 10.0)
    assert found.open_interest.with_missing_usd == 2_600.0  # without the one that is delisted
    down = whole._replace(reading=replace(reading, as_of=STALE), known=known)
    assert btc(*usual[:2], down).open_interest.with_missing_usd == 2_600.0


def test_a_price_that_left_the_others_within_a_day_is_disputed_and_named() -> None:
    known = {name: day_ago(name, 1e3, 10.0, 100.0) for name in (BYBIT, HYPERLIQUID, BINANCE)}
    moved = contract(HYPERLIQUID, price=110.0)
    found = btc(
        *(facts(each, contract(each), day_ago=known[each]) for each in (BYBIT, BINANCE)),
        facts(HYPERLIQUID, moved, day_ago=known[HYPERLIQUID]),
    )

    assert found.venues[2].state == "disputed"
    assert [each.venue for each in found.open_interest.missing] == [HYPERLIQUID]


def weights(coin: CrossCoin) -> list[float | None]:
    return [coin.weight_pct(each) for each in coin.venues]


def test_volume_and_prices_are_of_the_known_venues() -> None:
    turnover = contract(BYBIT, price=99.0, volume_24h_usd=500.0, volume_24h_coins=5.0)
    sends = facts(BYBIT, turnover)
    found = btc(sends, *three()[1:])

    assert (found.volume.usd, found.volume.coins) == (500.0, 5.0)
    assert [each.venue for each in found.volume.missing] == [HYPERLIQUID, BINANCE]
    assert found.prices == PriceRange(99.0, BYBIT, 100.0, HYPERLIQUID)


def test_a_share_of_the_volume_is_only_of_coins_whose_volume_is_known() -> None:
    sends = facts(BYBIT, contract(BYBIT, volume_24h_usd=500.0, volume_24h_coins=5.0))

    assert volume_shares(compared(sends, *three()[1:])) == {}  # nothing known of the two others
    assert volume_shares(compared(sends)) == {BYBIT: 100.0}


def day_ago(venue: str, usd: float, coins: float | None, price: float) -> Frame:
    values = PastValues(price, usd, coins)
    return Frame(NOW - DAY, {VENUES[venue].contract("BTC"): values})


def test_a_change_compares_the_same_venues_and_its_effects_add_up() -> None:
    before = day_ago(BYBIT, 900.0, 10.0, 90.0)
    changed = facts(
        BYBIT, contract(BYBIT, open_interest_usd=800.0, open_interest_coins=8.0), day_ago=before
    )
    stale = facts(BINANCE, contract(BINANCE), as_of=STALE, day_ago=day_ago(BINANCE, 1.0, 1.0, 1.0))
    known = last_known(BINANCE, 6_000.0)
    both = btc(*three(bybit=changed, binance=stale._replace(known=known))).change
    assert both is not None
    assert (both.venues, both.change_usd) == ([BYBIT, BINANCE], -100.0 + 5_999.0)
    assert both.price_pct == pytest.approx(100 * (1_100 / 901 - 1))  # weighted, of both
    found = btc(*three(bybit=changed, binance=stale)).change

    assert found is not None
    assert (found.since, found.venues) == (NOW - DAY, [BYBIT])
    assert (found.before_usd, found.change_usd) == (900.0, -100.0)
    assert found.price_effect_usd == 9.0 * 10.0  # the positions: 95 * -2
    assert (found.coins_pct, found.price_pct) == pytest.approx((-20.0, 100 / 9))
    assert found.quadrant == ("up", "down")


def test_effects_are_unknown_without_coins_and_a_change_needs_a_frame_of_then() -> None:
    without = facts(BYBIT, contract(BYBIT), day_ago=day_ago(BYBIT, 500.0, None, 100.2))
    found = btc(without).change

    assert found is not None
    assert (found.usd_pct, found.price_effect_usd, found.quadrant) == (100.0, None, None)
    late = Frame(NOW - DAY + HOUR, day_ago(BYBIT, 1.0, 1.0, 1.0).contracts)
    assert btc(without._replace(day_ago=late)).change is None


def test_a_stale_venue_shows_no_number_and_a_disputed_one_shows_what_it_says() -> None:
    doubled = disputing(BYBIT, "open-interest")
    old = facts(BINANCE, contract(BINANCE), as_of=STALE)
    first, _, last = btc(*three(bybit=doubled, binance=old)).venues

    said = (first.interest_usd, first.reason, first.disputed)
    assert said == (1_000.0, "it doubled", ("open-interest",))
    assert (last.price, last.interest_usd, last.funding_8h_pct, last.contract) == (None,) * 4


def test_disputed_funding_is_in_no_weight_but_its_open_interest_counts() -> None:
    found = btc(*three(hyperliquid=disputing(HYPERLIQUID, "funding")))

    assert found.open_interest.usd == 3_000.0
    assert (found.funding_8h_pct, weights(found)) == (0.0, [50.0, None, 50.0])
    assert [each.venue for each in found.funding_missing] == [HYPERLIQUID]


def test_doubted_rates_are_in_no_weight() -> None:
    away = three()[1]
    assert away.reading is not None
    found = btc(*three(hyperliquid=away._replace(reading=replace(away.reading, doubted_rates="x"))))

    assert (found.funding_8h_pct, weights(found)) == (0.0, [50.0, None, 50.0])


@pytest.mark.parametrize(("since", "highest"), [(END, HYPERLIQUID), (END - 1, BYBIT)])
def test_what_was_settled_before_a_dispute_of_funding_counts(since: int, highest: str) -> None:
    wrong = {"funding": Dispute(HYPERLIQUID, "funding", since, "it jumped")}
    found = btc(*three(hyperliquid=facts(HYPERLIQUID, contract(HYPERLIQUID), disputed=wrong)))

    assert found.spread is not None
    assert (found.spread.highest, found.spread.lowest) == (highest, BINANCE)
    assert found.spread.missing == (() if highest == HYPERLIQUID else (HYPERLIQUID,))


def test_the_same_name_at_another_price_is_another_asset_and_named_with_both_marks() -> None:
    other = facts(HYPERLIQUID, contract(HYPERLIQUID, price=105.1))
    near = facts(BINANCE, contract(BINANCE, price=105.0))
    found = btc(facts(BYBIT, contract(BYBIT, open_interest_usd=9_000.0)), other, near)

    assert [each.state for each in found.venues] == ["ok", "different asset", "ok"]
    assert found.venues[1].reason is not None
    assert "105.1" in found.venues[1].reason
    assert "100 at Bybit" in found.venues[1].reason
    assert found.open_interest.usd == 10_000.0
    assert weights(found) == [90.0, None, 10.0]
    assert found.spread is not None
    assert HYPERLIQUID not in (found.spread.highest, found.spread.lowest)


def test_multiplier_contracts_are_compared_and_summed_in_single_coins() -> None:
    found = compared(
        facts(BYBIT, contract(BYBIT, "1000PEPE", 0.01)),
        facts(HYPERLIQUID, contract(HYPERLIQUID, "kPEPE", 0.0101)),
        facts(BINANCE, contract(BINANCE, "PEPE", 0.00001)),
    ).coins["PEPE"]

    assert [each.state for each in found.venues] == ["ok"] * 3
    assert [each.price for each in found.venues] == pytest.approx([1e-5, 1.01e-5, 1e-5])
    assert found.open_interest.coins == pytest.approx(1e8 + 1e6 / 0.0101 + 1e8)
    assert found.open_interest.usd == 3_000.0


def test_liquidations_of_venues_are_a_lower_bound_and_zero_is_only_what_was_watched() -> None:
    bybit = facts(BYBIT, contract(BYBIT), totals=totals(BYBIT, (10.0, 5.0)))
    none = facts(HYPERLIQUID, contract(HYPERLIQUID), totals=totals(HYPERLIQUID, (1.0, 1.0)))
    old = facts(BINANCE, contract(BINANCE), totals=totals(BINANCE, (7.0, 0.0), NOW - 91_000))
    found = btc(bybit, none, old)

    assert [each.liquidated_usd for each in found.venues] == [(10.0, 5.0), None, None]
    assert (found.liquidated_usd, found.at_least_usd) == ((10.0, 5.0), 15.0)
    assert found.liquidations_incomplete == [HYPERLIQUID, BINANCE]
    assert btc(none).at_least_usd is None
    eth = compared(bybit._replace(reading=Perpetuals(NOW, "", (contract(BYBIT, "ETH"),))))
    assert eth.coins["ETH"].at_least_usd == 0.0


def test_liquidations_that_we_saw_stay_while_the_venue_is_missing() -> None:
    away = facts(BYBIT, contract(BYBIT), as_of=STALE, totals=totals(BYBIT, (3e6, 1e6), STALE))
    found = btc(*three(bybit=away))

    assert found.liquidated_usd == (3e6, 1e6)
    assert BYBIT in found.liquidations_incomplete


def test_the_view_ends_when_its_first_fact_reaches_its_limit_and_majors_come_first() -> None:
    bybit = facts(
        BYBIT, contract(BYBIT, "XRP", open_interest_usd=9e9), contract(BYBIT), as_of=NOW - 5_000
    )
    found = compared(bybit, facts(BINANCE, contract(BINANCE)))

    assert (found.as_of, found.until) == (NOW - 5_000, NOW + 25_000)
    assert list(found.coins) == ["BTC", "XRP"]
    watched = bybit._replace(totals=totals(BYBIT, (1.0, 0.0), NOW - 80_000))
    assert compared(watched).until == NOW + 10_000


def test_one_venue_alone_is_its_own_sum_without_a_spread() -> None:
    found = btc(facts(BYBIT, contract(BYBIT)))

    assert (found.open_interest.usd, weights(found), found.spread) == (1_000.0, [100.0], None)
    assert found.funding_8h_pct == 0.01


def test_a_listed_coin_whose_values_cannot_be_used_is_missing_from_the_sum() -> None:
    unusable = Perpetuals(
        NOW, BINANCE, (contract(BINANCE, "ETH"),), venue=BINANCE, unusable=["BTC"]
    )
    found = btc(*three(binance=VenueFacts(VENUES[BINANCE], unusable)))

    assert found.open_interest.usd == 2_000.0
    assert [each.venue for each in found.open_interest.missing] == [BINANCE]
    assert (found.venues[2].state, found.venues[2].price) == ("unavailable", None)


def test_a_disputed_open_interest_does_not_make_a_venue_the_deepest() -> None:
    doubled = disputing(BINANCE, "open-interest", price=110.0, open_interest_usd=1_500.0)
    found = btc(*three(binance=doubled))

    assert found.deepest == BYBIT
    assert [each.state for each in found.venues] == ["ok", "ok", "different asset"]


@pytest.mark.parametrize("usual", [[BYBIT], [BYBIT, HYPERLIQUID]])
def test_also_the_deepest_venue_is_disputed_if_its_marks_mostly_differ(usual: list[str]) -> None:
    names = [f"C{letter}" for letter in "ABCDEFGH"]
    right = [facts(venue, *(contract(venue, name) for name in names)) for venue in usual]
    interest = 100.0 if len(usual) == 1 else 9e3
    wrong = [contract(BINANCE, name, 10.0, open_interest_usd=interest) for name in names]
    found = compared(*right, facts(BINANCE, *wrong)).coins["CA"]

    assert [each.state for each in found.venues] == [*["ok"] * len(usual), "disputed"]
    assert found.venues[-1].disputed == ("price",)
    assert (found.deepest, found.open_interest.usd) == (BYBIT, 1_000.0 * len(usual))
    assert [each.venue for each in found.open_interest.missing] == [BINANCE]


def test_a_spread_is_between_two_venues_even_if_one_lists_the_coin_twice() -> None:
    twice = [structs.replace(contract(BYBIT), contract=name) for name in ("BTCUSDT", "BTCPERP")]
    both = settled(BYBIT, BTCUSDT=-1.0, BTCPERP=1.0)
    found = btc(facts(BYBIT, *twice, settled=both), facts(BINANCE, contract(BINANCE)))

    assert found.spread == Spread(BYBIT, BINANCE, 1.01)


def test_a_spread_of_zero_names_no_venue() -> None:
    same = {
        name: facts(name, contract(name), settled=settled(name, BTCUSDT=0.01))
        for name in (BYBIT, BINANCE)
    }

    assert btc(*same.values()).spread == Spread(None, None, 0.0)


BEFORE = END - SHORTEST_WINDOW
KNOWN_ENDS: dict[str, tuple[tuple[list[int], ...], int | None, int]] = {
    "all have reported": (([END, BEFORE], [END, BEFORE], [END]), END, 3),
    "one is late": (([END, BEFORE], [BEFORE], [END, BEFORE]), BEFORE, 3),
    "one has none": (([END, BEFORE], [], [END, BEFORE]), END, 2),
    "none has any": (([], [], []), None, 0),
}
"""Which windows each venue knows, which one is compared, and how many venues know it."""


@pytest.mark.parametrize("case", KNOWN_ENDS)
def test_all_venues_are_compared_over_the_same_hours(case: str) -> None:
    ends, expected, count = KNOWN_ENDS[case]
    known = []
    for venue, times in zip(RATES, ends, strict=True):
        sums = tuple(SettledSums(end, end / END) for end in times)
        windows = SettledWindows({VENUES[venue].contract("BTC"): sums})
        known.append(facts(venue, contract(venue), settled=windows))
    found = btc(*known)

    assert found.settled_to == expected
    counted = [each.settled for each in found.venues if each.settled is not None]
    assert [(each.end, each.pct_8h) for each in counted] == [
        (expected, (expected or 0) / END)
    ] * count
    missing = tuple(each.venue for each in found.venues if each.settled is None)
    assert found.spread == (Spread(None, None, 0.0, missing) if count > 1 else None)


def test_a_coin_is_found_by_its_exact_name_before_one_that_differs_in_case() -> None:
    market = compared(facts(BYBIT, *(contract(BYBIT, name) for name in ("abc", "ABC"))))
    reader = CrossReader(Settings())

    assert [reader.coin(market, name).asset for name in ("abc", "ABC")] == ["abc", "ABC"]
