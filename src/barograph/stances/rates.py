"""The rule of `rates-desk`, from US Treasury yields and overnight rates (pure).

A leg is one data day. The rule compares the ten-year yield and the slope from three months to ten
years with twenty observations before, in units of the usual move over twenty. Inversion begins at
-5 basis points, ends at +5, and shifts the label by one step towards cautious.
"""

from collections.abc import Mapping, Sequence
from datetime import date

from barograph.history.records import Decision, Leg, LegEvidence, Proposal
from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.macro.evidence import (
    DEAD_ZONE,
    LARGE_MOVE,
    LOOK_BACK,
    USUAL_DAYS,
    CurveChange,
    curve_change,
    curve_move,
    is_recent,
)
from barograph.macro.records import (
    EFFR,
    EFFR_HIGH,
    EFFR_LOW,
    SOFR,
    US2Y,
    US3M,
    US10Y,
    RecordedFigure,
    source_with_notice,
)
from barograph.macro.series import slope10y3m
from barograph.stances.rules import BY, condition, day_period, expires_after

KIND = "rates-desk"
METHOD = "rates-desk/2"

Series = Mapping[str, Sequence[RecordedFigure]]
"""The newest revisions by series name, oldest day first."""

NEEDED = (US3M, US2Y, US10Y)
USED = (*NEEDED, SOFR, EFFR, EFFR_LOW, EFFR_HIGH)


def propose(
    series: Series, now: int, today: date, grace: int, *, was_inverted: bool
) -> Proposal | str:
    """Propose a stance on the newest day with all yields; a text says why that is impossible."""
    known = _known(series)
    if not known:
        return "no day has all three yields"
    day = known[US10Y][-1].day
    expires_at = expires_after(day, grace)
    if now >= expires_at or not is_recent(day, today):
        return f"the newest yields are from {day}"
    slopes = slope10y3m(known[US10Y], known[US3M])
    change10y, change_slope = curve_change(known[US10Y]), curve_change(slopes)
    if change10y is None or change_slope is None:
        return f"fewer than {USUAL_DAYS} earlier days are known"
    levels, evidence = _levels(known, slopes[-1].value, change10y, change_slope), _evidence(known)
    used = [figure for figures in evidence.values() for figure in figures]
    inverted = is_inverted(_number(levels["slope10y3m"]), was_inverted=was_inverted)
    period = day_period(day)
    return Proposal(
        kind=KIND,
        leg_id=f"{KIND}:{period['start']}",
        issued_at=now,
        expires_at=expires_at,
        leg=Leg(
            period=period,
            levels={**levels, "inverted": inverted},
            decision=_decide(levels, curve_move(change10y, change_slope), inverted=inverted),
            conditions=list(_CONDITIONS),
            method=METHOD,
            evidence=LegEvidence(
                source="; ".join(sorted({source_with_notice(each.source) for each in used})),
                observed_at=iso_timestamp(max(each.observed_at for each in used)),
                inputs=_inputs(evidence, was_inverted=was_inverted),
            ),
        ),
    )


def is_inverted(slope: float, *, was_inverted: bool) -> bool:
    """Whether the curve counts as inverted, with hysteresis."""
    return slope <= -DEAD_ZONE or (was_inverted and slope < DEAD_ZONE)


def _known(series: Series) -> dict[str, list[RecordedFigure]]:
    """Yields of the days that have all three, and overnight rates near the newest of those days.

    Empty if no day has all three.
    """
    common = set.intersection(*({each.day for each in series.get(name, ())} for name in NEEDED))
    if not common:
        return {}
    figures = {
        name: [observation for observation in series[name] if observation.day in common]
        for name in NEEDED
    }
    for name in (SOFR, EFFR):
        figures[name] = _about(series.get(name, ()), max(common))
    of_range = {each.day for each in figures[EFFR]}
    for name in (EFFR_LOW, EFFR_HIGH):
        figures[name] = [each for each in series.get(name, ()) if each.day in of_range]
    return figures


def _about(observations: Sequence[RecordedFigure], day: str) -> list[RecordedFigure]:
    """The newest observation up to a day; overnight rates are published later than yields."""
    until = [observation for observation in observations if observation.day <= day][-1:]
    latest = date.fromisoformat(day)
    return [each for each in until if is_recent(each.day, latest)]


def _levels(
    known: Series, slope: float, change10y: CurveChange, change_slope: CurveChange
) -> dict[str, Json]:
    levels: dict[str, Json] = {
        name: known[name][-1].value for name in (*NEEDED, SOFR, EFFR) if known[name]
    }
    levels["slope10y3m"] = slope
    levels["us10yChange20d"], levels["us10yMoves20d"] = change10y
    levels["slopeChange20d"], levels["slopeMoves20d"] = change_slope
    if known[EFFR_LOW] and known[EFFR_HIGH]:
        low, high = known[EFFR_LOW][-1].value, known[EFFR_HIGH][-1].value
        if high > low:
            levels["effrPlaceInRange"] = round((_number(levels[EFFR]) - low) / (high - low), 4)
    return levels


def _decide(levels: Mapping[str, Json], move: str, *, inverted: bool) -> Decision:
    shown = (
        f"The 10-year yield is {_number(levels['us10y']):.2f} %, "
        f"{_number(levels['us10yChange20d']):+.2f} points in {LOOK_BACK} days, "
        f"{abs(_number(levels['us10yMoves20d'])):.2f} times its usual move ({move}); the curve "
        f"from 3 months is {_number(levels['slope10y3m']):+.2f} points"
    )
    confidence = "high" if "effrPlaceInRange" in levels else "medium"
    # Inversion can last for years, so it shifts the label instead of deciding it.
    step = move.startswith("bear") - move.startswith("bull") + inverted
    label = ("constructive", "neutral", "cautious")[min(step, 1) + 1]
    shown += " and counts as inverted, one step towards cautious" if inverted else ""
    return Decision(label, confidence, f"{shown}.", BY)


def _evidence(known: Series) -> dict[str, list[RecordedFigure]]:
    """The newest figures, and those that changes and usual moves are made of."""
    days = {US3M: USUAL_DAYS + 1, US10Y: USUAL_DAYS + 1}
    return {name: [*known[name][-days.get(name, 1) :]] for name in USED}


def _inputs(evidence: Series, *, was_inverted: bool) -> dict[str, Json]:
    used: dict[str, Json] = {"was_inverted": was_inverted}
    for name, figures in evidence.items():
        used[name] = [
            {"day": figure.day, "value": figure.value, "revision": figure.revision}
            for figure in figures
        ]
    return used


def _number(value: Json) -> float:
    assert isinstance(value, int | float)
    return float(value)


_CONDITIONS = (
    condition(
        "the curve from 3 months to 10 years is inverted", "levels.slope10y3m", "<=", -DEAD_ZONE
    ),
    *(
        condition(
            f"the 10-year yield {moved} by its usual {LOOK_BACK}-day move or more",
            "levels.us10yMoves20d",
            compare,
            value,
        )
        for moved, compare, value in (("rose", ">=", LARGE_MOVE), ("fell", "<=", -LARGE_MOVE))
    ),
)
