"""The program for readers: an implementation of its own that agrees with ours."""

import io
import struct
from email.message import Message
from random import Random
from typing import ClassVar
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.accuracy.cases import distribution, measure_of
from barograph.accuracy.definition import DEFINITION, HORIZONS
from barograph.accuracy.episodes import compare, episodes
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.outcomes import SeriesPoint
from support.recompute import load_recompute

START = 20_765 * DAY
recompute = load_recompute()
doubles = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])


EDGES = [0.0, -0.0, 1e21, 1e20, 1e-6, 1e-7, 123.456, 5e-324, -4.0, 1.5e300]


@given(doubles.filter(lambda value: value - value == 0) | st.sampled_from(EDGES))
def test_numbers_are_written_as_ecmascript_writes_them(value: float) -> None:
    assert recompute.canonical([value]) == canonical([value])


def test_texts_and_members_are_written_in_canonical_form() -> None:
    value = {"\U0001f600": 1, "\ufb33": '"\\\n\x01\x7f', "a": [True, None, {}], "é": "\u2013"}

    assert recompute.canonical(value) == canonical(value)  # type: ignore[arg-type]
    assert recompute.sha256(DEFINITION) == recompute.DEFINITION


@given(
    st.sampled_from(("btc_return", "funding", "us10y_change")),
    st.sampled_from(("24h", "7d")),
    st.lists(st.floats(1, 100) | st.none(), min_size=40, max_size=40),
    st.integers(0, 30 * 24),
    st.booleans(),
)
def test_both_implementations_measure_the_same(
    metric: str, horizon: str, values: list[float | None], hours: int, before: bool
) -> None:
    step = DAY if metric == "us10y_change" else 23 * HOUR
    known = [(START + step * at, value) for at, value in enumerate(values) if value is not None]
    at, as_of = START + hours * HOUR, START + 33 * DAY
    measure = measure_of(metric, horizon, [SeriesPoint(*each) for each in known], as_of)
    ours = measure.before(at) if before else measure.after(at)

    theirs = recompute.outcome(metric, HORIZONS[horizon], known, at, as_of, before=before)

    assert theirs == (None if ours is None else pytest.approx(tuple(ours)))


@given(st.lists(st.floats(-100, 100), min_size=28, max_size=60))
def test_both_implementations_describe_the_same(values: list[float]) -> None:
    ours = distribution(values)
    theirs = recompute.distribution(values)

    assert theirs["count"] == ours.count
    for name in ("quantiles", "mean"):
        expected = getattr(ours, name)
        assert theirs[name] == (None if expected is None else pytest.approx(expected, abs=2e-6))


@pytest.mark.parametrize(("often", "effect"), [(1, 0.0), (3, 2.0), (3, 0.1), (20, 0.0)])
def test_both_implementations_compare_the_same(often: int, effect: float) -> None:
    random, label, cases, values = Random(often), "a", [], []
    for at in range(150):
        label = random.choice("abc") if random.random() < often / 20 else label
        cases.append((START + at * 8 * HOUR, label))
        values.append(random.gauss(effect * (label == "a"), 1))
    numbers = episodes(cases, DAY)
    of_program = recompute.episodes_of(cases, DAY)
    assert [each - of_program[0] for each in of_program] == numbers

    rows = list(zip(numbers, values, cases, strict=True))
    ours = [(number, value) for number, value, (_, each) in rows if each == "a"]
    others = [(number, value) for number, value, (_, each) in rows if each != "a"]
    found, theirs = compare(ours, others), recompute.compare(ours, others)
    assert theirs["difference"] == pytest.approx(found.difference, abs=2e-6)
    assert theirs["interval"] == pytest.approx(found.interval, abs=2e-6)
    assert theirs["detectable"] == (found.detectable and pytest.approx(found.detectable, abs=2e-6))


class Answer(io.BytesIO):
    headers: ClassVar = {"Content-Type": "application/json"}


def test_the_program_waits_as_long_as_the_instance_asks() -> None:
    pauses: list[float] = []
    busy = Message()
    busy["Retry-After"] = "7"

    def ask(url: str, timeout: float) -> io.BytesIO:
        if not pauses:
            raise HTTPError(url, 429, "busy", busy, None)
        return Answer(b'{"kinds": []}')

    assert recompute.fetch("https://barograph.example", ask, pauses.append) == {"kinds": []}
    assert pauses == [7.0]
