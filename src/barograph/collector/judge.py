"""Judges readings: market, signals and briefs become conclusions, stored in one transaction.

The live collector and the demo's replay both use it.
"""

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.structs import replace

from barograph.alerts.judge import AlertConclusion, AlertJudge
from barograph.alerts.store import record_alerts
from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Feed, Publication
from barograph.briefs.records import Brief
from barograph.briefs.store import brief_event, record_briefs
from barograph.briefs.writer import BriefWriter
from barograph.errors import Disputed, UpstreamError
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.macro.evidence import NO_FIGURES, YIELD_DAYS, MacroEvidence
from barograph.macro.records import US3M, US10Y
from barograph.macro.store import as_known_at, etf_series
from barograph.markets.cross import other_assets
from barograph.markets.disputes import DISPUTES, Dispute, Disputes, DisputeTracker, Measure
from barograph.markets.evidence import FundingSpread, funding_spreads
from barograph.markets.failover import VENUE_IN_USE, Failover, Switch, VenueInUse
from barograph.markets.judge import READ, MarketConclusion, MarketJudge, record_market
from barograph.markets.market_events import switch_event
from barograph.markets.regime import DWELL
from barograph.markets.store import mark_disputed
from barograph.markets.view import BACKFILL, FreshnessLimits, is_fresh
from barograph.settings import Settings
from barograph.signals.judge import (
    SignalConclusion,
    SignalJudge,
    record_signals,
    signal_event,
)
from barograph.venues.records import MAJORS, BackfillProgress, Perpetuals
from barograph.venues.registry import source_of

log = logging.getLogger(__name__)

UNUSABLE: Final[AbstractSet[Measure]] = frozenset({"price", "funding"})
"""A reading of the venue in use whose price or funding is disputed counts as failed."""

NEVER = -1
FUND_DAYS = 60
"""How many days of the funds' figures are read."""


class Conclusion(NamedTuple):
    """What one reading of a venue adds."""

    market: MarketConclusion
    signals: SignalConclusion | None = None
    briefs: Sequence[Brief] = ()
    in_use: VenueInUse | None = None
    """The venue in use, if readers don't know it yet."""

    other_events: Sequence[NewEvent] = ()
    disputes: Sequence[Dispute] = ()
    """The disputes that began, whose readings so far are not marked yet."""

    alerts: AlertConclusion | None = None
    also: "Conclusion | None" = None
    """The conclusion of another venue, which is in use from now on."""

    @property
    def events(self) -> list[NewEvent]:
        """What it adds to the log of events."""
        changes = () if self.signals is None else self.signals.changes
        signals = [signal_event(change) for change in changes]
        briefs = [brief_event(brief) for brief in self.briefs]
        return [*self.market.events, *self.other_events, *signals, *briefs]

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        rows = self.market.row_count + len(self.briefs) + (self.in_use is not None)
        rows += len(self.disputes)
        rows += 0 if self.also is None else self.also.row_count
        return rows + (0 if self.signals is None else 1 + len(self.signals.changes))


class Judge:
    """Turns the readings of all venues into conclusions from what the collector knows.

    Each venue is judged by its own record. Signals and briefs are judged by the venue in use.
    """

    def __init__(self, settings: Settings, *, regime_dwell: int = DWELL) -> None:
        self._settings = settings
        primary = settings.venue_names[0]
        self._markets = {
            venue: MarketJudge(
                settings, venue, is_in_use=venue == primary, regime_dwell=regime_dwell
            )
            for venue in settings.venue_names
        }
        self._max_age = int(settings.feed_max_age_seconds * SECOND)
        self._failover = Failover(settings.venue_names, self._max_age, 0, primary)
        self._alerts = AlertJudge(self._markets)
        self._signals = SignalJudge()
        self._briefs = BriefWriter()
        self._macro = NO_FIGURES
        self._filled_at: dict[str, int | None] = {}
        self._readings: dict[str, Perpetuals] = {}
        """The newest readings as the venues sent them, which are compared."""

        self._tracker = DisputeTracker()
        self._disputes = Disputes(0)
        self._unmarked: list[Dispute] = []
        self._known_in_use: VenueInUse | None = None
        """The venue in use as readers know it."""

        self._switches: list[Switch] = []
        """The changes of venue that readers don't know yet, oldest first."""

        self._without_brief: Switch | None = None

    @property
    def in_use(self) -> str:
        """The venue in use."""
        return self._failover.in_use

    async def load(self, database: Database, now: int) -> None:
        """Load what earlier collectors stored."""

        async def work(tx: Transaction) -> None:
            venues = self._settings.venue_names
            known = self._known_in_use = await latest_snapshot(tx, VENUE_IN_USE)
            in_use = venues[0] if known is None else known.venue
            self._failover = Failover(venues, self._max_age, now, in_use)
            for market in self._markets.values():
                market.is_in_use = market.venue == self.in_use
                await market.load(tx, now)
            await self._alerts.load(tx)
            await self._signals.load(tx)
            await self._briefs.load(tx)
            self._filled_at = {venue: await self._majors_filled_at(tx, venue) for venue in venues}
            self._macro = await known_figures(tx, self._settings, now)

        await database.read(work)

    async def refresh(self, database: Database, now: int) -> None:
        """Read again, once per minute, what other jobs have stored, and changed rules sooner.

        That is daily figures, settled funding and hours back-filled since.
        While they can't be read, the last ones are used until they are too old.
        """
        with suppress(DatabaseUnavailable):  # the next write fails too, which is logged
            await self._alerts.refresh(database, now)
        if now // MINUTE == self._macro.at // MINUTE:
            return

        async def work(tx: Transaction) -> None:
            self._macro = await known_figures(tx, self._settings, now)
            for venue, market in self._markets.items():
                filled_at = await self._majors_filled_at(tx, venue)
                if filled_at != self._filled_at.get(venue):
                    await market.load_trailing(tx, now)
                    self._filled_at[venue] = filled_at
                await market.load_settled(tx, now)

        try:
            await database.read(work)
        except DatabaseUnavailable as error:
            log.warning("stored data not read", extra={"reason": str(error)})

    def of(self, venue: str) -> MarketJudge:
        """What judges one venue; it takes that venue's samples and liquidations."""
        return self._markets[venue]

    def conclude(self, reading: Perpetuals, now: int | None = None) -> Conclusion:
        """Judge a reading; `now` is when it arrived, None for a reading of the past."""
        if now is None:
            return self._concluded(reading, None, None)
        venue, compared = reading.venue, self._compare(reading, now)
        disputed: set[str] = {*self._markets[venue].disputed}
        reading = self._markets[venue].guard(reading)
        if reading.doubted_rates:
            disputed.add("funding")
        if self.in_use == venue and disputed & UNUSABLE:
            why = f"{' and '.join(sorted(disputed & UNUSABLE))} of {venue}"
            return self._with(self.conclude_failure(venue, Disputed(why), now), compared)
        if disputed & READ and self.in_use != venue:  # it can't take another venue's place
            switch = self._failover.failed(venue, Disputed.kind, now)
        else:
            switch = self._failover.succeeded(venue, now)
        conclusion = self._with(self._concluded(reading, switch, now), compared)
        return conclusion._replace(alerts=self._alerts.conclude(reading, now))

    def _concluded(self, reading: Perpetuals, switch: Switch | None, now: int | None) -> Conclusion:
        self._follow(switch)
        market = self._markets[reading.venue]
        found = market.conclude(reading, now)
        if market.is_in_use:
            return self._complete(found)
        return Conclusion(found, also=self._switched(now))

    def conclude_part(self, part: Perpetuals) -> Conclusion | None:
        """Judge a replayed reading of a few contracts, between two full ones."""
        judged = self._markets[part.venue].conclude_part(part)
        if judged is None:
            return None
        return Conclusion(judged[0], self._signals.conclude_part(judged[1]))

    def conclude_failure(self, venue: str, error: UpstreamError, at: int) -> Conclusion:
        """Judge a failed reading: signals that don't need the exchange go on."""
        market = self._markets[venue]
        self._follow(self._failover.failed(venue, error.kind, at))
        conclusion = market.conclude_failure(error, at)
        also = self._switched(at)
        if not market.is_in_use:
            return Conclusion(conclusion, also=also)
        if also is not None:
            return also  # it includes the failure
        macro = self._macro._replace(at=at)
        source = source_of(venue, self._settings.exchange_source)
        return Conclusion(conclusion, self._signals.conclude_failure(macro, source))

    def conclude_stop(self) -> list[Conclusion]:
        """The liquidations since the last conclusion of each venue."""
        return [Conclusion(market.conclude_stop()) for market in self._markets.values()]

    def written(self, conclusion: Conclusion) -> None:
        """Forget what is stored; until then it is part of every next conclusion."""
        self._markets[conclusion.market.venue].written(conclusion.market)
        self._briefs.written(conclusion.briefs)
        if conclusion.signals is not None:
            self._signals.written(conclusion.signals)
        self._unmarked = [each for each in self._unmarked if each not in conclusion.disputes]
        for dispute in conclusion.disputes:
            self._filled_at[dispute.venue] = NEVER  # read its record again
            self._markets[dispute.venue].forget_frames(dispute.since)
        if conclusion.in_use is not None:
            self._known_in_use, self._switches = conclusion.in_use, []
        if conclusion.alerts is not None:
            self._alerts.written(conclusion.alerts.states)
        if conclusion.also is not None:
            self.written(conclusion.also)

    def _follow(self, switch: Switch | None) -> None:
        """Let another venue publish to the plain feeds."""
        if switch is None:
            return
        log.warning("another venue is in use", extra=switch._asdict())
        self._markets[switch.after].take_over(self._markets[switch.before])
        self._switches.append(switch)
        self._without_brief = switch

    def _switched(self, now: int | None) -> Conclusion | None:
        """The conclusion of the venue in use from its last reading, if readers don't know it yet.

        Everything that it publishes changes at once, or readers would get a mixture.
        """
        after = self._markets[self.in_use]
        if not self._switches or after.reading is None:
            return None
        return self._complete(after.conclude(after.reading, now))

    def _compare(self, reading: Perpetuals, now: int) -> list[Publication]:
        """Compare the venues about once a minute; return what to publish."""
        self._readings[reading.venue] = reading
        if len(self._markets) == 1 and self._disputes.as_of:
            return []  # the first comparison finds nothing, and ends what an earlier collector left
        recent = {venue: market.recent(now) for venue, market in self._markets.items()}
        readings = self._fresh_readings(now)
        disputes = self._tracker.compare(readings, recent, now)
        is_news = disputes is not self._disputes
        if is_news or any(self._markets[venue].other_assets is None for venue in readings):
            self._tell_other_assets(readings, now)
        if not is_news:
            return []
        known = self._disputes.disputes
        new = (each for each in disputes.disputes if each not in known)
        self._unmarked += [each for each in new if each.measure in READ]
        self._disputes = disputes
        for venue, market in self._markets.items():
            market.disputed = disputes.of(venue)
        return [Publication.of(DISPUTES, disputes)]

    def _tell_other_assets(self, readings: Mapping[str, Perpetuals], now: int) -> None:
        """Tell each venue which of its contracts are another asset of the same name."""
        limits = FreshnessLimits(self._max_age)
        last = {venue: market.last_known for venue, market in self._markets.items()}
        day_ago = {name: self._markets[name].day_before(each) for name, each in readings.items()}
        others = other_assets(readings, last, day_ago, limits, now)
        for venue in readings:
            self._markets[venue].other_assets = others.get(venue, ())

    def _fresh_readings(self, now: int) -> dict[str, Perpetuals]:
        return {
            venue: reading
            for venue, reading in self._readings.items()
            if is_fresh(reading.as_of, self._max_age, now)
        }

    def _funding_spreads(self) -> dict[str, FundingSpread] | None:
        """The spreads between fresh venues with undisputed funding; None with one venue."""
        market = self._markets[self.in_use]
        if len(self._markets) == 1 or market.reading is None:
            return None
        fresh = self._fresh_readings(market.reading.as_of)
        fair = {
            venue: each
            for venue, each in fresh.items()
            if "funding" not in self._markets[venue].disputed
        }
        record = {
            asset: {
                venue: market.settled_windows[asset]
                for venue, market in self._markets.items()
                if asset in market.settled_windows
            }
            for asset in MAJORS
        }
        return funding_spreads(fair, record)

    def _complete(self, found: MarketConclusion) -> Conclusion:
        assert found.evidence is not None
        switches, known, at = self._switches, self._known_in_use, found.evidence.reading.as_of
        evidence = found.evidence._replace(
            switch=self._without_brief, spreads=self._funding_spreads()
        )
        self._without_brief = None  # the writer keeps the brief until it is stored
        macro = self._macro._replace(at=at)
        signals = self._signals.conclude(evidence, macro, is_new_venue=bool(switches))
        briefs = self._briefs.conclude(evidence, macro)
        if not switches:
            is_known = known is not None and known.venue == found.venue
            in_use = known if is_known and known is not None else VenueInUse(found.venue, at)
            back_at, back = self._failover.back(at) or (None, None)
            in_use = replace(in_use, back_at=back_at, back=back)
            return Conclusion(found, signals, briefs, None if in_use == known else in_use)
        left = dict.fromkeys(switch.before for switch in switches if switch.before != found.venue)
        published = [
            publication for venue in left for publication in self._markets[venue].publications(at)
        ]
        found = found._replace(publications=[*published, *found.publications])
        newest = switches[-1]
        in_use = VenueInUse(found.venue, newest.at, newest.before, newest.reason)
        return Conclusion(found, signals, briefs, in_use, [*map(switch_event, switches)])

    def _with(self, conclusion: Conclusion, publications: Sequence[Publication]) -> Conclusion:
        market = conclusion.market
        published = [*market.publications, *publications]
        return conclusion._replace(
            market=market._replace(publications=published), disputes=tuple(self._unmarked)
        )

    async def _majors_filled_at(self, tx: Transaction, venue: str) -> int | None:
        progress = await latest_snapshot(tx, backfill_feed(self._settings, venue))
        return None if progress is None else progress.majors_filled_at


def backfill_feed(settings: Settings, venue: str) -> Feed[BackfillProgress]:
    """Where the progress of a venue's back-fill is published."""
    return BACKFILL if venue == settings.venue_names[0] else BACKFILL.of(venue)


async def known_figures(tx: Transaction, settings: Settings, at: int) -> MacroEvidence:
    """The daily figures that were known at a time."""
    return MacroEvidence(
        at=at,
        etf=await etf_series(settings, lambda name: as_known_at(tx, name, at, FUND_DAYS)),
        us10y=await as_known_at(tx, US10Y, at, YIELD_DAYS),
        us3m=await as_known_at(tx, US3M, at, YIELD_DAYS),
    )


async def write_conclusions(
    database: Database, lease: Lease, conclusions: Sequence[Conclusion]
) -> None:
    """Record conclusions in one transaction, and publish what is newest in them.

    Raises:
        LeaseLost: another collector leads; nothing was written.
        DatabaseUnavailable: nothing was written.
    """
    conclusions = [
        each for given in conclusions for each in (given, given.also) if each is not None
    ]

    async def work(tx: Transaction) -> None:
        await lease.fence(tx)
        for venue in dict.fromkeys(conclusion.market.venue for conclusion in conclusions):
            markets = [conclusion.market for conclusion in conclusions]
            await record_market(tx, [market for market in markets if market.venue == venue])
        for dispute in dict.fromkeys(each for given in conclusions for each in given.disputes):
            await mark_disputed(tx, dispute)
        in_use = [conclusion.in_use for conclusion in conclusions if conclusion.in_use is not None]
        await publish(tx, [Publication.of(VENUE_IN_USE, each) for each in in_use[-1:]])
        await record_briefs(
            tx, [brief for conclusion in conclusions for brief in conclusion.briefs]
        )
        await record_signals(
            tx, [conclusion.signals for conclusion in conclusions if conclusion.signals is not None]
        )
        for alerts in [each.alerts for each in conclusions if each.alerts is not None]:
            await record_alerts(tx, alerts.states, alerts.messages, alerts.now)
        events = [event for conclusion in conclusions for event in conclusion.events]
        await append_events(tx, sorted(events, key=lambda each: each.at))

    await database.write(work)
