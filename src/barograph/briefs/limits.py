"""The `limit` parameter of briefs (pure)."""

from barograph.kit.query import clamped, given_values

DEFAULT = 15
LOWEST = 1
HIGHEST = 50


def limit_from_query(query: bytes) -> int:
    """Read `limit`: any integer is brought into the range, anything else means the default."""
    return clamped(given_values(query, "limit"), default=DEFAULT, lowest=LOWEST, highest=HIGHEST)
