"""Turns each reading of the exchange into rows to record, snapshots to publish and evidence.

`MarketJudge` keeps the collector's state in memory. `regime.py` decides the regime. Signals and
briefs judge by the evidence that a conclusion carries.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Feed, Publication
from barograph.errors import UpstreamError
from barograph.events.records import NewEvent
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets import store
from barograph.markets.disputes import Dispute, Measure
from barograph.markets.evidence import (
    Hour,
    MarketEvidence,
    Outage,
    TrailingRecord,
)
from barograph.markets.frames import (
    FRAME_STEP,
    NEAR,
    FrameRecord,
    StoredFrame,
    frame_of,
    stored,
)
from barograph.markets.last_known import LastKnown, guarded, is_unknown, with_reading, without
from barograph.markets.liquidations import LiquidationHour, LiquidationTotals, LiquidationTracker
from barograph.markets.listings import ListingChange, record_listings
from barograph.markets.market_events import (
    LISTINGS,
    Listings,
    check_listings,
    next_listings,
    outage_event,
    recovery_event,
    regime_event,
)
from barograph.markets.regime import DWELL, Regime, RegimeChange, next_regime
from barograph.markets.settlements import SettledFunding, known_settlements, settled_windows
from barograph.markets.store import ReadingRow, Resolution
from barograph.markets.view import (
    DAY_AGO,
    EXCHANGE_HEALTH,
    LAST_KNOWN,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    LONG_ACCOUNTS_MAX_AGE,
    PERPETUALS,
    REGIME,
    is_fresh,
)
from barograph.settings import Settings
from barograph.venues.records import (
    MAJORS,
    ContractName,
    ExchangeHealth,
    Frame,
    Liquidation,
    LongAccounts,
    LongAccountShares,
    Perpetual,
    Perpetuals,
    Side,
    majors_of,
    without_open_interest,
)
from barograph.venues.registry import (
    BYBIT,
    VENUES,
    coin_of,
    publishes_liquidations,
    publishes_long_accounts,
)
from barograph.venues.spans import AHEAD, Span

R = TypeVar("R", bound=Struct)
RECENT, MAX_RECENT = 2 * MINUTE, 5_000
READ: Final[AbstractSet[Measure]] = frozenset({"price", "funding", "open-interest"})
"""The disputed measures that a stored reading has."""


class MarketConclusion(NamedTuple):
    """What one reading of a venue adds: rows to record and snapshots to publish."""

    venue: str
    publications: Sequence[Publication]
    readings: Sequence[ReadingRow] = ()
    liquidations: Sequence[Liquidation] = ()
    watched: Sequence[Span] = ()
    regime_changes: Sequence[RegimeChange] = ()
    liquidation_hours: Sequence[LiquidationHour] = ()
    frames: Sequence[StoredFrame] = ()
    disputed_sides: Sequence[Span] = ()
    listings: Sequence[ListingChange] = ()
    events: Sequence[NewEvent] = ()
    evidence: MarketEvidence | None = None
    """What signals and briefs judge by; None when there was no reading."""

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        return sum(len(rows) for rows in self[1:-1])


class MarketJudge:
    """Judges the readings of one venue by that venue's own record.

    It keeps what is not stored yet for the next conclusion.
    """

    def __init__(
        self,
        settings: Settings,
        venue: str = BYBIT,
        *,
        is_in_use: bool = True,
        regime_dwell: int = DWELL,
    ) -> None:
        self.venue = venue
        self.is_in_use = is_in_use
        """Whether readers see this venue. Another one publishes to feeds of its own, and adds no
        change of the regime and no outage to the log of events."""

        self._settings = settings
        self._dwell = regime_dwell
        self.regime: Regime | None = None
        self.health = ExchangeHealth(as_of=0)
        self._bases: dict[str, str] = {}
        self._changes: list[RegimeChange] = []
        self._events: list[NewEvent] = []
        self._listings: Listings | None = None
        self._listing_changes: list[ListingChange] = []
        self._has_listed = False
        """Whether this process has recorded every listed contract."""

        self._evidence_before: MarketEvidence | None = None
        self.reading: Perpetuals | None = None
        self.stored: Perpetuals | None = None
        """The newest stored reading."""

        self.shown = self
        """The venue whose data readers have: the one before, until this one's is stored."""

        self._published: dict[str, str] = {}
        self._shares: dict[str, LongAccounts] = {}
        self._liquidations = LiquidationTracker(settings.liquidations_min_coverage_pct)
        self._recent: deque[Liquidation] = deque(maxlen=MAX_RECENT)
        self._recorded: dict[Resolution, int] = {}
        self._settled: list[SettledFunding] = []
        """Settlements that were reported since the last conclusion."""

        self._reports_until = 0
        self.settled_windows: dict[str, Mapping[int, float]] = {}
        """What each major settled in every eight hours, by base asset and end, if there is another
        venue to compare with."""

        self.trailing = TrailingRecord()
        self._frames = FrameRecord()
        self._framed: int | None = None
        self.last_known, self._known_minute = LastKnown(), 0
        self.other_assets: Collection[str] | None = None
        """The contracts that are another asset of the same name; None before the comparison."""

        self.disputed: Mapping[Measure, Dispute] = {}
        """What is disputed now: it is recorded with a mark, but nothing is judged by it."""

    async def load(self, tx: Transaction, now: int) -> None:
        """Load the state that an earlier collector left."""
        reading = await store.newest_reading(tx, self.venue)
        counted = None if reading is None else await store.newest_of(tx, LIQUIDATIONS, self.venue)
        self._liquidations = LiquidationTracker(
            self._settings.liquidations_min_coverage_pct,
            await store.recent_liquidations(tx, self.venue, now),
            await store.recent_watched(tx, self.venue, now),
            None if counted is None else counted.watching_since,
        )
        self.reading = self.stored = reading
        if self.is_in_use:  # the configuration may have named another venue before
            self.stored = await latest_snapshot(tx, PERPETUALS)
        self._bases = {} if self.reading is None else _bases(self.reading)
        self._reports_until = now if reading is None else reading.as_of
        await self.load_trailing(tx, now)
        await self.load_settled(tx, now)
        first = now - DAY - NEAR
        self._frames = FrameRecord(await store.frames_between(tx, self.venue, first, now))
        self.last_known = await latest_snapshot(tx, LAST_KNOWN.of(self.venue)) or self.last_known
        if reading is None:
            return
        self.regime = await store.newest_of(tx, REGIME, self.venue)
        shares = await store.newest_of(tx, LONG_ACCOUNTS, self.venue)
        self._shares = {} if shares is None else dict(shares.shares)
        self.health = await store.newest_of(tx, EXCHANGE_HEALTH, self.venue) or self.health
        self._listings = await store.newest_of(tx, LISTINGS, self.venue)

    def _feed(self, feed: Feed[R]) -> Feed[R]:
        return feed if self.is_in_use else feed.of(self.venue)

    async def load_trailing(self, tx: Transaction, now: int) -> None:
        """Load the record that rules compare with; hours may have been back-filled since."""
        bases = _majors_of(self.venue, self._bases)
        self.trailing = await store.recent_record(tx, self.venue, bases, now)

    async def load_settled(self, tx: Transaction, now: int) -> None:
        """Load the reports of the majors' settled funding, and note which of them are new."""
        newest = self._reports_until
        for contract, base in _majors_of(self.venue, self._bases).items():
            name = ContractName(self.venue, contract)
            reports = await store.recent_settled_rates(tx, name, now)
            known = self.trailing.settled[contract] = known_settlements(reports, now)
            new = (each for each in known if each.read_at > self._reports_until)
            self._settled += [each for each in new if not each.is_backfilled]
            newest = max([newest, *(report.read_at for report in reports)])
            is_compared = len(self._settings.venue_names) > 1
            if is_compared and contract == VENUES[self.venue].contract(base):
                self.settled_windows[base] = settled_windows(reports, now)
        self._reports_until = newest

    def sampled(self, share: LongAccounts) -> None:
        """Take a long-account share."""
        self._shares[share.contract] = share

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; a liquidation that comes twice counts once."""
        self._liquidations.liquidated(liquidations)
        self._recent.extend(liquidations)

    def recent(self, now: int) -> list[Liquidation]:
        """The liquidations of the last two minutes."""
        return [each for each in self._recent if now - each.at <= RECENT]

    def watched(self, start: int, end: int) -> None:
        """Record that the stream missed nothing from `start` to `end`."""
        self._liquidations.watched(start, end)

    def liquidated_between(
        self, start: int, end: int
    ) -> tuple[dict[tuple[str, Side], float], bool]:
        """What was liquidated between two whole minutes, in USD by coin in upper case and side.

        The empty name is all coins. Also whether the sides were disputed at any time of it.
        """
        sums: dict[tuple[str, Side], float] = defaultdict(float)
        for (contract, side), usd in self._liquidations.between(start, end).items():
            coin, _ = coin_of(self.venue, self._bases.get(contract, contract))
            sums[coin.upper(), side] += usd
            sums["", side] += usd
        was_disputed = bool(self.trailing.disputed_sides.within(start, end))
        return sums, was_disputed or "liquidation-side" in self.disputed

    def check(self, reading: Perpetuals) -> None:
        """Check that a reading lists no more contracts than can be right.

        Raises:
            InvalidReply: it does.
        """
        check_listings(self._listings, reading, self.reading)

    def guard(self, reading: Perpetuals) -> Perpetuals:
        """Hold back the values of a live reading that jumped."""
        self.last_known, found = guarded(self.last_known, reading, self.day_before(reading))
        return found

    def conclude(self, reading: Perpetuals, now: int | None = None) -> MarketConclusion:
        """Judge a reading and collect everything it adds.

        `now` is when the reading arrived. It is None for a replayed reading, which never counts as
        the end of an outage.
        """
        is_new = reading is not self.reading  # the last one comes again at a change of venue
        if now is not None and is_new:
            self._know(reading)
        rows = self._due_rows(reading)
        if self.is_in_use and "open-interest" in self.disputed:
            reading = without_open_interest(reading)
        live = _bases(reading)
        self._bases |= live  # a delisted contract keeps its name while its liquidations count
        self._liquidations.leave_out(frozenset(reading.not_crypto))
        self.trailing.forget_after(reading.as_of + AHEAD)
        previous, self.regime = self.regime, self._judge_regime(reading)
        change = RegimeChange(reading.as_of, self.regime.label, self.regime.funding_8h_pct)
        self._events += self._regime_events(previous, change)
        self._listings = self._list_contracts(reading)
        closed = self._liquidations.closed_hours(
            reading.as_of, self.trailing.newest_liquidation_hour
        )
        outage = None if now is None or not self.is_in_use else self._outage(reading.as_of)
        sides = self._disputed_sides(reading.as_of if now is None else now)
        if self._evidence_before is not None:  # a part between two readings writes no briefs
            previous = self._evidence_before.regime
        evidence = self._evidence(reading, (previous, self.regime), closed[-1:], outage)
        self._settled = []
        self._evidence_before = evidence
        if is_new:
            self.health = ExchangeHealth(as_of=reading.as_of if now is None else now)
        self.reading = reading
        self._shares = {name: share for name, share in self._shares.items() if name in live}
        return MarketConclusion(
            self.venue,
            publications=[
                *self._publications(reading, self.regime, evidence.liquidations),
                *self._changed_publications(self._listings, evidence.day_ago),
            ],
            readings=rows,
            liquidations=self._liquidations.unsaved,
            watched=self._liquidations.unsaved_spans,
            regime_changes=list(self._changes),
            liquidation_hours=closed,
            frames=self._due_frames(reading),
            disputed_sides=sides,
            listings=list(self._listing_changes),
            events=[
                *self._events,
                *self._switch_events(change),
                *self._outage_events(now, reading),
            ],
            evidence=evidence,
        )

    def conclude_part(self, part: Perpetuals) -> tuple[MarketConclusion, MarketEvidence] | None:
        """Judge a reading of a few contracts between two full ones, which only a replay has.

        It changes the regime and what 24-hour changes compare with, and records nothing else. None
        without a reading of 24 hours before: such a label would be unknown for most of each hour.
        """
        before, at = self._evidence_before, part.as_of
        self._frames.add(stored(frame_of(at, part.contracts)))
        day_ago = self._frames.day_before(at)
        if before is None or not day_ago.contracts:
            return None
        previous, self.regime = self.regime, self._judge_regime(part)
        change = RegimeChange(at, self.regime.label, self.regime.funding_8h_pct)
        events = self._regime_events(previous, change)
        evidence = before._replace(
            reading=part,
            majors=majors_of(part),
            regime=self.regime,
            previous_regime=previous,
            last_hour=self._liquidations.last_hour(at),
            day_ago=day_ago,
        )
        changes = list(self._changes)
        return MarketConclusion(self.venue, [], regime_changes=changes, events=events), evidence

    def conclude_failure(self, error: UpstreamError, at: int) -> MarketConclusion:
        """Collect what a failed reading adds: the failure, and the liquidations meanwhile."""
        since = self.health.failing_since
        self.health = ExchangeHealth(at, error.kind, at if since is None else since)
        totals = self._totals(at)
        publications = [
            Publication.of(self._feed(LIQUIDATIONS), totals),
            Publication.of(self._feed(EXCHANGE_HEALTH), self.health),
        ]
        outage = self._outage_events(at)
        return self.conclude_stop()._replace(
            publications=publications, disputed_sides=self._disputed_sides(at), events=outage
        )

    def conclude_stop(self) -> MarketConclusion:
        """Collect the liquidations since the last conclusion."""
        return MarketConclusion(
            self.venue,
            publications=[],
            liquidations=self._liquidations.unsaved,
            watched=self._liquidations.unsaved_spans,
        )

    def written(self, conclusion: MarketConclusion) -> None:
        """Forget what is stored; until then every conclusion includes it."""
        self._liquidations.written(conclusion.liquidations, conclusion.watched)
        del self._changes[: len(conclusion.regime_changes)]
        self._published |= dict(conclusion.publications)
        if conclusion.evidence is not None:
            self.stored, self.shown = conclusion.evidence.reading, self
            self._events.clear()
            self._listing_changes.clear()
        for hour in conclusion.liquidation_hours:
            self.trailing.add_liquidation_hour(hour)
        for row in conclusion.readings:
            self._recorded[row.resolution] = row.at
            self._add_to_trailing(row)
        for frame in conclusion.frames:
            self._framed = frame.at // FRAME_STEP
            self._frames.add(frame)

    def _judge_regime(self, reading: Perpetuals) -> Regime:
        bitcoin = majors_of(reading).get("BTC")
        rate = None if bitcoin is None else bitcoin.funding_8h_pct
        rate = None if "funding" in self.disputed or reading.doubted_rates else rate
        return next_regime(self.regime, rate, reading.as_of, self._dwell)

    def _regime_events(self, previous: Regime | None, change: RegimeChange) -> list[NewEvent]:
        if previous is not None and previous.label == change.label:
            return []
        self._changes.append(change)
        if not self.is_in_use or self.shown is not self:
            return []
        return [regime_event(self.venue, change, None if previous is None else previous.label)]

    def _evidence(
        self,
        reading: Perpetuals,
        regimes: tuple[Regime | None, Regime],
        closed: Sequence[LiquidationHour],
        outage: Outage | None,
    ) -> MarketEvidence:
        at = reading.as_of
        previous, regime = regimes
        majors, primary = majors_of(reading), self._settings.venue_names[0]
        has_shares = publishes_long_accounts(self.venue, primary)
        shares = {
            base: self._fresh_share(perpetual.contract, at) for base, perpetual in majors.items()
        }
        return MarketEvidence(
            reading=reading,
            majors=majors,
            long_account_pct={
                base: share for base, share in shares.items() if share is not None and has_shares
            },
            regime=regime,
            previous_regime=previous,
            liquidations=self._totals(at),
            last_hour=self._liquidations.last_hour(at),
            min_watched_pct=self._settings.liquidations_min_coverage_pct,
            trailing=self.trailing,
            closed_hour=closed[0] if closed else None,
            closed_hour_assets=self._liquidations.assets(closed[0].at, self._bases)
            if closed
            else [],
            settlements=self._settled,
            outage=outage,
            day_ago=self._frames.day_before(at),
            lacks_liquidations=not publishes_liquidations(self.venue, primary),
            lacks_long_accounts=not has_shares,
        )

    def _totals(self, at: int) -> LiquidationTotals:
        """The liquidations of 24 hours; without sides if these were disputed at any time of it."""
        totals = self._liquidations.totals(at, self._bases)
        was_disputed = self.trailing.disputed_sides.within(at - DAY, at)
        if not was_disputed and "liquidation-side" not in self.disputed:
            return totals
        return replace(totals, long_pct=None, by_contract=None)

    def _disputed_sides(self, until: int) -> list[Span]:
        """The time up to now in which the sides of liquidations are disputed, if they are."""
        dispute = self.disputed.get("liquidation-side")
        if dispute is None:
            return []
        self.trailing.disputed_sides.add(dispute.since, until)
        return [(dispute.since, until)]

    def _fresh_share(self, contract: str, now: int) -> float | None:
        share = self._shares.get(contract)
        if share is None or not is_fresh(share.sampled_at, LONG_ACCOUNTS_MAX_AGE, now):
            return None
        return share.long_account_pct

    def _outage(self, at: int) -> Outage | None:
        """The time without readings before `at`, if it was longer than the freshness limit."""
        last, health = self.shown.reading, self.shown.health
        if last is None or at - last.as_of < self._max_age:
            return None
        return Outage(last.as_of, at, health.failure, last.venue)

    @property
    def _max_age(self) -> int:
        return int(self._settings.feed_max_age_seconds * SECOND)

    def _outage_events(self, now: int | None, reading: Perpetuals | None = None) -> list[NewEvent]:
        """The outage before `now`, and its end if there is a reading; the log drops repetitions.

        It counts from the last stored reading, because readers never see any other.
        """
        last = self.shown.stored
        if last is None or now is None or now - last.as_of < self._max_age or not self.is_in_use:
            return []
        if reading is None or now - reading.as_of >= self._max_age:
            return [outage_event(last, self._max_age, now)]
        at = reading.as_of if self.shown is self else now
        return [outage_event(last, self._max_age, at), recovery_event(last, self.venue, at)]

    def _switch_events(self, change: RegimeChange) -> list[NewEvent]:
        """The change of the published regime at a change of venue, until that is stored."""
        shown = self.shown.regime
        if self.shown is self or (shown is not None and shown.label == change.label):
            return []
        return [regime_event(self.venue, change, None if shown is None else shown.label)]

    def _list_contracts(self, reading: Perpetuals) -> Listings:
        """Note what was listed and delisted; the first time, everything that is listed."""
        before = self._listings or Listings({})
        after, events = next_listings(self._listings, reading, self.reading)
        self._events += events
        known = before.bases if self._has_listed else {}
        self._listing_changes += [
            ListingChange(name, reading.as_of, *coin_of(self.venue, base))
            for name, base in after.bases.items()
            if name not in known
        ] + [
            ListingChange(name, since, is_delisted=True)
            for name, since in before.missing.items()
            if name not in after.bases
        ]
        self._has_listed = True
        return after

    def _changed_publications(self, listings: Listings, day_ago: Frame) -> list[Publication]:
        """The feeds that seldom change, if they did."""
        feeds = [
            Publication.of(self._feed(LISTINGS), listings),
            Publication.of(self._feed(DAY_AGO), day_ago),
        ]
        if self.last_known.contracts:
            feeds.append(Publication.of(LAST_KNOWN.of(self.venue), self.last_known))
        return [feed for feed in feeds if self._published.get(feed.feed) != feed.payload]

    def _add_to_trailing(self, row: ReadingRow) -> None:
        base = self._bases.get(row.contract)
        if row.resolution == "hour" and base in MAJORS and "price" not in row.disputed:
            is_fair = "open-interest" not in row.disputed
            hour = Hour(
                row.at,
                row.last_price,
                row.open_interest_usd if is_fair else None,
                row.long_account_pct,
                row.open_interest_coins if is_fair else None,
                funding_8h_pct=None if "funding" in row.disputed else row.funding_8h_pct,
            )
            self.trailing.add_hour(base, hour)

    def _publications(
        self, reading: Perpetuals, regime: Regime, totals: LiquidationTotals
    ) -> list[Publication]:
        return [
            Publication.of(self._feed(PERPETUALS), reading),
            Publication.of(self._feed(LONG_ACCOUNTS), LongAccountShares(self._shares)),
            Publication.of(self._feed(LIQUIDATIONS), totals),
            Publication.of(self._feed(REGIME), regime),
            Publication.of(self._feed(EXCHANGE_HEALTH), self.health),
        ]

    def publications(self, now: int) -> list[Publication]:
        """Everything that the venue publishes, in its newest state."""
        if self.reading is None or self.regime is None or self._listings is None:
            return [Publication.of(self._feed(EXCHANGE_HEALTH), self.health)]
        totals = self._totals(now)
        return [
            *self._publications(self.reading, self.regime, totals),
            Publication.of(self._feed(LISTINGS), self._listings),
            Publication.of(self._feed(DAY_AGO), self._frames.day_before(self.reading.as_of)),
        ]

    def take_over(self, before: "MarketJudge") -> None:
        """Publish to the plain feeds from now on, instead of another venue."""
        self.shown, before.shown = before.shown, before
        self.is_in_use, before.is_in_use = True, False
        self._published.clear()

    def _due_rows(self, reading: Perpetuals) -> list[ReadingRow]:
        wrong = {"funding"} if reading.doubted_rates else set()
        disputed = ",".join(sorted((self.disputed.keys() & READ) | wrong))
        minute = reading.as_of // MINUTE * MINUTE
        hour = reading.as_of // HOUR * HOUR
        due: list[ReadingRow] = []
        # Not "later than": a clock that was set back must not stop the record. An hour that we read
        # too late is left to the back-fill, because its point would be another time's value.
        if self._recorded.get("minute") != minute:
            majors = majors_of(reading).values()
            due += [self._row("minute", minute, major, reading.as_of, disputed) for major in majors]
        if self._recorded.get("hour") != hour and reading.as_of - hour <= NEAR:
            due += [
                self._row("hour", hour, perpetual, reading.as_of, disputed)
                for perpetual in reading.contracts
            ]
        return due

    def _due_frames(self, reading: Perpetuals) -> list[StoredFrame]:
        """Nothing later is compared with a reading that is disputed."""
        is_wrong = bool(self.disputed.keys() & READ or reading.doubted_rates)
        if self._framed == reading.as_of // FRAME_STEP or is_wrong:
            return []
        return [stored(frame_of(reading.as_of, reading.contracts))]

    def _know(self, reading: Perpetuals) -> None:
        """Take the last known values, once per minute, and of new contracts at once."""
        minute, before, others = reading.as_of // MINUTE, self.last_known, self.other_assets
        if others is None:
            others = {name for name, each in before.contracts.items() if each.is_other_asset}
        is_news = self._known_minute != minute or is_unknown(before, reading, others)
        disputed = self.disputed.keys() & READ
        if is_news and disputed <= {"funding"} and not reading.doubted_rates:
            self.last_known = with_reading(
                before, reading, others, are_rates_disputed=bool(disputed)
            )
            self._known_minute = minute

    def forget_frames(self, since: int) -> None:
        """Forget the values since a disputed error may have begun."""
        self._frames.forget_from(since)
        self.last_known = without(self.last_known, since, self._frames.newest_first())

    def frame_near(self, at: int) -> Frame:
        """The frame nearest to a time of the last 24 hours; an empty one if none is near."""
        return self._frames.near(at)

    def day_before(self, reading: Perpetuals) -> Frame:
        """The frame of 24 hours before a reading."""
        return self._frames.day_before(reading.as_of)

    def _row(
        self, resolution: Resolution, at: int, each: Perpetual, read_at: int, disputed: str
    ) -> ReadingRow:
        return ReadingRow(
            resolution,
            each.contract,
            at,
            each.last_price,
            each.funding_rate_pct,
            each.funding_interval_hours,
            each.open_interest_usd,
            self._fresh_share(each.contract, read_at),
            each.open_interest_coins,
            disputed,
            each.stated_mark,
            each.index_price,
            each.volume_24h_usd,
            each.volume_24h_coins,
        )


async def record_market(tx: Transaction, conclusions: Sequence[MarketConclusion]) -> None:
    """Record the conclusions of one venue and publish the last one."""
    if not conclusions:
        return
    await store.record_rows(
        tx,
        conclusions[0].venue,
        readings=[row for each in conclusions for row in each.readings],
        liquidations=[row for each in conclusions for row in each.liquidations],
        watched=[row for each in conclusions for row in each.watched],
        regime_changes=[row for each in conclusions for row in each.regime_changes],
        liquidation_hours=[row for each in conclusions for row in each.liquidation_hours],
        frames=[row for each in conclusions for row in each.frames],
        disputed_sides=[row for each in conclusions for row in each.disputed_sides],
    )
    changes = [change for each in conclusions for change in each.listings]
    await record_listings(tx, conclusions[0].venue, changes)
    newest = {
        publication.feed: publication
        for conclusion in conclusions
        for publication in conclusion.publications
    }
    await publish(tx, list(newest.values()))


def _bases(reading: Perpetuals) -> dict[str, str]:
    return {perpetual.contract: perpetual.base for perpetual in reading.contracts}


def _majors_of(venue: str, bases: Mapping[str, str]) -> dict[str, str]:
    """The contracts to load history for, including a major that the last reading lacked."""
    defaults = {VENUES[venue].contract(base): base for base in MAJORS}
    return defaults | {contract: base for contract, base in bases.items() if base in MAJORS}
