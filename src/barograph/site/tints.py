"""The tint of a number: how far it is from zero, as a CSS class (pure)."""

from bisect import bisect_right

FUNDING_EDGES = (0.005, 0.015, 0.03, 0.06)
"""In percent per 8 hours. The usual rate of 0.01 has the faintest tint."""

CHANGE_EDGES = (0.5, 2.0, 5.0, 10.0)
"""In percent."""

UNKNOWN = "tint-unknown"


def funding_tint(funding_8h_pct: float | None) -> str:
    """`tint-0` for nothing, `tint-up-1` to `tint-up-4` if longs pay, `tint-down-…` if shorts do."""
    return _tint(funding_8h_pct, FUNDING_EDGES)


def change_tint(change_pct: float | None) -> str:
    """`tint-0` for hardly any change, `tint-up-1` to `tint-up-4` for a rise, `tint-down-…`."""
    return _tint(change_pct, CHANGE_EDGES)


def _tint(value: float | None, edges: tuple[float, ...]) -> str:
    if value is None:
        return UNKNOWN
    strength = bisect_right(edges, abs(value))
    return f"tint-{'up' if value > 0 else 'down'}-{strength}" if strength else "tint-0"
