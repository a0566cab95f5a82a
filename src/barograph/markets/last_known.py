"""The last known values of every contract of a venue, for when the venue is missing (pure).

They say how large the missing part of a total was. A disputed value is never among them, nor one
that just jumped, because the comparison of venues takes some minutes to dispute it.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from barograph.kit.timestamps import DAY, MINUTE
from barograph.venues.records import Frame, Perpetual, Perpetuals

KEPT_FOR = 7 * DAY
"""How long values are kept after the last reading that had them."""

JUMP = 1.7
"""Open interest that grows or shrinks by this factor within `CHECKED` waits for the comparison. A
wrong side is a factor of two."""

CHECKED = 15 * MINUTE
JUMP_FLOOR_USD = 1e6
"""Smaller contracts may jump."""


class KnownValues(Struct, frozen=True, array_like=True):
    """One contract, in the units of `Perpetual`."""

    at: int
    asset: str
    multiplier: int
    price: float
    open_interest_usd: float
    open_interest_coins: float | None = None
    volume_24h_usd: float | None = None
    funding_8h_pct: float | None = None
    is_other_asset: bool = False
    """Whether the venues' prices, at one time, showed another asset of the same name."""


class LastKnown(Struct, frozen=True):
    """The contracts of a venue by their full names."""

    contracts: dict[str, KnownValues] = {}


def has_jumped(known: KnownValues | None, contract: Perpetual, at: int) -> bool:
    """Whether the open interest is too far from its last known value, of minutes ago."""
    if known is None or not 0 <= at - known.at <= CHECKED:
        return False
    before, after = known.open_interest_usd, contract.open_interest_usd
    if not before or after is None or max(before, after) < JUMP_FLOOR_USD:
        return False
    return not before / JUMP < after < before * JUMP


def with_reading(known: LastKnown, reading: Perpetuals, others: Collection[str] = ()) -> LastKnown:
    """The last known values after a reading that is not disputed; `others` are other assets."""
    at, before = reading.as_of, known.contracts
    contracts = {name: each for name, each in before.items() if at - each.at < KEPT_FOR}
    for each in reading.contracts:
        usd = each.open_interest_usd
        if usd is not None and not has_jumped(before.get(each.contract), each, at):
            contracts[each.contract] = KnownValues(
                at,
                each.asset,
                each.multiplier,
                each.last_price,
                usd,
                each.open_interest_coins,
                each.volume_24h_usd,
                each.funding_8h_pct,
                each.contract in others,
            )
    return LastKnown(contracts)


def without(known: LastKnown, since: int, frames: Iterable[Frame]) -> LastKnown:
    """The values from before a dispute; `frames` are older, the newest first."""
    wrong = {name: each for name, each in known.contracts.items() if each.at >= since}
    right = {name: each for name, each in known.contracts.items() if each.at < since}
    for frame in frames:
        right |= _restored(wrong.keys() - right.keys(), wrong, frame)
        if wrong.keys() <= right.keys():
            break
    return LastKnown(right)


def _restored(
    names: Iterable[str], wrong: Mapping[str, KnownValues], frame: Frame
) -> dict[str, KnownValues]:
    found = {}
    for name in names:
        past = frame.contracts.get(name)
        if past is not None and past.open_interest_usd is not None:
            found[name] = KnownValues(
                frame.at,
                wrong[name].asset,
                wrong[name].multiplier,
                past.last_price,
                past.open_interest_usd,
                past.open_interest_coins,
                funding_8h_pct=past.funding_8h_pct,
                is_other_asset=wrong[name].is_other_asset,
            )
    return found
