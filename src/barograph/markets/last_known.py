"""The last known values of every contract of a venue, for when the venue is missing (pure).

They say how large the missing part of a total was. They also show what jumped: such a value isn't
used until the comparison of venues had time to dispute it. A disputed value is never among them,
nor one that is held back.
"""

from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from barograph.kit.text import usd
from barograph.kit.timestamps import DAY, MINUTE, iso_timestamp
from barograph.venues.records import (
    MAJORS,
    NO_OPEN_INTEREST,
    Frame,
    Perpetual,
    Perpetuals,
)

KEPT_FOR = 7 * DAY
"""How long values are kept after the last reading that had them."""

JUMP = 1.7
"""Open interest that grows or shrinks by this factor between two readings is held back. A wrong
side is a factor of two."""

PRICE_JUMP = 3.0
"""The same for prices. A wrong multiplier is a factor of ten or more."""

CHECKED = 15 * MINUTE
"""How old the value before may be, and how long the one after is held back: long enough for the
comparison of venues to dispute it."""

MISCOUNTS = 2, 10, 100, 1000, 10_000, 1_000_000
"""The factors of a wrong side, multiplier or unit."""

TOLERANCE = 0.05
"""How near to one of these a factor must be to count as such an error."""

HELD = DAY
"""How long values with such a factor are held back, because no comparison finds the error of a
single small coin. A new contract may well double."""

JUMP_FLOOR_USD = 1e6
"""The open interest of smaller contracts may jump."""

RATE_JUMP = 20.0
"""If the rates of most contracts grow or shrink by this factor at once, their unit is wrong."""

MIN_RATES = 8


class KnownValues(Struct, frozen=True, array_like=True, gc=False):
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

    held_until: int | None = None
    """Until when newer values are held back because they jumped."""

    volume_24h_coins: float | None = None
    prior: "KnownValues | None" = None
    """The values before the last jump that was accepted. A return to them is its correction."""


class LastKnown(Struct, frozen=True):
    """The contracts of a venue by their full names."""

    contracts: dict[str, KnownValues] = {}


def guarded(known: LastKnown, reading: Perpetuals, day_ago: Frame) -> tuple[LastKnown, Perpetuals]:
    """Hold back what jumped, longer for contracts that were there a day ago.

    A contract whose open interest jumped has none, and one whose price jumped is left out. Prices
    of BTC, ETH and SOL are not held back: the comparison of venues watches each of them.
    """
    held: dict[str, KnownValues] = {}
    doubted: dict[str, str] = {}
    contracts = []
    for each in reading.contracts:
        before = known.contracts.get(each.contract)
        is_old = each.contract in day_ago.contracts
        jump = None if before is None else _jump(before, each, reading.as_of, is_old=is_old)
        if before is None or jump is None:
            contracts.append(each)
            continue
        held[each.contract] = replace(before, held_until=jump.until)
        until = iso_timestamp(jump.until)
        doubted[each.contract] = f"its {jump.what}; we hold it back until {until}"
        if not jump.is_price:
            # Its price may drift while its open interest is held back.
            price = each.last_price / each.multiplier * before.multiplier
            held[each.contract] = replace(held[each.contract], price=price)
            contracts.append(replace(each, **NO_OPEN_INTEREST))
    rates = _rates_jump(known, reading)
    if not doubted and not rates:
        return known, reading
    changed = replace(
        reading,
        contracts=tuple(contracts),
        doubted=doubted,
        doubted_rates=rates,
    )
    return LastKnown(known.contracts | held), changed


class _Jump(NamedTuple):
    is_price: bool
    factor: float
    what: str
    until: int = 0


def _jump(before: KnownValues, now: Perpetual, at: int, *, is_old: bool) -> _Jump | None:
    """How a contract jumped from its last known values; None if it didn't."""
    until = before.held_until
    is_held = 0 <= at - before.at <= CHECKED if until is None else at < until
    jump = _difference(before, now, at)
    if not is_held or jump is None:
        return None
    is_miscount = is_old and any(abs(jump.factor / each - 1) <= TOLERANCE for each in MISCOUNTS)
    return jump._replace(until=until or at + (HELD if is_miscount else CHECKED))


def _difference(before: KnownValues, now: Perpetual, at: int) -> _Jump | None:
    """How far values are from earlier ones; None if they are near, or back from the last jump."""
    prior = before.prior
    if prior is not None and at - prior.at < KEPT_FOR and _difference(prior, now, at) is None:
        return None
    price, price_before = now.last_price / now.multiplier, before.price / before.multiplier
    size, size_before = now.open_interest_usd, before.open_interest_usd
    factor = _factor(price_before, price)
    if factor >= PRICE_JUMP and now.asset not in MAJORS:
        what = f"price of one coin jumped from {price_before:.6g} to {price:.6g}"
        return _Jump(True, factor, what)
    if not size or not size_before or max(size, size_before) < JUMP_FLOOR_USD:
        return None
    factor = _factor(size_before, size)
    if factor < JUMP:
        return None
    return _Jump(False, factor, f"open interest jumped from {usd(size_before)} to {usd(size)}")


def _factor(before: float, now: float) -> float:
    return max(before / now, now / before)


def _rates_jump(known: LastKnown, reading: Perpetuals) -> str:
    """How the rates of most contracts jumped; empty if they didn't."""
    before = (known.contracts.get(each.contract) for each in reading.contracts)
    factors = [
        abs(each.funding_8h_pct / last.funding_8h_pct)
        for each, last in zip(reading.contracts, before, strict=True)
        if last is not None and last.funding_8h_pct and 0 <= reading.as_of - last.at <= CHECKED
    ]
    factor = median(factors) if len(factors) >= MIN_RATES else 1.0
    if 1 / RATE_JUMP < factor < RATE_JUMP:
        return ""
    return f"its funding rates are {factor:.3g} times the last known ones, by the median"


def is_unknown(known: LastKnown, reading: Perpetuals, others: Collection[str]) -> bool:
    """Whether a contract is new, or turned out to be another asset, or not to be one."""
    kinds = {name: each.is_other_asset for name, each in known.contracts.items()}
    return any(
        kinds.get(each.contract) != (each.contract in others)
        for each in reading.contracts
        if each.open_interest_usd is not None
    )


def with_reading(
    known: LastKnown,
    reading: Perpetuals,
    others: Collection[str] = (),
    *,
    are_rates_disputed: bool = False,
) -> LastKnown:
    """The last known values after a reading; `others` are other assets.

    Its prices and open interest are not disputed. If its rates are, those from before stay.
    """
    at, before = reading.as_of, known.contracts
    contracts = {name: each for name, each in before.items() if at - each.at < KEPT_FOR}
    for each in reading.contracts:
        usd, last = each.open_interest_usd, before.get(each.contract)
        rate: float | None = each.funding_8h_pct
        if are_rates_disputed:
            rate = None if last is None else last.funding_8h_pct
        if usd is not None:
            prior = None if last is None else last.prior
            if last is not None and _difference(last, each, at) is not None:
                prior = replace(last, held_until=None, prior=None)
            contracts[each.contract] = KnownValues(
                at,
                each.asset,
                each.multiplier,
                each.last_price,
                usd,
                each.open_interest_coins,
                each.volume_24h_usd,
                rate,
                each.contract in others,
                volume_24h_coins=each.volume_24h_coins,
                prior=prior,
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
