"""The tint of a number: how far it is from zero, as a CSS class (pure)."""

from bisect import bisect_right

Edges = tuple[tuple[float, ...], tuple[float, ...]]
"""Where the tints begin: above zero, and below it without the sign."""

FUNDING_EDGES: Edges = ((0.015, 0.03, 0.06, 0.12), (0.005, 0.03, 0.06, 0.12))
"""In percent per 8 hours, from the bands of the regime: the resting rate of 0.01 has no tint."""

CHANGE_EDGES: Edges = ((0.5, 2.0, 5.0, 10.0),) * 2
"""In percent."""

UNKNOWN = "tint-unknown"


def funding_tint(funding_8h_pct: float | None) -> str:
    """`tint-0` at rest, `tint-up-1` to `tint-up-4` if longs pay, `tint-down-…` if shorts do."""
    return _tint(funding_8h_pct, FUNDING_EDGES)


def change_tint(change_pct: float | None) -> str:
    """`tint-0` for hardly any change, `tint-up-1` to `tint-up-4` for a rise, `tint-down-…`."""
    return _tint(change_pct, CHANGE_EDGES)


def _tint(value: float | None, edges: Edges) -> str:
    if value is None:
        return UNKNOWN
    strength = bisect_right(edges[value < 0], abs(value))
    return f"tint-{'up' if value > 0 else 'down'}-{strength}" if strength else "tint-0"
