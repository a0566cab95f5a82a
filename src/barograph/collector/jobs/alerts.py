"""Alerts: those about events, mails for all of them, and those whose time is over."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from barograph.alerts.from_events import fired_by
from barograph.alerts.messages import ALERTS_PATH, request_of, text_of
from barograph.alerts.picture import picture_of
from barograph.alerts.records import MAIL, Alert, AlertMessage, Fired, NewMessage, StateRow
from barograph.alerts.rules import FROM_EVENTS, PERIODS
from barograph.alerts.store import (
    Position,
    active_alerts,
    alert_of,
    alerts_of,
    last_fired,
    messages_after,
    new_messages,
    owner_of,
    pause_without_target,
    position_of,
    record_alerts,
    rules_version,
    save_position,
    sentence_of,
    set_state,
    stop_mails,
)
from barograph.collector.jobs.deliveries import BUSY_SECONDS
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.events.records import Event
from barograph.events.store import events_after, events_of_type
from barograph.keys.outbox import AlertMails, Mail, put_mail
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, MINUTE
from barograph.webhooks.records import AlertRequest, NextAlert, Webhook
from barograph.webhooks.store import last_event

ALERT_SECONDS = 1.0
BATCH = 100
"""The most messages that a round mails."""

SCANNED = 200
"""The most events that a round compares with the rules."""

MESSAGES_PER_DAY = 200
"""Of all active alerts of one mailbox, regardless of target."""

PAUSED = "Your Barograph alert was paused"
WHY_PAUSED = (
    f"your alerts sent more than {MESSAGES_PER_DAY} messages in 24 hours, and this one sent the "
    "most; write a stricter rule"
)
WHY_REFUSED = "your mail server refuses your address; once it accepts mail, create this alert again"


class AlertJob(Job):
    """Turns events into messages, and messages into mails."""

    def __init__(
        self, database: Database, base_url: str, *, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(ALERT_SECONDS, sleep)
        self._reads = database
        self._base_url = base_url
        self._clock = clock
        self._version: tuple[int, ...] | None = None
        self._active: dict[str, Alert] = {}
        self._timed: list[Alert] = []
        self._about_events: list[Alert] = []
        self._minute = 0

    async def run_once(self, lease: Lease) -> None:
        """Do everything that is due."""
        database = FencedDatabase(self._reads, lease)
        with logged("alerts not delivered"):
            version = await rules_version(database)
            if version != self._version:
                active = await active_alerts(database)
                self._active = {alert.id: alert for alert in active}
                self._timed = [alert for alert in active if alert.rule.until is not None]
                self._about_events = [each for each in active if each.rule.measure in FROM_EVENTS]
                self._version = version
            position = await position_of(database)
            if position.event < 0:  # the first run
                position = position._replace(event=await last_event(database))
                await database.write(lambda tx: save_position(tx, position))
            await self._compare_events(database, position)
            await self._mail(database, await position_of(database))
            await self._end(database)
            if self._minute != (minute := self._clock() // MINUTE):
                await database.write(lambda tx: pause_without_target(tx, self._clock()))
                self._minute = minute

    async def _compare_events(self, database: Database, position: Position) -> None:
        events = await events_after(database, position.event, SCANNED)
        if not events:
            return
        fired = await self._fired(database, events)

        async def work(tx: Transaction) -> None:
            last = await last_fired(tx) if fired else {}
            messages = []
            for alert, message in fired:
                place, at = (alert.id, message.symbol), message.at
                if place not in last or at - last[place] >= PERIODS[alert.rule.every]:
                    last[place] = at
                    messages.append(NewMessage(alert.id, alert.mailbox, message))
            states = [
                StateRow(new.alert, new.fired.symbol, "", 1, last[new.alert, new.fired.symbol])
                for new in messages
            ]
            await record_alerts(tx, states, messages, self._clock())
            moved = (await position_of(tx))._replace(event=events[-1].id)
            await save_position(tx, moved)

        await database.write(work)

    async def _fired(
        self, database: Database, events: Sequence[Event]
    ) -> list[tuple[Alert, Fired]]:
        if not self._about_events:
            return []
        switches = [each.at for each in await events_of_type(database, "venue.switched")]
        fired = []
        for event in events:
            for alert in [each for each in self._about_events if event.at >= each.created_at]:
                with logged("alert not compared", alert=alert.id):
                    if (message := fired_by(alert.rule, event, switches)) is not None:
                        fired.append((alert, message))
        return fired

    async def _mail(self, database: Database, position: Position) -> None:
        """Put the next messages into the outbox, in the transaction that notes how far we are.

        Only then do the other targets get them.
        """
        messages = await new_messages(database, position.mailed, BATCH)
        self._seconds = ALERT_SECONDS if len(messages) < BATCH else BUSY_SECONDS
        if not messages:
            return
        now, mails = self._clock(), []
        within, paused = await self._counted(database, messages, position.mailed, now - DAY)
        for alert, message, email in within:
            if email is not None and MAIL in alert.target_list and alert.id not in paused:
                with logged("message skipped", alert=alert.id):
                    mails.append((email, message.id, text_of(alert, message, self._base_url, now)))

        async def work(tx: Transaction) -> None:
            for email, number, text in mails:
                await put_mail(
                    *(tx, email, text.subject, text.plain),
                    now=now,
                    give_up_at=now + DAY,
                    stop_url=text.stop_url,
                    message=number,
                )
            for public_id, to in paused.items():
                await self._pause(tx, public_id, to, now)
            moved = (await position_of(tx))._replace(mailed=messages[-1].id)
            await save_position(tx, moved)

        await database.write(work)

    async def _pause(self, tx: Transaction, public_id: str, email: str | None, now: int) -> None:
        alert = await alert_of(tx, public_id)
        if alert is None or alert.state != "active":
            return
        await set_state(tx, alert, "paused", WHY_PAUSED, now)
        if email is not None:
            page = f"{self._base_url}{ALERTS_PATH}"
            body = f"{sentence_of(alert)}\n\nWhy: {WHY_PAUSED}.\nYour alerts: {page}\n"
            await put_mail(tx, email, PAUSED, body, now=now, give_up_at=now + DAY)

    async def _counted(
        self, database: Database, messages: Sequence[AlertMessage], up_to: int, since: int
    ) -> tuple[list[tuple[Alert, AlertMessage, str | None]], dict[str, str | None]]:
        """The messages that may be sent, and the alerts to pause, each with its owner's address."""
        within = []
        paused: dict[str, str | None] = {}
        owners: dict[str, tuple[str | None, Counter[str]]] = {}
        for message in messages:
            # One that ended meanwhile still tells what happened before.
            alert = self._active.get(message.alert) or await alert_of(database, message.alert)
            if alert is None or alert.state == "paused" or alert.id in paused:
                continue
            if alert.mailbox not in owners:
                owners[alert.mailbox] = await owner_of(database, alert.mailbox, up_to, since)
            email, counts = owners[alert.mailbox]
            counts[alert.id] += 1
            if counts.total() > MESSAGES_PER_DAY:
                [(noisiest, _)] = counts.most_common(1)
                del counts[noisiest]
                paused[noisiest] = email
            within.append((alert, message, email))
        return within, paused

    async def _end(self, database: Database) -> None:
        now = self._clock()
        over = [each for each in self._timed if (each.rule.until or 0) <= now]

        async def work(tx: Transaction) -> None:
            for alert in over:
                await set_state(tx, alert, "ended", "its end time has passed", now)

        if over:
            await database.write(work)


def alert_mails(database: Database, clock: Clock) -> AlertMails:
    """How to draw the picture of a mail, and to stop the mails to an address that is refused."""

    async def draw(number: int) -> bytes | None:
        with logged("picture not drawn"):
            for message in await new_messages(database, number - 1, 1):
                alert = await alert_of(database, message.alert)
                if alert is not None and message.id == number:
                    return await picture_of(database, alert, message)
        return None

    async def refused(mail: Mail, lease: Lease) -> None:
        fenced = FencedDatabase(database, lease)
        await fenced.write(lambda tx: stop_mails(tx, mail.recipient, WHY_REFUSED, clock()))

    return AlertMails(draw, refused)


def alert_requests(database: Database, base_url: str, clock: Clock) -> NextAlert:
    """What finds the next message of an alert for a webhook."""

    async def next_alert(webhook: Webhook) -> AlertRequest | None:
        counted = (await position_of(database)).mailed
        messages = await messages_after(database, webhook.mailbox, webhook.messages_up_to, BATCH)
        messages = [message for message in messages if message.id <= counted]
        if not messages:
            return None
        alerts = {alert.id: alert for alert in await alerts_of(database, webhook.mailbox)}
        for message in messages:
            alert = alerts.get(message.alert)
            if alert is not None and alert.state != "paused" and webhook.id in alert.target_list:
                with logged("message skipped", alert=alert.id, webhook=webhook.id):
                    return request_of(webhook, alert, message, base_url=base_url, now=clock())
                return AlertRequest(message.id)
        return AlertRequest(messages[-1].id)

    return next_alert
