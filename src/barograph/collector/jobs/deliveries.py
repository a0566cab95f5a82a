"""Mails, webhooks and unfinished payments."""

import asyncio
from collections.abc import Callable

from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.keys.outbox import BATCH, AlertMails, MailSender, deliver_due
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.payments.reconcile import Reconciler
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.records import Webhook
from barograph.webhooks.store import SLOW_MS, due_webhooks

RECONCILE_SECONDS = 60.0
MAIL_SECONDS = 1.0
WEBHOOK_SECONDS = 1.0
BUSY_SECONDS = 0.05
UNRECORDED_SECONDS = 60.0

MAX_WEBHOOKS_AT_ONCE = 128
MAX_STARTED_AT_ONCE = 32
"""How many endpoints get messages at a time, and how many of those may have begun within
`SLOW_MS`: endpoints that turn out to be slow must not hold the places of quick ones."""

MAX_SLOW_AT_ONCE = 8
"""Of endpoints that are known to be slow or failing."""

MAX_OF_AN_OWNER_AT_ONCE = 2


class ReconcileJob(Job):
    """Resolves payments whose result is not known."""

    def __init__(
        self,
        database: Database,
        build: Callable[[Database], Reconciler],
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`build` makes a reconciler that writes to a database."""
        super().__init__(RECONCILE_SECONDS, sleep)
        self._database = database
        self._build = build

    async def run_once(self, lease: Lease) -> None:
        """Go through all unfinished payments once."""
        with logged("payments not reconciled"):
            await self._build(FencedDatabase(self._database, lease)).once()


class MailJob(Job):
    """Sends the mails in the outbox."""

    def __init__(
        self,
        database: Database,
        sender: MailSender,
        *,
        clock: Clock,
        alerts: AlertMails | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(MAIL_SECONDS, sleep)
        self._alerts = alerts
        self._database = database
        self._sender = sender
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Send every mail that is due."""
        with logged("mails cannot be sent"):
            given = (self._database, lease, self._sender, self._clock, self._alerts)
            sent = await deliver_due(*given)
            self._seconds = MAIL_SECONDS if sent < BATCH else BUSY_SECONDS


class WebhookJob(Job):
    """Sends events to webhooks, each endpoint in a task of its own: a slow one delays no other."""

    def __init__(
        self,
        database: Database,
        deliveries: Deliveries,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(WEBHOOK_SECONDS, sleep)
        self._database = database
        self._deliveries = deliveries
        self._clock = clock
        self._sending: dict[str, tuple[Webhook, int]] = {}
        """The endpoints that get a message now, and since when."""

        self._sent_meanwhile: set[str] = set()
        """Those that got one while we read which ones are due: that may be out of date."""

        self._tasks = asyncio.TaskGroup()

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost, which cancels the requests under way."""
        self._sending.clear()
        async with asyncio.TaskGroup() as self._tasks:
            await super().__call__(lease)

    async def run_once(self, lease: Lease) -> None:
        """Start to send to the endpoints that have messages due."""
        with logged("webhooks not read"):
            # Those being sent to, and others of their owners, are due too: ask for enough.
            limit = 4 * MAX_WEBHOOKS_AT_ONCE
            self._sent_meanwhile.clear()
            due = await due_webhooks(self._database, self._clock(), limit)
            self._seconds = WEBHOOK_SECONDS if len(due) < limit else BUSY_SECONDS
            for webhook in due:
                busy = webhook.id in self._sending or webhook.id in self._sent_meanwhile
                if not busy and self._has_place(webhook):
                    self._sending[webhook.id] = webhook, self._clock()
                    self._tasks.create_task(self._send(webhook, lease))

    def _has_place(self, webhook: Webhook) -> bool:
        sending, recent = [*self._sending.values()], self._clock() - SLOW_MS
        slow = sum(other.is_slow for other, _ in sending)
        started = sum(since > recent for other, since in sending if not other.is_slow)
        return (
            sum(other.mailbox == webhook.mailbox for other, _ in sending) < MAX_OF_AN_OWNER_AT_ONCE
            and len(sending) < MAX_WEBHOOKS_AT_ONCE
            and (slow < MAX_SLOW_AT_ONCE if webhook.is_slow else started < MAX_STARTED_AT_ONCE)
        )

    async def _send(self, webhook: Webhook, lease: Lease) -> None:
        try:
            with logged("webhook not recorded", webhook=webhook.id):
                await self._deliveries.take_turn(webhook, lease)
                return
            # Otherwise the endpoint would get the same message every second.
            await self._sleep(UNRECORDED_SECONDS)
        finally:
            del self._sending[webhook.id]
            self._sent_meanwhile.add(webhook.id)
