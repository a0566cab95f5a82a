"""The simulated world: prices, funding and positions of every contract at any time.

A pure function of seed, epoch and time: every process that agrees on these gets the same values,
in whatever order it asks. Caches change the cost of an answer, never the answer.
"""

import math
from typing import Final, NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph_demo.world.coin_market import CoinMarket
from barograph_demo.world.contracts import (
    FUTURE,
    PERPETUALS,
    STRESSED_COINS,
    Contract,
    copies,
    listed_futures,
)
from barograph_demo.world.liquidations import Liquidations, SimulatedLiquidation
from barograph_demo.world.randomness import NORMAL, QUANTILE_MASK, CommonMoves, key, mix, unit

INTEREST_8H: Final = 0.0001
"""0.01 % per eight hours: the interest component of funding, fixed by the exchange."""

DAMPER: Final = 0.0005
"""While the premium is this close to the interest, the rate equals the interest."""

CORRECTED: Final = "BTCUSDT"
"""The contract whose settled rates the exchange sometimes corrects."""

CORRECTED_EVERY: Final = 30
"""One of 30 settlements (ten days) is corrected."""

CORRECTED_AFTER: Final = 25 * HOUR
"""The delay of a correction: just after the interval one day later has begun."""

WARM_UP_HOURS: Final = 48
"""The world starts this long before its epoch, so that a day's change exists at the epoch."""

RATIO_PERIOD: Final = 5 * MINUTE
"""The exchange counts long and short accounts every five minutes."""

_INTERVAL: Final = 8 * HOUR
_YEAR: Final = 365 * DAY
_CARRY: Final = 0.045


def interest(hours: int) -> float:
    """The interest of one funding interval."""
    return INTEREST_8H * hours / 8


def funding_rate(premium: float, hours: int, cap: float) -> float:
    """The rate of one interval: premium + clamp(interest - premium, ±0.05 %), within ±cap.

    The cases are spelled out so that the middle one is exactly the interest, without a rounding
    error.
    """
    base = interest(hours)
    if premium > base + DAMPER:
        rate = premium - DAMPER
    elif premium < base - DAMPER:
        rate = premium + DAMPER
    else:
        rate = base
    return max(-cap, min(cap, rate))


def reported_rate(seed: int, symbol: str, time: int, rate: float, now: int) -> float:
    """The rate that the exchange reports at `now` for a settlement at `time`."""
    if symbol != CORRECTED or now < time + CORRECTED_AFTER:
        return rate
    return rate - math.copysign(_correction(seed, time // _INTERVAL), rate)


def corrections(seed: int, start: int, end: int) -> list[int]:
    """The times after `start`, up to `end`, at which the exchange corrects a settlement."""
    first, last = ((each - CORRECTED_AFTER) // _INTERVAL for each in (start, end))
    return [
        number * _INTERVAL + CORRECTED_AFTER
        for number in range(first + 1, last + 1)
        if _correction(seed, number) > 0
    ]


def _correction(seed: int, number: int) -> float:
    """How much a settlement's rate is moved towards zero later; mostly 0."""
    block, locate = divmod(number, CORRECTED_EVERY)
    state = mix(key(seed, "correction", CORRECTED) ^ block)
    return 0.000002 + 0.000007 * unit(mix(state)) if locate == state % CORRECTED_EVERY else 0.0


class SimulatedSettlement(NamedTuple):
    """A past funding payment."""

    time: int
    rate: float


class World:
    """Prices, funding, positions and accounts of every contract.

    `extra` perpetuals make it as large as a real exchange; each copies the market of another.
    """

    def __init__(self, seed: int, epoch: int, extra: int = 0) -> None:
        if epoch % HOUR or epoch <= WARM_UP_HOURS * HOUR:
            raise ValueError(f"the epoch must be a full hour, in milliseconds: {epoch}")
        self.seed = seed
        self.epoch = epoch
        self.birth = epoch - WARM_UP_HOURS * HOUR
        self._common = CommonMoves(seed, STRESSED_COINS)
        self._markets: dict[str, CoinMarket] = {}
        for contract in PERPETUALS:
            self._create_market(contract)
        self._liquidations = Liquidations(seed, self.birth, self._markets)
        self._perpetuals = {contract.symbol: contract for contract in PERPETUALS}
        for contract, model in copies(extra):
            self._markets[contract.coin] = self._markets[model]
            self._perpetuals[contract.symbol] = contract
        self._ratio_keys = {coin: key(seed, "ratio", coin) for coin in self._markets}
        self._listed: tuple[tuple[Contract, ...], tuple[Contract, ...]] = ((), ())

    def _create_market(self, contract: Contract) -> None:
        if contract.coin not in self._markets:
            market = CoinMarket(self.seed, self.birth, contract, self._common)
            self._markets[contract.coin] = market

    def add_market(self, contract: Contract) -> None:
        """Simulate the market of a coin that only other venues list."""
        self._create_market(contract)
        self._ratio_keys.setdefault(contract.coin, key(self.seed, "ratio", contract.coin))

    @property
    def perpetuals(self) -> list[Contract]:
        """Every contract without a delivery date."""
        return list(self._perpetuals.values())

    def simulate_to(self, now: int) -> None:
        """Simulate up to a time, so that the first request doesn't have to wait."""
        for market in self._markets.values():
            market.locate(now)

    def contracts(self, now: int) -> tuple[Contract, ...]:
        """Every contract listed at a time, sorted by symbol."""
        futures = listed_futures(now)
        if self._listed[0] is not futures:
            everything = sorted(
                (*self._perpetuals.values(), *futures), key=lambda each: each.symbol
            )
            self._listed = (futures, tuple(everything))
        return self._listed[1]

    def contract(self, symbol: str, now: int) -> Contract | None:
        """The contract with this symbol, if listed at this time."""
        found = self._perpetuals.get(symbol)
        if found is not None or "-" not in symbol:
            return found
        return next((future for future in listed_futures(now) if future.symbol == symbol), None)

    def market(self, contract: Contract) -> CoinMarket:
        """The market that a contract follows."""
        return self._markets[contract.coin]

    def carry(self, contract: Contract, now: int) -> float:
        """A contract's price relative to its coin's perpetual."""
        if contract.kind != FUTURE:
            return 1.0
        return math.exp(_CARRY * max(0, contract.delivery - now) / _YEAR)

    def price(self, contract: Contract, now: int) -> float:
        """The last traded price."""
        return math.exp(self._markets[contract.coin].log_price(now)) * self.carry(contract, now)

    def funding_rate(self, contract: Contract, now: int) -> float:
        """The rate at which the current interval would settle now."""
        interval = contract.funding_hours * HOUR
        premium = self._markets[contract.coin].mean_premium(now - now % interval, now)
        return funding_rate(premium, contract.funding_hours, contract.funding_cap)

    def next_funding(self, contract: Contract, now: int) -> int:
        """When the current interval ends."""
        interval = contract.funding_hours * HOUR
        return now - now % interval + interval

    def settlements(self, contract: Contract, start: int, end: int) -> list[SimulatedSettlement]:
        """The settled rates between two times, both included, oldest first."""
        interval = contract.funding_hours * HOUR
        market = self._markets[contract.coin]
        first = -(-max(start, self.birth + interval) // interval) * interval
        return [
            SimulatedSettlement(
                time,
                funding_rate(
                    market.mean_premium(time - interval, time),
                    contract.funding_hours,
                    contract.funding_cap,
                ),
            )
            for time in range(first, end + 1, interval)
        ]

    def open_interest(self, contract: Contract, now: int) -> float:
        """Coins in open positions, counting one side."""
        typical = contract.open_interest_usd / contract.price
        return typical * math.exp(self._markets[contract.coin].interest_at(now))

    def long_share(self, contract: Contract, now: int) -> float:
        """The share of long accounts at the last count."""
        period = now // RATIO_PERIOD
        crowd = self._markets[contract.coin].crowd_at(period * RATIO_PERIOD)
        noise = NORMAL[mix(self._ratio_keys[contract.coin] ^ period) & QUANTILE_MASK]
        return 1.0 / (1.0 + math.exp(-(crowd + 0.012 * noise)))

    def turnover(self, contract: Contract, start: int, end: int) -> float:
        """Turnover between two times, in the quote coin."""
        market = self._markets[contract.coin]
        share = market.turnover_until(end) - market.turnover_until(start)
        return share * contract.open_interest_usd

    def liquidations(self, start: int, end: int) -> list[SimulatedLiquidation]:
        """The liquidations from `start` up to but not including `end`, in order."""
        return self._liquidations.between(start, end)
