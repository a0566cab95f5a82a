"""The simulated world: what every contract was worth at any time since its birth.

A pure function of seed, epoch and time: two processes that agree on these agree on everything, in
whatever order they ask. Caches inside change the cost of an answer, never the answer.
"""

import math
from typing import Final, NamedTuple

from barograph.demo.world.contracts import FUTURE, STANDING, Contract, dated
from barograph.demo.world.liquidations import Liquidation, Liquidations
from barograph.demo.world.paths import HOUR, Path
from barograph.demo.world.randomness import NORMAL, QUANTILE_MASK, Tide, key, mix, unit

INTEREST_8H: Final = 0.0001
"""0.01 % in eight hours: the difference of the two interest rates, fixed by the exchange."""

DAMPER: Final = 0.0005
"""While the premium is this close to the interest, the rate is the interest itself."""

CORRECTED: Final = "BTCUSDT"
"""The contract whose settled rates the exchange now and then reports anew."""

CORRECTED_EVERY: Final = 30
"""Of so many settlements in a row, ten days of three, one is reported anew."""

CORRECTED_AFTER: Final = 25 * HOUR
"""That happens so long after it, when the interval a day after it has just begun."""

_INTERVAL: Final = 8 * HOUR


def interest(hours: int) -> float:
    """The interest of one funding interval."""
    return INTEREST_8H * hours / 8


def funding_rate(premium: float, hours: int, cap: float) -> float:
    """The rate of one interval: premium + clamp(interest - premium, ±0.05 %), within ±cap.

    The three cases are spelled out, not computed, so that the pin is exactly the interest and not
    the interest plus a rounding error.
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
    """What the exchange reports at `now` of a settlement at `time`, which was at `rate`."""
    if symbol != CORRECTED or now < time + CORRECTED_AFTER:
        return rate
    return rate - math.copysign(_correction(seed, time // _INTERVAL), rate)


def corrections(seed: int, start: int, end: int) -> list[int]:
    """The instants after `start`, up to `end`, from which on a settlement is reported anew."""
    first, last = ((each - CORRECTED_AFTER) // _INTERVAL for each in (start, end))
    return [
        number * _INTERVAL + CORRECTED_AFTER
        for number in range(first + 1, last + 1)
        if _correction(seed, number) > 0
    ]


def _correction(seed: int, number: int) -> float:
    """How far the rate of a settlement turns out to have been from zero too far; mostly 0."""
    block, place = divmod(number, CORRECTED_EVERY)
    state = mix(key(seed, "correction", CORRECTED) ^ block)
    return 0.000002 + 0.000007 * unit(mix(state)) if place == state % CORRECTED_EVERY else 0.0


WARM_UP_HOURS: Final = 48
"""The world is born this long before its epoch, so that a day's change exists at the epoch."""

RATIO_PERIOD: Final = 300_000
"""The exchange counts long and short accounts every five minutes."""

_YEAR: Final = 365 * 24 * HOUR
_CARRY: Final = 0.045


class Settlement(NamedTuple):
    """A funding payment that happened."""

    time: int
    rate: float


class World:
    """Prices, funding, positions and accounts of every contract; times are in milliseconds."""

    def __init__(self, seed: int, epoch: int) -> None:
        if epoch % HOUR or epoch <= WARM_UP_HOURS * HOUR:
            raise ValueError(f"the epoch must be a full hour, in milliseconds: {epoch}")
        self.seed = seed
        self.epoch = epoch
        self.birth = epoch - WARM_UP_HOURS * HOUR
        tide = Tide(seed)
        self._paths: dict[str, Path] = {}
        for contract in STANDING:
            if contract.coin not in self._paths:
                self._paths[contract.coin] = Path(seed, self.birth, contract, tide)
        self._liquidations = Liquidations(seed, self.birth, self._paths)
        self._ratio_keys = {coin: key(seed, "ratio", coin) for coin in self._paths}
        self._standing = {contract.symbol: contract for contract in STANDING}
        self._listed: tuple[tuple[Contract, ...], tuple[Contract, ...]] = ((), ())

    def reach(self, now: int) -> None:
        """Simulate up to a time beforehand, so that the first to ask does not wait for it."""
        for path in self._paths.values():
            path.place(now)

    def contracts(self, now: int) -> tuple[Contract, ...]:
        """Everything listed at a time, by symbol."""
        futures = dated(now)
        if self._listed[0] is not futures:
            everything = sorted((*STANDING, *futures), key=lambda contract: contract.symbol)
            self._listed = (futures, tuple(everything))
        return self._listed[1]

    def contract(self, symbol: str, now: int) -> Contract | None:
        """The contract of this name, if it is listed at this time."""
        found = self._standing.get(symbol)
        if found is not None or "-" not in symbol:
            return found
        return next((future for future in dated(now) if future.symbol == symbol), None)

    def path(self, contract: Contract) -> Path:
        """The market that a contract follows."""
        return self._paths[contract.coin]

    def carry(self, contract: Contract, now: int) -> float:
        """What a contract's price is relative to its coin's perpetual."""
        if contract.kind != FUTURE:
            return 1.0
        return math.exp(_CARRY * max(0, contract.delivery - now) / _YEAR)

    def price(self, contract: Contract, now: int) -> float:
        """The last traded price."""
        return math.exp(self._paths[contract.coin].log_price(now)) * self.carry(contract, now)

    def funding_rate(self, contract: Contract, now: int) -> float:
        """The rate that the running interval would settle at if it ended now."""
        interval = contract.funding_hours * HOUR
        premium = self._paths[contract.coin].mean_premium(now - now % interval, now)
        return funding_rate(premium, contract.funding_hours, contract.funding_cap)

    def next_funding(self, contract: Contract, now: int) -> int:
        """When the running interval ends."""
        interval = contract.funding_hours * HOUR
        return now - now % interval + interval

    def settlements(self, contract: Contract, start: int, end: int) -> list[Settlement]:
        """The settled rates between two times, both included, oldest first."""
        interval = contract.funding_hours * HOUR
        path = self._paths[contract.coin]
        first = -(-max(start, self.birth + interval) // interval) * interval
        return [
            Settlement(
                time,
                funding_rate(
                    path.mean_premium(time - interval, time),
                    contract.funding_hours,
                    contract.funding_cap,
                ),
            )
            for time in range(first, end + 1, interval)
        ]

    def open_interest(self, contract: Contract, now: int) -> float:
        """Coins in open positions, one side of each counted."""
        usual = contract.open_interest_usd / contract.price
        return usual * math.exp(self._paths[contract.coin].interest_at(now))

    def long_share(self, contract: Contract, now: int) -> float:
        """The share of accounts that were long when they were last counted."""
        period = now // RATIO_PERIOD
        crowd = self._paths[contract.coin].crowd_at(period * RATIO_PERIOD)
        noise = NORMAL[mix(self._ratio_keys[contract.coin] ^ period) & QUANTILE_MASK]
        return 1.0 / (1.0 + math.exp(-(crowd + 0.012 * noise)))

    def turnover(self, contract: Contract, start: int, end: int) -> float:
        """What was traded between two times, in the quote coin."""
        path = self._paths[contract.coin]
        share = path.turnover_until(end) - path.turnover_until(start)
        return share * contract.open_interest_usd

    def liquidations(self, start: int, end: int) -> list[Liquidation]:
        """Forced closings from `start` up to but not including `end`, in order."""
        return self._liquidations.between(start, end)
