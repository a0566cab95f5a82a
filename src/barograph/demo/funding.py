"""The funding rate, by the exchange's formula.

https://www.bybit.com/en/help-center/article/Introduction-to-Funding-Rate
"""

from typing import Final

INTEREST_8H: Final = 0.0001
"""0.01 % in eight hours: the difference of the two interest rates, fixed by the exchange."""

DAMPER: Final = 0.0005
"""While the premium is this close to the interest, the rate is the interest itself."""


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
