"""The plausible range of each value from an exchange (pure).

A value outside its range counts as a mistake of the exchange and so as unknown: we neither publish
it nor clamp it to the range. The ranges are wide, so that they don't hide a real extreme.
"""

from typing import NamedTuple


class Limits(NamedTuple):
    """The least and the greatest plausible value of a field, both included."""

    field: str
    least: float
    most: float

    def hold(self, value: float) -> bool:
        """Whether the value is within the limits."""
        return self.least <= value <= self.most


LAST_PRICE = Limits("lastPrice", 1e-12, 1e8)
"""In USDT: from a ten-thousandth of the smallest tick to about 1,000 times the price of bitcoin."""

FUNDING_RATE = Limits("fundingRatePct", -25.0, 25.0)
"""In percent per interval: exchanges cap their rates at 4 % or less."""

FUNDING_INTERVAL = Limits("fundingIntervalHours", 0.25, 24.0)
"""Exchanges settle every 1, 2, 4 or 8 hours. A tiny interval would inflate the rate per 8 hours."""

OPEN_INTEREST = Limits("openInterestUsd", 0.0, 1e12)
"""In USD: more than ten times the open interest of bitcoin on all exchanges together."""

LONG_ACCOUNTS = Limits("longAccountPct", 0.0, 100.0)

SETTLED_RATE = Limits("settledFundingRatePct", FUNDING_RATE.least, FUNDING_RATE.most)

LIQUIDATION = Limits("liquidation", 0.0, 1e11)
"""Notional in USD of one position: several times the open interest of the largest contract."""
