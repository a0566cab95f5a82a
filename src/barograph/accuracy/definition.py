"""What is measured, and how (pure).

The collector records the definition in the log of events. Only versions that are recorded after
it count, so nobody can choose a measure that suits what has happened.
"""

from typing import Final, Literal, NamedTuple

from barograph.accuracy.records import FEWEST
from barograph.history.records import KINDS, LABELS
from barograph.kit.json import Json, canonical, digest
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.outcomes import SETTLED
from barograph.stances import etf, funding, rates

HORIZONS: Final = {"8h": 8 * HOUR, "24h": DAY, "7d": 7 * DAY}
CLAIMS: Final[dict[str, Literal["higher", "lower"]]] = {
    "constructive": "higher",
    "cautious": "lower",
}
"""What a label claims about the price of bitcoin."""

ABSTAINED = "stand-aside"
QUANTILES: Final = (10, 25, 50, 75, 90)
TESTS = len(KINDS) * len(CLAIMS) * len(HORIZONS)
MISSES_PER = 20
"""The intervals of all claims together fail at most once in so many pages."""

CLOSE = 21 * HOUR
MAX_GAP = 4 * DAY
LATE = HOUR


class Metric(NamedTuple):
    """One way to measure what followed."""

    unit: str
    kinds: tuple[str, ...]
    horizons: tuple[str, ...]
    rule: str


BTC_RETURN, FUNDING, US10Y_CHANGE, HOLDINGS = "btc_return", "funding", "us10y_change", "holdings"
_OF_DAYS = (
    "The start is the last day with a figure whose 21:00 UTC is not after the time of issue, at "
    "most 4 days before the last such day. The end is the first day with a figure that is at "
    "least 1 day (24h) or 7 days (7d) after the start, and at most 4 days later than that. "
    "Figures as they were known at the time of the calculation."
)
METRICS: Final[dict[str, Metric]] = {
    BTC_RETURN: Metric(
        "%",
        KINDS,
        tuple(HORIZONS),
        "Change of the hourly BTC price of the primary venue: from the first recorded hour at or "
        "after the time of issue to the first at or after the end of the horizon, each at most 2 "
        "hours late.",
    ),
    FUNDING: Metric(
        "% per 8 h",
        (funding.KIND,),
        tuple(HORIZONS),
        "Mean of the settled BTC funding rates per 8 hours of the primary venue, of settlements "
        "after the time of issue up to the end of the horizon.",
    ),
    US10Y_CHANGE: Metric(
        "percentage points",
        (rates.KIND,),
        ("24h", "7d"),
        f"Change of the ten-year US Treasury yield. {_OF_DAYS}",
    ),
    HOLDINGS: Metric(
        "BTC",
        (etf.KIND,),
        ("24h", "7d"),
        f"Change of the bitcoin that the covered funds hold. {_OF_DAYS}",
    ),
}


def metrics_of(kind: str) -> list[tuple[str, str]]:
    """The metrics and horizons by which a kind is measured."""
    return [
        (name, horizon)
        for name, metric in METRICS.items()
        if kind in metric.kinds
        for horizon in metric.horizons
    ]


DEFINITION: Final[dict[str, Json]] = {
    "name": "accuracy/1",
    "versions": "Every version that is revealed by the time of the calculation and was issued at "
    "or after both this definition and the announcement that applies to it. Withdrawn and "
    "revised versions count. A new definition starts the counts again.",
    "time": "Figures are as of a full hour (UTC).",
    "kinds": list(KINDS),
    "labels": list(LABELS),
    "horizons_hours": {name: length // HOUR for name, length in HORIZONS.items()},
    "metrics": {
        name: {
            "unit": each.unit,
            "kinds": list(each.kinds),
            "horizons": list(each.horizons),
            "rule": each.rule,
        }
        for name, each in METRICS.items()
    },
    "outcome": f"A return or a funding rate counts {SETTLED // HOUR} hours after its horizon has "
    "ended. Cases without an outcome are counted, and nothing replaces them.",
    "cases": "Per kind, label, metric and horizon, in the order of issue: a version becomes a case "
    "if its measured period starts at or after the end of that of the last case. Everything but "
    "counts of versions comes from these cases alone. Both baselines drop overlaps in the same "
    "way.",
    "baselines": {
        "unconditional": "The same measure at regular times: one start per horizon, from the "
        "issue of the first measured version up to that of the last.",
        "persistence": "The same measure over the time of equal length before each case. Daily "
        "figures: from the last day with a figure at least 1 or 7 days before the start of the "
        "case, and at most 4 days earlier than that.",
    },
    "quantiles_percent": list(QUANTILES),
    "quantiles": "Linear between order statistics: position (n - 1) * p / 100, counted from 0. "
    "Published figures have 6 decimals, and findings compare published figures.",
    "interval": "A confidence interval of the median: the order statistics k and n + 1 - k. k is "
    "the largest number for which 2 * P(B < k) is at most 0.05 / tests, where B is the number of "
    "heads among n fair coins.",
    "tests": TESTS,
    "fewest_cases": FEWEST,
    "fewest": "Where the cases or a baseline are fewer, all three have a count and nothing else.",
    "claims": dict(CLAIMS),
    "finding": "Only for btc_return and labels with a claim: the whole interval of the cases lies "
    "above (higher) or below (lower) the whole intervals of both baselines. Otherwise none, or "
    "too-few if the cases or a baseline are fewer than needed.",
    "counts": {
        "abstained": f"The label is {ABSTAINED}.",
        "expired": "It expired by the issue of the next version, or by the time of the "
        "calculation.",
        "revised": "leg.decision.by is not rule.",
        "withdrawn": "An operator withdrew it by the time of the calculation.",
        "late": {
            funding.KIND: "Revision 1, issued more than 1 hour after leg.period.start, the "
            "settlement.",
            **dict.fromkeys(
                (rates.KIND, etf.KIND),
                "Revision 1, issued more than 1 hour after leg.evidence.observed_at, when we had "
                "read the last of its figures.",
            ),
        },
    },
    "confidence": "It says how complete the data was; for btc-etf-stance, whether five days of "
    "flow were large. It is never scored.",
}

DEFINITION_DIGEST = digest(canonical(DEFINITION))
