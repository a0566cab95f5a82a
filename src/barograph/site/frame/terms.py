"""What an instance asks for, as pages tell it."""

from decimal import Decimal
from typing import NamedTuple


class Terms(NamedTuple):
    """What this instance asks for, and whether it takes it by x402."""

    feed_price: Decimal
    feed_period_days: int
    stance_price: Decimal
    takes_payments: bool
    contact: str = ""
    """Where people ask for Feed or Reserve, as `mailto:` or https; empty: not configured."""
