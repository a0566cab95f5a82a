"""Turns each reading of the exchange into rows to record, snapshots to publish and evidence.

`MarketJudge` keeps the collector's state in memory. `regime.py` decides the regime. Signals and
briefs judge by the evidence that a conclusion carries.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.errors import UpstreamError
from barograph.events.records import NewEvent
from barograph.kit.database import Transaction
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.markets import store
from barograph.markets.evidence import (
    FundingSettlement,
    Hour,
    MarketEvidence,
    Outage,
    TrailingRecord,
)
from barograph.markets.liquidations import AHEAD, LiquidationHour, LiquidationTracker, Span
from barograph.markets.listings import LISTINGS, Listings, next_listings
from barograph.markets.market_events import outage_event, recovery_event, regime_event
from barograph.markets.records import (
    MAJORS,
    DayAgo,
    ExchangeHealth,
    Liquidation,
    LongAccounts,
    LongAccountShares,
    Perpetual,
    Perpetuals,
    majors_of,
)
from barograph.markets.regime import DWELL, Regime, next_regime
from barograph.markets.settlements import SettlementDetector
from barograph.markets.store import ReadingRow, RegimeChange, Resolution
from barograph.markets.view import (
    DAY_AGO,
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
    is_fresh,
)
from barograph.settings import Settings


class MarketConclusion(NamedTuple):
    """What one reading adds: rows to record and snapshots to publish."""

    publications: Sequence[Publication]
    readings: Sequence[ReadingRow] = ()
    liquidations: Sequence[Liquidation] = ()
    watched: Sequence[Span] = ()
    regime_changes: Sequence[RegimeChange] = ()
    liquidation_hours: Sequence[LiquidationHour] = ()
    settlements: Sequence[FundingSettlement] = ()
    events: Sequence[NewEvent] = ()
    evidence: MarketEvidence | None = None
    """What signals and briefs judge by; None when there was no reading."""

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        return sum(len(rows) for rows in self[:-1])


class MarketJudge:
    """Judges readings, and keeps what is not stored yet for the next conclusion."""

    def __init__(self, settings: Settings, *, regime_dwell: int = DWELL) -> None:
        self._settings = settings
        self._dwell = regime_dwell
        self._regime: Regime | None = None
        self._health = ExchangeHealth(as_of=0)
        self._bases: dict[str, str] = {}
        self._changes: list[RegimeChange] = []
        self._events: list[NewEvent] = []
        self._listings: Listings | None = None
        self._stored: Perpetuals | None = None
        """The newest reading that readers have."""

        self._published: dict[str, str] = {}
        self._shares: dict[str, LongAccounts] = {}
        self._liquidations = LiquidationTracker(settings.liquidations_min_coverage_pct)
        self._recorded: dict[Resolution, int] = {}
        self._reading: Perpetuals | None = None
        self._detector = SettlementDetector()
        self._settled: list[FundingSettlement] = []
        self._trailing = TrailingRecord()
        self._day_ago = DayAgo({})

    async def load(self, tx: Transaction, now: int) -> None:
        """Load the state that an earlier collector left."""
        counted = await latest_snapshot(tx, LIQUIDATIONS)
        self._liquidations = LiquidationTracker(
            self._settings.liquidations_min_coverage_pct,
            await store.recent_liquidations(tx, now),
            await store.recent_watched(tx, now),
            None if counted is None else counted.watching_since,
        )
        self._reading = self._stored = await latest_snapshot(tx, PERPETUALS)
        self._bases = {} if self._reading is None else _bases(self._reading)
        self._detector = SettlementDetector(self._reading)
        await self.load_trailing(tx, now)
        await self.load_day_ago(tx, now)
        self._regime = await latest_snapshot(tx, REGIME)
        shares = await latest_snapshot(tx, LONG_ACCOUNTS)
        self._shares = {} if shares is None else dict(shares.shares)
        self._health = await latest_snapshot(tx, EXCHANGE_HEALTH) or self._health
        self._listings = await latest_snapshot(tx, LISTINGS)

    async def load_trailing(self, tx: Transaction, now: int) -> None:
        """Load the record that rules compare with; hours may have been back-filled since."""
        self._trailing = await store.recent_record(tx, _majors_of(self._bases), now)

    async def load_day_ago(self, tx: Transaction, now: int) -> None:
        """Load the hour that 24-hour changes compare with; it may have been back-filled since."""
        self._day_ago = await store.day_before(tx, now)

    def sampled(self, share: LongAccounts) -> None:
        """Take a long-account share."""
        self._shares[share.contract] = share

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; a liquidation that comes twice counts once."""
        self._liquidations.liquidated(liquidations)

    def watched(self, start: int, end: int) -> None:
        """Record that the stream missed nothing from `start` to `end`."""
        self._liquidations.watched(start, end)

    def conclude(self, reading: Perpetuals, now: int | None = None) -> MarketConclusion:
        """Judge a reading and collect everything it adds.

        `now` is when the reading arrived. It is None for a replayed reading, which never counts as
        the end of an outage.
        """
        live = _bases(reading)
        self._bases |= live  # a delisted contract keeps its name while its liquidations count
        self._liquidations.leave_out(frozenset(reading.not_crypto))
        self._trailing.forget_after(reading.as_of + AHEAD)
        for settlement in self._settled:  # not stored yet, but part of the past
            self._trailing.add_settlement(settlement)
        previous, self._regime = self._regime, self._judge_regime(reading)
        if previous is None or previous.label != self._regime.label:
            label = None if previous is None else previous.label
            change = RegimeChange(reading.as_of, self._regime.label, self._regime.funding_8h_pct)
            self._changes.append(change)
            self._events.append(regime_event(change, label))
        self._listings, listed = next_listings(self._listings, reading)
        self._events += listed
        closed = self._liquidations.closed_hours(
            reading.as_of, self._trailing.newest_liquidation_hour
        )
        outage = None if now is None else self._outage(reading.as_of)
        evidence = self._evidence(reading, (previous, self._regime), closed[-1:], outage)
        self._settled += evidence.settlements
        self._reading = reading
        self._health = ExchangeHealth(as_of=reading.as_of if now is None else now)
        return MarketConclusion(
            publications=[
                Publication.of(PERPETUALS, reading),
                Publication.of(LONG_ACCOUNTS, self._shares_of(live)),
                Publication.of(LIQUIDATIONS, evidence.liquidations),
                Publication.of(REGIME, self._regime),
                Publication.of(EXCHANGE_HEALTH, self._health),
                *self._changed_publications(self._listings),
            ],
            readings=self._due_rows(reading),
            liquidations=self._liquidations.unsaved,
            watched=self._liquidations.unsaved_spans,
            regime_changes=list(self._changes),
            liquidation_hours=closed,
            settlements=list(self._settled),
            events=[*self._events, *self._outage_events(now, reading)],
            evidence=evidence,
        )

    def conclude_failure(self, error: UpstreamError, at: int) -> MarketConclusion:
        """Collect what a failed reading adds: the failure, and the liquidations meanwhile."""
        since = self._health.failing_since
        self._health = ExchangeHealth(at, error.kind, at if since is None else since)
        totals = self._liquidations.totals(at, self._bases)
        publications = [
            Publication.of(LIQUIDATIONS, totals),
            Publication.of(EXCHANGE_HEALTH, self._health),
        ]
        outage = self._outage_events(at)
        return self.conclude_stop()._replace(publications=publications, events=outage)

    def conclude_stop(self) -> MarketConclusion:
        """Collect the liquidations since the last conclusion."""
        return MarketConclusion(
            publications=[],
            liquidations=self._liquidations.unsaved,
            watched=self._liquidations.unsaved_spans,
        )

    def written(self, conclusion: MarketConclusion) -> None:
        """Forget what is stored; until then every conclusion includes it."""
        self._liquidations.written(conclusion.liquidations, conclusion.watched)
        del self._changes[: len(conclusion.regime_changes)]
        del self._settled[: len(conclusion.settlements)]
        self._published |= dict(conclusion.publications)
        if conclusion.evidence is not None:
            self._stored = conclusion.evidence.reading
            self._events.clear()
        for settlement in conclusion.settlements:
            self._trailing.add_settlement(settlement)
        for hour in conclusion.liquidation_hours:
            self._trailing.add_liquidation_hour(hour)
        for row in conclusion.readings:
            self._recorded[row.resolution] = row.at
            self._add_to_trailing(row)

    def _judge_regime(self, reading: Perpetuals) -> Regime:
        bitcoin = majors_of(reading).get("BTC")
        rate = None if bitcoin is None else bitcoin.funding_8h_pct
        return next_regime(self._regime, rate, reading.as_of, self._dwell)

    def _evidence(
        self,
        reading: Perpetuals,
        regimes: tuple[Regime | None, Regime],
        closed: Sequence[LiquidationHour],
        outage: Outage | None,
    ) -> MarketEvidence:
        at = reading.as_of
        previous, regime = regimes
        majors = majors_of(reading)
        shares = {base: self._fresh_share(each.contract, at) for base, each in majors.items()}
        return MarketEvidence(
            reading=reading,
            majors=majors,
            long_account_pct={base: each for base, each in shares.items() if each is not None},
            regime=regime,
            previous_regime=previous,
            liquidations=self._liquidations.totals(at, self._bases),
            last_hour=self._liquidations.last_hour(at),
            min_watched_pct=self._settings.liquidations_min_coverage_pct,
            trailing=self._trailing,
            closed_hour=closed[0] if closed else None,
            closed_hour_assets=self._liquidations.assets(closed[0].at, self._bases)
            if closed
            else [],
            settlements=self._detector.see(reading, self._trailing),
            outage=outage,
        )

    def _fresh_share(self, contract: str, now: int) -> float | None:
        limit = int(self._settings.long_accounts_max_age_seconds * SECOND)
        share = self._shares.get(contract)
        if share is None or not is_fresh(share.sampled_at, limit, now):
            return None
        return share.long_account_pct

    def _outage(self, at: int) -> Outage | None:
        """The time without readings before `at`, if it was longer than the freshness limit."""
        if self._reading is None or at - self._reading.as_of < self._max_age:
            return None
        return Outage(self._reading.as_of, at, self._health.failure)

    @property
    def _max_age(self) -> int:
        return int(self._settings.feed_max_age_seconds * SECOND)

    def _outage_events(self, now: int | None, reading: Perpetuals | None = None) -> list[NewEvent]:
        """The outage before `now`, and its end if there is a reading; the log drops repetitions.

        It counts from the last stored reading, because readers never see any other.
        """
        last = self._stored
        if last is None or now is None or now - last.as_of < self._max_age:
            return []
        if reading is None:
            return [outage_event(last, self._max_age, now)]
        at = reading.as_of
        return [outage_event(last, self._max_age, at), recovery_event(last, at)]

    def _changed_publications(self, listings: Listings) -> list[Publication]:
        """The feeds that seldom change, if they did."""
        feeds = [Publication.of(LISTINGS, listings), Publication.of(DAY_AGO, self._day_ago)]
        return [each for each in feeds if self._published.get(each.feed) != each.payload]

    def _add_to_trailing(self, row: ReadingRow) -> None:
        base = self._bases.get(row.contract)
        if row.resolution == "hour" and base in MAJORS:
            hour = Hour(
                row.at,
                row.last_price,
                row.open_interest_usd,
                row.long_account_pct,
                row.open_interest_coins,
            )
            self._trailing.add_hour(base, hour)

    def _shares_of(self, live: Container[str]) -> LongAccountShares:
        """The shares of live contracts; drops those of delisted ones."""
        self._shares = {name: share for name, share in self._shares.items() if name in live}
        return LongAccountShares(self._shares)

    def _due_rows(self, reading: Perpetuals) -> list[ReadingRow]:
        minute = reading.as_of // MINUTE * MINUTE
        hour = reading.as_of // HOUR * HOUR
        due: list[ReadingRow] = []
        # Not "later than": a clock that was set back must not stop the record.
        if self._recorded.get("minute") != minute:
            majors = (each for each in reading.contracts if each.base in MAJORS)
            due += [self._row("minute", minute, each, reading.as_of) for each in majors]
        if self._recorded.get("hour") != hour:
            due += [self._row("hour", hour, each, reading.as_of) for each in reading.contracts]
        return due

    def _row(self, resolution: Resolution, at: int, each: Perpetual, read_at: int) -> ReadingRow:
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
        )


async def record_market(tx: Transaction, conclusions: Sequence[MarketConclusion]) -> None:
    """Record conclusions and publish the last one."""
    await store.record_rows(
        tx,
        readings=[row for each in conclusions for row in each.readings],
        liquidations=[row for each in conclusions for row in each.liquidations],
        watched=[row for each in conclusions for row in each.watched],
        regime_changes=[row for each in conclusions for row in each.regime_changes],
        liquidation_hours=[row for each in conclusions for row in each.liquidation_hours],
        settlements=[row for each in conclusions for row in each.settlements],
    )
    newest = {each.feed: each for conclusion in conclusions for each in conclusion.publications}
    await publish(tx, list(newest.values()))


def _bases(reading: Perpetuals) -> dict[str, str]:
    return {contract.contract: contract.base for contract in reading.contracts}


def _majors_of(bases: Mapping[str, str]) -> dict[str, str]:
    """The contracts to load history for, including a major that the last reading lacked."""
    defaults = {f"{base}USDT": base for base in MAJORS}
    return defaults | {contract: base for contract, base in bases.items() if base in MAJORS}
