"""The funding rate, by the exchange's formula, and what becomes of it in the exchange's reports.

https://www.bybit.com/en/help-center/article/Introduction-to-Funding-Rate
"""

import math
from typing import Final

from barograph.demo.chance import key, mix, unit
from barograph.demo.paths import HOUR

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
