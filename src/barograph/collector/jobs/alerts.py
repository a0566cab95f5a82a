"""Alerts: those about events, mails for all of them, and those whose time is over."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from barograph.alerts.from_events import fired_by
from barograph.alerts.messages import ALERTS_PATH, request_of, text_of
from barograph.alerts.picture import picture_of
from barograph.alerts.records import MAIL, Alert, AlertMessage, Fired, NewMessage, StateRow
from barograph.alerts.rules import FROM_EVENTS, PERIODS, sentence
from barograph.alerts.store import (
    Position,
    active_alerts,
    alert_of,
    alerts_of,
    last_fired,
    mail_of,
    messages_after,
    new_messages,
    position_of,
    record_alerts,
    rules_version,
    save_position,
    set_state,
)
from barograph.collector.jobs.deliveries import BUSY_SECONDS
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.events.records import Event
from barograph.events.store import events_after, events_of_type
from barograph.keys.outbox import Picture, put_mail
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY
from barograph.webhooks.records import AlertRequest, NextAlert, Webhook
from barograph.webhooks.store import last_event

ALERT_SECONDS = 1.0
BATCH = 100
"""The most messages that a round mails."""

SCANNED = 200
"""The most events that a round compares with the rules."""

MAILS_PER_DAY = 200
"""Of one mailbox."""

PAUSED = "Your Barograph alert was paused"
WHY_PAUSED = f"more than {MAILS_PER_DAY} messages in 24 hours; resume it, or write a stricter rule"


class _Mail(NamedTuple):
    alert: Alert
    message: AlertMessage
    email: str
    is_too_many: bool


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
        return [
            (alert, fired)
            for event in events
            for alert in self._about_events
            if event.at >= alert.created_at
            and (fired := fired_by(alert.rule, event, switches)) is not None
        ]

    async def _mail(self, database: Database, position: Position) -> None:
        """Put the next messages into the outbox, in the transaction that notes how far we are."""
        messages = await new_messages(database, position.mailed, BATCH)
        self._seconds = ALERT_SECONDS if len(messages) < BATCH else BUSY_SECONDS
        if not messages:
            return
        now = self._clock()
        mails = [
            mail for mail in [await self._mail_of(database, each) for each in messages] if mail
        ]
        paused = {mail.alert.id: mail for mail in mails if mail.is_too_many}

        async def work(tx: Transaction) -> None:
            for number, (alert, message, email, is_too_many) in enumerate(mails):
                if is_too_many:
                    continue
                text = text_of(alert, message, self._base_url, now)
                await put_mail(
                    *(tx, email, text.subject, text.plain),
                    now=now + number,  # so that they leave in this order
                    give_up_at=now + DAY,
                    stop_url=text.stop_url,
                    message=message.id,
                )
            for alert, _, email, _ in paused.values():
                await set_state(tx, alert, "paused", WHY_PAUSED, now)
                page = f"{self._base_url}{ALERTS_PATH}"
                body = f"{sentence(alert.rule)}\n\nWhy: {WHY_PAUSED}.\nYour alerts: {page}\n"
                await put_mail(tx, email, PAUSED, body, now=now, give_up_at=now + DAY)
            moved = (await position_of(tx))._replace(mailed=messages[-1].id)
            await save_position(tx, moved)

        await database.write(work)

    async def _mail_of(self, database: Database, message: AlertMessage) -> _Mail | None:
        # One that ended meanwhile still tells what happened before.
        alert = self._active.get(message.alert) or await alert_of(database, message.alert)
        if alert is None or alert.state == "paused" or MAIL not in alert.target_list:
            return None
        email, count = await mail_of(database, message, self._clock() - DAY)
        return None if email is None else _Mail(alert, message, email, count > MAILS_PER_DAY)

    async def _end(self, database: Database) -> None:
        now = self._clock()
        over = [each for each in self._timed if (each.rule.until or 0) <= now]

        async def work(tx: Transaction) -> None:
            for alert in over:
                await set_state(tx, alert, "ended", "its end time has passed", now)

        if over:
            await database.write(work)


def pictures(database: Database) -> Picture:
    """What draws the picture that a mail carries; without one the mail is sent all the same."""

    async def draw(number: int) -> bytes | None:
        with logged("picture not drawn"):
            for message in await new_messages(database, number - 1, 1):
                alert = await alert_of(database, message.alert)
                if alert is not None and message.id == number:
                    return await picture_of(database, alert, message)
        return None

    return draw


def alert_requests(database: Database, base_url: str, clock: Clock) -> NextAlert:
    """What finds the next message of an alert for a webhook."""

    async def next_alert(webhook: Webhook) -> AlertRequest | None:
        after = webhook.messages_up_to
        messages = await messages_after(database, webhook.mailbox, after, BATCH)
        if not messages:
            return None
        alerts = {alert.id: alert for alert in await alerts_of(database, webhook.mailbox)}
        for message in messages:
            alert = alerts.get(message.alert)
            if alert is not None and alert.state != "paused" and webhook.id in alert.target_list:
                now = clock()
                return request_of(webhook, alert, message, base_url=base_url, now=now)
        return AlertRequest(messages[-1].id)

    return next_alert
