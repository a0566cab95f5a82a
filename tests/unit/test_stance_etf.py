"""The ETF stance: flows of five days, as far as they are covered."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barograph.history.digest import leg_document
from barograph.history.records import LABELS, NotIssuedYet, Proposal
from barograph.kit.business_days import business_days, is_business_day
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR, SECOND, iso_timestamp
from barograph.macro.evidence import FlowWeek, next_flow_regime
from barograph.macro.records import imported_source
from barograph.macro.series import EtfDay, EtfSeries
from barograph.stances.etf import propose, streak
from support.clock import START

FRIDAY = date(2026, 11, 6)
DAYS = [each.isoformat() for each in business_days(FRIDAY - timedelta(days=45), FRIDAY)]
GRACE = 6 * HOUR
AUM = 10_000_000_000.0


def fund(
    *flows: float | None, days: Sequence[str] = DAYS, aum: float = AUM, source: str = "issuer"
) -> EtfSeries:
    """Days whose last ones have these flows, those before none."""
    known = [0.0] * (len(days) - len(flows)) + list(flows)
    return EtfSeries(
        "IBIT only",
        tuple(
            EtfDay(day, flow, aum, 500_000.0, source, START + number)
            for number, (day, flow) in enumerate(zip(days, known, strict=True))
        ),
    )


def asked(
    series: EtfSeries, *, now: int = START, today: date = FRIDAY, previous: str | None = None
) -> Proposal | NotIssuedYet | str:
    return propose(series, now=now, today=today, grace=GRACE, previous=previous)


def judged(series: EtfSeries, **given_arguments: Any) -> Proposal:
    proposed = asked(series, **given_arguments)
    assert isinstance(proposed, Proposal), proposed
    return proposed


def test_a_leg_is_one_data_day_and_says_what_it_covers() -> None:
    proposed = judged(fund(20e6, 10e6, -5e6, 15e6, 20e6))

    assert proposed.leg_id == "btc-etf-stance:2026-11-06T00:00:00.000Z"
    assert iso_timestamp(proposed.expires_at) == "2026-11-11T05:59:59.000Z"
    assert proposed.leg.levels == {
        "netFlowUsd": 20e6,
        "flow5dUsd": 60e6,
        "flow5dPctAum": 0.6,
        "holdingsBtc": 500_000.0,
        "streakDays": 2,
        "regime": "accumulation",
        "knownDays": len(DAYS),
    }
    assert proposed.leg.decision.label == "constructive"
    assert "IBIT only" in proposed.leg.decision.rationale
    assert proposed.leg.evidence.inputs["coverage"] == "IBIT only"


def test_a_week_with_imported_days_says_so_and_still_covers_the_same_fund() -> None:
    own, given = fund(*[10e6] * 5), fund(*[10e6] * 5, source=imported_source("my file"))
    first = replace(own.days[-2], source=f"issuer; {given.days[-3].source}")
    mixed = judged(EtfSeries("IBIT only", (*given.days[:-2], first, own.days[-1]))).leg
    earlier = judged(EtfSeries("IBIT only", (*given.days[:-5], *own.days[-5:]))).leg

    assert "(IBIT only, from the operator's file)" in mixed.decision.rationale
    assert mixed.evidence.source == "issuer; my file, imported by the operator"
    assert mixed.evidence.inputs["coverage"] == "IBIT only"  # so that comparisons don't abstain
    assert "(IBIT only)" in earlier.decision.rationale
    assert earlier.evidence.digest == judged(own).leg.evidence.digest


def test_twenty_days_are_needed() -> None:
    for known, until in ((19, "2026-11-11T05:59:59.000Z"), (0, "2026-12-09T05:59:59.000Z")):
        found = asked(fund(days=DAYS[len(DAYS) - known :]))
        assert isinstance(found, NotIssuedYet)
        assert found.until is not None
        assert (found.why, iso_timestamp(found.until)) == (f"{known} of 20 days are known", until)
    assert isinstance(asked(fund(days=DAYS[-20:])), Proposal)


@pytest.mark.parametrize("place", range(5))
def test_a_flow_of_the_week_that_is_not_known_leaves_no_stance(place: int) -> None:
    flows: list[float | None] = [1e6] * 5
    flows[place] = None

    assert asked(fund(*flows)) == "a flow of the five days up to 2026-11-06 is unknown"


def test_a_missing_day_of_the_week_leaves_no_stance() -> None:
    def without(missing: str) -> EtfSeries:
        return fund(days=[day for day in DAYS if day != missing])

    unknown = "a flow of the five days up to 2026-11-06 is unknown"
    assert asked(without(DAYS[-3])) == unknown
    assert isinstance(asked(without(DAYS[-6])), Proposal)
    assert isinstance(asked(fund(aum=0.0)), str)


def test_a_day_on_which_only_stocks_are_traded_is_a_day_like_others() -> None:
    days = [*DAYS, "2026-11-09", "2026-11-10", "2026-11-11", "2026-11-12"]
    proposed = judged(fund(days=days), now=START + 6 * DAY, today=date(2026, 11, 12))

    assert proposed.leg.period["start"] == "2026-11-12T00:00:00.000Z"


@pytest.mark.parametrize("closing", [date(2018, 12, 5), date(2025, 1, 9)])
def test_an_unscheduled_closing_leaves_no_gap_in_the_week(closing: date) -> None:
    newest = closing + timedelta(days=1)
    span = (closing - timedelta(days=back) for back in range(40, -2, -1))
    days = [day.isoformat() for day in span if is_business_day(day) and day != closing]
    noon = int(datetime.combine(newest, time(12), UTC).timestamp()) * SECOND
    proposed = judged(fund(days=days), now=noon, today=newest)

    assert proposed.leg.period["start"][:10] == newest.isoformat()


@pytest.mark.parametrize("days", range(-1, 7))
def test_a_stance_holds_until_the_next_days_file_was_due(days: int) -> None:
    now, today = START + days * DAY, FRIDAY + timedelta(days=days)

    if 0 <= days < 5:
        assert judged(fund(), now=now, today=today).expires_at > now
    else:
        assert asked(fund(), now=now, today=today) == "the newest holdings are from 2026-11-06"
    assert asked(fund(days=DAYS[:5])) == f"the newest holdings are from {DAYS[4]}"


def week(share: float, flows: list[float]) -> FlowWeek:
    return FlowWeek((), "", flows, sum(flows), share)


UP, DOWN = [1.0, 1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, -1.0, -1.0, 1.0]
HALF = [1.0, 1.0, 1.0, -1.0, -1.0]


@pytest.mark.parametrize(
    ("share", "flows", "previous", "expected"),
    [
        (0.5, UP, None, "accumulation"),
        (0.4999, UP, None, "mixed"),
        (0.5, HALF, None, "mixed"),
        (0.25, HALF, "accumulation", "accumulation"),
        (0.2499, UP, "accumulation", "mixed"),
        (-0.5, DOWN, None, "distribution"),
        (-0.4999, DOWN, None, "mixed"),
        (-0.5, [-each for each in HALF], None, "mixed"),
        (-0.25, UP, "distribution", "distribution"),
        (-0.2499, DOWN, "distribution", "mixed"),
        (-0.5, DOWN, "accumulation", "distribution"),
        (0.5, UP, "distribution", "accumulation"),
        (0.0, [0.0] * 5, None, "mixed"),
        (0.3, UP, "mixed", "mixed"),
    ],
)
def test_a_regime_is_entered_at_half_a_percent_and_left_at_half_of_that(
    share: float, flows: list[float], previous: str | None, expected: str
) -> None:
    assert next_flow_regime(week(share, flows), previous) == expected


def test_a_streak_counts_days_of_the_newest_sign() -> None:
    assert streak([1.0, 2.0, 3.0]) == 3
    assert streak([-1.0, 2.0, 3.0]) == 2
    assert streak([1.0, 2.0, -3.0]) == -1
    assert streak([1.0, -2.0, -3.0]) == -2
    assert streak([1.0, 2.0, 0.0]) == 0
    assert streak([1.0, 0.0, 3.0]) == 1


def test_a_corrected_figure_of_the_week_is_other_evidence_and_an_older_one_is_not() -> None:
    plain = judged(fund(1e6, 1e6, 1e6, 1e6, 1e6)).leg
    corrected = judged(fund(1e6, 2e6, 1e6, 1e6, 1e6)).leg
    older = judged(fund(9e6, 1e6, 1e6, 1e6, 1e6, 1e6)).leg
    continued = judged(fund(1e6, 1e6, 1e6, 1e6, 1e6), previous="accumulation").leg

    assert plain == older
    assert plain.evidence.inputs["previous_regime"] is None
    digests = {leg.evidence.digest for leg in (plain, corrected, continued)}
    assert len(digests) == 3


@given(
    flows=st.lists(st.floats(-1e10, 1e10), min_size=5, max_size=5),
    aum=st.floats(1, 1e12),
    previous=st.sampled_from([None, "accumulation", "distribution", "mixed"]),
)
def test_any_flows_can_be_recorded(flows: list[float], aum: float, previous: str | None) -> None:
    leg = judged(fund(*flows, aum=aum), previous=previous).leg

    assert canonical(leg_document(leg))
    assert leg.decision.label in LABELS
    assert not any(word in leg.decision.rationale.lower() for word in ("buy", "sell", "will"))
