"""Decides the market regime, the one place that does (pure).

The input is the funding rate of the BTC perpetual, converted to eight hours. Funding rests at
exactly 0.01 % per eight hours whenever the premium is small, so no band may end there: the neutral
band is -0.005 % to +0.015 %. Two rules keep the label from flapping. The rate must be 0.0025 %
inside a band's edge to leave it (hysteresis), and a new label must last for a while (dwell).
"""

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from barograph.kit.timestamps import HOUR, MINUTE

Label = Literal[
    "short-crowded", "short-leaning", "neutral", "long-leaning", "long-crowded", "unknown"
]

LABELS: tuple[Label, ...] = (
    "short-crowded",
    "short-leaning",
    "neutral",
    "long-leaning",
    "long-crowded",
)
EDGES_PCT = (-0.03, -0.005, 0.015, 0.03)
"""In percent per eight hours; edge i lies between label i and label i + 1."""

HYSTERESIS_PCT = 0.0025
DWELL = 15 * MINUTE
"""How long a new regime must last before its label changes."""

MAX_GAP = HOUR
"""If readings are further apart than this and the dwell, in milliseconds, the dwell starts again.
"""

UNKNOWN_MS = MINUTE
"""How long `unknown` lasts at least. Each change is logged for good, so an exchange that leaves BTC
out of every second reading must not cause one per reading."""

BASIS = "BTC perpetual funding rate"


class Regime(Struct, frozen=True):
    """The current label, and the one that may replace it."""

    label: Label
    since: int
    """When the label was taken, in milliseconds since the Unix epoch."""

    funding_8h_pct: float | None
    """The newest rate, in percent per eight hours."""

    as_of: int
    """When that rate was read."""

    candidate: Label | None = None
    """The label that the rate asks for, when that is another one."""

    candidate_since: int | None = None
    """Since when the rate has been on that side."""


class RegimeChange(NamedTuple):
    """A new label and the rate that caused it."""

    at: int
    label: str
    funding_8h_pct: float | None


def next_regime(previous: Regime | None, rate_pct: float | None, at: int, dwell: int) -> Regime:
    """Decide the regime from the rate read at `at`; `dwell` is in milliseconds.

    Without a rate the regime is `unknown` at once, for at least a minute. The first label after
    that needs no dwell.
    """
    if rate_pct is None:
        since = previous.since if previous and previous.label == "unknown" else at
        return Regime("unknown", since, None, at)
    band = band_of(rate_pct)
    if previous is None:
        return Regime(band, at, rate_pct, at)
    if previous.label == "unknown":
        is_over = not 0 <= at - previous.since < min(dwell, UNKNOWN_MS)
        stays = Regime("unknown", previous.since, rate_pct, at, band, at)
        return Regime(band, at, rate_pct, at) if is_over else stays
    wanted = _band_from(previous.label, rate_pct)
    if wanted == previous.label:
        return Regime(previous.label, previous.since, rate_pct, at)
    return _await(previous, wanted, rate_pct, at, dwell)


def describe(regime: Regime) -> str:
    """Explain the label in one sentence."""
    if regime.funding_8h_pct is None:
        return "The BTC funding rate is unknown, so there is no regime label."
    band = band_of(regime.funding_8h_pct)
    sentence = f"BTC funding is {regime.funding_8h_pct:+.4f} % per 8 hours: {_MEANING[band]}"
    if band == regime.label:
        return sentence
    if regime.candidate is None:
        return f"{sentence} The label is still {regime.label}: the rate is at that band's edge."
    return f"{sentence} The label stays {regime.label} until a change has lasted."


def _await(previous: Regime, wanted: Label, rate_pct: float, at: int, dwell: int) -> Regime:
    """Keep the old label until the rate has been on one side of it for `dwell`.

    The rate may move between labels of that side meanwhile.
    """
    goes_on = _same_side(previous, wanted) and at - previous.as_of <= max(dwell, MAX_GAP)
    started = previous.candidate_since if goes_on else None
    started = at if started is None else started
    if at - started >= dwell:
        return Regime(wanted, at, rate_pct, at)
    return replace(
        previous, funding_8h_pct=rate_pct, as_of=at, candidate=wanted, candidate_since=started
    )


def _same_side(previous: Regime, wanted: Label) -> bool:
    """Whether the wanted label is on the same side of the current one as the last candidate."""
    if previous.candidate is None:
        return False
    here = LABELS.index(previous.label)
    return (LABELS.index(previous.candidate) > here) == (LABELS.index(wanted) > here)


def band_of(rate_pct: float) -> Label:
    """The label of a rate without hysteresis; the outer labels own their edges."""
    below = sum(rate_pct >= edge if edge > 0 else rate_pct > edge for edge in EDGES_PCT)
    return LABELS[below]


def _band_from(current: Label, rate_pct: float) -> Label:
    """The label of a rate when `current` is in force: leaving it takes a little more."""
    wanted = band_of(rate_pct)
    here, there = LABELS.index(current), LABELS.index(wanted)
    neutral = LABELS.index("neutral")
    if abs(there - neutral) >= abs(here - neutral) and (there - neutral) * (here - neutral) >= 0:
        return wanted
    toward_neutral = HYSTERESIS_PCT if here < neutral else -HYSTERESIS_PCT
    return current if band_of(rate_pct - toward_neutral) == current else wanted


_MEANING: dict[Label, str] = {
    "short-crowded": "shorts pay longs heavily.",
    "short-leaning": "shorts pay longs.",
    "neutral": "near its resting rate; neither side pays a notable premium.",
    "long-leaning": "longs pay shorts more than the resting rate.",
    "long-crowded": "longs pay shorts heavily.",
    "unknown": "not known.",
}
