"""`/api/v1/venues`: the configured venues, what they publish, and their health (pure)."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from barograph.kit.documents import Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.cross import CrossMarket, VenueFacts
from barograph.markets.cross_bodies import (
    Complete,
    Counting,
    MissingVenue,
    NoNext,
    Number,
    Reason,
    Text,
    VenueName,
    WatchedPct,
    doc,
)
from barograph.markets.cross_documents import missing_venue, rounded, time_text
from barograph.markets.cross_entries import State, Total
from barograph.markets.view import FreshnessLimits
from barograph.terms.sources import SOURCES, Unconfirmed
from barograph.venues.registry import NOT_READ

VENUES_PATH = "/api/v1/venues"
KEEP_MS = 2 * SECOND
"""How long caches may keep the list of venues, which states ages."""


class VenueDispute(WireModel):
    """A measure that contradicts the other venues."""

    measure: str
    since: str
    why: str


class VenueTerms(WireModel):
    """The terms of a venue, which the operator confirms."""

    url: str
    date: Annotated[str, doc("Date of the terms; empty if unknown.")]
    says: Annotated[str, doc("What they say, as we know it.")]
    confirmed: Annotated[bool | None, doc("Null if that is not known yet.")]


class VenueEntry(WireModel):
    """A configured venue: what it publishes, and its health."""

    venue: VenueName
    title: str
    role: Annotated[str, doc("`primary`, or `standby`, which takes over if the primary fails.")]
    inUse: Annotated[bool, doc("Whether endpoints of one venue show its data.")]
    source: str
    priceKind: Annotated[str, doc("Kind of its prices: `last` or `mark`.")]
    quote: Annotated[str, doc("Currency of its prices.")]
    longAccounts: Annotated[bool, doc("Whether it publishes shares of long accounts.")]
    liquidations: Complete
    liquidationPriceKind: Annotated[Text, doc("Null without liquidations.")]
    openInterestCounting: Counting
    openInterestUsd: Annotated[Number, doc("One-sided: its part of the totals of all coins.")]
    sharePct: Annotated[Number, doc("Of `openInterestWithMissingUsd`, in percent.")]
    contracts: Annotated[int | None, doc("Number of its crypto perpetuals.")]
    openInterestContracts: Annotated[int | None, doc("Those with a known open interest.")]
    watchedPct: WatchedPct
    as_of: Annotated[Text, doc("Time of the last reading.")]
    ageSeconds: Annotated[Number, doc("Age of the last reading.")]
    state: State
    reason: Reason
    failure: Annotated[Text, doc("Kind of the last failure, if it failed.")]
    failing_since: Text
    disputed: list[VenueDispute]
    terms: VenueTerms | None


class VenueNotRead(WireModel):
    """A large venue that no total includes, and why."""

    venue: str
    title: str
    reason: str


class VenueList(ListBody):
    """The configured venues, the primary first."""

    totalOpenInterestUsd: Annotated[
        Number, doc("Of all coins; partial if `openInterestMissing` names a venue.")
    ]
    openInterestMissing: list[MissingVenue]
    openInterestWithMissingUsd: Number
    notRead: Annotated[list[VenueNotRead], doc("Large venues that we don't read, and why.")]
    venues: list[VenueEntry]
    next: NoNext


class VenueRoles(NamedTuple):
    """How this instance uses its venues."""

    primary: str
    in_use: str
    unconfirmed: Unconfirmed | None
    """None if the terms are not known yet."""


class KnownVenues(NamedTuple):
    """What is known about the configured venues at `now`."""

    facts: Mapping[str, VenueFacts]
    roles: VenueRoles
    market: CrossMarket | None
    """None without a fresh reading."""

    limits: FreshnessLimits
    now: int

    def document(self) -> Document:
        """The configured venues as JSON."""
        in_use, market = self.roles.in_use, self.market
        head = ListHead(self.now, in_use, self.facts[in_use].venue.source)
        total = Total(None, None, ()) if market is None else market.open_interest
        also = {
            "totalOpenInterestUsd": rounded(total.usd, 2),
            "openInterestMissing": list(map(missing_venue, total.missing)),
            "openInterestWithMissingUsd": rounded(total.with_missing_usd, 2),
            "notRead": [each._asdict() for each in NOT_READ],
        }
        body = head.encode("venues", [each.encode() for each in self.entries()], None, also)
        return Document(body, until=self.now + KEEP_MS, modified=self.now)

    def entries(self) -> list[VenueEntry]:
        """What each of them publishes, its share, and its health."""
        return [self._entry(facts) for facts in self.facts.values()]

    def _entry(self, facts: VenueFacts) -> VenueEntry:
        _, roles, market, limits, now = self
        usd = None if market is None else market.by_venue.get(facts.venue.name)
        total = None if market is None else market.open_interest.with_missing_usd
        venue, reading, totals = (
            facts.venue,
            facts.reading,
            facts.fresh_totals(limits, now),
        )
        contracts = None if reading is None else reading.contracts
        state, reason = facts.state(limits, now)
        if roles.unconfirmed is not None and venue.name in roles.unconfirmed.names:
            reason = roles.unconfirmed.explain(venue.name)
        return VenueEntry(
            venue=venue.name,
            title=venue.title,
            role="primary" if venue.name == roles.primary else "standby",
            inUse=venue.name == roles.in_use,
            source=venue.source,
            priceKind=venue.price_kind,
            quote=venue.quote,
            longAccounts=venue.has_long_accounts,
            liquidations=venue.liquidations,
            liquidationPriceKind=venue.liquidation_price or None,
            openInterestCounting=venue.open_interest,
            openInterestUsd=rounded(usd, 2),
            sharePct=round(100 * usd / total, 2) if usd is not None and total else None,
            contracts=None if contracts is None else len(contracts),
            openInterestContracts=None
            if contracts is None
            else sum(perpetual.open_interest_usd is not None for perpetual in contracts),
            watchedPct=None if totals is None else totals.watched_pct,
            as_of=None if reading is None else time_text(reading.as_of),
            ageSeconds=None if reading is None else (now - reading.as_of) / SECOND,
            state=state,
            reason=reason,
            failure=facts.failure,
            failing_since=time_text(facts.failing_since),
            disputed=[
                VenueDispute(measure=name, since=iso_timestamp(each.since), why=each.why)
                for name, each in facts.disputed.items()
            ],
            terms=_terms(venue.name, roles.unconfirmed),
        )


def _terms(name: str, unconfirmed: Unconfirmed | None) -> VenueTerms | None:
    known = SOURCES.get(name)
    if known is None:
        return None
    confirmed = None if unconfirmed is None else name not in unconfirmed.names
    return VenueTerms(url=known.url, date=known.terms_date, says=known.says, confirmed=confirmed)
