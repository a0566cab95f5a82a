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
"""Share of the log-volatility's distance from its mean that it loses per hour."""

BLOCK_HOURS: Final = 192
MAJORS: Final = frozenset({"BTC", "ETH", "SOL"})
_CONTRARY: Final = 0.2

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
        self._level = 0.0
        self._sentiment = 0.0

    def simulate_to(self, hours: int) -> None:
        """Simulate until `hours` hours are known."""
        gauss, uniform = self._random.gauss, self._random.random
        while len(self.shock) < hours:
            jump = gauss(0.0, 3.6) if uniform() < 1 / 110 else 0.0
            self.shock.append(gauss(0.0, 1.0))
            self.log_volatility.append(self._level)
            self.jump.append(jump)
            # A jump raises volatility, a fall more than a rise.
            rise = 0.04 * abs(jump) + (0.03 * -jump if jump < 0 else 0.0)
            self._level += -REVERSION * self._level + 0.085 * gauss(0.0, 1.0) + rise
            self.sentiment.append(self._sentiment)
            self._sentiment += -0.02 * self._sentiment + 0.00005 * self._moods.gauss(0.0, 1.0)

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


@dataclass(frozen=True, slots=True)
class MoodSwing:
    """Some days in which longs or shorts press harder; hours count from the start of the world.

    Usually a perpetual's premium is small enough for its funding rate to equal the interest rate.
    Once per block of eight days the mood swings and funding leaves it, up and down in turn.
    """

    start: float
    length: float
    peak: float

    def at(self, hour: int) -> float:
        """The premium that this swing adds, as a fraction of the price."""
        along = (hour - self.start) / self.length
        return self.peak * math.sin(math.pi * along) ** 2 if 0.0 < along < 1.0 else 0.0


def mood_swing(seed: int, coin: str, block: int) -> MoodSwing:
    """A coin's mood swing in a block of eight days."""
    draws = units(mix(key(seed, "mood", coin) ^ block), 4)
    upwards = (block + key(seed, "mood") % 2) % 2 == 0
    # The majors lead and most others follow.
    if coin not in MAJORS and draws[0] < _CONTRARY:
        upwards = not upwards
    strength = 0.00085 + 0.00055 * draws[1] if upwards else -0.00075 - 0.00045 * draws[1]
    if coin not in MAJORS:
        strength *= 0.7 + 1.3 * draws[2]
    length = 48.0 + 44.0 * draws[3]
    lead = unit(mix(key(seed, "mood", block)))
    start = block * BLOCK_HOURS + lead * 60.0 + draws[2] * 30.0
    return MoodSwing(start, length, strength)
