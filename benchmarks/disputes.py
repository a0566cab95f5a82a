"""Errors at one venue of a simulated market: how soon each is found, and who is accused wrongly.

The market has fat tails and clustered volatility, funding as exchanges compute it (mostly at rest),
open interest that one venue reads in turn, and liquidations. In stress it also has crashes of about
ten percent in minutes, in which venues lag, lose open interest unequally and have other premiums,
and outages from minutes to a day.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from math import exp, sqrt
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.disputes import Dispute, DisputeTracker, Measure
from barograph.markets.records import MAJORS, Liquidation, Perpetual, Perpetuals, Side
from barograph.markets.venues import BINANCE, BYBIT, HYPERLIQUID
from benchmarks import bench

TITLE = "Disputes between venues: comparisons until an error is found, and false accusations"
THREE = (BYBIT, HYPERLIQUID, BINANCE)
TWO = (BYBIT, HYPERLIQUID)
START = 1_800_000_000_000 // DAY * DAY
WARM, LONGEST = 75, 20
DAY_OF_MINUTES = DAY // MINUTE

Seen = tuple[dict[str, Perpetuals], dict[str, list[Liquidation]]]


class Habits(NamedTuple):
    """What is usual at a venue."""

    share: float
    hours: tuple[int, int]
    digits: int
    """Significant digits of its prices."""

    lag: float
    """Which part of a move in a crash it shows in the same minute."""


HABITS = {
    BYBIT: Habits(1.0, (8, 4), 7, 0.9),
    HYPERLIQUID: Habits(0.3, (1, 1), 5, 0.6),
    BINANCE: Habits(2.4, (8, 8), 7, 0.8),
}


class Market:
    """Coins at three venues, minute by minute."""

    def __init__(self, seed: int, coins: int = 40, *, is_stressed: bool = False) -> None:
        self._random = Random(seed)
        self._is_stressed = is_stressed
        self.now = START + self._random.randrange(DAY_OF_MINUTES) * MINUTE
        self.names = [*MAJORS, *(f"C{number}" for number in range(coins - len(MAJORS)))]
        gauss = self._random.gauss
        self.price = {name: exp(gauss(0, 3)) for name in self.names} | {
            "BTC": 90_000.0,
            "ETH": 3_000.0,
            "SOL": 140.0,
        }
        self._heat = 0.0
        """The logarithm of the volatility over its usual value."""

        self._crash, self._mood = 0.0, gauss(0.01, 0.03)
        self._away: dict[str, int] = {}
        self._venues = {venue: Book(self, venue, self._random) for venue in THREE}

    def minute(self) -> Seen:
        """Let a minute pass: what each venue shows then."""
        draw, self.now = self._random, self.now + MINUTE
        self._heat = 0.995 * self._heat + draw.gauss(0, 0.06)
        self._mood = 0.9995 * self._mood + 0.0005 * 0.01 + draw.gauss(0, 0.0015)
        if self._is_stressed and draw.random() < 2 / DAY_OF_MINUTES:
            self._crash, self._heat = -0.1 * draw.choice((1, 1, -0.7)), 1.5
        crash = 0.35 * self._crash
        self._crash = 0.0 if abs(self._crash) < 0.005 else self._crash - crash
        self._mood += 3 * crash
        factor = 0.0004 * exp(self._heat) * fat(draw) + crash
        moves = {}
        for name in self.names:
            own = 0.0003 if name in MAJORS else 0.0008
            moves[name] = factor + own * exp(self._heat) * fat(draw)
            self.price[name] *= exp(moves[name])
        readings = {
            venue: book.reading(crash, self._mood)
            for venue, book in self._venues.items()
            if self._answers(venue)
        }
        closed = [name for name, move in moves.items() if abs(move) > 0.003]
        liquidations = {
            venue: [self._liquidation(venue, name, moves[name]) for name in closed]
            for venue in (BYBIT, BINANCE)
        }
        return readings, liquidations

    def scale_open_interest(self, venue: str, factor: float) -> None:
        """Change the open interest of a venue, as a day does."""
        self._venues[venue].scale_open_interest(factor)

    def _answers(self, venue: str) -> bool:
        draw = self._random
        if self._is_stressed and draw.random() < 1 / DAY_OF_MINUTES:
            self._away[venue] = self.now + draw.choice((3, 20, 90, DAY_OF_MINUTES)) * MINUTE
        return self.now >= self._away.get(venue, 0)

    def _liquidation(self, venue: str, name: str, move: float) -> Liquidation:
        side: Side = "long" if (move < 0) == (self._random.random() < 0.9) else "short"
        contract = self._venues[venue].contract_of[name]
        price = self.price[name] * self._venues[venue].multiplier[name]
        return Liquidation(self.now - 20 * SECOND, contract, side, 1.0, price)


def fat(draw: Random) -> float:
    """A draw of Student's t with four degrees of freedom."""
    return draw.gauss(0, 1) / sqrt(draw.gammavariate(2, 0.5))


class Book:
    """One venue: its prices, open interest and funding."""

    def __init__(self, market: Market, venue: str, draw: Random) -> None:
        self._market, self._venue, self._draw = market, venue, draw
        self._habits = HABITS[venue]
        listed = [name for name in market.names if name in MAJORS or draw.random() < 0.85]
        self.multiplier = {
            name: 1000 if number % 5 == 4 and name not in MAJORS else 1
            for number, name in enumerate(market.names)
        }
        self.contract_of = {name: f"{name}{venue}" for name in market.names}
        self._coins = {
            name: exp(draw.gauss(12, 2) - (7 if name == "BTC" else 0)) * self._habits.share
            for name in listed
        }
        self._basis, self._behind = dict.fromkeys(listed, 0.0), 0.0
        self._premium = {name: draw.gauss(0, 0.03) for name in listed}
        self._total = dict.fromkeys(listed, (0.0, 0))
        self._swept: dict[str, tuple[float, int]] = {}
        self._loss = draw.uniform(1.0, 3.0)

    def reading(self, crash: float, mood: float) -> Perpetuals:
        """What the venue shows in this minute."""
        now, draw = self._market.now, self._draw
        # In a crash a venue shows part of the move at once, and the rest later.
        self._behind = (self._behind + crash) * (1 - self._habits.lag)
        contracts = []
        for number, name in enumerate(self._coins):
            stir = 1 + 100 * abs(crash)
            self._basis[name] = 0.9 * self._basis[name] + stir * draw.gauss(0, 0.0001)
            self._coins[name] *= exp(draw.gauss(0, 0.0008) * stir - self._loss * abs(crash))
            premium = self._premium[name] = 0.98 * self._premium[name] + draw.gauss(0, 0.01) * stir
            hours = 8 if name in MAJORS and self._venue != HYPERLIQUID else 0
            hours = hours or self._habits.hours[number % 2]
            total, count = (0.0, 0) if now % (hours * HOUR) == 0 else self._total[name]
            self._total[name] = total, count = total + premium + mood, count + 1
            mean = total / count
            rate = mean + max(-0.05, min(0.05, 0.01 - mean))
            contracts.append(self._contract(name, number, round(rate, 6), hours))
        return Perpetuals(now, self._venue, tuple(contracts), venue=self._venue)

    def scale_open_interest(self, factor: float) -> None:
        """Change the open interest of every contract."""
        self._coins = {name: coins * factor for name, coins in self._coins.items()}

    def _contract(self, name: str, number: int, rate: float, hours: int) -> Perpetual:
        multiplier, now = self.multiplier[name], self._market.now
        price = self._market.price[name] * multiplier * exp(self._basis[name] - self._behind)
        coins, at = self._coins[name] / multiplier, None
        if self._venue == BINANCE:  # read in turn: majors always, the others every third minute
            if name in MAJORS or number % 3 == now // MINUTE % 3 or name not in self._swept:
                self._swept[name] = coins, now - 5 * SECOND
            coins, at = self._swept[name]
        return Perpetual(
            contract=self.contract_of[name],
            base=name,
            last_price=float(f"{price:.{self._habits.digits}g}"),
            funding_rate_pct=rate * hours / 8,
            funding_interval_hours=hours,
            next_funding_time=now // (hours * HOUR) * hours * HOUR + hours * HOUR,
            open_interest_usd=None,
            open_interest_coins=coins,
            multiplier=multiplier,
            open_interest_at=at,
        )


Change = Callable[[Perpetual, int], Perpetual]
"""What an error does to a contract; the number of minutes since it began."""


def scaled(field: str, factor: float, *only: str) -> Change:
    """A field times a factor, of all contracts or some."""

    def change(contract: Perpetual, _: int) -> Perpetual:
        if only and contract.base not in only:
            return contract
        return replace(contract, **{field: getattr(contract, field) * factor})

    return change


def restated(contract: Perpetual, _: int) -> Perpetual:
    """Another interval with the same rate."""
    hours = 4.0 if contract.funding_interval_hours != 4 else 8.0
    return replace(contract, funding_interval_hours=hours)


def in_usd(contract: Perpetual, _: int) -> Perpetual:
    """Open interest in USD where coins are expected."""
    coins = contract.open_interest_coins or 0.0
    return replace(contract, open_interest_coins=coins * contract.last_price)


class Case(NamedTuple):
    """An error, the measure that it makes wrong, and within how many comparisons to find it."""

    measure: Measure
    within: int
    change: Change | None = None
    """None for frozen values and inverted sides."""


CASES = {
    "price +3 %": Case("price", 2, scaled("last_price", 1.03)),
    "price of BTC alone +3 %": Case("price", 2, scaled("last_price", 1.03, "BTC")),
    "price drifts 0.2 % per minute": Case(
        "price", 10, lambda each, age: scaled("last_price", 1.002 ** (age + 1))(each, age)
    ),
    "price per coin of 1000-coin contracts": Case(
        "price", 2, lambda each, _: replace(each, last_price=each.last_price / each.multiplier)
    ),
    "all values frozen": Case("price", 5),
    "funding x2": Case("funding", 2, scaled("funding_rate_pct", 2)),
    "funding x100": Case("funding", 2, scaled("funding_rate_pct", 100)),
    "funding of ETH alone x100": Case("funding", 2, scaled("funding_rate_pct", 100, "ETH")),
    "funding with the other sign": Case("funding", 2, scaled("funding_rate_pct", -1)),
    "wrong funding interval": Case("funding", 2, restated),
    "open interest +50 %": Case("open-interest", 2, scaled("open_interest_coins", 1.5)),
    "open interest of SOL alone x2": Case(
        "open-interest", 2, scaled("open_interest_coins", 2, "SOL")
    ),
    "open interest in USD": Case("open-interest", 2, in_usd),
    "liquidations with the other side": Case("liquidation-side", 20),
}


def distorted(case: Case, venue: str, seen: Sequence[Seen]) -> Iterator[Seen]:
    """Minutes with an error at one venue that begins with the second of them."""
    frozen = seen[0][0][venue].contracts
    for age, (readings, liquidated) in enumerate(seen[1:]):
        reading, liquidations = readings[venue], liquidated
        if case.change is not None:
            contracts = tuple(case.change(each, age) for each in reading.contracts)
        else:
            contracts = frozen if case.measure == "price" else reading.contracts
        if case.measure == "liquidation-side":
            liquidations = liquidated | {venue: [*map(_inverted, liquidated.get(venue, []))]}
        yield {**readings, venue: replace(reading, contracts=contracts)}, liquidations


def _inverted(liquidation: Liquidation) -> Liquidation:
    return replace(liquidation, side="short" if liquidation.side == "long" else "long")


def compared(
    tracker: DisputeTracker, seen: Seen, venues: Sequence[str] = THREE
) -> tuple[Dispute, ...]:
    """The disputes after one more minute."""
    readings = {venue: each for venue, each in seen[0].items() if venue in venues}
    if not readings:
        return ()
    now = max(reading.as_of for reading in readings.values())
    return tracker.compare(readings, seen[1], now).disputes


class Outcome(NamedTuple):
    """How one error was judged."""

    found_after: int | None
    """Comparisons with the error until its measure was disputed; None if it never was."""

    accused: frozenset[str]
    """Every venue that was disputed meanwhile."""


def judged(case: Case, wrong: str, venues: Sequence[str], seen: Sequence[Seen]) -> Outcome:
    """Let an error begin after `WARM` minutes."""
    tracker = DisputeTracker()
    found_after, accused = None, set()
    for each in seen[:WARM]:
        accused |= {dispute.venue for dispute in compared(tracker, each, venues)}
    for count, each in enumerate(distorted(case, wrong, seen[WARM - 1 :]), 1):
        disputes = compared(tracker, each, venues)
        accused |= {dispute.venue for dispute in disputes}
        is_found = any((d.venue, d.measure) == (wrong, case.measure) for d in disputes)
        if is_found and found_after is None:
            found_after = count
    return Outcome(found_after, frozenset(accused))


def false_accusations(seed: int, days: int, venues: Sequence[str], *, is_stressed: bool) -> int:
    """How many disputes begin in a market without errors."""
    market, tracker = Market(seed, is_stressed=is_stressed), DisputeTracker()
    known: set[tuple[str, Measure]] = set()
    count = 0
    for _ in range(days * DAY_OF_MINUTES):
        found = compared(tracker, market.minute(), venues)
        disputes = {(dispute.venue, dispute.measure) for dispute in found}
        count += len(disputes - known)
        known = disputes
    return count


def measure(plan: bench.Plan, _: Path) -> bench.Section:
    """Every case at every venue, then days without errors, then the time of a comparison."""
    seeds = range(plan.size(20, 1))
    minutes = [_minutes(seed) for seed in seeds]
    figures = [
        _case_figure(name, case, venues, minutes)
        for venues in (THREE, TWO)
        for name, case in CASES.items()
    ]
    days = plan.size(30, 1)
    for name, is_stressed in (("calm", False), ("stressed", True)):
        for venues in (THREE, TWO):
            count = false_accusations(99, days, venues, is_stressed=is_stressed)
            text = f"{name} days, {len(venues)} venues: false accusations"
            figures.append(bench.Figure(text, f"{count} in {days} days", "0", count == 0))
    return bench.Section(TITLE, [*figures, _duration(plan)])


def _minutes(seed: int) -> list[Seen]:
    market = Market(seed)
    return [market.minute() for _ in range(WARM + LONGEST)]


def _case_figure(
    name: str, case: Case, venues: Sequence[str], minutes: Sequence[Sequence[Seen]]
) -> bench.Figure:
    wrongs = [v for v in venues if case.measure != "liquidation-side" or v != HYPERLIQUID]
    outcomes = [(wrong, judged(case, wrong, venues, seen)) for seen in minutes for wrong in wrongs]
    times = [each.found_after for _, each in outcomes if each.found_after is not None]
    right = sum(each.accused == {wrong} for wrong, each in outcomes)
    text = f"{median(times):g} (worst {max(times)}), " if times else "never, "
    text += f"{len(times)} of {len(outcomes)} found, {right} only the right venue"
    is_met = len(times) == right == len(outcomes) and max(times) <= case.within
    return bench.Figure(f"{len(venues)} venues: {name}", text, f"<= {case.within}", is_met)


def _duration(plan: bench.Plan) -> bench.Figure:
    """The CPU time of a comparison of three venues with 600 coins, once everything is known."""
    market, tracker = Market(1, 700), DisputeTracker()
    durations = []
    for _ in range(plan.size(100, 40)):
        seen = market.minute()
        begun = time.process_time()
        compared(tracker, seen)
        durations.append(time.process_time() - begun)
    return bench.limited(
        "CPU time of a comparison, 3 x 600 contracts", 1e3 * median(durations[30:]), "ms", 20
    )
