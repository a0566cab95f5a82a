"""The rule of `funding-regime-stance`, from settled funding of the BTC perpetual (pure).

A leg is one funding interval. The score is the percentile of the settled rate among the last 90
settlements; it is absent, not zero, while there are fewer. Settlements with an unknown rate are
left out, and so are the levels that need them.
"""

from collections.abc import Sequence

from barograph.history.records import Decision, Leg, LegEvidence, Proposal
from barograph.kit.json import Json
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.evidence import percentile_rank
from barograph.markets.regime import EDGES_PCT, eight_hour_rate
from barograph.markets.settlements import SettledFunding
from barograph.stances.rules import BY, condition

KIND = "funding-regime-stance"
METHOD = "funding-regime/1"
WINDOW = 90
"""Settlements that the score compares: thirty days with three per day."""

PER_DAY = 3
RATE_PATH = "levels.fundingRatePct8h"
SHORT_CROWDED_PCT, SHORT_PCT, _, LONG_CROWDED_PCT = EDGES_PCT

Levels = dict[str, Json]


def method_of(venue: str) -> str:
    """The method names the venue, so that a comparison across a change of venue abstains."""
    return f"{METHOD} {venue}"


def propose(
    settlements: Sequence[SettledFunding], source: str, now: int, grace: int, venue: str
) -> Proposal | None:
    """Propose a stance on the newest settlement; None unless its interval is running.

    `settlements` are those of the BTC perpetual, oldest first.
    """
    if not settlements:
        return None
    newest = settlements[-1]
    end = newest.at + round(newest.funding_interval_hours * HOUR)
    if not newest.at <= now < end:
        return None
    rates = [
        eight_hour_rate(settlement.funding_rate_pct, settlement.funding_interval_hours)
        for settlement in settlements
    ]
    score = _scores(settlements, rates)
    start = iso_timestamp(newest.at)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{start}",
        issued_at=now,
        expires_at=end + grace,
        leg=Leg(
            period={"start": start, "end": iso_timestamp(end)},
            levels={"fundingRatePct8h": rates[-1], **score},
            decision=_decide(settlements, rates, score),
            conditions=list(_CONDITIONS),
            method=method_of(venue),
            evidence=_evidence(settlements, source, rates, score),
        ),
    )


def _scores(settlements: Sequence[SettledFunding], rates: Sequence[float]) -> Levels:
    """The score, the score 24 hours ago and their difference; each absent when unknown."""
    now = _score(rates)
    before_at = settlements[-1].at - DAY
    until = next(
        (i for i, settlement in enumerate(settlements) if settlement.at == before_at), None
    )
    before = None if until is None else _score(rates[: until + 1])
    levels: Levels = {}
    if now is not None:
        levels["score"] = now
    if before is not None:
        levels["score24hAgo"] = before
    if now is not None and before is not None:
        levels["delta24h"] = round(now - before, 2)
    return levels


def _score(rates: Sequence[float]) -> float | None:
    if len(rates) < WINDOW:
        return None
    return round(percentile_rank(rates[-1], sorted(rates[-WINDOW:])), 2)


def _evidence(
    settlements: Sequence[SettledFunding], source: str, rates: Sequence[float], score: Levels
) -> LegEvidence:
    newest, before = settlements[-1], _settled_before(settlements)
    compared = settlements[-WINDOW:]
    backfilled = sum(each.is_backfilled for each in compared)
    if backfilled:
        source += f"; {backfilled} of {len(compared)} rates from the exchange's own history"
    return LegEvidence(
        source=source,
        observed_at=iso_timestamp(newest.read_at),
        inputs={
            "contract": newest.contract,
            "settled_at": iso_timestamp(newest.at),
            "settled_before_at": None if before is None else iso_timestamp(before.at),
            "rates_pct_8h": list(rates[-PER_DAY - 1 :]),
            "settlements_compared": min(len(rates), WINDOW),
            "levels": score,
        },
    )


def _settled_before(settlements: Sequence[SettledFunding]) -> SettledFunding | None:
    """The settlement just before the newest; None when its rate is unknown."""
    newest, earlier = settlements[-1], settlements[-2:-1]
    start = newest.at - round(newest.funding_interval_hours * HOUR)
    return earlier[0] if earlier and earlier[0].at >= start else None


def _decide(
    settlements: Sequence[SettledFunding], rates: Sequence[float], score: Levels
) -> Decision:
    label, why = _label(rates[-1], None if _settled_before(settlements) is None else rates[-2])
    confidence = "low" if "score" not in score else "medium" if "delta24h" not in score else "high"
    rationale = f"Settled BTC funding is {rates[-1]:+.4f} % per 8 hours: {why}."
    return Decision(label, confidence, rationale, BY)


def _label(rate: float, before: float | None) -> tuple[str, str]:
    """The label and the reason; a crowded side must have paid heavily twice in a row."""
    if before is not None and min(before, rate) >= LONG_CROWDED_PCT:
        return "cautious", "longs paid heavily at the last two settlements"
    if before is not None and max(before, rate) <= SHORT_CROWDED_PCT:
        return "stand-aside", "shorts paid heavily at the last two settlements"
    if rate <= SHORT_PCT:
        return "constructive", "shorts pay longs"
    return "neutral", "no crowd has paid twice in a row"


_CONDITIONS = (
    condition("longs pay heavily", RATE_PATH, ">=", LONG_CROWDED_PCT),
    condition("shorts pay heavily", RATE_PATH, "<=", SHORT_CROWDED_PCT),
    condition("shorts pay longs", RATE_PATH, "<=", SHORT_PCT),
)
