"""Briefs about daily figures: when they are written, what they cite, and that it is said once."""

import json
from typing import Any

import pytest

from barograph.briefs.records import Brief
from barograph.briefs.rules import MACRO_RULES, curve_turn_of_sign, etf_streak
from barograph.briefs.texts import write_brief
from barograph.briefs.writer import BriefWriter
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import DAY, dated_text, iso_timestamp
from barograph.macro.evidence import NO_FIGURES, MacroEvidence
from support.clock import START
from support.evidence import evidence
from support.figures import ISSUER, READ_AT, TREASURY, of_flows, of_slopes

BY_ID = {rule.id: rule for rule in MACRO_RULES}
IN = (0.2, 0.2, 0.2, -0.1, 0.1)
OUT = tuple(-each for each in IN)


def written(rule: str, seen: MacroEvidence) -> Brief:
    (draft,) = BY_ID[rule].drafts(seen)
    return write_brief(BY_ID[rule], draft, evidence(as_of=seen.at))


@pytest.mark.parametrize(
    ("newest", "subjects"),
    [
        (IN, ["btc-inflows"]),
        (OUT, ["btc-outflows"]),
        ((0.2, 0.2, 0.2, -0.2, 0.1), ["btc-inflows"]),
        ((0.2, 0.2, 0.2, -0.2, 0.09), []),
        ((0.5, 0.5, 0.5, 0.0, 0.0), []),
        ((-0.5, -0.5, -0.5, 0.0, 0.0), []),
        ((*IN, 0.0), []),
    ],
)
def test_a_streak_is_half_a_percent_of_assets_on_four_of_five_days(
    newest: tuple[float, ...], subjects: list[str]
) -> None:
    assert [each.subject for each in etf_streak(of_flows(*newest))] == subjects


def test_a_streak_is_cited_with_coverage_source_day_and_when_it_was_read() -> None:
    brief = written("etf-streak", of_flows(*OUT))

    assert brief.headline == "$6.00k out of BTC ETFs in five days, 0.60 % of assets (IBIT only)"
    assert brief.summary == (
        "Net flow over the 5 days from 30 October to 5 November was -$6.00k, or -0.60 % of "
        "$1.00M in assets; 4 of the 5 days had outflows. Coverage: IBIT only. Source: an "
        f"issuer, figures of 5 November, as of {dated_text(READ_AT)}."
    )
    assert (brief.category, brief.coins, brief.source) == ("etf-flows", ("BTC",), ISSUER)
    assert brief.slug == "2026-11-06-2120-etf-streak-btc-outflows"
    assert (brief.published_at, brief.cooldown_key) == (START, "etf-streak:btc-outflows")
    assert [iso_timestamp(each)[:10] for each in (brief.window_start, brief.window_end)] == [
        "2026-10-30",
        "2026-11-06",
    ]


def slopes_turn(*newest: float, **how: Any) -> list[tuple[str, float, float]]:
    return [
        (
            each.headline.split()[-3].rstrip(":"),
            each.inputs["before_slope_pct"],
            each.inputs["slope_pct"],
        )  # type: ignore[misc]
        for each in curve_turn_of_sign(of_slopes(*newest, **how))
    ]


@pytest.mark.parametrize(
    ("newest", "found"),
    [
        ((-5.0,), [("negative", 0.3, -0.05)]),
        ((-4.9,), []),
        ((0.0,), []),
        ((5.0, 4.0, -4.0, 0.0, -6.0), [("negative", 0.05, -0.06)]),
        ((-6.0, *[0.0] * 20, 5.0), [("positive", -0.06, 0.05)]),
        ((-6.0, *[0.0] * 20, 4.9), []),
        ((-6.0, 5.0), [("positive", -0.06, 0.05)]),
        ((-6.0, -7.0), [("negative", 0.3, -0.06)]),
        ((-6.0, -7.0, -7.0), []),
        ((), []),
    ],
)
def test_a_turn_is_a_change_of_sign_beyond_five_basis_points_on_a_recent_day(
    newest: tuple[float, ...], found: list[tuple[str, float, float]]
) -> None:
    assert slopes_turn(*newest) == found


def test_a_slope_that_never_had_a_sign_does_not_turn() -> None:
    assert slopes_turn(*[0.0] * 60, -9.0) == []


def test_a_turn_is_cited_with_both_yields_source_day_and_when_it_was_read() -> None:
    brief = written("curve-turn", of_slopes(2.0, -6.0))

    assert brief.headline == "US 10-year less 3-month yield turns negative: -6 bp"
    assert brief.summary == (
        "The US 10-year par yield less the 3-month one was -6 bp on 5 November (3.94 % less "
        "4.00 %), after +30 bp on 3 November. Source: a treasury, figures of 5 November, as of "
        f"{dated_text(READ_AT)}."
    )
    assert (brief.category, brief.coins, brief.source) == ("rates", (), TREASURY)
    assert brief.slug == "2026-11-06-2120-curve-turn-10y-3m"


@pytest.mark.parametrize(
    ("rule", "seen", "expected"),
    [
        (
            "curve-turn",
            of_slopes(-6.0),
            (
                '{"as_of":"2026-11-06T20:20:00.000Z","before_day":"2026-11-04",'
                '"before_slope_pct":0.3,"day":"2026-11-05","slope_pct":-0.06,'
                '"source":"a treasury","us10y_pct":3.94,"us3m_pct":4}'
            ),
        ),
        (
            "etf-streak",
            of_flows(*IN),
            (
                '{"as_of":"2026-11-06T20:20:00.000Z","aum_usd":1000000,"coverage":"IBIT only",'
                '"days":[{"day":"2026-10-30","net_flow_usd":2000},'
                '{"day":"2026-11-02","net_flow_usd":2000},{"day":"2026-11-03","net_flow_usd":2000},'
                '{"day":"2026-11-04","net_flow_usd":-1000},'
                '{"day":"2026-11-05","net_flow_usd":1000}],'
                '"flow_5d_pct":0.6,"flow_5d_usd":6000,"source":"an issuer"}'
            ),
        ),
    ],
)
def test_inputs_are_canonical_json(rule: str, seen: MacroEvidence, expected: str) -> None:
    brief = written(rule, seen)

    assert brief.inputs == expected == canonical(json.loads(brief.inputs))
    assert brief.inputs_digest == digest(expected)
    assert written(rule, seen) == brief


@pytest.mark.parametrize("seen", [of_flows(*IN), of_slopes(-6.0)])
def test_figures_are_told_once_however_long_they_stay_the_newest(seen: MacroEvidence) -> None:
    writer = BriefWriter()
    told = []
    for hours in range(24 * 14):
        at = START + hours * DAY // 24
        briefs = writer.conclude(evidence(as_of=at), seen._replace(at=at))
        writer.written(briefs)
        told += briefs

    assert len(told) == 1


def in_days(days: int) -> dict[str, Any]:
    """The figures of a later day, as soon as they are read."""
    at = START + days * DAY
    return {"at": at, "day": iso_timestamp(at)[:10], "read_at": at}


@pytest.mark.parametrize(
    ("first", "later", "is_told"),
    [
        (of_flows(*IN), of_flows(*IN, **in_days(4)), False),
        (of_flows(*IN), of_flows(*IN, **in_days(6)), True),
        (of_flows(*IN), of_flows(*OUT, **in_days(3)), True),
        (of_slopes(-6.0), of_slopes(-6.0, 7.0, **in_days(0)), False),
        (of_slopes(-6.0), of_slopes(-6.0, 7.0, **in_days(3)), True),
    ],
)
def test_later_figures_are_told_after_the_cooldown_of_their_subject(
    first: MacroEvidence, later: MacroEvidence, is_told: bool
) -> None:
    writer = BriefWriter()
    briefs = writer.conclude(evidence(as_of=START), first)
    writer.written(briefs)

    assert len(briefs) == 1
    assert bool(writer.conclude(evidence(as_of=later.at), later)) == is_told


@pytest.mark.parametrize("seen", [of_flows(*IN), of_slopes(-6.0)])
def test_figures_that_are_too_old_are_not_told(seen: MacroEvidence) -> None:
    late = seen._replace(at=START + 5 * DAY)

    assert BriefWriter().conclude(evidence(as_of=late.at), late) == []
    assert BriefWriter().conclude(evidence(), NO_FIGURES) == []
    assert len(BriefWriter().conclude(evidence(as_of=seen.at), seen)) == 1
