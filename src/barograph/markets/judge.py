"""Where a measurement of the market becomes record, judgement and publication.

The desk keeps what the collector knows in memory and turns each reading into a
`MarketConclusion`: everything that reading adds to the record and to the board, and the evidence
that signals and briefs are judged by.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.errors import UpstreamError
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.evidence import (
    Evidence,
    Hour,
    LiquidationHour,
    Outage,
    Settlement,
    Trailing,
    liquidated_assets,
    liquidation_hour,
)
from barograph.markets.liquidations import AHEAD, LiquidationWindow, WatchLog
from barograph.markets.records import (
    MAJORS,
    ExchangeHealth,
    Liquidation,
    LongAccounts,
    LongAccountShares,
    Perpetual,
    Perpetuals,
    majors_of,
)
from barograph.markets.regime import DWELL, Regime, eight_hour_rate, judge
from barograph.markets.settlements import SettlementWatch
from barograph.markets.store import (
    Reading,
    RegimeChange,
    Resolution,
    Span,
    recent_liquidations,
    recent_record,
    recent_watched,
    record_liquidation_hours,
    record_liquidations,
    record_readings,
    record_regime_changes,
    record_settlements,
    record_watched,
)
from barograph.markets.view import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
    is_fresh,
)
from barograph.settings import Settings


class MarketConclusion(NamedTuple):
    """What one reading adds: rows for the record and snapshots for the board."""

    publications: Sequence[Publication]
    readings: Sequence[Reading] = ()
    liquidations: Sequence[Liquidation] = ()
    watched: Sequence[Span] = ()
    regime_changes: Sequence[RegimeChange] = ()
    liquidation_hours: Sequence[LiquidationHour] = ()
    settlements: Sequence[Settlement] = ()
    evidence: Evidence | None = None
    """What signals and briefs are judged by; None when there was no reading."""

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        rows = len(self.publications) + len(self.readings)
        rows += len(self.liquidations) + len(self.watched) + len(self.regime_changes)
        return rows + len(self.liquidation_hours) + len(self.settlements)


class MarketDesk:
    """What the collector knows: the last judgement, the shares and the liquidations."""

    def __init__(self, settings: Settings, *, regime_dwell: int = DWELL) -> None:
        self._settings = settings
        self._dwell = regime_dwell
        self._regime: Regime | None = None
        self._health = ExchangeHealth(as_of=0)
        self._bases: dict[str, str] = {}
        self._changes: list[RegimeChange] = []
        self._shares: dict[str, LongAccounts] = {}
        self._window = LiquidationWindow()
        self._watch = WatchLog()
        self._heard: list[Liquidation] = []
        self._spans: dict[int, int] = {}
        self._recorded: dict[Resolution, int] = {}
        self._reading: Perpetuals | None = None
        self._settlements = SettlementWatch()
        self._settled: list[Settlement] = []
        self._trailing = Trailing()

    async def load(self, tx: Transaction, now: int) -> None:
        """Take up what an earlier collector left."""
        self._window = LiquidationWindow()
        self._window.add(await recent_liquidations(tx, now))
        counted = await latest_snapshot(tx, LIQUIDATIONS)
        since = None if counted is None else counted.watching_since
        self._watch = WatchLog(await recent_watched(tx, now), since)
        self._reading = await latest_snapshot(tx, PERPETUALS)
        self._bases = {} if self._reading is None else _bases(self._reading)
        self._settlements = SettlementWatch(self._reading)
        self._trailing = await recent_record(tx, _majors_of(self._bases), now)
        self._regime = await latest_snapshot(tx, REGIME)
        shares = await latest_snapshot(tx, LONG_ACCOUNTS)
        self._shares = {} if shares is None else dict(shares.shares)
        self._health = await latest_snapshot(tx, EXCHANGE_HEALTH) or self._health

    def sampled(self, share: LongAccounts) -> None:
        """Take a long-account share."""
        self._shares[share.contract] = share

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; what is known already counts once."""
        self._heard += self._window.add(liquidations)

    def watched(self, start: int, end: int) -> None:
        """Take note that nothing was missed from `start` to `end`."""
        first, last = self._watch.add(start, end)
        self._spans[first] = last

    def conclude(self, reading: Perpetuals, now: int | None = None) -> MarketConclusion:
        """Judge a reading and gather everything it adds.

        `now` is when it came; None for one that is carried from the past, between which and the
        one before it nothing is missing.
        """
        live = _bases(reading)
        self._bases |= live  # a delisted contract keeps its name while its liquidations count
        self._trailing.forget_after(reading.as_of + AHEAD)
        for settlement in self._settled:  # not stored yet, but part of what was before
            self._trailing.add_settlement(settlement)
        previous, self._regime = self._regime, self._judge(reading)
        if previous is None or previous.label != self._regime.label:
            self._changes.append(_change(self._regime))
        shares = self._shares_of(live)
        closed = self._closed_hours(reading.as_of)
        outage = None if now is None else self._outage(reading.as_of)
        evidence = self._evidence(reading, (previous, self._regime), closed[-1:], outage)
        self._settled += evidence.settlements
        self._reading = reading
        self._health = ExchangeHealth(as_of=reading.as_of if now is None else now)
        return MarketConclusion(
            publications=[
                Publication.of(PERPETUALS, reading),
                Publication.of(LONG_ACCOUNTS, shares),
                Publication.of(LIQUIDATIONS, evidence.liquidations),
                Publication.of(REGIME, self._regime),
                Publication.of(EXCHANGE_HEALTH, self._health),
            ],
            readings=self._due_readings(reading),
            liquidations=list(self._heard),
            watched=list(self._spans.items()),
            regime_changes=list(self._changes),
            liquidation_hours=closed,
            settlements=list(self._settled),
            evidence=evidence,
        )

    def conclude_failure(self, error: UpstreamError, at: int) -> MarketConclusion:
        """Gather what a failed reading adds: the failure, and what was heard meanwhile."""
        since = self._health.failing_since
        self._health = ExchangeHealth(at, error.kind, at if since is None else since)
        totals = self._window.totals(at, self._watch, self._bases)
        return MarketConclusion(
            publications=[
                Publication.of(LIQUIDATIONS, totals),
                Publication.of(EXCHANGE_HEALTH, self._health),
            ],
            liquidations=list(self._heard),
            watched=list(self._spans.items()),
        )

    def conclude_stop(self) -> MarketConclusion:
        """Gather what was heard since the last conclusion."""
        heard = list(self._heard)
        return MarketConclusion([], liquidations=heard, watched=list(self._spans.items()))

    def written(self, conclusion: MarketConclusion) -> None:
        """Forget what is safely stored; until then it is part of every next conclusion."""
        del self._heard[: len(conclusion.liquidations)]
        del self._changes[: len(conclusion.regime_changes)]
        for start, end in conclusion.watched:
            if self._spans.get(start) == end:
                del self._spans[start]
        del self._settled[: len(conclusion.settlements)]
        for settlement in conclusion.settlements:
            self._trailing.add_settlement(settlement)
        for hour in conclusion.liquidation_hours:
            self._trailing.add_liquidation_hour(hour)
        for reading in conclusion.readings:
            self._recorded[reading.resolution] = reading.at
            self._look_back_on(reading)

    def _judge(self, reading: Perpetuals) -> Regime:
        bitcoin = majors_of(reading).get("BTC")
        rate = (
            None
            if bitcoin is None
            else eight_hour_rate(bitcoin.funding_rate_pct, bitcoin.funding_interval_hours)
        )
        return judge(self._regime, rate, reading.as_of, self._dwell)

    def _evidence(
        self,
        reading: Perpetuals,
        regimes: tuple[Regime | None, Regime],
        closed: Sequence[LiquidationHour],
        outage: Outage | None,
    ) -> Evidence:
        at = reading.as_of
        previous, regime = regimes
        majors = majors_of(reading)
        return Evidence(
            reading=reading,
            majors=majors,
            long_account_pct=self._fresh_shares(majors, at),
            regime=regime,
            previous_regime=previous,
            liquidations=self._window.totals(at, self._watch, self._bases),
            last_hour=liquidation_hour(
                self._window, self._watch, self._watched_until(at) // MINUTE * MINUTE - HOUR
            ),
            min_watched_pct=self._settings.liquidations_min_coverage_pct,
            trailing=self._trailing,
            closed_hour=closed[0] if closed else None,
            closed_hour_assets=[
                each
                for hour in closed
                for each in liquidated_assets(self._window, self._bases, hour.at)
            ],
            settlements=self._settlements.see(reading, self._trailing),
            outage=outage,
        )

    def _fresh_shares(self, majors: Mapping[str, Perpetual], now: int) -> dict[str, float]:
        shares = {base: self._fresh_share(each.contract, now) for base, each in majors.items()}
        return {base: share for base, share in shares.items() if share is not None}

    def _fresh_share(self, contract: str, now: int) -> float | None:
        """The long-account share of a contract, unless it is too old to be told."""
        bound = int(self._settings.long_accounts_max_age_seconds * SECOND)
        share = self._shares.get(contract)
        if share is None or not is_fresh(share.sampled_at, bound, now):
            return None
        return share.long_account_pct

    def _closed_hours(self, at: int) -> list[LiquidationHour]:
        """The hours that have ended and are not recorded, as far back as liquidations are known.

        That nothing was missed is proved a little later: an hour waits for it, a minute at most.
        """
        end = at // HOUR * HOUR
        if self._watched_until(at) < end:
            end -= HOUR
        newest = self._trailing.newest_liquidation_hour
        known_since = (at - DAY + HOUR - 1) // HOUR * HOUR
        start = end - HOUR if newest is None else max(newest + HOUR, known_since)
        hours = range(start, end, HOUR)
        return [liquidation_hour(self._window, self._watch, each) for each in hours]

    def _watched_until(self, at: int) -> int:
        """Up to when it is proved that nothing was missed, as far as that is worth waiting for."""
        until = self._watch.until
        return at - MINUTE if until is None else max(at - MINUTE, min(at, until))

    def _outage(self, at: int) -> Outage | None:
        """The span without readings before one of `at`, when it was longer than the bound."""
        bound = int(self._settings.feed_max_age_seconds * SECOND)
        if self._reading is None or at - self._reading.as_of < bound:
            return None
        return Outage(self._reading.as_of, at, self._health.failure)

    def _look_back_on(self, reading: Reading) -> None:
        """Let rules see what was recorded, from now on."""
        base = self._bases.get(reading.contract)
        if reading.resolution == "hour" and base in MAJORS:
            hour = Hour(
                reading.at, reading.last_price, reading.open_interest_usd, reading.long_account_pct
            )
            self._trailing.add_hour(base, hour)

    def _shares_of(self, live: Container[str]) -> LongAccountShares:
        """The shares of live contracts; those of delisted ones are dropped."""
        self._shares = {name: share for name, share in self._shares.items() if name in live}
        return LongAccountShares(self._shares)

    def _due_readings(self, reading: Perpetuals) -> list[Reading]:
        minute = reading.as_of // MINUTE * MINUTE
        hour = reading.as_of // HOUR * HOUR
        due: list[Reading] = []
        # Not "later than": a clock that was set back must not stop the record.
        if self._recorded.get("minute") != minute:
            majors = (each for each in reading.contracts if each.base in MAJORS)
            due += [self._row("minute", minute, each, reading.as_of) for each in majors]
        if self._recorded.get("hour") != hour:
            due += [self._row("hour", hour, each, reading.as_of) for each in reading.contracts]
        return due

    def _row(
        self, resolution: Resolution, at: int, contract: Perpetual, reading_at: int
    ) -> Reading:
        share = self._fresh_share(contract.contract, reading_at)
        return Reading(
            resolution,
            contract.contract,
            at,
            contract.last_price,
            contract.funding_rate_pct,
            contract.funding_interval_hours,
            contract.open_interest_usd,
            share,
        )


async def record_market(tx: Transaction, conclusion: MarketConclusion) -> None:
    """Record a conclusion and publish it."""
    await record_readings(tx, conclusion.readings)
    await record_liquidations(tx, conclusion.liquidations)
    await record_watched(tx, conclusion.watched)
    await record_regime_changes(tx, conclusion.regime_changes)
    await record_liquidation_hours(tx, conclusion.liquidation_hours)
    await record_settlements(tx, conclusion.settlements)
    await publish(tx, conclusion.publications)


def _bases(reading: Perpetuals) -> dict[str, str]:
    return {contract.contract: contract.base for contract in reading.contracts}


def _change(regime: Regime) -> RegimeChange:
    return RegimeChange(regime.as_of, regime.label, regime.funding_8h_pct)


def _majors_of(bases: Mapping[str, str]) -> dict[str, str]:
    """The contracts to look back on: also a major that the last reading did not show."""
    usual = {f"{base}USDT": base for base in MAJORS}
    return usual | {contract: base for contract, base in bases.items() if base in MAJORS}
