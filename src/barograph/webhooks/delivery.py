"""Sends challenges and events to endpoints, in order, at least once.

An attempt is recorded after it was made. After a crash in between, the endpoint gets the same
message again, with the same `webhook-id`.
"""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from random import SystemRandom
from secrets import token_urlsafe

import msgspec

from barograph.errors import UpstreamError
from barograph.events.store import events_after
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.webhooks.keys import Keys
from barograph.webhooks.records import AlertRequest, Delivery, NextAlert, Post, Webhook
from barograph.webhooks.signing import Message, answers, message_body, signed_fields
from barograph.webhooks.store import last_event, log_delivery, save_webhook

log = logging.getLogger(__name__)

TURN_MS = 2 * SECOND
"""How long an endpoint that is behind may send before others follow."""

SCANNED = 200
"""How many events are read at once to find the next one that an endpoint asked for."""

JITTER = 0.1


class Deliveries:
    """Sends messages, and records how each attempt went."""

    def __init__(
        self,
        database: Database,
        post: Post,
        clock: Clock,
        load_keys: Callable[[], Awaitable[Keys]],
        next_alert: NextAlert | None = None,
    ) -> None:
        """Keys are loaded at the first use: a web host may create them after we started."""
        self._database = database
        self._post = post
        self._clock = clock
        self._load_keys = load_keys
        self._next_alert = next_alert
        self._keys: Keys = ()

    async def take_turn(self, webhook: Webhook, lease: Lease) -> None:
        """Send the next messages of an endpoint, one after the other, until one fails.

        Raises:
            LeaseLost: another process sends them.
            DatabaseUnavailable: an attempt may have been made and not recorded.
        """
        end = self._clock() + TURN_MS
        current: Webhook | None = webhook
        while current is not None and self._clock() < end:
            current = await self._step(current, lease)

    async def test(self, webhook: Webhook) -> Delivery:
        """Send a test message now."""
        message = _own_message(webhook, "test", self._clock(), {"webhook": webhook.id})
        return await self._send(webhook, message)

    async def _step(self, webhook: Webhook, lease: Lease) -> Webhook | None:
        """Send one message; returns the endpoint if another one can follow."""
        if webhook.state == "pending":
            asked = token_urlsafe(24)  # a new one for each attempt
            message = _own_message(webhook, "challenge", self._clock(), {"challenge": asked})
            return await self._attempt(webhook, message._replace(challenge=asked), lease)
        alert = None if self._next_alert is None else await self._next_alert(webhook)
        if alert is not None:
            return await self._send_alert(webhook, alert, lease)
        return await self._send_event(webhook, lease) if webhook.format == "json" else None

    async def _send_alert(
        self, webhook: Webhook, alert: AlertRequest, lease: Lease
    ) -> Webhook | None:
        number, url, body = alert
        if not body:
            skipped = webhook._replace(messages_up_to=number)
            return await self._save(webhook, skipped, None, lease)
        message = Message(f"msg_{webhook.id}_alert_{number}", body, alert=number, url=url)
        return await self._attempt(webhook, message, lease)

    async def _send_event(self, webhook: Webhook, lease: Lease) -> Webhook | None:
        events = await events_after(self._database, webhook.delivered_up_to, SCANNED)
        wanted = webhook.wanted
        for event in events:
            if wanted.matches(event):
                body = message_body(event.type, event.at, event.body.encode())
                message = Message(f"msg_{webhook.id}_{event.id}", body, event.id)
                return await self._attempt(webhook, message, lease)
        if events:
            skipped = webhook._replace(delivered_up_to=events[-1].id)
            return await self._save(webhook, skipped, None, lease)
        return None

    async def _attempt(self, webhook: Webhook, message: Message, lease: Lease) -> Webhook | None:
        delivery = await self._send(webhook, message)
        now = self._clock()
        if delivery.failure is None:
            after = webhook.after_success(message.event or 0, now)
            if message.alert is not None:
                events = webhook.delivered_up_to
                after = after._replace(delivered_up_to=events, messages_up_to=message.alert)
            return await self._save(webhook, after, delivery, lease)
        jitter = SystemRandom().uniform(1 - JITTER, 1 + JITTER)
        after = webhook.after_failure(delivery.status, now, jitter)
        fields = {"webhook": webhook.id, "failures": after.failures, "kind": delivery.failure}
        log.warning("webhook not delivered", extra={**fields, "state": after.state})
        await self._save(webhook, after, delivery, lease)
        return None

    async def _send(self, webhook: Webhook, message: Message) -> Delivery:
        self._keys = self._keys or await self._load_keys()
        started = self._clock()
        fields = signed_fields(message, webhook.secrets(started), self._keys, started)
        status, failure = None, None
        try:
            status, start = await self._post(message.url or webhook.url, fields, message.body)
        except UpstreamError as error:
            failure = error.kind
        else:
            if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                failure = "status"
            elif message.challenge is not None and not answers(start, message.challenge):
                failure = "wrong challenge"
        return Delivery(
            *(message.id, message.event, started, webhook.failures + 1),
            *(status, failure, max(0, self._clock() - started)),
        )

    async def _save(
        self, before: Webhook, after: Webhook, delivery: Delivery | None, lease: Lease
    ) -> Webhook | None:
        """Store the new state; None if the endpoint was changed or deleted meanwhile."""

        async def work(tx: Transaction) -> Webhook | None:
            await lease.fence(tx)
            new = after
            if before.state == "pending" and after.state == "active":
                new = after._replace(delivered_up_to=await last_event(tx))
            if not await save_webhook(tx, before, new, self._clock()):
                return None
            if delivery is not None:
                await log_delivery(tx, before.id, delivery)
            return new

        return await self._database.write(work)


def _own_message(webhook: Webhook, kind: str, now: int, data: dict[str, str]) -> Message:
    """A message that is not about an event."""
    body = message_body(f"webhook.{kind}", now, msgspec.json.encode(data))
    return Message(f"msg_{webhook.id}_{kind}_{now}", body)
