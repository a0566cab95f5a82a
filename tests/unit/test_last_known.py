"""The last known values of a venue: never disputed ones, and never a jump of some minutes."""

from barograph.kit.timestamps import MINUTE
from barograph.markets.frames import FRAME_STEP, FrameRecord, frame_of, stored
from barograph.markets.last_known import CHECKED, LastKnown, with_reading, without
from barograph.venues.records import Perpetuals
from support.clock import START
from support.markets import BTC, ETH, SOURCE, changed


def after(known: LastKnown, at: int, **usd: float | None) -> LastKnown:
    contracts = {"BTC": BTC, "ETH": ETH}
    held = tuple(changed(contracts[name], open_interest_usd=each) for name, each in usd.items())
    return with_reading(known, Perpetuals(at, SOURCE, held))


def values(known: LastKnown) -> dict[str, tuple[int, float]]:
    return {each.asset: (each.at, each.open_interest_usd) for each in known.contracts.values()}


def test_a_value_stays_when_a_later_reading_has_none_or_lacks_the_contract() -> None:
    known = after(LastKnown(), START, BTC=5e9, ETH=2e9)
    later = START + FRAME_STEP

    assert values(after(known, later, BTC=None)) == {"BTC": (START, 5e9), "ETH": (START, 2e9)}


def test_a_jump_is_taken_after_the_venues_were_compared() -> None:
    known = after(LastKnown(), START, BTC=5e9)
    jumped = after(known, START + CHECKED, BTC=10e9)

    assert values(jumped) == {"BTC": (START, 5e9)}
    at = START + CHECKED + MINUTE
    assert values(after(jumped, at, BTC=10e9)) == {"BTC": (at, 10e9)}


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
