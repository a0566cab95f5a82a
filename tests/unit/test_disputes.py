"""Comparison of venues finds errors that begin while they run, and blames nobody for the market."""

from collections.abc import Callable, Mapping
from math import exp
from random import Random

import pytest
from msgspec.structs import replace

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.disputes import Dispute, DisputeTracker
from barograph.markets.records import Liquidation, Perpetual, Perpetuals, Side
from support.clock import START

BYBIT, HYPERLIQUID, BINANCE = VENUES = "bybit", "hyperliquid", "binance"
SHARES = {BYBIT: 1.0, HYPERLIQUID: 0.3, BINANCE: 2.4}
HOURS = {BYBIT: (4.0, 8.0), HYPERLIQUID: (1.0, 1.0), BINANCE: (8.0, 4.0)}
Seen = tuple[dict[str, Perpetuals], dict[str, list[Liquidation]]]
Change = Callable[[Perpetual], Perpetual]


class Market:
    """Forty coins at venues whose values differ as they do in reality."""

    def __init__(self, seed: int, coins: int = 40) -> None:
        self._random = Random(seed)
        self.price = [exp(self._random.gauss(0, 3)) for _ in range(coins)]
        self.interest = [exp(self._random.gauss(12, 2)) for _ in range(coins)]
        self.mood = [self._random.gauss(0.005, 0.02) for _ in range(coins)]
        keys = [(venue, coin) for venue in VENUES for coin in range(coins)]
        self._own = {key: self._random.gauss(0, 0.02) for key in keys}
        self._share = {key: exp(self._random.gauss(0, 0.8)) for key in keys}
        self._listed = {key for key in keys if self._random.random() < 0.85}
        self.now = START

    def minute(self) -> Seen:
        """Let a minute pass: what each venue shows then."""
        self.now += MINUTE
        drawn = self._random
        moves = [drawn.gauss(0, 0.001) + drawn.gauss(0, 0.002) for _ in self.price]
        self.price = [price * exp(move) for price, move in zip(self.price, moves, strict=True)]
        self.interest = [each * exp(drawn.gauss(0, 0.002)) for each in self.interest]
        self.mood = [each + drawn.gauss(0, 0.001) for each in self.mood]
        self._own = {key: 0.998 * each + drawn.gauss(0, 0.001) for key, each in self._own.items()}
        readings = {venue: self._reading(venue) for venue in VENUES}
        closed = [coin for coin, move in enumerate(moves) if abs(move) > 0.004]
        liquidations = {
            venue: [self._liquidation(coin, moves[coin]) for coin in closed]
            for venue in (BYBIT, BINANCE)
        }
        return readings, liquidations

    def _reading(self, venue: str) -> Perpetuals:
        coins = [coin for coin in range(len(self.price)) if (venue, coin) in self._listed]
        return Perpetuals(self.now, venue, tuple(self._contract(venue, coin) for coin in coins))

    def _contract(self, venue: str, coin: int) -> Perpetual:
        own, multiplier = self._own[venue, coin], 1000 if coin % 5 == 0 else 1
        hours = HOURS[venue][coin % 2]
        raw = self.mood[coin] + own
        rate = raw - 0.02 if raw > 0.03 else raw + 0.02 if raw < -0.01 else 0.01
        return Perpetual(
            f"C{coin}USDT",
            f"C{coin}",
            self.price[coin] * multiplier * (1 + self._random.gauss(0, 0.0004)),
            rate * hours / 8,
            hours,
            self.now + HOUR,
            None,
            self.interest[coin] * SHARES[venue] * self._share[venue, coin] / multiplier,
            multiplier=multiplier,
        )

    def _liquidation(self, coin: int, move: float) -> Liquidation:
        side: Side = "long" if (move < 0) == (self._random.random() < 0.9) else "short"
        price = self.price[coin] * (1000 if coin % 5 == 0 else 1)
        return Liquidation(self.now - 20_000, f"C{coin}USDT", side, 1.0, price)


@pytest.fixture(scope="module")
def minutes() -> list[Seen]:
    market = Market(1)
    return [market.minute() for _ in range(46)]


def distorted(seen: Seen, venue: str, change: Change) -> Seen:
    readings, liquidations = seen
    contracts = tuple(change(each) for each in readings[venue].contracts)
    return {**readings, venue: replace(readings[venue], contracts=contracts)}, liquidations


def compared(
    tracker: DisputeTracker, seen: Seen, venues: tuple[str, ...] = VENUES
) -> list[Dispute]:
    readings = {venue: seen[0][venue] for venue in venues}
    return list(tracker.compare(readings, seen[1], readings[BYBIT].as_of).disputes)


def scaled(field: str, factor: float) -> Change:
    return lambda each: replace(each, **{field: getattr(each, field) * factor})


def with_interval(each: Perpetual) -> Perpetual:
    hours = {8.0: 4.0, 4.0: 8.0, 1.0: 2.0}[each.funding_interval_hours]
    return replace(each, funding_interval_hours=hours)


FAULTS: Mapping[str, tuple[Change, str, str]] = {
    "doubled": (scaled("open_interest_coins", 2), "open-interest", "jumped to 2"),
    "sign": (scaled("funding_rate_pct", -1), "funding", "changed their sign"),
    "percent": (scaled("funding_rate_pct", 100), "funding", "coins jumped to 1"),
    "interval": (with_interval, "funding", "a new funding interval but the same rate"),
    "price": (scaled("last_price", 1.2), "price", "are 1.2 times those at"),
    "multiplier": (
        lambda each: replace(each, last_price=each.last_price / each.multiplier),
        "price",
        "0.001 times those at",
    ),
}


@pytest.mark.outcome(
    "Open interest, prices or funding of one venue contradict the other venues",
    "The measure is `disputed`: totals leave it out, and `/api/status` names it.",
)
@pytest.mark.parametrize("venues", [VENUES, (BYBIT, HYPERLIQUID)])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_is_disputed_at_its_venue_until_it_has_been_gone_for_five_minutes(
    fault: str, venues: tuple[str, ...], minutes: list[Seen]
) -> None:
    change, measure, why = FAULTS[fault]
    tracker, wrong = DisputeTracker(), venues[1]
    before = [compared(tracker, seen, venues) for seen in minutes[:15]]
    during = [compared(tracker, distorted(seen, wrong, change), venues) for seen in minutes[15:40]]
    after = [compared(tracker, seen, venues) for seen in minutes[40:46]]

    assert [*before, during[0]] == [[]] * 16
    for (found,) in during[1:]:
        assert (found.venue, found.measure, found.since) == (wrong, measure, START + 16 * MINUTE)
        assert why in found.why
    assert [len(found) for found in after] == [1, 1, 1, 1, 1, 0]


@pytest.mark.outcome(
    "A venue publishes liquidations with the wrong side",
    "The measure is `disputed`: totals leave it out, and `/api/status` names it.",
)
@pytest.mark.parametrize("wrong", [BYBIT, BINANCE])
def test_inverted_liquidations_are_disputed_at_their_venue(wrong: str, minutes: list[Seen]) -> None:
    tracker = DisputeTracker()
    before = [compared(tracker, seen) for seen in minutes[:15]]
    during = [compared(tracker, inverted(seen, wrong)) for seen in minutes[15:30]]

    assert not any(before)
    for (found,) in during[9:]:
        assert (found.venue, found.measure) == (wrong, "liquidation-side")


def inverted(seen: Seen, wrong: str) -> Seen:
    readings, liquidations = seen
    other: dict[Side, Side] = {"long": "short", "short": "long"}
    sides = [replace(each, side=other[each.side]) for each in liquidations[wrong]]
    return readings, {**liquidations, wrong: sides}


def crash(market: Market) -> None:
    market.price = [each * 0.7 for each in market.price]
    market.interest = [each * 0.5 for each in market.interest]
    market.mood = [each - 0.15 for each in market.mood]


def test_a_crash_at_all_venues_is_the_market_even_for_one_that_was_away_meanwhile() -> None:
    market, tracker = Market(3), DisputeTracker()
    found = [compared(tracker, market.minute()) for _ in range(20)]
    found += [compared(tracker, market.minute(), VENUES[:2]) for _ in range(5)]
    crash(market)
    found += [compared(tracker, market.minute(), VENUES[:2]) for _ in range(12)]
    found += [compared(tracker, market.minute()) for _ in range(40)]

    assert found == [[]] * 77


def test_open_interest_that_lags_in_a_slow_sweep_is_not_compared() -> None:
    market, tracker = Market(4), DisputeTracker()
    found = [compared(tracker, market.minute()) for _ in range(20)]
    old, at = market.minute()[0][BINANCE], market.now
    crash(market)
    coins = {each.contract: each.open_interest_coins for each in old.contracts}
    for _ in range(10):
        lagging = distorted(
            market.minute(),
            BINANCE,
            lambda each: replace(
                each, open_interest_coins=coins[each.contract], open_interest_at=at - 3 * MINUTE
            ),
        )
        found.append(compared(tracker, lagging))

    assert found == [[]] * 30


@pytest.mark.parametrize(
    ("change", "count"),
    [
        pytest.param(scaled("open_interest_coins", 2), 1, id="an error in a single reading"),
        pytest.param(
            lambda each: with_interval(each) if each.base == "C7" else each,
            30,
            id="a wrong interval of a single contract",
        ),
        pytest.param(
            lambda each: replace(
                with_interval(each),
                funding_rate_pct=each.funding_8h_pct
                * with_interval(each).funding_interval_hours
                / 8,
            ),
            30,
            id="intervals that the exchange changes together with the rates",
        ),
    ],
)
def test_what_is_no_error_is_not_disputed(change: Change, count: int, minutes: list[Seen]) -> None:
    tracker = DisputeTracker()
    found = [compared(tracker, seen) for seen in minutes[:15]]
    found += [compared(tracker, distorted(seen, BINANCE, change)) for seen in minutes[15:][:count]]
    found += [compared(tracker, seen) for seen in minutes[15 + count :]]

    assert not any(found)


@pytest.mark.parametrize(("coins", "venues"), [(40, (BYBIT,)), (7, VENUES)])
def test_one_venue_or_few_common_assets_say_nothing(coins: int, venues: tuple[str, ...]) -> None:
    market, tracker = Market(6, coins), DisputeTracker()
    double = scaled("open_interest_coins", 2)
    found = [compared(tracker, market.minute(), venues) for _ in range(20)]
    found += [
        compared(tracker, distorted(market.minute(), BYBIT, double), venues) for _ in range(5)
    ]

    assert not any(found)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_a_day_of_noise_raises_no_dispute(seed: int) -> None:
    market, tracker = Market(seed), DisputeTracker()

    assert not any(compared(tracker, market.minute()) for _ in range(DAY // MINUTE))
