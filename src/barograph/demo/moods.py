"""The crowd's mood: spells in which longs or shorts press harder than usual.

Most of the time a perpetual's premium is small enough for its funding rate to sit at the pin. Once
in every block of eight days the mood swings for some days and funding leaves the pin, upwards and
downwards in turns.
"""

import math
from dataclasses import dataclass
from typing import Final

from barograph.demo.chance import key, mix, unit

BLOCK_HOURS: Final = 192

_MAJORS: Final = frozenset({"BTC", "ETH", "SOL"})
_CONTRARY: Final = 0.2


@dataclass(frozen=True, slots=True)
class Spell:
    """One swing of the mood; hours count from the birth of the world."""

    start: float
    length: float
    peak: float

    def at(self, hour: int) -> float:
        """The premium that this spell adds, as a fraction of the price."""
        along = (hour - self.start) / self.length
        return self.peak * math.sin(math.pi * along) ** 2 if 0.0 < along < 1.0 else 0.0


def spell(seed: int, coin: str, block: int) -> Spell:
    """The spell of a coin in a block of eight days."""
    state = mix(key(seed, "mood", coin) ^ block)
    draws = []
    for _ in range(4):
        draws.append(unit(state))
        state = mix(state)
    upwards = (block + key(seed, "mood") % 2) % 2 == 0
    # The majors lead and the others mostly follow: a market has one mood with exceptions.
    if coin not in _MAJORS and draws[0] < _CONTRARY:
        upwards = not upwards
    strength = 0.00085 + 0.00055 * draws[1] if upwards else -0.00075 - 0.00045 * draws[1]
    if coin not in _MAJORS:
        strength *= 0.7 + 1.3 * draws[2]
    length = 48.0 + 44.0 * draws[3]
    lead = unit(mix(key(seed, "mood", block)))
    start = block * BLOCK_HOURS + lead * 60.0 + draws[2] * 30.0
    return Spell(start, length, strength)
