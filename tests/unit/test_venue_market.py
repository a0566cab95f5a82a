"""Every simulated venue follows one market, with small differences of its own."""

from statistics import correlation

import pytest

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.venues.registry import coin_of
from barograph_demo.world.venues import BINANCE, GATE, HYPERLIQUID, TRADING, VENUES, VenueMarket
from barograph_demo.world.world import World

EPOCH = 1_789_999_200_000
NOW = EPOCH + 20 * DAY + 1_234_567

WORLD = World(7, EPOCH)
MARKETS = {venue: VenueMarket(WORLD, venue) for venue in VENUES}


def fingerprint(market: VenueMarket, times: list[int]) -> dict[int, list[object]]:
    return {
        time: [
            *(
                (market.quote(each, time).mark_price, market.funding_rate(each, time))
                for each in some
            ),
            *market.liquidations(time - HOUR, time),
        ]
        for time in times
        if (some := market.contracts(time)[::7])
    }


@pytest.mark.parametrize("venue", VENUES)
def test_a_venue_is_the_same_in_whatever_order_it_is_asked(venue: str) -> None:
    times = [EPOCH + 5 * HOUR + 17, EPOCH + 90 * MINUTE, EPOCH + 2 * DAY]
    forwards = fingerprint(VenueMarket(World(7, EPOCH), venue), sorted(times))
    assert fingerprint(VenueMarket(World(7, EPOCH), venue), times) == forwards


@pytest.mark.parametrize(("venue", "share"), [(BINANCE, 2.4), (HYPERLIQUID, 0.5), (GATE, 0.7)])
def test_prices_funding_and_positions_resemble_bybits(venue: str, share: float) -> None:
    market = MARKETS[venue]
    ours, theirs = [], []
    for each in market.contracts(NOW):
        price = WORLD.price(each.model, NOW) * each.scale
        assert market.quote(each, NOW).price == pytest.approx(price, rel=0.001)
        assert market.quote(each, NOW).price != price
        ours.append(market.funding_rate(each, NOW) * 8 / each.funding_hours)
        theirs.append(WORLD.funding_rate(each.model, NOW) * 8 / each.model.funding_hours)
        if each.coin in {"BTC", "ETH", "SOL"}:
            held = market.quote(each, NOW).open_interest / WORLD.open_interest(each.model, NOW)
            assert held == pytest.approx(share, rel=0.3)
    # Each averages the premium since its own last settlement.
    assert 0.8 < correlation(ours, theirs) < 1


@pytest.mark.parametrize("venue", VENUES)
def test_the_same_moves_liquidate_the_same_side_in_the_same_minutes(venue: str) -> None:
    market, start, middle = MARKETS[venue], NOW - DAY, NOW - 12 * HOUR + 31_000
    by_name = {each.name: each.model.symbol for each in market.contracts(NOW)}
    theirs = WORLD.liquidations(start - MINUTE, NOW)
    ours = market.liquidations(start, NOW)
    assert len(ours) > 0.4 * len(theirs)
    assert {(each.time // MINUTE, by_name[each.symbol], each.side) for each in ours} <= {
        (each.time // MINUTE, each.symbol, each.side) for each in theirs
    }
    assert market.liquidations(start, middle) + market.liquidations(middle, NOW) == ours


@pytest.mark.parametrize("venue", VENUES)
def test_names_state_the_coin_and_the_multiplier(venue: str) -> None:
    for each in MARKETS[venue].contracts(NOW):
        assert coin_of(venue, each.base) == (each.coin, each.multiplier)


def test_the_traps_of_real_listings_are_there() -> None:
    hyperliquid, binance = (
        {each.name: each for each in MARKETS[venue].contracts(NOW)}
        for venue in (HYPERLIQUID, BINANCE)
    )
    assert {each.funding_hours for each in hyperliquid.values()} == {1}
    assert {each.funding_hours for each in binance.values()} == {4, 8}
    assert TRADING not in {hyperliquid["MATIC"].status, binance["MATICUSDT"].status}
    names = ("CATUSDT", "1000CATUSDT", "BTCDOMUSDT", "MEGAUSDT", "XAUUSDT", "牛来USDT")
    classes = [binance[name].asset_class for name in names]
    assert classes == ["EQUITY", "COIN", "INDEX", "PREMARKET", "COMMODITY", "COIN"]
    prices = [
        MARKETS[HYPERLIQUID].quote(hyperliquid[ours], NOW).mark_price
        / MARKETS[BINANCE].quote(binance[theirs], NOW).mark_price
        for ours, theirs in (("kDOGS", "DOGSUSDT"), ("AI", "AIUSDT"))
    ]
    assert prices[0] == pytest.approx(1000, rel=0.001)
    assert abs(prices[1] - 1) > 0.05
