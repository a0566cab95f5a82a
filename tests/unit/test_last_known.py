"""The last known values of a venue: never disputed ones, and none that is held back."""

import pytest

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.frames import FRAME_STEP, FrameRecord, frame_of, stored
from barograph.markets.last_known import (
    CHECKED,
    HELD,
    KEPT_FOR,
    LastKnown,
    guarded,
    with_reading,
    without,
)
from barograph.venues.records import Frame, PastValues, Perpetuals
from support.clock import START
from support.markets import BTC, ETH, SOURCE, changed

OLD = Frame(0, {"BTCUSDT": PastValues(1.0)})
"""BTC was there a day ago."""


def after(known: LastKnown, at: int, **usd: float | None) -> LastKnown:
    contracts = {"BTC": BTC, "ETH": ETH}
    held = tuple(changed(contracts[name], open_interest_usd=each) for name, each in usd.items())
    return with_reading(*guarded(known, Perpetuals(at, SOURCE, held), OLD))


def values(known: LastKnown) -> dict[str, tuple[int, float]]:
    return {each.asset: (each.at, each.open_interest_usd) for each in known.contracts.values()}


def test_a_value_stays_when_a_later_reading_has_none_or_lacks_the_contract() -> None:
    known = after(LastKnown(), START, BTC=5e9, ETH=2e9)
    later = START + FRAME_STEP

    assert values(after(known, later, BTC=None)) == {"BTC": (START, 5e9), "ETH": (START, 2e9)}


@pytest.mark.parametrize(("usd", "seconds"), [(9e9, CHECKED), (10e9, HELD), (2.5e9, HELD)])
def test_a_jump_is_held_back_for_a_quarter_of_an_hour_and_a_miscount_for_a_day(
    usd: float, seconds: int
) -> None:
    known = after(LastKnown(), START, BTC=5e9)
    at = START + CHECKED
    for age in (0, MINUTE, seconds - 1):
        known = after(known, at + age, BTC=usd)
        assert values(known) == {"BTC": (START, 5e9)}
    later = at + seconds
    assert values(after(known, later, BTC=usd)) == {"BTC": (later, usd)}
    back = later - 2
    assert values(after(known, back, BTC=5.1e9)) == {"BTC": (back, 5.1e9)}


@pytest.mark.parametrize("away", [MINUTE, HOUR], ids=["accepted after a day", "in an outage"])
def test_the_correction_of_a_wrong_value_counts_at_once_and_the_error_not_again(away: int) -> None:
    known = after(LastKnown(), START, BTC=5e9)
    wrong = START + away
    known = after(known, wrong, BTC=10e9)  # held back, unless the outage was long
    right = wrong + HELD
    known = after(after(known, right, BTC=10e9), right + MINUTE, BTC=5.2e9)

    assert values(known) == {"BTC": (right + MINUTE, 5.2e9)}
    again = right + 2 * MINUTE
    assert values(after(known, again, BTC=10e9)) == {"BTC": (right + MINUTE, 5.2e9)}


def test_a_jump_to_a_value_of_more_than_a_week_ago_is_held_back() -> None:
    known = after(after(LastKnown(), START, BTC=5e9), START + HOUR, BTC=10e9)
    late = START + KEPT_FOR
    known = after(known, late, BTC=10e9)

    assert values(after(known, late + MINUTE, BTC=5e9)) == {"BTC": (late, 10e9)}


def test_the_reading_says_what_is_held_back() -> None:
    doge = changed(BTC, contract="DOGEUSDT", base="DOGE", coin="DOGE", last_price=0.1)
    known = with_reading(LastKnown(), Perpetuals(START, SOURCE, (BTC, ETH, doge)))
    jumped = (changed(BTC, open_interest_usd=9e9), ETH, changed(doge, last_price=100.0))
    _, found = guarded(known, Perpetuals(START + MINUTE, SOURCE, jumped), Frame())

    assert [each.contract for each in found.contracts] == ["BTCUSDT", "ETHUSDT"]
    assert [each.open_interest_usd is None for each in found.contracts] == [True, False]
    assert list(found.doubted) == ["BTCUSDT", "DOGEUSDT"]
    assert "open interest jumped from $5.00B to $9.00B" in found.doubted["BTCUSDT"]
    assert "price of one coin jumped from 0.1 to 100" in found.doubted["DOGEUSDT"]


def test_rates_in_another_unit_are_doubted_for_a_quarter_of_an_hour() -> None:
    def rates(at: int, factor: float) -> Perpetuals:
        names = [f"COIN{number}USDT" for number in range(8)]
        pct = factor * BTC.funding_rate_pct
        held = (changed(BTC, contract=name, funding_rate_pct=pct) for name in names)
        return Perpetuals(at, SOURCE, tuple(held))

    known = with_reading(LastKnown(), rates(START, 1.0))
    for factor, age, is_doubted in (
        (100.0, 0, True),
        (0.01, CHECKED, True),
        (9.0, 0, False),
        (100.0, CHECKED + 1, False),
    ):
        _, found = guarded(known, rates(START + age, factor), Frame())
        assert bool(found.doubted_rates) == is_doubted


def test_a_price_may_drift_while_open_interest_is_held_back() -> None:
    doge = changed(BTC, contract="DOGEUSDT", base="DOGE", coin="DOGE", last_price=0.1)
    known = with_reading(LastKnown(), Perpetuals(START, SOURCE, (doge,)))
    day_ago = Frame(0, {"DOGEUSDT": PastValues(1.0)})
    for hour, price in enumerate((0.1, 0.2, 0.35)):
        doubled = changed(doge, open_interest_usd=10e9, last_price=price)
        at = START + MINUTE + hour * HOUR
        known, found = guarded(known, Perpetuals(at, SOURCE, (doubled,)), day_ago)

        assert [each.open_interest_usd for each in found.contracts] == [None]


def test_disputed_rates_are_never_the_last_known_ones() -> None:
    known = with_reading(LastKnown(), Perpetuals(START, SOURCE, (BTC,)))
    wrong = Perpetuals(START + MINUTE, SOURCE, (changed(BTC, funding_rate_pct=1.0),))
    found = with_reading(known, wrong, are_rates_disputed=True).contracts["BTCUSDT"]

    assert (found.at, found.funding_8h_pct) == (START + MINUTE, BTC.funding_8h_pct)


def test_a_new_contract_may_double_after_a_quarter_of_an_hour() -> None:
    known = after(LastKnown(), START, ETH=5e9)
    known = after(known, START + MINUTE, ETH=10e9)
    later = START + MINUTE + CHECKED

    assert values(known) == {"ETH": (START, 5e9)}
    assert values(after(known, later, ETH=10e9)) == {"ETH": (later, 10e9)}


def test_an_older_value_says_nothing_about_a_jump() -> None:
    known = after(LastKnown(), START, BTC=5e9)
    at = START + CHECKED + MINUTE

    assert values(after(known, at, BTC=10e9)) == {"BTC": (at, 10e9)}


def test_a_dispute_restores_the_values_from_before_it() -> None:
    frames = FrameRecord()
    known = LastKnown()
    for step, usd in enumerate((5e9, None, 6e9)):
        at = START + step * FRAME_STEP
        known = after(known, at, BTC=usd, ETH=2e9)
        held = changed(BTC, open_interest_usd=usd), changed(ETH, open_interest_usd=2e9)
        frames.add(stored(frame_of(at, held)))
    since = START + 2 * FRAME_STEP - MINUTE
    frames.forget_from(since)

    found = without(known, since, frames.newest_first())
    assert values(found) == {"BTC": (START, 5e9), "ETH": (START + FRAME_STEP, 2e9)}
