"""What the log of events says about the market: regimes, outages, venues and listings (pure)."""

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.errors import InvalidReply
from barograph.events.records import NewEvent
from barograph.kit.json import Json
from barograph.kit.timestamps import DAY, MINUTE, iso_timestamp
from barograph.markets.failover import Switch
from barograph.markets.regime import RegimeChange
from barograph.venues.records import Perpetuals
from barograph.venues.registry import coin_of

MARKET_FEED = "market-feed"
"""The feed by its name among the status checks."""

DELISTED_AFTER = 15 * MINUTE
"""How long a contract must be missing from every reading before it counts as delisted: longer than
an exchange usually sends incomplete replies. Until then, totals name the venue as missing."""

MAX_CONTRACTS = 2_000
"""Of one venue, including those that are left out. The longest list had 872 in 2026-08."""

CHANGES_PER_DAY = 100
"""How many contracts a venue may list and delist per day in the long run. Each change is an event
that is kept for good. The record is about 30 per day."""

MAX_NEW = 1_000
"""How many contracts may be new at once, because an exchange may rename all of them. After an
outage as many more as its days allow, so that no exchange is refused for good."""

MAX_DELISTED = 100
"""How many may be delisted at once; the others wait. Fewer than may be new, because an exchange
that drops half of its list by mistake lists it again."""

_EACH = DAY // CHANGES_PER_DAY


class Listings(Struct, frozen=True):
    """The listed contracts, including those that have been missing for a short time."""

    bases: dict[str, str]
    """The base asset of each contract by its full name."""

    missing: dict[str, int] = {}
    """When each missing contract was first missing."""

    counted_until: int = 0
    """The time up to which the changes so far use up the limit: each takes its share of a day."""


def check_listings(
    before: Listings | None, reading: Perpetuals, last: Perpetuals | None = None
) -> None:
    """Check how many contracts a reading has, and how many are new since the `last` one.

    Raises:
        InvalidReply: more than can be right.
    """
    count = len(reading.contracts) + len(reading.not_crypto) + len(reading.unusable)
    if count > MAX_CONTRACTS:
        raise InvalidReply(f"the exchange lists {count:,} contracts, more than {MAX_CONTRACTS:,}")
    if before is None:
        return
    new = sum(listed.contract not in before.bases for listed in reading.contracts)
    if new > max(0, _room(before, reading, last, MAX_NEW)):
        raise InvalidReply(f"the exchange lists {new:,} new contracts, too many to be right")


def next_listings(
    before: Listings | None, reading: Perpetuals, last: Perpetuals | None = None
) -> tuple[Listings, list[NewEvent]]:
    """The listings after a reading, and what changed; the first reading changes nothing.

    A contract whose values were out of range, can't be used or are held back is still listed.
    """
    at, bases = reading.as_of, {one.contract: one.base for one in reading.contracts}
    if before is None:
        return Listings(bases), []
    refused = {name for names in reading.refused.values() for name in names} | {*reading.doubted}
    gone = {
        name
        for name in before.bases.keys() - bases.keys() - refused
        if coin_of(reading.venue, before.bases[name])[0] not in reading.unusable
    }
    missing = {name: before.missing.get(name, at) for name in sorted(gone)}
    known, new = before.bases | bases, sorted(bases.keys() - before.bases.keys())
    renamed = {coin_of(reading.venue, bases[name])[0] for name in new}
    overdue = [
        name
        for name, since in missing.items()
        if at - since >= DELISTED_AFTER or coin_of(reading.venue, known[name])[0] in renamed
    ]
    room = _room(before, reading, last, MAX_DELISTED) - len(new)
    delisted = sorted(overdue, key=missing.__getitem__)[: max(0, room)]
    events = []
    for name in [*new, *delisted]:
        members: dict[str, Json] = {"venue": reading.venue, "symbol": known[name], "contract": name}
        if name in bases:
            events.append(NewEvent("contract.listed", at, f"{reading.venue}/{name}/{at}", members))
        else:
            since = missing.pop(name)
            members["missing_since"] = iso_timestamp(since)
            cause = f"{reading.venue}/{name}/{since}"
            events.append(NewEvent("contract.delisted", at, cause, members))
            del known[name]
    until = before.counted_until
    if events:
        until = _counted_until(before, reading, last) + _EACH * len(events)
    return Listings(known, missing, until), events


def _room(before: Listings, reading: Perpetuals, last: Perpetuals | None, at_once: int) -> int:
    """How many changes are still allowed; below zero if there were too many."""
    return at_once + (reading.as_of - _counted_until(before, reading, last)) // _EACH


def _counted_until(before: Listings, reading: Perpetuals, last: Perpetuals | None) -> int:
    """Up to when changes are counted, at least up to the last reading."""
    at = reading.as_of
    until = max(before.counted_until, at if last is None else last.as_of)
    return until if until - at <= MAX_NEW * _EACH else at  # or else our clock was set back


def regime_event(venue: str, change: RegimeChange, previous: str | None) -> NewEvent:
    """A new regime, with the rate that caused it and the label before."""
    return NewEvent(
        "regime.changed",
        change.at,
        f"{venue}/{change.at}",
        {
            "venue": venue,
            "symbol": "BTC",
            "label": change.label,
            "previous": previous,
            "fundingRatePct8h": change.funding_8h_pct,
        },
    )


def outage_event(last: Perpetuals, max_age: int, at: int) -> NewEvent:
    """The market feed has passed its freshness limit since its last reading; noticed at `at`.

    The collector and the web both notice it. The last reading identifies the outage, so that it is
    recorded once.
    """
    members: dict[str, Json] = {"venue": last.venue, "feed": MARKET_FEED}
    members["stale_since"] = iso_timestamp(last.as_of + max_age)
    return NewEvent("feed.down", at, f"{last.venue}/{last.as_of}", members)


def recovery_event(last: Perpetuals, venue: str, at: int) -> NewEvent:
    """The outage that began after `last` ended with a reading of `venue`, maybe another one."""
    members: dict[str, Json] = {"venue": venue, "feed": MARKET_FEED}
    return NewEvent("feed.recovered", at, f"{last.venue}/{last.as_of}", members)


def switch_event(switch: Switch) -> NewEvent:
    """Another venue is in use."""
    members = {"venue": switch.after, "previous": switch.before, "reason": switch.reason}
    return NewEvent("venue.switched", switch.at, f"{switch.after}/{switch.at}", {**members})


LISTINGS = Feed("listings", Listings)
