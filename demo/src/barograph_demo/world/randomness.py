"""Random numbers that depend only on a key, and the random moves that all coins share."""

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from statistics import NormalDist
from typing import Final

_MASK: Final = (1 << 64) - 1
_UNIT: Final = 2.0**-53

QUANTILE_BITS: Final = 10
_QUANTILES: Final = 1 << QUANTILE_BITS
QUANTILE_MASK: Final = _QUANTILES - 1
NORMAL: Final = tuple(
    NormalDist().inv_cdf((index + 0.5) / _QUANTILES) for index in range(_QUANTILES)
)
"""Standard normal values, indexed by the low bits of a mixed number: one lookup per draw."""

REVERSION: Final = 0.03
"""Share of a coin's own log-volatility that it loses per hour."""

_CALMING: Final = 0.07
_SETTLING: Final = 0.005
"""The same for the two parts that all coins share. Half of a part is gone after ten hours and after
six days, so that volatility clusters within days and over weeks."""

MAJORS: Final = frozenset({"BTC", "ETH", "SOL"})

STRESS_HOURS: Final = 12
"""How often another coin comes under stress. It lasts for days, so a few coins always are."""

_LONGEST_STRESS: Final = 72
_SHORTS_CROWD: Final = 0.6


def key(*parts: object) -> int:
    """A 64-bit hash of these parts, in their order."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(value: int) -> int:
    """Scramble 64 bits (splitmix64): neighbouring inputs give unrelated outputs."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def unit(value: int) -> float:
    """Turn a mixed number into a fraction in [0, 1)."""
    return (value >> 11) * _UNIT


def units(value: int, count: int) -> list[float]:
    """A sequence of fractions in [0, 1) that starts with that of a mixed number."""
    found = []
    for _ in range(count):
        found.append(unit(value))
        value = mix(value)
    return found


@dataclass(frozen=True, slots=True)
class Stress:
    """Days in which one side crowds into a coin; hours count from the start of the world."""

    coin: str
    start: int
    length: int
    peak: float
    """The premium that it adds at its height: negative when shorts crowd in."""

    def at(self, hour: int) -> float:
        """How much of the height is reached, from 0 to 1."""
        along = (hour - self.start) / self.length
        return math.sin(math.pi * along) ** 2 if 0.0 < along < 1.0 else 0.0


class CommonMoves:
    """What all coins share, hour by hour: a shock, a volatility, rare jumps and a sentiment.

    It also knows which coins are under stress; `coins` are the ones that can be.
    """

    def __init__(self, seed: int, coins: Sequence[str]) -> None:
        self._coins = coins
        self._stress_key = key(seed, "stress")
        self.stresses = lru_cache(256)(self._compute_stresses)
        self._random = Random(key(seed, "tide"))
        self._moods = Random(key(seed, "sentiment"))
        self.sentiment = array("d")
        self.shock = array("d")
        self.log_volatility = array("d")
        self.jump = array("d")
        self._excitement = 0.0
        self._climate = 0.0
        self._sentiment = 0.0

    def simulate_to(self, hours: int) -> None:
        """Simulate until `hours` hours are known."""
        gauss, uniform = self._random.gauss, self._random.random
        while len(self.shock) < hours:
            jump = gauss(0.0, 3.6) if uniform() < 1 / 110 else 0.0
            self.shock.append(gauss(0.0, 1.0))
            self.log_volatility.append(self._excitement + self._climate)
            self.jump.append(jump)
            # A jump raises volatility, a fall more than a rise.
            rise = 0.06 * abs(jump) + (0.04 * -jump if jump < 0 else 0.0)
            self._excitement += -_CALMING * self._excitement + 0.11 * gauss(0.0, 1.0) + rise
            self._climate += -_SETTLING * self._climate + 0.036 * gauss(0.0, 1.0)
            self.sentiment.append(self._sentiment)
            self._sentiment += -0.01 * self._sentiment + 0.00004 * self._moods.gauss(0.0, 1.0)

    def _compute_stresses(self, block: int) -> dict[str, Stress]:
        """The coins under stress in a block of `STRESS_HOURS`, each with its newest stress."""
        oldest = block - _LONGEST_STRESS // STRESS_HOURS
        return {each.coin: each for each in map(self._stress, range(max(0, oldest), block + 1))}

    def _stress(self, block: int) -> Stress:
        state = mix(self._stress_key ^ block)
        side, depth, length = units(mix(state), 3)
        peak = 0.004 + 0.012 * depth * depth
        return Stress(
            self._coins[state % len(self._coins)],
            block * STRESS_HOURS,
            36 + int((_LONGEST_STRESS - 36) * length),
            -peak if side < _SHORTS_CROWD else peak,
        )
