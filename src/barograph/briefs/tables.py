"""What a rule measured, as a table for people: names, units and times (pure)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from barograph.kit.json import Json, canonical
from barograph.kit.text import ordinal, price, usd
from barograph.kit.timestamps import SECOND, day_text, time_text

LABELS = {
    "after": "Venue after",
    "at": "Time of the change",
    "aum_usd": "Assets of the funds",
    "before": "Venue before",
    "before_day": "Day before",
    "before_funding_interval_hours": "Interval of the settlement before",
    "before_funding_rate_pct": "Rate of the settlement before",
    "before_settled_at": "Settlement before",
    "before_slope_pct": "Slope before",
    "contract": "Contract",
    "coverage": "Coverage",
    "day": "Day",
    "days": "Net flow by day",
    "flow_5d_pct": "Net flow in five days, share of assets",
    "flow_5d_usd": "Net flow in five days",
    "funding_8h_pct": "Funding per 8 h",
    "funding_interval_hours": "Funding interval",
    "funding_rate_pct": "Rate at the settlement",
    "highest_pct": "Highest of the hours compared",
    "hours_compared": "Hours compared",
    "kind": "Failure of the exchange",
    "label_after": "Regime after",
    "label_before": "Regime before",
    "largest_usd": "Largest assets",
    "last_price": "Price",
    "last_price_before": "Price 24 hours before",
    "long_account_pct": "Long accounts",
    "long_usd": "Longs liquidated",
    "lowest_pct": "Lowest of the hours compared",
    "needed_pct": "Coverage needed",
    "open_interest_usd": "Open interest",
    "open_interest_usd_before": "Open interest 24 hours before",
    "percentile": "Percentile",
    "read_at": "Rate last read",
    "reason": "Reason",
    "settled_at": "Settlement",
    "short_usd": "Shorts liquidated",
    "since": "Last reading before",
    "slope_pct": "Slope, 10 years less 3 months",
    "spread_pct": "Difference",
    "such_hours_in_7_days": "Such hours in 7 days",
    "times_in_7_days": "Times in 7 days",
    "until": "First reading after",
    "us10y_pct": "10-year yield",
    "us3m_pct": "3-month yield",
    "volatility_pct": "Volatility, annualised",
    "watched_pct": "Coverage of the hour",
}
"""The names of inputs in words."""

UNKNOWN = "\N{EN DASH}"
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?")


def labelled(inputs: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """The inputs of a rule, each with its name in words and its unit."""
    for name, value in inputs.items():
        yield LABELS.get(name, name.replace("_", " ")), _shown(name, value)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row has the names of the columns."""
    head, *body = (f"| {' | '.join(each.replace('|', '/') for each in row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def _shown(name: str, value: Json) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(name, each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(
            f"{_shown('day', each['day'])} {_shown('_usd', each['net_flow_usd'])}"
            if isinstance(each, dict)
            else str(each)
            for each in value
        )
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return canonical(value)
    return _number(name, value)


def _text(value: str) -> str:
    found = _TIME.fullmatch(value)
    if found is None:
        return value
    at = int(datetime.fromisoformat(f"{value[:10]}{found[1] or 'T00:00Z'}").timestamp()) * SECOND
    return day_text(at) if found[1] is None else time_text(at)


def _number(name: str, value: float) -> str:
    if "_usd" in name:
        return f"{'-' if value < 0 else ''}{usd(abs(value))}"
    if "price" in name:
        return price(value)
    if name == "percentile":
        return ordinal(value, 1)
    if name.endswith("_pct"):
        return f"{value:+.4f} %" if "funding" in name or name == "spread_pct" else f"{value:g} %"
    return f"{value:g} h" if name.endswith("interval_hours") else f"{value:,g}"
