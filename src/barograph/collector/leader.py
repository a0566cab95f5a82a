"""The write side: measure, record, judge and publish, under the leader lease.

One collector leads; any number of others stand by and take over when its lease runs out.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from secrets import token_hex

from barograph.collector.daily_jobs import Duty
from barograph.collector.judge import Conclusion, Desk, write_conclusions
from barograph.errors import InvalidReply, LeaseLost, UnknownToUpstream, UpstreamError
from barograph.keys.outbox import MailSender, deliver_due
from barograph.keys.registration import forget_registrations
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.markets.exchange import Exchange
from barograph.markets.records import MAJORS, Perpetuals
from barograph.markets.store import forget_old
from barograph.settings import Settings

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
LEASE = "collector"
HOUSEKEEPING_SECONDS = 600
MAIL_SECONDS = 1
LASTING_POLLS = 3


class Collector:
    """Collects for as long as it runs, whenever it holds the lease."""

    def __init__(
        self,
        settings: Settings,
        exchange: Exchange,
        database: Database,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        mail: MailSender | None = None,
        duties: Sequence[Duty] = (),
    ) -> None:
        self._settings = settings
        self._exchange = exchange
        self._database = database
        self._clock = clock
        self._sleep = sleep
        self._mail = mail
        self._duties = duties
        self._lease = collector_lease(settings, database, clock)
        self._desk = Desk(settings)
        self._contracts: list[str] = []
        self._first_reading = asyncio.Event()
        self._last_as_of: int | None = None

    async def run(self) -> None:
        """Lead when possible, stand by otherwise, until cancelled."""
        try:
            standing_by = False
            while True:
                if await self._try_acquire():
                    log.info("collector leads")
                    await self._lead()
                elif not standing_by:
                    log.info("collector stands by")
                standing_by = True
                await self._sleep(self._settings.lease_seconds / 3)
        finally:
            await self._stop()

    async def _lead(self) -> None:
        """Do everything a leader does until the lease is lost."""
        self._desk = Desk(self._settings)
        self._first_reading.clear()
        try:
            await self._desk.load(self._database, self._clock())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_lease())
                tasks.create_task(self._poll())
                tasks.create_task(self._rotate_long_accounts())
                tasks.create_task(self._listen())
                tasks.create_task(self._keep_house())
                if self._mail is not None:
                    tasks.create_task(self._deliver(self._mail))
                for duty in self._duties:
                    tasks.create_task(_done(duty(self._lease)))
        except* LeaseLost:
            log.warning("collector lost the lease and stands by")
        except* DatabaseUnavailable as errors:
            log.warning("collector stands by", extra={"reason": str(errors.exceptions[0])})

    async def _poll(self) -> None:
        """Read all perpetuals again and again; the majors' shares come before the first."""
        failing = False
        while True:
            started = self._clock()
            await self._desk.refresh(self._database, started)
            try:
                reading = await self._exchange.perpetuals()
                self._check_progress(reading)
                await self._before_first(reading)
            except UpstreamError as error:
                if not failing:
                    log.warning("exchange fails", extra={"kind": error.kind, "why": str(error)})
                failing = True
                await self._write(self._desk.conclude_failure(error, self._clock()))
            else:
                if failing:
                    log.info("exchange answers again")
                failing = False
                await self._write(self._desk.conclude(reading, self._clock()))
            spent = (self._clock() - started) / SECOND
            # A clock that was set back must not make the pause longer.
            pause = min(self._settings.poll_seconds, self._settings.poll_seconds - spent)
            await self._sleep(max(0.0, pause))

    def _check_progress(self, reading: Perpetuals) -> None:
        """Take a reading that is as old as the last one for what it is.

        Raises:
            InvalidReply: the exchange repeats itself.
        """
        if reading.as_of == self._last_as_of:
            raise InvalidReply("the exchange repeats an old reading")
        self._last_as_of = reading.as_of

    async def _before_first(self, reading: Perpetuals) -> None:
        """Know the contracts, and sample the majors before anything is published."""
        largest = sorted(reading.contracts, key=lambda each: -each.open_interest_usd)
        majors = [each.contract for each in largest if each.base in MAJORS]
        others = [each.contract for each in largest if each.base not in MAJORS]
        # A contract with a value out of range still has liquidations.
        refused = chain.from_iterable(reading.refused.values())
        self._contracts = list(dict.fromkeys([*majors, *others, *refused]))
        if not self._first_reading.is_set():
            for contract in majors:
                await self._sample(contract)
            self._first_reading.set()

    async def _rotate_long_accounts(self) -> None:
        """Sample one contract after the other, evenly, within the exchange's limits."""
        await self._first_reading.wait()
        while True:
            for contract in list(self._contracts):
                await self._sleep(1 / self._settings.long_accounts_calls_per_second)
                await self._sample(contract)

    async def _sample(self, contract: str) -> None:
        """Take one share; a failure leaves the last one, which its own bound takes away."""
        try:
            self._desk.sampled(await self._exchange.long_accounts(contract))
        except UnknownToUpstream:
            log.debug("no long-account share", extra={"contract": contract})
        except UpstreamError as error:
            log.debug("long-account share failed", extra={"kind": error.kind})

    async def _listen(self) -> None:
        """Hear liquidations; listen anew when contracts come or go."""
        await self._first_reading.wait()
        while True:
            known = set(self._contracts)
            listening = asyncio.create_task(self._exchange.listen(self._contracts, self._desk))
            try:
                await self._until_listing_changes(known, listening)
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    async def _until_listing_changes(self, known: set[str], listening: asyncio.Task[None]) -> None:
        """Wait for a change that lasts; a contract missing from one reading is no reason."""
        changed = 0
        while changed < LASTING_POLLS:
            await asyncio.wait([listening], timeout=self._settings.poll_seconds)
            if listening.done():
                listening.result()
                break
            changed = changed + 1 if set(self._contracts) != known else 0

    async def _keep_lease(self) -> None:
        """Renew the lease three times in its span."""
        while True:
            await self._sleep(self._settings.lease_seconds / 3)
            try:
                await self._lease.renew()
            except DatabaseUnavailable as error:
                # Still ours until somebody else's token says otherwise.
                log.warning("lease not renewed", extra={"reason": str(error)})

    async def _keep_house(self) -> None:
        """Drop what is past its retention."""

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            await forget_old(tx, self._settings, self._clock())
            await forget_registrations(tx, self._clock())

        while True:
            try:
                await self._database.write(work)
            except DatabaseUnavailable as error:
                log.warning("clean-up put off", extra={"reason": str(error)})
            await self._sleep(HOUSEKEEPING_SECONDS)

    async def _deliver(self, mail: MailSender) -> None:
        """Send what is in the outbox, soon after it was put there."""
        while True:
            try:
                await deliver_due(self._database, self._lease, mail, self._clock)
            except DatabaseUnavailable as error:
                log.warning("mails put off", extra={"reason": str(error)})
            except LeaseLost:
                raise
            except Exception:
                # Whatever it is, a mail must not end the measuring.
                log.exception("mails cannot be sent")
            await self._sleep(MAIL_SECONDS)

    async def _write(self, conclusion: Conclusion) -> None:
        if conclusion.row_count == 0:
            return
        try:
            await write_conclusions(self._database, self._lease, [conclusion])
        except DatabaseUnavailable as error:
            log.warning(
                "reading not stored; what was heard is kept for the next",
                extra={"reason": str(error)},
            )
        else:
            self._desk.written(conclusion)

    async def _try_acquire(self) -> bool:
        try:
            return await self._lease.acquire()
        except DatabaseUnavailable as error:
            log.warning("lease cannot be asked for", extra={"reason": str(error)})
            return False

    async def _stop(self) -> None:
        """Store what was heard since the last reading, and let the next leader in."""
        try:
            with suppress(LeaseLost):
                await self._write(self._desk.conclude_stop())
            await self._lease.release()
        except DatabaseUnavailable:
            log.warning("lease not released; it will run out")


async def _done(work: Awaitable[None]) -> None:
    await work


def collector_lease(settings: Settings, database: Database, clock: Clock) -> Lease:
    """The lease that makes one collector the leader."""
    return Lease(
        database,
        LEASE,
        f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}",
        clock=clock,
        milliseconds=int(settings.lease_seconds * SECOND),
    )
