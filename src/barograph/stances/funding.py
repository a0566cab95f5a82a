"""The rule of `funding-regime-stance`, from what the primary venue settled for BTC (pure).

A leg is one funding interval. Rates are per eight hours and rounded as they are published. The
score is the percentile of the newest rate among those settled in the 30 days up to it. Settlements
with an unknown rate are left out, and a level that can't be known is absent, not zero.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from barograph.history.records import Decision, Leg, LegEvidence, Proposal
from barograph.kit.json import Json
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.evidence import percentile_rank
from barograph.markets.regime import EDGES_PCT
from barograph.markets.settlements import REVISION_DELAY, SettlementReport, interval_hours
from barograph.stances.rules import BY, condition
from barograph.venues.records import ContractName, eight_hour_rate

KIND = "funding-regime-stance"
METHOD = "funding-regime/2"
WINDOW_DAYS = 30
"""The score compares the settlements of this time, however many there are."""

EVIDENCE = (WINDOW_DAYS + 1) * DAY
"""How far back rates count: the score of 24 hours ago needs one more day."""

NEEDED_PCT = 95
"""How much of the window the known rates must cover. The unknown ones could then move the score by
at most five points."""

CROWD_HOURS = 16
"""How long a side must have paid heavily to count as crowded: two intervals of eight hours."""

PLACES = 4
"""Decimals of published rates. The rule sees the same, so a smaller correction changes nothing."""

RATE_PATH = "levels.fundingRatePct8h"
SHORT_CROWDED_PCT, SHORT_PCT, _, LONG_CROWDED_PCT = EDGES_PCT

Levels = dict[str, Json]


class Settlement(NamedTuple):
    """A settlement of the BTC perpetual whose rate is known."""

    at: int
    hours: float
    """The length of its interval."""

    rate: float
    """In percent per eight hours, as published."""

    read_at: int


def published_rate(rate_pct: float, hours: float) -> float:
    """A rate per eight hours, rounded; never a negative zero."""
    return round(eight_hour_rate(rate_pct, hours), PLACES) + 0.0


def known_settlements(revisions: Sequence[SettlementReport], now: int) -> list[Settlement]:
    """The settlements whose rates are known, oldest first, from all revisions of their reports.

    A rate whose published digits have changed is unknown until they stay the same for a while.
    """
    reports = {at: list(group) for at, group in groupby(revisions, lambda each: each.at)}
    hours = interval_hours(list(reports))
    found = []
    for at, given in reports.items():
        until = [*(following.read_at for following in given[1:]), now]
        recent = [
            each for each, end in zip(given, until, strict=True) if end > now - REVISION_DELAY
        ]
        rates = {published_rate(each.funding_rate_pct, hours[at]) for each in recent}
        if len(rates) == 1:
            found.append(Settlement(at, hours[at], rates.pop(), given[-1].read_at))
    return found


def method_of(venue: str) -> str:
    """The method names the venue, so that a comparison across a change of venue abstains."""
    return f"{METHOD} {venue}"


def propose(
    settlements: Sequence[Settlement], name: ContractName, source: str, now: int, grace: int
) -> Proposal | None:
    """Propose a stance on the newest settlement; None unless its interval is running.

    `settlements` are oldest first.
    """
    if not settlements:
        return None
    newest = settlements[-1]
    end = newest.at + round(newest.hours * HOUR)
    if not newest.at <= now < end:
        return None
    used = [each for each in settlements if each.at > newest.at - EVIDENCE]
    if newest.hours > used[-2:][0].hours:  # a report may be missing
        return None
    score = _scores(used)
    start = iso_timestamp(newest.at)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{start}",
        issued_at=now,
        expires_at=end + grace,
        leg=Leg(
            period={"start": start, "end": iso_timestamp(end)},
            levels={"fundingRatePct8h": newest.rate, **score},
            decision=_decide(used, score),
            conditions=list(_CONDITIONS),
            method=method_of(name.venue),
            evidence=LegEvidence(
                source=source,
                observed_at=iso_timestamp(max(each.read_at for each in used)),
                inputs={
                    "contract": name.contract,
                    "settled_at": start,
                    "rates_pct_8h": [[iso_timestamp(each.at), each.rate] for each in used],
                    "covered_pct": _covered_pct(_window(used, newest.at)),
                    "levels": score,
                },
            ),
        ),
    )


def _scores(used: Sequence[Settlement]) -> Levels:
    """The score, the score 24 hours ago and their difference; each absent when unknown."""
    at = used[-1].at
    now, before = _score(used, at), _score(used, at - DAY)
    levels: Levels = {}
    if now is not None:
        levels["score"] = now
    if before is not None:
        levels["score24hAgo"] = before
    if now is not None and before is not None:
        levels["delta24h"] = round(now - before, 2)
    return levels


def _score(used: Sequence[Settlement], at: int) -> float | None:
    """The percentile of the rate settled at an instant; None if it or too many are unknown."""
    window = _window(used, at)
    if not window or window[-1].at != at or _covered_pct(window) < NEEDED_PCT:
        return None
    return round(percentile_rank(window[-1].rate, sorted(each.rate for each in window)), 2)


def _window(used: Sequence[Settlement], end: int) -> list[Settlement]:
    return [each for each in used if end - WINDOW_DAYS * DAY < each.at <= end]


def _covered_pct(window: Sequence[Settlement]) -> float:
    """How much of the window the intervals of these settlements are."""
    return min(100.0, round(100 * sum(each.hours for each in window) / (WINDOW_DAYS * 24), 2))


def _decide(used: Sequence[Settlement], score: Levels) -> Decision:
    rate, window = used[-1].rate, _window(used, used[-1].at)
    label, why = _label(rate, _crowd(used))
    confidence = "low" if "score" not in score else "medium" if "delta24h" not in score else "high"
    rationale = (
        f"BTC funding settled at {rate:+.{PLACES}f} % per 8 hours: {why}. The exchange has "
        f"reported {len(window)} rates for the last {WINDOW_DAYS} days, "
        f"{_covered_pct(window):g} % of that time."
    )
    return Decision(label, confidence, rationale, BY)


def _crowd(used: Sequence[Settlement]) -> list[float]:
    """The rates of the last 16 hours; none unless all of them are known."""
    recent = [each for each in used if each.at > used[-1].at - CROWD_HOURS * HOUR]
    is_whole = sum(each.hours for each in recent) >= CROWD_HOURS
    return [each.rate for each in recent] if is_whole else []


def _label(rate: float, crowd: Sequence[float]) -> tuple[str, str]:
    """The label and the reason; a crowded side must have paid heavily for 16 hours."""
    if crowd and min(crowd) >= LONG_CROWDED_PCT:
        return "cautious", f"longs paid heavily at every settlement of the last {CROWD_HOURS} hours"
    if crowd and max(crowd) <= SHORT_CROWDED_PCT:
        return (
            "stand-aside",
            f"shorts paid heavily at every settlement of the last {CROWD_HOURS} hours",
        )
    if rate <= SHORT_PCT:
        return "constructive", "shorts paid longs"
    return (
        "neutral",
        f"neither side is known to have paid heavily for all of the last {CROWD_HOURS} hours",
    )


_CONDITIONS = (
    condition("longs pay heavily", RATE_PATH, ">=", LONG_CROWDED_PCT),
    condition("shorts pay heavily", RATE_PATH, "<=", SHORT_CROWDED_PCT),
    condition("shorts pay longs", RATE_PATH, "<=", SHORT_PCT),
)
