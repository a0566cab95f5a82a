"""The tables of alerts, of their states and of their messages."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from secrets import token_hex, token_urlsafe
from typing import NamedTuple

import msgspec

from barograph.alerts.records import (
    MAIL,
    MAX_ALERTS,
    Alert,
    AlertMessage,
    NewMessage,
    State,
    StateRow,
    TooManyAlerts,
)
from barograph.alerts.rules import FROM_EVENTS, Rule, sentence
from barograph.errors import NotFound
from barograph.keys.registration import Forgotten, forget_mailbox
from barograph.kit.database import Queryable, Statement, Transaction
from barograph.kit.timestamps import DAY
from barograph.webhooks.store import delete_webhooks, webhooks_of

log = logging.getLogger(__name__)

UNREADABLE = "This alert can't be read. Delete it and create a new one."
KEPT = 30 * DAY
"""How long messages are kept."""


async def add_alert(
    tx: Transaction, mailbox: str, rule: Rule, targets: Sequence[str], now: int
) -> Alert:
    """Store a checked rule.

    Raises:
        TooManyAlerts: the mailbox has enough of them.
    """
    if len(await alerts_of(tx, mailbox)) >= MAX_ALERTS:
        raise TooManyAlerts
    version = await _next_version(tx, now)
    names = (f"al_{token_hex(8)}", mailbox, msgspec.json.encode(rule).decode(), ",".join(targets))
    alert = Alert(*names, "active", None, now, version, token_urlsafe(24))
    await tx.execute(_ADD, *alert)
    return alert


async def alerts_of(queryable: Queryable, mailbox: str) -> list[Alert]:
    """The alerts of a mailbox, oldest first."""
    return await _OF_MAILBOX.fetch(queryable, mailbox)


async def find_alert(queryable: Queryable, public_id: str, mailbox: str) -> Alert:
    """An alert of a mailbox.

    Raises:
        NotFound: it has none with this id.
    """
    alert = await _BY_ID.first(queryable, public_id) if public_id.isprintable() else None
    if alert is None or alert.mailbox != mailbox:
        raise NotFound("there is no alert with this id; list them to see their ids")
    return alert


async def set_state(tx: Transaction, alert: Alert, state: State, why: str | None, now: int) -> None:
    """Pause, resume or end an alert; it starts over when it is resumed."""
    await tx.execute(_SET_STATE, state, why, await _next_version(tx, now), alert.id)
    await tx.execute(_DELETE_STATES, alert.id)


async def delete_alerts(tx: Transaction, alerts: Sequence[Alert]) -> None:
    """Delete alerts with their states and messages."""
    for alert in alerts:
        for sql in (_DELETE, _DELETE_STATES, _DELETE_MESSAGES):
            await tx.execute(sql, alert.id)


async def forget_owner(tx: Transaction, mailbox: str) -> tuple[Forgotten, int, int]:
    """Delete all that is stored about a mailbox; returns also how many webhooks and alerts."""
    webhooks, alerts = await webhooks_of(tx, mailbox), await alerts_of(tx, mailbox)
    await delete_webhooks(tx, webhooks)
    await delete_alerts(tx, alerts)
    return await forget_mailbox(tx, mailbox), len(webhooks), len(alerts)


async def find_by_stop_token(queryable: Queryable, token: str) -> Alert | None:
    """The alert that a link stops."""
    return await _BY_TOKEN.first(queryable, token) if token.isprintable() else None


async def stop_by_token(tx: Transaction, token: str, now: int) -> Alert | None:
    """Pause the alert that a link stops; returns it as it was."""
    alert = await find_by_stop_token(tx, token)
    if alert is not None and alert.state == "active":
        await set_state(tx, alert, "paused", "stopped by the link in a message", now)
    return alert


async def active_alerts(queryable: Queryable) -> list[Alert]:
    """The alerts to judge: those that are active and whose owner has a valid key."""
    return [alert for alert in await _ACTIVE.fetch(queryable) if sentence_of(alert) != UNREADABLE]


@lru_cache(20_000)
def sentence_of(alert: Alert) -> str:
    """What an alert does, or `UNREADABLE`, which is logged once for each version of an alert."""
    try:
        assert alert.rule.measure in FROM_EVENTS or alert.rule.value is not None
        return sentence(alert.rule)
    except Exception:  # it must not stop the other alerts
        log.exception("alert not read", extra={"alert": alert.id})
        return UNREADABLE


async def rules_version(queryable: Queryable) -> tuple[int, ...]:
    """Changes whenever what `active_alerts` returns does; read from indexes alone."""
    [version] = await queryable.fetch(_VERSION)
    return version


async def stored_states(queryable: Queryable) -> list[StateRow]:
    """Every state."""
    return await _STATES.fetch(queryable)


async def record_alerts(
    tx: Transaction, states: Sequence[StateRow], messages: Sequence[NewMessage], now: int
) -> None:
    """Store what a reading changed; an alert that is not active any more gets no message."""
    if states:
        await tx.execute_many(_PUT_STATE, states)
    if not messages:
        return
    [(last,)] = await tx.fetch(_NEXT_MESSAGES, len(messages))
    rows = [
        (
            *(last - offset, message.alert, message.mailbox, message.fired.at, now),
            *(msgspec.json.encode(message.fired).decode(), token_urlsafe(16)),
        )
        for offset, message in enumerate(reversed(messages))
    ]
    await tx.execute_many(_ADD_MESSAGE, rows)
    await tx.execute(_DELETE_STOPPED, last - len(messages))


async def messages_of(queryable: Queryable, mailbox: str, limit: int) -> list[AlertMessage]:
    """The messages of a mailbox, newest first."""
    return await _MESSAGES.fetch(queryable, mailbox, limit)


async def messages_after(
    queryable: Queryable, mailbox: str, after: int, limit: int
) -> list[AlertMessage]:
    """The messages of a mailbox that follow one, oldest first."""
    return await _MESSAGES_AFTER.fetch(queryable, mailbox, after, limit)


async def find_message(queryable: Queryable, token: str) -> AlertMessage | None:
    """The message with a token."""
    return await _MESSAGE_BY_TOKEN.first(queryable, token) if token.isprintable() else None


async def new_messages(queryable: Queryable, after: int, limit: int) -> list[AlertMessage]:
    """The messages of all mailboxes that follow one, oldest first."""
    return await _NEW_MESSAGES.fetch(queryable, after, limit)


async def alert_of(queryable: Queryable, public_id: str) -> Alert | None:
    """An alert of any mailbox."""
    return await _BY_ID.first(queryable, public_id)


async def owner_of(
    queryable: Queryable, mailbox: str, up_to: int, since: int
) -> tuple[str | None, Counter[str]]:
    """The address, if the owner has a valid key, and how many messages each active alert sent."""
    emails = await queryable.fetch(_EMAIL, mailbox)
    counts = await queryable.fetch(_COUNTS, mailbox, up_to, since)
    return (emails[0][0] if emails else None), Counter(dict(counts))


async def pause_without_target(tx: Transaction, now: int) -> None:
    """Pause the alerts whose targets were all deleted or switched off."""
    for alert in await _WITHOUT_TARGET.fetch(tx):
        await set_state(tx, alert, "paused", "all its targets were deleted or switched off", now)


async def stop_mails(tx: Transaction, email: str, why: str, now: int) -> None:
    """Mail no more alerts to an address; pause those that have no other target that works."""
    for alert in await _MAILING.fetch(tx, email):
        if MAIL in alert.target_list:
            others = [target for target in alert.target_list if target != MAIL]
            webhooks = await webhooks_of(tx, alert.mailbox)
            goes_on = any(each.is_live and each.id in others for each in webhooks)
            if goes_on:
                await tx.execute(_SET_TARGETS, ",".join(others), alert.id)
            await set_state(tx, alert, "active" if goes_on else "paused", why, now)
    await tx.execute(_DELETE_MAILS, email)


async def last_fired(queryable: Queryable) -> dict[tuple[str, str], int]:
    """When each alert about events last fired, by coin."""
    rows = await queryable.fetch(_LAST_FIRED)
    return {(alert, symbol): at for alert, symbol, at in rows}


class Position(NamedTuple):
    """How far the collector got."""

    event: int = -1
    """The last event that was compared with the rules; below zero before the first."""

    mailed: int = 0
    """The last message that is in the outbox, if it has to be."""


async def position_of(queryable: Queryable) -> Position:
    """How far the collector got."""
    return await _POSITION.first(queryable) or Position()


async def save_position(tx: Transaction, position: Position) -> None:
    """Note how far the collector got."""
    await tx.execute(_SAVE_POSITION, *position)


async def forget_messages(tx: Transaction, now: int) -> None:
    """Delete old messages, and states that were stored while their alert was stopped."""
    await tx.execute(_FORGET, now - KEPT)
    await tx.execute(_FORGET_STATES)


async def _next_version(tx: Transaction, now: int) -> int:
    """Also larger than that of an alert that was deleted since."""
    [(last,)] = await tx.fetch("SELECT coalesce(max(version), 0) FROM alerts")
    return max(now, int(last) + 1)


_ALERTS, _ALL_MESSAGES = "SELECT {columns} FROM alerts", "SELECT {columns} FROM alert_messages"
_VERSION = """
SELECT (SELECT coalesce(max(version), 0) FROM alerts), (SELECT count(*) FROM alerts),
    (SELECT count(*) FROM api_keys), (SELECT count(*) FROM api_keys WHERE revoked_at IS NULL)
"""


def _alerts(conditions: str) -> Statement[Alert]:
    return Statement(Alert, f"{_ALERTS} {conditions}", rule_text="rule")


def _messages(conditions: str) -> Statement[AlertMessage]:
    return Statement(AlertMessage, f"{_ALL_MESSAGES} {conditions}")


_OF_MAILBOX = _alerts("WHERE mailbox = $1 ORDER BY created_at, id")
_BY_ID = _alerts("WHERE id = $1")
_BY_TOKEN = _alerts("WHERE stop_token = $1")
_ACTIVE = _alerts("""
WHERE state = 'active' AND mailbox IN (SELECT mailbox FROM api_keys WHERE revoked_at IS NULL)
ORDER BY id
""")
_ADD = """
INSERT INTO alerts (id, mailbox, rule, targets, state, why, created_at, version, stop_token)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_SET_STATE = "UPDATE alerts SET state = $1, why = $2, version = $3 WHERE id = $4"
_SET_TARGETS = "UPDATE alerts SET targets = $1 WHERE id = $2"
_DELETE = "DELETE FROM alerts WHERE id = $1"
_DELETE_STATES = "DELETE FROM alert_states WHERE alert = $1"
_DELETE_MESSAGES = "DELETE FROM alert_messages WHERE alert = $1"
_STATES = Statement(StateRow, "SELECT {columns} FROM alert_states")
_PUT_STATE = """
INSERT INTO alert_states (alert, symbol, venue, is_met, fired_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (alert, symbol, venue) DO UPDATE SET is_met = $4, fired_at = $5
"""
_NEXT_MESSAGES = """
INSERT INTO alert_position (id, message) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET message = alert_position.message + $1 RETURNING message
"""
_ADD_MESSAGE = """
INSERT INTO alert_messages (id, alert, mailbox, at, stored_at, body, token)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_DELETE_STOPPED = """
DELETE FROM alert_messages
WHERE id > $1 AND alert NOT IN (SELECT id FROM alerts WHERE state = 'active')
"""
_MESSAGES = _messages("WHERE mailbox = $1 ORDER BY id DESC LIMIT $2")
_MESSAGES_AFTER = _messages("WHERE mailbox = $1 AND id > $2 ORDER BY id LIMIT $3")
_MESSAGE_BY_TOKEN = _messages("WHERE token = $1")
_NEW_MESSAGES = _messages("WHERE id > $1 ORDER BY id LIMIT $2")
_EMAIL = "SELECT email FROM api_keys WHERE mailbox = $1 AND revoked_at IS NULL"
_COUNTS = """
SELECT alert, count(*) FROM alert_messages WHERE mailbox = $1 AND id <= $2 AND stored_at > $3
    AND alert IN (SELECT id FROM alerts WHERE mailbox = $1 AND state = 'active')
GROUP BY alert
"""
_WITHOUT_TARGET = _alerts("""
WHERE state = 'active' AND ',' || targets || ',' NOT LIKE '%,mail,%' AND NOT EXISTS (
    SELECT 1 FROM webhooks
    WHERE webhooks.mailbox = alerts.mailbox AND webhooks.state IN ('pending', 'active')
        AND ',' || targets || ',' LIKE '%,' || webhooks.id || ',%')
""")
_MAILING = _alerts("""
WHERE state = 'active' AND mailbox IN (SELECT mailbox FROM api_keys WHERE email = $1)
""")
_DELETE_MAILS = "DELETE FROM outbox WHERE recipient = $1 AND message IS NOT NULL"
_LAST_FIRED = "SELECT alert, symbol, fired_at FROM alert_states WHERE venue = ''"
_POSITION = Statement(Position, "SELECT {columns} FROM alert_position")
_SAVE_POSITION = """
INSERT INTO alert_position (id, message, event, mailed) VALUES (1, 0, $1, $2)
ON CONFLICT (id) DO UPDATE SET event = $1, mailed = $2
"""
_FORGET = "DELETE FROM alert_messages WHERE stored_at < $1"
_FORGET_STATES = """
DELETE FROM alert_states WHERE alert NOT IN (SELECT id FROM alerts WHERE state = 'active')
"""
