"""The `limit` parameter of briefs (pure)."""

from barograph.kit.query import Query, clamped

DEFAULT = 15
LOWEST = 1
HIGHEST = 50


def limit_from_query(query: Query) -> int:
    """Read `limit`: any integer is brought into the range, anything else means the default."""
    return clamped(query.getlist("limit"), default=DEFAULT, lowest=LOWEST, highest=HIGHEST)
