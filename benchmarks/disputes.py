"""Errors at one venue of a simulated market: how soon each is found, and who is accused wrongly.

The market has fat tails and clustered volatility, funding as exchanges compute it (mostly at rest),
open interest that one venue reads in turn, and liquidations. In stress it also has crashes of about
ten percent in minutes, in which venues lag, lose open interest unequally and have other premiums,
and outages from minutes to a day.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from functools import partial
from math import exp, log, sqrt
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.disputes import Dispute, DisputeTracker, Measure
from barograph.venues.records import MAJORS, Liquidation, Perpetual, Perpetuals
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID
from benchmarks import bench

TITLE = "Disputes between venues: comparisons until an error is found, and false accusations"
THREE = (BYBIT, HYPERLIQUID, BINANCE)
TWO = (BYBIT, HYPERLIQUID)
HOURS = {BYBIT: (8, 4), HYPERLIQUID: (1, 1), BINANCE: (8, 8)}
SIGNIFICANT_DIGITS = {BYBIT: 7, HYPERLIQUID: 5, BINANCE: 7}
LAG = {BYBIT: 0.1, HYPERLIQUID: 0.4, BINANCE: 0.2}
"""Which part of a crash a venue shows a minute later."""

WARM_UP = 75
MINUTES = DAY // MINUTE
FIRST_SEED = 1_000
"""The rules were made with smaller seeds."""

Seen = tuple[dict[str, Perpetuals], dict[str, list[Liquidation]]]


class Market:
    """Coins at three venues, minute by minute."""

    def __init__(self, seed: int, coins: int = 40, *, is_stressed: bool = False) -> None:
        self.draw, self._is_stressed = Random(seed), is_stressed
        self.now = 20_833 * DAY + self.draw.randrange(MINUTES) * MINUTE
        self.price = {"BTC": 90_000.0, "ETH": 3_000.0, "SOL": 140.0}
        self.price |= {f"C{number}": exp(self.draw.gauss(0, 3)) for number in range(coins - 3)}
        self._volatility = self._crash_left = self.crash = 0.0
        self.mood, self._away = self.draw.gauss(0.01, 0.03), dict.fromkeys(THREE, 0)
        self._books = {venue: Book(self, venue) for venue in THREE}

    def minute(self) -> Seen:
        """Let a minute pass: what each venue shows then."""
        draw, self.now = self.draw, self.now + MINUTE
        self._volatility = 0.995 * self._volatility + draw.gauss(0, 0.06)
        if self._is_stressed and draw.random() < 2 / MINUTES:
            self._crash_left, self._volatility = draw.choice((-0.1, -0.1, 0.07)), 1.5
        self.crash = 0.35 * self._crash_left
        self._crash_left = 0.65 * self._crash_left if abs(self._crash_left) > 0.005 else 0.0
        self.mood += 0.0005 * (0.01 - self.mood) + draw.gauss(0, 0.0015) + 3 * self.crash
        moves, scale = {}, 0.0004 * exp(self._volatility)
        common = scale * fat_tailed(draw) + self.crash
        for name in self.price:
            moves[name] = common + scale * fat_tailed(draw) * (0.75 if name in MAJORS else 2)
            self.price[name] *= exp(moves[name])
        for venue in THREE:
            if self._is_stressed and draw.random() < 1 / MINUTES:
                self._away[venue] = self.now + draw.choice((3, 20, 90, MINUTES)) * MINUTE
        closed = [(name, move < 0) for name, move in moves.items() if abs(move) > 0.003]
        present = [venue for venue in THREE if self.now >= self._away[venue]]
        return (
            {venue: self._books[venue].reading() for venue in present},
            {venue: [self._closed(venue, *each) for each in closed] for venue in (BYBIT, BINANCE)},
        )

    def _closed(self, venue: str, name: str, is_long: bool) -> Liquidation:
        is_long ^= self.draw.random() < 0.1  # at a turn of the market
        price, at = self.price[name] * multiplier(name), self.now - 20 * SECOND
        return Liquidation(at, name + venue, "long" if is_long else "short", 1.0, price)


def fat_tailed(draw: Random) -> float:
    """A draw of Student's t with four degrees of freedom."""
    return draw.gauss(0, 1) / sqrt(-log((1 - draw.random()) * (1 - draw.random())) / 2)


def multiplier(name: str) -> int:
    """One coin in five is traded by the thousand."""
    return 1000 if name[-1] in "49" else 1


class Book:
    """One venue: its prices, open interest and funding."""

    def __init__(self, market: Market, venue: str) -> None:
        self._market, self._venue, draw = market, venue, market.draw
        listed = [name for name in market.price if name in MAJORS or draw.random() < 0.85]
        self._coins = {name: exp(draw.gauss(9, 2)) for name in listed}
        self._swept: dict[str, tuple[float, int]] = {}
        self._premium = {name: draw.gauss(0, 0.03) for name in listed}
        self._premiums: dict[str, list[float]] = {name: [] for name in listed}
        self._basis, self._behind = dict.fromkeys(listed, 0.0), 0.0
        self._loss = draw.uniform(1.0, 3.0)

    def reading(self) -> Perpetuals:
        """What the venue shows in this minute."""
        self._behind = (self._behind + self._market.crash) * LAG[self._venue]
        contracts = tuple(self._contract(*each) for each in enumerate(self._coins))
        return Perpetuals(self._market.now, self._venue, contracts, venue=self._venue)

    def _contract(self, number: int, name: str) -> Perpetual:
        market, gauss, now = self._market, self._market.draw.gauss, self._market.now
        stir = 1 + 100 * abs(market.crash)
        self._basis[name] = 0.9 * self._basis[name] + stir * gauss(0, 0.0001)
        price = market.price[name] * multiplier(name) * exp(self._basis[name] - self._behind)
        self._coins[name] *= exp(gauss(0, 0.0008) * stir - self._loss * abs(market.crash))
        coins, at = self._coins[name] / multiplier(name), None
        if self._venue == BINANCE:  # read in turn: majors always, the others every third minute
            if name in MAJORS or number % 3 == now // MINUTE % 3 or name not in self._swept:
                self._swept[name] = coins, now - 5 * SECOND
            coins, at = self._swept[name]
        hours = HOURS[self._venue][0 if name in MAJORS else number % 2]
        if now % (hours * HOUR) == 0:
            self._premiums[name].clear()
        self._premium[name] = 0.98 * self._premium[name] + gauss(0, 0.01) * stir
        self._premiums[name].append(self._premium[name] + market.mood)
        mean = sum(self._premiums[name]) / len(self._premiums[name])
        return Perpetual(
            contract=name + self._venue,
            base=name,
            last_price=float(f"{price:.{SIGNIFICANT_DIGITS[self._venue]}g}"),
            funding_rate_pct=round(mean + max(-0.05, min(0.05, 0.01 - mean)), 6) * hours / 8,
            funding_interval_hours=hours,
            next_funding_time=(now // (hours * HOUR) + 1) * hours * HOUR,
            open_interest_usd=None,
            open_interest_coins=coins,
            multiplier=multiplier(name),
            open_interest_at=at,
        )


class Case(NamedTuple):
    """An error, the measure that it makes wrong, and within how many comparisons to find it."""

    measure: Measure
    within: int
    field: str = ""
    """Which field is wrong by a factor; empty for frozen values and inverted sides."""

    factor: Callable[[Perpetual, int], float] = lambda *_: 1.0
    """Of a contract, so many minutes after the error began."""

    only: str = ""

    def change(self, contract: Perpetual, age: int) -> Perpetual:
        """The contract with the error."""
        if not self.field or self.only not in {"", contract.base}:
            return contract
        value = getattr(contract, self.field) * self.factor(contract, age)
        return replace(contract, **{self.field: value})


PRICE, RATE, COINS = "last_price", "funding_rate_pct", "open_interest_coins"
FROZEN = Case("price", 5)
CASES = {
    "price +3 %": Case("price", 2, PRICE, lambda *_: 1.03),
    "price of BTC alone +3 %": Case("price", 2, PRICE, lambda *_: 1.03, "BTC"),
    "price drifts 0.2 % per minute": Case("price", 10, PRICE, lambda _, age: 1.002 ** (age + 1)),
    "price of 1000-coin contracts per coin": Case("price", 2, PRICE, lambda c, _: 1 / c.multiplier),
    "all values frozen": FROZEN,
    "funding x2": Case("funding", 2, RATE, lambda *_: 2),
    "funding x100": Case("funding", 2, RATE, lambda *_: 100),
    "funding of ETH alone x100": Case("funding", 2, RATE, lambda *_: 100, "ETH"),
    "funding with the other sign": Case("funding", 2, RATE, lambda *_: -1),
    "funding interval x2 or x0.5": Case(
        "funding",
        2,
        "funding_interval_hours",
        lambda c, _: 2 if c.funding_interval_hours == 4 else 0.5,
    ),
    "open interest +50 %": Case("open-interest", 2, COINS, lambda *_: 1.5),
    "open interest of SOL alone x2": Case("open-interest", 2, COINS, lambda *_: 2, "SOL"),
    "open interest in USD": Case("open-interest", 2, COINS, lambda c, _: c.mark),
    "liquidations with the other side": Case("liquidation-side", 120),
}


def distorted(case: Case, venue: str, seen: Sequence[Seen]) -> Iterator[Seen]:
    """Minutes with an error at one venue that begins with the second of them."""
    for age, (readings, liquidations) in enumerate(seen[1:]):
        shown = (seen[0][0] if case == FROZEN else readings)[venue].contracts
        contracts = tuple(case.change(contract, age) for contract in shown)
        closed = liquidations.get(venue, [])
        if case.measure == "liquidation-side":
            closed = [replace(c, side="short" if c.side == "long" else "long") for c in closed]
        yield (
            readings | {venue: replace(readings[venue], contracts=contracts)},
            liquidations | {venue: closed},
        )


def compared(
    tracker: DisputeTracker, seen: Seen, venues: Sequence[str] = THREE
) -> tuple[Dispute, ...]:
    """The disputes after one more minute."""
    readings = {venue: reading for venue, reading in seen[0].items() if venue in venues}
    closed = {venue: each for venue, each in seen[1].items() if venue in venues}
    if not readings:
        return ()
    return tracker.compare(readings, closed, max(r.as_of for r in readings.values())).disputes


def judged(
    case: Case, wrong: str, venues: Sequence[str], tracker: DisputeTracker, seen: Sequence[Seen]
) -> tuple[int | None, set[str]]:
    """After how many comparisons an error is found, and every venue that is accused meanwhile.

    The tracker knows all minutes before the error; the first of `seen` is the last of these.
    """
    found_after, accused, tracker = None, set(), deepcopy(tracker)
    minutes = seen[: 1 + max(20, case.within)]
    for count, minute in enumerate(distorted(case, wrong, minutes), 1):
        disputes = {(each.venue, each.measure) for each in compared(tracker, minute, venues)}
        accused |= {venue for venue, _ in disputes}
        if found_after is None and (wrong, case.measure) in disputes:
            found_after = count
    return found_after, accused


def false_accusations(days: int, seed: int, is_stressed: bool) -> list[int]:
    """How many disputes begin in a market without errors, between three venues and between two."""
    market, trackers = Market(seed, is_stressed=is_stressed), [DisputeTracker(), DisputeTracker()]
    begun = set()
    for _ in range(days * MINUTES):
        minute = market.minute()
        for venues, tracker in zip((THREE, TWO), trackers, strict=True):
            disputes = compared(tracker, minute, venues)
            begun |= {(venues, each.venue, each.measure, each.since) for each in disputes}
    return [sum(each[0] == venues for each in begun) for venues in (THREE, TWO)]


def measure(plan: bench.Plan, _: Path) -> bench.Section:
    """Every case at every venue, then days without errors, then the time of a comparison."""
    markets = [Market(FIRST_SEED + number) for number in range(plan.size(20, 1))]
    length = WARM_UP + max(case.within for case in CASES.values())
    seen = [[market.minute() for _ in range(length)] for market in markets]
    figures = [figure for venues in (THREE, TWO) for figure in _case_figures(venues, seen)]
    days = plan.size(30, 1)
    with ProcessPoolExecutor(2) as pool:
        task = partial(false_accusations, days, FIRST_SEED)
        for name, counts in zip(("calm", "stressed"), pool.map(task, (False, True)), strict=True):
            for venues, count in zip((3, 2), counts, strict=True):
                text = f"{venues} venues: false accusations in {days} {name} days"
                figures.append(bench.Figure(text, f"{count}", "0", count == 0))
    return bench.Section(TITLE, [*figures, _duration(plan)])


def _case_figures(venues: Sequence[str], seen: Sequence[Sequence[Seen]]) -> Iterator[bench.Figure]:
    trackers = [DisputeTracker() for _ in seen]
    for tracker, minutes in zip(trackers, seen, strict=True):
        for minute in minutes[:WARM_UP]:
            compared(tracker, minute, venues)
    for name, case in CASES.items():
        outcomes = [
            (wrong, *judged(case, wrong, venues, tracker, minutes[WARM_UP - 1 :]))
            for tracker, minutes in zip(trackers, seen, strict=True)
            for wrong in venues
            if case.measure != "liquidation-side" or wrong in minutes[0][1]
        ]
        times = [after for _, after, _ in outcomes if after is not None]
        others = sum(bool(accused - {wrong}) for wrong, _, accused in outcomes)
        text = f"{median(times):g} (worst {max(times)}), " if times else ""
        text += f"{len(times)} of {len(outcomes)} found, {others} accuse another"
        is_met = len(times) == len(outcomes) and others == 0 and max(times) <= case.within
        yield bench.Figure(f"{len(venues)} venues: {name}", text, f"<= {case.within}", is_met)


def _duration(plan: bench.Plan) -> bench.Figure:
    """The CPU time of a comparison of three venues with 600 coins, once everything is known."""
    market, tracker = Market(1, 700), DisputeTracker()
    durations = []
    for _ in range(plan.size(100, 40)):
        seen = market.minute()
        begun = time.process_time()
        compared(tracker, seen)
        durations.append(time.process_time() - begun)
    name = "CPU time of a comparison, 3 x 600 contracts"
    return bench.limited(name, 1e3 * median(durations[30:]), "ms", 20)
