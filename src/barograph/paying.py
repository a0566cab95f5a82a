"""What payments need on the web side, assembled."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from barograph.access.feed_door import FeedDoor
from barograph.access.feed_entry import FeedEntry
from barograph.access.gate import Gate
from barograph.access.paid_door import Offer, PaidDoor
from barograph.access.wallets import Wallets
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.payments.journal import Journal
from barograph.payments.offers import feed_requirements, stance_requirements
from barograph.payments.ports import Facilitator
from barograph.payments.taking import Till
from barograph.settings import Settings
from barograph.stances.endpoints import stance_offer
from barograph.stances.paths import STANCE_PATHS


class PayingParts(NamedTuple):
    """The parts that payments need; without a facilitator there are none."""

    entry: FeedEntry
    wallets: Wallets | None = None
    till: Till | None = None
    offers: Mapping[str, Offer] = {}
    closings: Sequence[Callable[[], Awaitable[None]]] = ()

    def door(self, feed: FeedDoor) -> PaidDoor | None:
        """The paid doors, beside the one of Feed."""
        terms = self.entry.requirements
        if self.wallets is None or self.till is None or terms is None:
            return None
        return PaidDoor(feed, self.wallets, self.till, terms)


def paying_parts(
    settings: Settings,
    database: Database,
    gate: Gate,
    facilitator: Facilitator | None,
    clock: Clock,
) -> PayingParts:
    """Put them together."""
    base_url = settings.base_url
    if facilitator is None:
        return PayingParts(FeedEntry(base_url))
    journal = Journal(database, clock)
    till = Till(journal, facilitator, clock)
    price = stance_requirements(settings)
    return PayingParts(
        FeedEntry(base_url, feed_requirements(settings)),
        Wallets(facilitator, journal, gate, clock),
        till,
        {kind: stance_offer(kind, price, base_url) for kind in STANCE_PATHS},
        [till.close, facilitator.close],
    )
