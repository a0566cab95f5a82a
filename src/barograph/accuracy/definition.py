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
PLACES = 6
"""Decimals of published figures."""

TESTS = len(KINDS) * len(CLAIMS) * len(HORIZONS)
MISSES_PER = 20
"""The intervals of all claims together fail at most once in so many pages."""

EXTREME = 20
DRAWS = EXTREME * TESTS * MISSES_PER
"""How many random choices of signs there are, and how many may give a sum beyond the interval."""

USUAL = DRAWS * 2 // 5
"""The place of the absolute sum that 80 % of all signed sums don't exceed."""

ROOM = 0.01
"""With less room, a difference widens its limit nearly as fast as it grows and is never found."""

EPISODE = 2
SHORTEST = 3 * DAY
"""An episode lasts two horizons, so that cases two episodes apart never overlap, and three days,
because a label that follows the price ends with its move: short episodes are rather lopsided."""

FEWEST_EPISODES = 10
"""With nine, even equal signs in all episodes are too likely for the interval."""

MATTERS: Final = {"8h": 0.25, "24h": 0.5, "7d": 1.0}
"""Returns in percent that would matter to a trader: a round trip costs 0.1 to 0.2 %, and usual
moves grow with the square root of time."""

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


NAME = "accuracy/2"

DEFINITION: Final[dict[str, Json]] = {
    "name": NAME,
    "versions": "Every version that is revealed by the time of the calculation and was issued at "
    "or after both this definition and the announcement that applies to it. Withdrawn versions "
    "count. A new definition starts the counts again.",
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
    "cases": "One per leg: its first version (revision 1), which is what readers saw first. Later "
    "revisions know more, and one leg must not count twice. Measured periods may overlap.",
    "baselines": {
        "others": "The same measure after the cases of the same kind with any other label.",
        "persistence": "The same measure over the time of equal length before each case. Daily "
        "figures: from the last day with a figure at least 1 or 7 days before the start of the "
        "case, and at most 4 days earlier than that. It is described and not tested.",
    },
    "quantiles_percent": list(QUANTILES),
    "quantiles": "Linear between order statistics: position (n - 1) * p / 100, counted from 0. "
    "Published figures have 6 decimals, and findings compare published figures.",
    "episodes": "All cases of a kind in the order of recording, by horizon. A case begins an "
    f"episode if its label is not that of the case before and it was issued {EPISODE} horizons and "
    f"{SHORTEST // DAY} days or more after the first case of the current episode.",
    "difference": "Mean after the label minus mean after the other labels. A case with the label "
    "adds (value - m) / n to the score of its episode, one of the others subtracts (value - m) / "
    "n, where n counts its group and m is the mean of both groups. The difference is the sum of "
    "the scores.",
    "interval": f"difference - c to difference + c. In {DRAWS} draws, each episode keeps or "
    f"changes the sign of its score; c is number {EXTREME} of the absolute sums, the largest "
    "first, times sqrt(e / (e - 2)), where e counts the episodes. So all tests together find "
    "something in about 5 % of records at most if labels say nothing.",
    "signs": "The output of SHAKE-256 of the UTF-8 bytes of the name of this definition. With e "
    "episodes that have a score, in order, each draw takes the next ceil(e / 8) bytes; bit k "
    "(1 << k) of byte j belongs to episode 8 * j + k, and 0 changes the sign.",
    "detectable": "The smallest difference d that would have been found in about 80 % of such "
    "records: d = u * r / s + c / s * sqrt(r * r + w * d * d). s is the root of the sum of squared "
    f"scores, u is number {USUAL} of the absolute sums, and r is s after each score has lost the "
    "difference times the weight of its episode; w is the sum of squared weights. A case weighs "
    "o / (n * (n + o)), where n counts its group and o the other one. Null if 1 - w * c * c / (s * "
    f"s) is under {ROOM}: then no difference, however large, would have been found.",
    "tests": TESTS,
    "fewest_cases": FEWEST,
    "fewest_episodes": FEWEST_EPISODES,
    "fewest": "Where the cases with the label or the others are fewer, or those with the label lie "
    "in fewer episodes, there are counts and nothing else (too-few).",
    "claims": dict(CLAIMS),
    "matters_percent": dict(MATTERS),
    "finding": "Only for btc_return and labels with a claim; others are not-tested. higher or "
    "lower: the interval lies above or below 0. no-difference: it lies within minus and plus what "
    "matters. Otherwise could-not-tell.",
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
