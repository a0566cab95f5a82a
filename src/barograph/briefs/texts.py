"""Writes the text of a brief: its sentences, its table, and what followed earlier cases (pure)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import floor
from statistics import median
from typing import NamedTuple

from barograph.briefs.records import LINE_END, Brief, Draft, E, Rule, cooldown_key
from barograph.kit.json import Json, canonical, digest
from barograph.kit.text import coverage, price, rate, usd
from barograph.kit.timestamps import (
    DAY,
    HOUR,
    SECOND,
    dated_text,
    day_text,
    iso_timestamp,
    time_text,
)
from barograph.markets.evidence import MarketEvidence
from barograph.markets.outcomes import FEWEST, Return, SeriesPoint, independent
from barograph.venues.records import MAJORS
from barograph.venues.registry import VENUES

DECIMALS = 2


class Followed(NamedTuple):
    """The price changes after earlier cases; recorded in the inputs of a brief."""

    symbol: str
    horizon_hours: int
    cases: int
    median_pct: float
    lowest_pct: float
    highest_pct: float

    @property
    def text(self) -> str:
        """The changes in words."""
        return (
            f"In the {self.horizon_hours} hours after {self.cases} earlier cases of this rule and "
            f"subject, the {self.symbol} price changed by {self.median_pct:+z.1f} % (median), and "
            f"by {self.lowest_pct:+z.1f} % to {self.highest_pct:+z.1f} % (lowest to highest). "
            "Cases that overlap in time are left out. This is no forecast."
        )


def what_followed(subject: str, starts: Sequence[int], evidence: MarketEvidence) -> Followed | None:
    """The changes in the day after each start; None for too few that don't overlap.

    They are of the major that the subject names, otherwise of BTC.
    """
    if len(starts) < FEWEST:
        return None
    named = subject.partition("-")[0].upper()
    symbol = named if named in MAJORS else "BTC"
    points = [SeriesPoint(*each) for each in evidence.trailing.prices(symbol)]
    change = Return(points, DAY, evidence.reading.as_of)
    taken = independent((at, change.after(at)) for at in starts)
    changes = [found.value for _, found in taken]
    if len(changes) < FEWEST:
        return None
    shown = (round(each, DECIMALS) for each in (median(changes), min(changes), max(changes)))
    return Followed(symbol, DAY // HOUR, len(changes), *shown)


def write_brief(
    rule: Rule[E],
    draft: Draft,
    evidence: MarketEvidence,
    times: int = 1,
    followed: Followed | None = None,
) -> Brief:
    """Write the brief of a draft.

    `times` is how often the rule found this in the last 7 days; `followed` is what followed before.
    """
    at = evidence.reading.as_of
    cited = draft.cited
    source, as_of, figures = draft.source or evidence.reading.source, at, ""
    if cited is not None:
        source, as_of, figures = cited.source, cited.as_of, f" figures of {cited.day},"
    again = f" This has happened {times} times in 7 days." if times > 1 else ""
    origin = f"Source: {source},{figures} as of {dated_text(as_of)}."
    counted = {"times_in_7_days": times} if times > 1 else {}
    measured: dict[str, Json] = {**draft.inputs, **counted}
    past: dict[str, Json] = {} if followed is None else {"followed": followed._asdict()}
    inputs = canonical({"source": source, "as_of": iso_timestamp(as_of), **measured, **past})
    written = f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d-%H%M}"
    return Brief(
        slug=draft.slug or f"{written}-{rule.id}-{draft.subject}",
        published_at=at,
        category=rule.category,
        headline=draft.headline,
        coins=tuple(draft.coins),
        summary=f"{draft.sentence.replace(LINE_END, ' ')}{again} {origin}",
        body=_body(rule, draft._replace(inputs=measured), again, origin, followed),
        source=source,
        rule=rule.id,
        window_start=draft.window[0],
        window_end=draft.window[1],
        inputs=inputs,
        inputs_digest=digest(inputs),
        cooldown_key=cooldown_key(rule.id, draft),
    )


def _body(rule: Rule[E], draft: Draft, again: str, origin: str, followed: Followed | None) -> str:
    lines = draft.sentence.split(LINE_END)
    lead = f"{draft.sentence}{again} {origin}"
    if len(lines) > 1:
        lead = "\n".join(f"- {line}" for line in lines) + f"\n\n{origin}"
    table = markdown_table(draft.table or [("Measure", "Value"), *labelled(draft.inputs)])
    earlier = f"## What followed earlier cases\n\n{followed.text}\n\n" if followed else ""
    return (
        f"{lead}\n\n## What was measured\n\n{table}\n\n{earlier}"
        f"## How it was found\n\n{rule.explanation}\n"
    )


LABELS = {
    "after": "Venue after",
    "at": "Time of the change",
    "aum_usd": "Assets of the funds",
    "before": "Venue before",
    "before_day": "Previous day",
    "before_funding_interval_hours": "Previous funding interval",
    "before_funding_rate_pct": "Previous rate, per interval",
    "before_settled_at": "Previous settlement",
    "before_slope_pct": "Previous slope",
    "coins_change_pct": "Open interest change, in coins",
    "contract": "Contract",
    "coverage": "Coverage",
    "day": "Day",
    "days": "Net flow by day",
    "flow_5d_pct": "Net flow in five days, share of assets",
    "flow_5d_usd": "Net flow in five days",
    "funding_8h_pct": "Funding per 8 h",
    "funding_interval_hours": "Funding interval",
    "funding_rate_pct": "Rate at the settlement, per interval",
    "highest_pct": "Highest of the hours compared",
    "hours_compared": "Hours compared",
    "kind": "Failure of the exchange",
    "label_after": "Regime after",
    "label_before": "Regime before",
    "largest_usd": "Largest assets",
    "last_price": "Price",
    "last_price_before": "Price 24 hours earlier",
    "long_account_pct": "Long accounts",
    "long_usd": "Longs liquidated",
    "lowest_pct": "Lowest of the hours compared",
    "needed_pct": "Coverage needed",
    "open_interest_usd": "Open interest, in USD",
    "open_interest_usd_before": "Open interest 24 hours earlier, in USD",
    "percentile": "Percentile, equal values count half",
    "read_at": "Report read",
    "reason": "Reason",
    "settled_at": "Settlement",
    "short_usd": "Shorts liquidated",
    "since": "Last reading before the gap",
    "slope_pct": "Slope, 10 years less 3 months",
    "spread_pct": "Difference per 8 h",
    "such_hours_in_7_days": "Hours like this in 7 days",
    "times_in_7_days": "Occurrences in 7 days",
    "until": "First reading after the gap",
    "us10y_pct": "10-year yield",
    "us3m_pct": "3-month yield",
    "volatility_pct": "Volatility, annualised",
    "watched_pct": "Coverage of the hour",
    "windows_compared": "Windows of 8 hours compared",
}
"""The names of inputs in words."""

UNKNOWN = "\N{EN DASH}"
_HUNDREDTHS = "{:z.2f} %".format
_PERCENT: dict[str, Callable[[float], str]] = {
    "before_funding_rate_pct": rate,
    "before_slope_pct": _HUNDREDTHS,
    "coins_change_pct": "{:+z.1f} %".format,
    "flow_5d_pct": _HUNDREDTHS,
    "funding_8h_pct": rate,
    "funding_rate_pct": rate,
    "needed_pct": "{:g} %".format,
    "slope_pct": _HUNDREDTHS,
    "spread_pct": "{:.4f} %".format,
    "us10y_pct": _HUNDREDTHS,
    "us3m_pct": _HUNDREDTHS,
    "watched_pct": coverage,
}
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?")


def labelled(inputs: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """The inputs of a rule, each with its name in words and its unit."""
    for name, value in inputs.items():
        yield LABELS.get(name, name.replace("_", " ").capitalize()), _shown(name, value)


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
            " ".join(_shown(*each_of) for each_of in each.items())
            if isinstance(each, dict)
            else str(each)
            for each in value
        )
    return _text(value) if isinstance(value, str) else _number(name, value)


def _text(value: str) -> str:
    match = _TIME.fullmatch(value)
    if match is None:
        return VENUES[value].title if value in VENUES else value
    at = int(datetime.fromisoformat(f"{value[:10]}{match[1] or 'T00:00Z'}").timestamp()) * SECOND
    return day_text(at) if match[1] is None else time_text(at)


def _number(name: str, value: float) -> str:
    if "_usd" in name:
        return f"{'-' if value < 0 else ''}{usd(abs(value))}"
    if "price" in name:
        return price(value)
    if name == "percentile":
        return f"{floor(10 * value) / 10}"  # 99.97 is not all
    if name.endswith("_pct"):
        return _PERCENT.get(name, "{:.1f} %".format)(value)
    return f"{value:g} h" if name.endswith("interval_hours") else f"{value:,g}"
