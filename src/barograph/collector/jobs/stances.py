"""Stances: issued, announced, measured and cosigned."""

import asyncio
import logging

from barograph.accuracy.assess import publish_accuracy
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.errors import LeaseLost
from barograph.history.cosigning import Cosigner
from barograph.history.ledger import Ledger
from barograph.history.reader import HistoryReader
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.settings import Settings
from barograph.stances.issue import StanceIssuer
from barograph.stances.log_entries import LogEntries

log = logging.getLogger(__name__)

ISSUE_SECONDS = 15.0
VERSION_SECONDS = 2.0
ACCURACY_SECONDS = 60.0
WITNESS_SECONDS = 3.0


class StanceJob(Job):
    """Issues a stance whenever its evidence has changed."""

    def __init__(
        self, issuer: StanceIssuer, ledger: Ledger, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(ISSUE_SECONDS, sleep)
        self._issuer = issuer
        self._ledger = ledger
        self._announced: int | None = None

    async def run_once(self, lease: Lease) -> None:
        """Announce a new leader to the history, then issue every kind once."""
        if self._announced != lease.token:
            with logged("the history cannot be written"):
                await self._announce(lease)
        with logged("stances not issued"):
            try:
                await self._issuer.issue(lease)
            except LeaseLost:
                await lease.renew()  # raises if the lease is really lost

    async def _announce(self, lease: Lease) -> None:
        """Keep earlier leaders from recording anything."""
        try:
            await self._ledger.announce_leader(lease.token)
        except LeaseLost:
            await lease.renew()  # raises if the lease is really lost
            log.critical("the history has a later leader than us; stances are not durable")
        else:
            self._announced = lease.token


class LogEntryJob(Job):
    """Appends recorded versions and withdrawals, including an operator's, to the public log."""

    def __init__(self, entries: LogEntries, *, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__(VERSION_SECONDS, sleep)
        self._entries = entries

    async def run_once(self, lease: Lease) -> None:
        """Append what was recorded since the last time."""
        with logged("stance versions not logged"):
            await self._entries.append(lease)


class AccuracyJob(Job):
    """Publishes what followed the revealed stances."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        history: HistoryReader,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(ACCURACY_SECONDS, sleep)
        self._settings = settings
        self._database = database
        self._history = history
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Publish it, if stances are revealed and an hour has passed."""
        fenced = FencedDatabase(self._database, lease)
        with logged("accuracy not published"):
            await publish_accuracy(self._settings, fenced, self._history, self._clock)


class WitnessJob(Job):
    """Has one witness cosign the log: a slow one delays no other."""

    def __init__(
        self, database: Database, cosigner: Cosigner, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(WITNESS_SECONDS, sleep)
        self._database = database
        self._cosigner = cosigner

    async def run_once(self, lease: Lease) -> None:
        """Ask, unless its newest cosignature is of the current round."""
        with logged("log not cosigned", witness=self._cosigner.name):
            await self._cosigner.ask(FencedDatabase(self._database, lease))
