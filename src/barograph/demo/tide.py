"""What moves every coin at once."""

from array import array
from random import Random
from typing import Final

from barograph.demo.chance import key

CALM: Final = 0.03
"""Share of the log-volatility's distance from its mean that an hour takes back."""


class Tide:
    """Hour by hour: a common shock, a common volatility, rare common jumps."""

    def __init__(self, seed: int) -> None:
        self._random = Random(key(seed, "tide"))
        self.shock = array("d")
        self.swell = array("d")
        self.jump = array("d")
        self._level = 0.0

    def reach(self, hours: int) -> None:
        """Simulate until so many hours are known."""
        gauss, uniform = self._random.gauss, self._random.random
        while len(self.shock) < hours:
            jump = gauss(0.0, 3.6) if uniform() < 1 / 110 else 0.0
            self.shock.append(gauss(0.0, 1.0))
            self.swell.append(self._level)
            self.jump.append(jump)
            # A blow stirs the market up, a fall more than a rise.
            stir = 0.04 * abs(jump) + (0.03 * -jump if jump < 0 else 0.0)
            self._level += -CALM * self._level + 0.085 * gauss(0.0, 1.0) + stir
