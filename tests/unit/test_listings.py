"""How much of what an exchange lists gets into the log of events."""

import msgspec
import pytest
from msgspec.structs import replace

from barograph.errors import InvalidReply
from barograph.events.records import NewEvent
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.market_events import (
    CHANGES_PER_DAY,
    DELISTED_AFTER,
    MAX_CONTRACTS,
    MAX_DELISTED,
    MAX_NEW,
    Listings,
    check_listings,
    next_listings,
)
from barograph.venues.records import Perpetuals
from support.clock import START
from support.markets import BTC, changed, reading


class Venue:
    """A venue whose readings are checked and followed as the collector does it."""

    def __init__(self, count: int) -> None:
        self.listings: Listings | None = None
        self.last: Perpetuals | None = None
        self.events: list[NewEvent] = []
        assert self.reads(START, count)

    def reads(self, at: int, count: int, *others: str) -> bool:
        """Read so many contracts and some others, and tell whether the reading is accepted."""
        names = (*(f"A{number}" for number in range(count)), *others)
        found = reading(at, tuple(changed(BTC, contract=name) for name in names))
        try:
            check_listings(self.listings, found, self.last)
        except InvalidReply:
            return False
        listings, events = next_listings(self.listings, found, self.last)
        # As after a restart.
        self.listings = msgspec.json.decode(msgspec.json.encode(listings), type=Listings)
        self.last = found
        self.events += events
        return True


def test_no_reading_has_an_impossible_number_of_contracts() -> None:
    full = replace(reading(), not_crypto=["A"] * (MAX_CONTRACTS - 4))
    check_listings(None, full)
    with pytest.raises(InvalidReply):
        check_listings(None, replace(full, unusable=["A"]))


def test_an_exchange_that_invents_contracts_writes_a_bounded_number_of_events() -> None:
    venue, days = Venue(500), 5
    for number in range(days * 24):
        for minute in range(3):
            at = START + number * HOUR + minute * MINUTE
            venue.reads(at, 400, *(f"N{number}-{each}" for each in range(40)))

    assert len(venue.events) <= MAX_NEW + days * CHANGES_PER_DAY
    assert {each.type for each in venue.events} == {"contract.listed", "contract.delisted"}


def test_too_many_new_contracts_are_refused_but_not_for_good() -> None:
    venue = Venue(100)
    assert not venue.reads(START + 5 * SECOND, 101 + MAX_NEW)
    assert venue.reads(START + 10 * SECOND, 100 + MAX_NEW)
    assert not venue.reads(START + 9 * DAY - HOUR, MAX_CONTRACTS)
    assert venue.reads(START + 9 * DAY + HOUR, MAX_CONTRACTS)


def test_what_was_listed_in_a_long_outage_is_accepted_and_leaves_room() -> None:
    venue = Venue(300)
    assert venue.reads(START + 6 * DAY, 800 + MAX_NEW)
    assert venue.reads(START + 6 * DAY + 5 * SECOND, 900 + MAX_NEW)
    assert venue.reads(START - DAY, 901 + MAX_NEW), "our clock was set back"


def test_half_of_the_list_can_be_missing_for_some_minutes_and_come_back() -> None:
    venue = Venue(800)
    assert all(venue.reads(START + minute * MINUTE, 400) for minute in range(15))
    assert not venue.events
    late = START + DELISTED_AFTER
    assert all(venue.reads(late + minute * MINUTE, 400) for minute in range(5))
    assert len(venue.events) == MAX_DELISTED
    assert venue.reads(late + 5 * MINUTE, 800)
    assert len(venue.events) == 2 * MAX_DELISTED


def test_a_renamed_contract_is_delisted_at_once() -> None:
    listings, _ = next_listings(None, reading(START, (BTC,)))
    usdc = changed(BTC, contract="BTCPERP")
    _, events = next_listings(listings, reading(START + SECOND, (usdc,)))

    assert [each.type for each in events] == ["contract.listed", "contract.delisted"]


def test_a_contract_whose_values_cant_be_used_is_not_delisted() -> None:
    listings, _ = next_listings(None, reading(START))
    for minutes in (1, 3):
        found = reading(START + minutes * MINUTE, tuple(reading().contracts[1:]))
        listings, events = next_listings(listings, replace(found, unusable=["BTC"]))
        assert not events
    _, events = next_listings(listings, reading(START + 5 * MINUTE))
    assert not events, "nor listed again"
