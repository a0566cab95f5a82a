"""Judges a reading: market, signals and briefs become one conclusion, stored in one transaction.

The live collector and the demo's replay both use it.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from barograph.board.board import latest_snapshot
from barograph.briefs.records import Brief
from barograph.briefs.store import brief_event, record_briefs
from barograph.briefs.writer import BriefWriter
from barograph.errors import UpstreamError
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import MINUTE
from barograph.macro.evidence import NO_FIGURES, MacroEvidence
from barograph.macro.records import US3M, US10Y
from barograph.macro.store import as_known_at, etf_series
from barograph.markets.judge import MarketConclusion, MarketJudge, record_market
from barograph.markets.records import Liquidation, LongAccounts, Perpetuals
from barograph.markets.regime import DWELL
from barograph.markets.view import BACKFILL
from barograph.settings import Settings
from barograph.signals.judge import (
    SignalConclusion,
    SignalJudge,
    record_signals,
    signal_event,
)

log = logging.getLogger(__name__)

FIGURE_DAYS = 60
"""How many days of daily figures are read."""


class Conclusion(NamedTuple):
    """What one reading adds."""

    market: MarketConclusion
    signals: SignalConclusion | None = None
    briefs: Sequence[Brief] = ()

    @property
    def events(self) -> list[NewEvent]:
        """What it adds to the log of events."""
        changes = () if self.signals is None else self.signals.changes
        signals = [signal_event(each) for each in changes]
        return [*self.market.events, *signals, *(brief_event(each) for each in self.briefs)]

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        rows = self.market.row_count + len(self.briefs)
        return rows + (0 if self.signals is None else 1 + len(self.signals.changes))


class Judge:
    """Turns readings into conclusions from what the collector knows."""

    def __init__(self, settings: Settings, *, regime_dwell: int = DWELL) -> None:
        self._settings = settings
        self._market = MarketJudge(settings, regime_dwell=regime_dwell)
        self._signals = SignalJudge()
        self._briefs = BriefWriter()
        self._macro = NO_FIGURES
        self._filled_at: int | None = None

    async def load(self, database: Database, now: int) -> None:
        """Load what earlier collectors stored."""

        async def work(tx: Transaction) -> None:
            await self._market.load(tx, now)
            await self._signals.load(tx)
            await self._briefs.load(tx)
            self._filled_at = await _majors_filled_at(tx)
            self._macro = await known_figures(tx, self._settings, now)

        await database.read(work)

    async def refresh(self, database: Database, now: int) -> None:
        """Read again, once per minute: daily figures, the hour a day ago, hours back-filled since.

        While they can't be read, the last ones are used until they are too old.
        """
        if now // MINUTE == self._macro.at // MINUTE:
            return

        async def work(tx: Transaction) -> None:
            self._macro = await known_figures(tx, self._settings, now)
            await self._market.load_day_ago(tx, now)
            filled_at = await _majors_filled_at(tx)
            if filled_at != self._filled_at:
                await self._market.load_trailing(tx, now)
                self._filled_at = filled_at

        try:
            await database.read(work)
        except DatabaseUnavailable as error:
            log.warning("daily figures not read", extra={"reason": str(error)})

    def sampled(self, share: LongAccounts) -> None:
        """Add a long-account share."""
        self._market.sampled(share)

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Add liquidations; duplicates count once."""
        self._market.liquidated(liquidations)

    def watched(self, start: int, end: int) -> None:
        """Note that no liquidation was missed from `start` to `end`."""
        self._market.watched(start, end)

    def conclude(self, reading: Perpetuals, now: int | None = None) -> Conclusion:
        """Judge a reading; `now` is when it arrived, None for a reading of the past."""
        market = self._market.conclude(reading, now)
        assert market.evidence is not None
        macro = self._macro._replace(at=reading.as_of)
        return Conclusion(
            market,
            self._signals.conclude(market.evidence, macro),
            self._briefs.conclude(market.evidence, macro),
        )

    def conclude_failure(self, error: UpstreamError, at: int) -> Conclusion:
        """Judge a failed reading: signals that don't need the exchange go on."""
        macro = self._macro._replace(at=at)
        return Conclusion(
            self._market.conclude_failure(error, at),
            self._signals.conclude_failure(macro, self._settings.exchange_source),
        )

    def conclude_stop(self) -> Conclusion:
        """The liquidations since the last conclusion."""
        return Conclusion(self._market.conclude_stop())

    def written(self, conclusion: Conclusion) -> None:
        """Forget what is stored; until then it is part of every next conclusion."""
        self._market.written(conclusion.market)
        self._briefs.written(conclusion.briefs)
        if conclusion.signals is not None:
            self._signals.written(conclusion.signals)


async def _majors_filled_at(tx: Transaction) -> int | None:
    progress = await latest_snapshot(tx, BACKFILL)
    return None if progress is None else progress.majors_filled_at


async def known_figures(tx: Transaction, settings: Settings, at: int) -> MacroEvidence:
    """The daily figures that were known at a time."""
    return MacroEvidence(
        at=at,
        etf=await etf_series(settings, lambda name: as_known_at(tx, name, at, FIGURE_DAYS)),
        us10y=await as_known_at(tx, US10Y, at, FIGURE_DAYS),
        us3m=await as_known_at(tx, US3M, at, FIGURE_DAYS),
    )


async def write_conclusions(
    database: Database, lease: Lease, conclusions: Sequence[Conclusion]
) -> None:
    """Record conclusions in one transaction, and publish what is newest in them.

    Raises:
        LeaseLost: another collector leads; nothing was written.
        DatabaseUnavailable: nothing was written.
    """

    async def work(tx: Transaction) -> None:
        await lease.fence(tx)
        await record_market(tx, [each.market for each in conclusions])
        await record_briefs(tx, [brief for each in conclusions for brief in each.briefs])
        await record_signals(tx, [each.signals for each in conclusions if each.signals is not None])
        events = [event for each in conclusions for event in each.events]
        await append_events(tx, sorted(events, key=lambda each: each.at))

    await database.write(work)
