"""Which label a funding rate earns, and when it may change."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.board.feeds import Publication
from barograph.kit.timestamps import MINUTE
from barograph.markets.regime import (
    EDGES_PCT,
    HYSTERESIS_PCT,
    LABELS,
    MAX_GAP,
    Label,
    Regime,
    describe,
    next_regime,
)
from barograph.markets.view import REGIME
from barograph.venues.records import eight_hour_rate
from support.clock import START

DWELL = 15 * MINUTE
PIN = 0.01
JUST_INSIDE = HYSTERESIS_PCT * 0.999

rates = st.floats(-0.1, 0.1)
moments = st.lists(
    st.tuples(st.integers(1, 30 * MINUTE), st.none() | rates), min_size=1, max_size=60
)


def follow(series: Sequence[tuple[int, float | None]], dwell: int = DWELL) -> list[Regime]:
    """Judge a series of (milliseconds since the reading before, rate)."""
    judged: list[Regime] = []
    at = START
    for pause, rate in series:
        at += pause
        judged.append(next_regime(judged[-1] if judged else None, rate, at, dwell))
    return judged


def changes(judged: list[Regime]) -> list[tuple[Regime, Regime]]:
    return [(before, after) for before, after in pairwise(judged) if before.label != after.label]


def standing(label: Label, rate: float | None = None) -> Regime:
    return Regime(label, START, rate, START)


FIRST_RATES: dict[Label, list[float]] = {
    "short-crowded": [-1.0, -0.03],
    "short-leaning": [math.nextafter(-0.03, 0), -0.01, -0.005],
    "neutral": [math.nextafter(-0.005, 0), 0.0, PIN, math.nextafter(0.015, 0)],
    "long-leaning": [0.015, math.nextafter(0.03, 0)],
    "long-crowded": [0.03, 1.0],
}


@pytest.mark.parametrize("label", FIRST_RATES)
def test_the_first_rate_is_labelled_at_once_and_the_outer_band_owns_the_edge(label: Label) -> None:
    for rate in FIRST_RATES[label]:
        assert next_regime(None, rate, START, DWELL) == Regime(label, START, rate, START)


# Inward, a label is left only a quarter of a basis point inside its edge. The way outward or across
# takes no more than the bare edge.
NEXT_LABELS: dict[Label, list[tuple[float, Label]]] = {
    "short-crowded": [(-0.0276, "short-crowded"), (-0.0274, "short-leaning"), (PIN, "neutral")],
    "short-leaning": [
        *((-0.0026, "short-leaning"), (-0.0024, "neutral")),
        *((-0.03, "short-crowded"), (0.015, "long-leaning")),
    ],
    "neutral": [(0.015, "long-leaning"), (-0.005, "short-leaning")],
    "long-leaning": [(0.0126, "long-leaning"), (0.0124, "neutral"), (0.03, "long-crowded")],
    "long-crowded": [
        *((0.0276, "long-crowded"), (0.0274, "long-leaning"), (PIN, "neutral")),
        *((-0.005, "short-leaning"), (-0.03, "short-crowded")),
    ],
}


@pytest.mark.parametrize("label", NEXT_LABELS)
def test_labels_change_at_edges_and_inside_them(label: Label) -> None:
    for rate, wanted in NEXT_LABELS[label]:
        assert next_regime(standing(label), rate, START + 1, 0).label == wanted, rate


def test_a_new_label_waits_for_its_dwell_and_is_taken_the_moment_that_is_over() -> None:
    *_, waiting = follow([(1, 0.0), (1, 0.02), (DWELL - 1, 0.025)])
    seen = START + 1 + DWELL
    assert waiting == Regime("neutral", START + 1, 0.025, seen, "long-leaning", START + 2)

    taken = next_regime(waiting, 0.02, seen + 1, DWELL)

    assert taken == Regime("long-leaning", seen + 1, 0.02, seen + 1)


def test_coming_back_or_another_candidate_starts_the_wait_all_over() -> None:
    judged = follow([(1, 0.0), (1, 0.02), (DWELL - 1, 0.0), (1, 0.02), (DWELL - 1, 0.02)])
    assert [regime.label for regime in judged] == ["neutral"] * 5
    assert (judged[2].candidate, judged[2].candidate_since) == (None, None)
    assert next_regime(judged[-1], 0.02, judged[-1].as_of + 1, DWELL).label == "long-leaning"

    judged = follow([(1, 0.0), (1, 0.02), (DWELL - 1, -0.02), (DWELL - 1, -0.02), (1, -0.02)])
    assert [regime.label for regime in judged] == ["neutral"] * 4 + ["short-leaning"]


def test_without_a_rate_the_regime_is_unknown_at_once() -> None:
    judged = follow([(1, 0.04), (1, None), (MINUTE, None)])

    assert judged[1] == Regime("unknown", START + 2, None, START + 2)
    assert judged[2] == Regime("unknown", START + 2, None, START + 2 + MINUTE)
    assert follow([(1, None)]) == [Regime("unknown", START + 1, None, START + 1)]


def test_unknown_lasts_a_minute_and_is_left_without_a_dwell() -> None:
    judged = follow([(1, 0.04), (1, None), (1, -0.04), (MINUTE - 1, -0.04)])

    assert (judged[2].label, judged[2].since) == ("unknown", START + 2)
    assert describe(judged[2]).endswith("The label stays unknown until a change has lasted.")
    assert judged[3] == Regime("short-crowded", START + 2 + MINUTE, -0.04, START + 2 + MINUTE)


def test_a_missing_rate_forgets_the_candidate() -> None:
    judged = follow([(1, 0.0), (1, 0.02), (1, None), (MINUTE, 0.0), (DWELL, 0.02)])

    assert judged[-1].label == "neutral"
    assert judged[-1].candidate_since == judged[-1].as_of


@given(st.sampled_from(LABELS), st.lists(st.floats(0, 1), min_size=1, max_size=40), st.data())
@settings(deadline=None, max_examples=60)
def test_labels_are_kept_inside(label: Label, places: list[float], data: st.DataObject) -> None:
    dwell = data.draw(st.sampled_from([0, 1, DWELL]))
    edges = [-0.2, *EDGES_PCT, 0.2]
    low, high = edges[LABELS.index(label)], edges[LABELS.index(label) + 1]
    low -= JUST_INSIDE if label.startswith("long") else -1e-12
    high += JUST_INSIDE if label.startswith("short") else -1e-12
    regime = standing(label)

    for minute, place in enumerate(places, 1):
        rate = low + place * (high - low)
        regime = next_regime(regime, rate, START + minute * MINUTE, dwell)
        assert (regime.label, regime.since, regime.candidate) == (label, START, None)


@given(moments, st.integers(1, 60 * MINUTE))
@settings(deadline=None, max_examples=60)
def test_labels_change_once_per_dwell(series: list[tuple[int, float | None]], dwell: int) -> None:
    for before, after in changes(follow(series, dwell)):
        if "unknown" not in {before.label, after.label}:
            assert after.since - before.since >= dwell


@given(
    st.sampled_from(EDGES_PCT),
    st.lists(st.floats(-JUST_INSIDE, JUST_INSIDE), min_size=1, max_size=60),
    st.sampled_from([0, MINUTE, DWELL]),
)
@settings(deadline=None, max_examples=60)
def test_a_rate_at_an_edge_flips_once(edge: float, offsets: list[float], dwell: int) -> None:
    judged = follow([(MINUTE, edge + offset) for offset in offsets], dwell)

    assert len(changes(judged)) <= 1


@given(moments, st.integers(0, 60 * MINUTE))
@settings(deadline=None, max_examples=60)
def test_stored_regimes_continue_alike(series: list[tuple[int, float | None]], dwell: int) -> None:
    judged = follow(series, dwell)

    assert follow(series, dwell) == judged
    for before, after in pairwise(judged):
        stored = REGIME.decode(Publication.of(REGIME, before).payload)
        assert next_regime(stored, after.funding_8h_pct, after.as_of, dwell) == after


@pytest.mark.thorough
@given(moments)
@settings(deadline=None, max_examples=60)
def test_without_a_dwell_the_label_suits_the_rate(series: list[tuple[int, float | None]]) -> None:
    for regime in follow(series, dwell=0):
        rate = regime.funding_8h_pct
        if rate is None:
            assert regime.label == "unknown"
        else:
            near = {
                next_regime(None, rate + offset, START, 0).label
                for offset in (-HYSTERESIS_PCT, 0, HYSTERESIS_PCT)
            }
            assert regime.label in near


@pytest.mark.parametrize(
    ("rate", "hours", "eight_hours"),
    [(0.01, 8, 0.01), (0.005, 4, 0.01), (0.00125, 1, 0.01), (-0.01, 2, -0.04), (0.0, 4, 0.0)],
)
def test_rates_are_converted_to_eight_hours(rate: float, hours: float, eight_hours: float) -> None:
    assert eight_hour_rate(rate, hours) == pytest.approx(eight_hours, abs=1e-15)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (-0.04, "BTC funding is -0.0400 % per 8 hours: shorts pay longs heavily."),
        (-0.01, "BTC funding is -0.0100 % per 8 hours: shorts pay longs."),
        (0.0, "BTC funding is +0.0000 % per 8 hours: near its resting rate"),
        (0.02, "BTC funding is +0.0200 % per 8 hours: longs pay shorts more"),
        (0.05, "BTC funding is +0.0500 % per 8 hours: longs pay shorts heavily."),
        (None, "The BTC funding rate is unknown, so there is no regime label."),
    ],
)
def test_the_sentence_names_the_rate_and_what_it_means(rate: float | None, said: str) -> None:
    assert describe(next_regime(None, rate, START, DWELL)).startswith(said)


@pytest.mark.parametrize(
    ("first", "then", "untrue"),
    [
        (0.0, 0.05, "neither side pays"),
        (0.0, -0.05, "neither side pays"),
        (0.05, -0.01, "longs pay shorts"),
        (0.02, -0.05, "longs pay shorts"),
        (-0.05, 0.02, "shorts pay longs"),
    ],
)
def test_the_sentence_is_true_while_a_label_waits(first: float, then: float, untrue: str) -> None:
    _, waiting = follow([(1, first), (MINUTE, then)])
    assert waiting.candidate is not None

    assert untrue not in describe(waiting)


def test_a_rate_that_wavers_on_one_side_leaves_the_old_label_and_a_gap_is_no_time() -> None:
    wavering = [(MINUTE, rate) for rate in (0.0295, 0.0305) * (DWELL // MINUTE)]
    gap = [(1, 0.02), (DWELL + MAX_GAP, 0.02)]

    assert follow([(1, 0.0), *wavering])[-1].label in {"long-leaning", "long-crowded"}
    assert follow([(1, 0.0), *gap])[-1].label == "neutral"
