"""Where a measurement becomes record, judgement and publication.

The desk keeps what the collector knows in memory and turns each reading into a `Conclusion`:
everything that reading adds to the record and to the board. `write_conclusions` is the only
function that stores one. The live collector and the demo's replay both go this way.
"""

from collections.abc import Container, Sequence
from typing import NamedTuple

from barograph.board.snapshots import Publication, latest, publish
from barograph.errors import UpstreamError
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.markets.feeds import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
)
from barograph.markets.history import (
    Reading,
    RegimeChange,
    Resolution,
    Span,
    recent_liquidations,
    recent_watched,
    record_liquidations,
    record_readings,
    record_regime_changes,
    record_watched,
)
from barograph.markets.liquidations import LiquidationWindow, WatchLog
from barograph.markets.records import (
    MAJORS,
    ExchangeHealth,
    Liquidation,
    LongAccounts,
    LongAccountShares,
    Perpetual,
    Perpetuals,
)
from barograph.markets.regime import Regime, eight_hour_rate, judge
from barograph.settings import Settings


class Conclusion(NamedTuple):
    """What one reading adds: rows for the record and snapshots for the board."""

    publications: Sequence[Publication]
    readings: Sequence[Reading] = ()
    liquidations: Sequence[Liquidation] = ()
    watched: Sequence[Span] = ()
    regime_changes: Sequence[RegimeChange] = ()

    @property
    def row_count(self) -> int:
        """How many rows it writes."""
        rows = len(self.publications) + len(self.readings)
        rows += len(self.liquidations) + len(self.watched)
        return rows + len(self.regime_changes)


class MarketDesk:
    """What the collector knows: the last judgement, the shares and the liquidations."""

    def __init__(self, settings: Settings) -> None:
        self._dwell = int(settings.regime_dwell_seconds * SECOND)
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

    async def load(self, database: Database, now: int) -> None:
        """Take up what an earlier collector left."""

        async def work(tx: Transaction) -> None:
            self._window = LiquidationWindow()
            self._window.add(await recent_liquidations(tx, now))
            self._watch = WatchLog(await recent_watched(tx, now))
            perpetuals = await latest(tx, PERPETUALS)
            self._bases = {} if perpetuals is None else _bases(perpetuals)
            self._regime = await latest(tx, REGIME)
            shares = await latest(tx, LONG_ACCOUNTS)
            self._shares = {} if shares is None else dict(shares.shares)
            self._health = await latest(tx, EXCHANGE_HEALTH) or self._health

        await database.read(work)

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

    def conclude(self, reading: Perpetuals, now: int | None = None) -> Conclusion:
        """Judge a reading and gather everything it adds; `now` is when it came."""
        at = reading.as_of
        live = _bases(reading)
        self._bases |= live  # a delisted contract keeps its name while its liquidations count
        previous, self._regime = self._regime, self._judge(reading)
        if previous is None or previous.label != self._regime.label:
            self._changes.append(_change(self._regime))
        self._health = ExchangeHealth(as_of=at if now is None else now)
        totals = self._window.totals(at, self._watch, self._bases)
        return Conclusion(
            publications=[
                Publication.of(PERPETUALS, reading),
                Publication.of(LONG_ACCOUNTS, self._shares_of(live)),
                Publication.of(LIQUIDATIONS, totals),
                Publication.of(REGIME, self._regime),
                Publication.of(EXCHANGE_HEALTH, self._health),
            ],
            readings=self._due_readings(reading),
            liquidations=list(self._heard),
            watched=list(self._spans.items()),
            regime_changes=list(self._changes),
        )

    def conclude_failure(self, error: UpstreamError, at: int) -> Conclusion:
        """Gather what a failed reading adds: the failure, and what was heard meanwhile."""
        since = self._health.failing_since
        self._health = ExchangeHealth(at, error.kind, at if since is None else since)
        totals = self._window.totals(at, self._watch, self._bases)
        return Conclusion(
            publications=[
                Publication.of(LIQUIDATIONS, totals),
                Publication.of(EXCHANGE_HEALTH, self._health),
            ],
            liquidations=list(self._heard),
            watched=list(self._spans.items()),
        )

    def conclude_stop(self) -> Conclusion:
        """Gather what was heard since the last conclusion."""
        return Conclusion([], liquidations=list(self._heard), watched=list(self._spans.items()))

    def written(self, conclusion: Conclusion) -> None:
        """Forget what is safely stored; until then it is part of every next conclusion."""
        del self._heard[: len(conclusion.liquidations)]
        del self._changes[: len(conclusion.regime_changes)]
        for start, end in conclusion.watched:
            if self._spans.get(start) == end:
                del self._spans[start]
        for reading in conclusion.readings:
            self._recorded[reading.resolution] = reading.at

    def _judge(self, reading: Perpetuals) -> Regime:
        bitcoin = next((each for each in reading.contracts if each.base == "BTC"), None)
        rate = (
            None
            if bitcoin is None
            else eight_hour_rate(bitcoin.funding_rate_pct, bitcoin.funding_interval_hours)
        )
        return judge(self._regime, rate, reading.as_of, self._dwell)

    def _shares_of(self, live: Container[str]) -> LongAccountShares:
        """The shares of live contracts; those of delisted ones are dropped."""
        self._shares = {name: share for name, share in self._shares.items() if name in live}
        return LongAccountShares(self._shares)

    def _due_readings(self, reading: Perpetuals) -> list[Reading]:
        minute = reading.as_of // MINUTE * MINUTE
        hour = reading.as_of // HOUR * HOUR
        due: list[Reading] = []
        if self._recorded.get("minute", -1) < minute:
            majors = (each for each in reading.contracts if each.base in MAJORS)
            due += [self._reading("minute", minute, each) for each in majors]
        if self._recorded.get("hour", -1) < hour:
            due += [self._reading("hour", hour, each) for each in reading.contracts]
        return due

    def _reading(self, resolution: Resolution, at: int, contract: Perpetual) -> Reading:
        share = self._shares.get(contract.contract)
        return Reading(
            resolution,
            contract.contract,
            at,
            contract.last_price,
            contract.funding_rate_pct,
            contract.funding_interval_hours,
            contract.open_interest_usd,
            None if share is None else share.long_account_pct,
        )


async def write_conclusions(
    database: Database, lease: Lease, conclusions: Sequence[Conclusion]
) -> None:
    """Store conclusions in one transaction: recorded and published together, or not at all.

    Raises:
        LeaseLost: another collector leads; nothing was written.
        DatabaseUnavailable: nothing was written.
    """

    async def work(tx: Transaction) -> None:
        await lease.fence(tx)
        for conclusion in conclusions:
            await record_readings(tx, conclusion.readings)
            await record_liquidations(tx, conclusion.liquidations)
            await record_watched(tx, conclusion.watched)
            await record_regime_changes(tx, conclusion.regime_changes)
            await publish(tx, conclusion.publications)

    await database.write(work)


def _bases(reading: Perpetuals) -> dict[str, str]:
    return {contract.contract: contract.base for contract in reading.contracts}


def _change(regime: Regime) -> RegimeChange:
    return RegimeChange(regime.as_of, regime.label, regime.funding_8h_pct)
