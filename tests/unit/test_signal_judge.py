"""Signals once a minute; a label that could not be stored is judged again, not lost or doubled."""

import logging

import pytest

from barograph.kit.timestamps import DAY, MINUTE
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import MarketEvidence, TrailingRecord
from barograph.signals.judge import SignalConclusion, SignalJudge
from barograph.signals.methods import METHODS
from support.clock import START
from support.evidence import AT, add_hours, evidence, regime
from support.markets import BTC, ETH, changed

REGIME = "btc-funding-regime"
BREADTH = "funding-breadth"
TREND = "btc-open-interest-trend"


def at(as_of: int, label: str = "neutral") -> MarketEvidence:
    return evidence(as_of=as_of, regime=regime(label))  # type: ignore[arg-type]


def changes(conclusion: SignalConclusion | None) -> dict[str, str]:
    assert conclusion is not None
    return {each.key: each.label for each in conclusion.changes}


def judged(judge: SignalJudge, seen: MarketEvidence) -> SignalConclusion | None:
    return judge.conclude(seen, NO_FIGURES._replace(at=seen.reading.as_of))


def stored(judge: SignalJudge, seen: MarketEvidence) -> SignalConclusion | None:
    conclusion = judged(judge, seen)
    if conclusion is not None:
        judge.written(conclusion)
    return conclusion


def test_the_first_reading_of_each_minute_is_judged_also_after_the_clock_was_set_back() -> None:
    judge = SignalJudge()
    passed = (0, 5_000, MINUTE - 1, MINUTE, MINUTE + 5_000, 3 * MINUTE + 1, -DAY, MINUTE - DAY)

    moments = [stored(judge, at(START + after)) is not None for after in passed]

    assert moments == [True, False, False, True, False, True, True, True]


def test_every_label_is_recorded_first_and_then_each_change_once() -> None:
    judge = SignalJudge()

    assert list(changes(stored(judge, at(START)))) == [method.key for method in METHODS]
    conclusion = stored(judge, at(START + MINUTE, "long-crowded"))
    assert conclusion is not None
    assert [tuple(change) for change in conclusion.changes] == [
        (REGIME, START + MINUTE, "long-crowded", "+0.0100 % per 8 h", "neutral")
    ]
    assert changes(stored(judge, at(START + 2 * MINUTE, "long-crowded"))) == {}


def test_a_failed_write_is_judged_again_with_the_next_reading_of_the_same_minute() -> None:
    judge = SignalJudge()
    stored(judge, at(START))
    judged(judge, at(START + MINUTE, "long-crowded"))

    retried = stored(judge, at(START + MINUTE + 5_000, "long-crowded"))

    assert changes(retried) == {REGIME: "long-crowded"}
    assert judged(judge, at(START + MINUTE + 10_000, "long-crowded")) is None


def test_hysteresis_goes_on_from_what_was_stored_and_not_from_what_was_not() -> None:
    def breadth(as_of: int, above: int) -> MarketEvidence:
        rates = [0.015] * above + [0.01] * (100 - above)
        return evidence(tuple(changed(BTC, funding_rate_pct=rate) for rate in rates), as_of)

    judge = SignalJudge()
    stored(judge, breadth(START, 10))
    judged(judge, breadth(START + MINUTE, 20))
    assert BREADTH not in changes(stored(judge, breadth(START + MINUTE, 18)))

    stored(judge, breadth(START + 2 * MINUTE, 20))
    assert BREADTH not in changes(stored(judge, breadth(START + 3 * MINUTE, 18)))
    assert BREADTH not in changes(stored(judge, breadth(START + 4 * MINUTE, 16)))
    assert changes(stored(judge, breadth(START + 64 * MINUTE, 16)))[BREADTH] == "balanced"

    stored(judge, breadth(START + 65 * MINUTE, 20))
    elsewhere = judge.conclude(breadth(START + 66 * MINUTE, 18), NO_FIGURES, is_new_venue=True)
    assert changes(elsewhere)[BREADTH] == "balanced"
    stored(judge, evidence((), START + 66 * MINUTE))
    assert changes(stored(judge, breadth(START + 67 * MINUTE, 18)))[BREADTH] == "balanced"


@pytest.mark.outcome(
    "The method of a signal crashes",
    "It is logged with its key, and that signal says `unknown`. The others are evaluated.",
)
def test_a_method_that_fails_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    # No exchange has such a price; a method that divides by it stands for any that is wrong.
    contracts = (changed(BTC, last_price=0.0), ETH)
    seen = evidence(contracts, AT, trailing=add_hours(TrailingRecord(), 25))

    with caplog.at_level(logging.ERROR):
        conclusion = stored(SignalJudge(), seen)

    assert conclusion is not None
    found = {each.key: (each.label, each.value) for each in conclusion.signals.signals}
    assert list(found) == [each.key for each in METHODS]
    assert found[TREND] == ("unknown", "n/a")
    assert found[REGIME] == ("neutral", "+0.0100 % per 8 h")
    assert found[BREADTH][0] == "shorts-pay"
    (logged,) = caplog.records
    assert logged.__dict__["signal"] == TREND
    assert logged.exc_info is not None
