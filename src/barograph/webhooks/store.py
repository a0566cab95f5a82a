"""The tables of webhooks. Events are not queued: each endpoint has a position in their log."""

from collections.abc import Sequence
from secrets import token_hex

from barograph.errors import NotFound
from barograph.events.query import EventFilter
from barograph.keys.outbox import put_mail
from barograph.kit.database import Queryable, Statement, Transaction
from barograph.kit.timestamps import DAY, SECOND, iso_timestamp
from barograph.webhooks.records import (
    MAX_WEBHOOKS,
    Delivery,
    Format,
    State,
    TooManyWebhooks,
    Webhook,
)
from barograph.webhooks.signing import new_secret

KEPT_DELIVERIES = 100
"""Of each endpoint."""

SLOW_MS = SECOND
"""An endpoint whose last five answers took longer on average is slow."""

SUBJECT = "Your Barograph webhook was switched off"


async def add_webhook(
    tx: Transaction,
    mailbox: str,
    url: str,
    wanted: EventFilter,
    now: int,
    *,
    webhook_format: Format = "json",
) -> Webhook:
    """Store a new endpoint, to be challenged at once; a chat service can't answer a challenge.

    Raises:
        TooManyWebhooks: the mailbox has enough of them.
    """
    if len(await webhooks_of(tx, mailbox)) >= MAX_WEBHOOKS:
        raise TooManyWebhooks
    types, symbols = (",".join(sorted(names)) for names in (wanted.types, wanted.symbols))
    texts = (f"wh_{token_hex(8)}", mailbox, url, types, symbols, new_secret())
    state: State = "pending" if webhook_format == "json" else "active"
    await tx.execute(_ADD, *texts, state, now, webhook_format)
    return Webhook(
        *(*texts, state),
        created_at=now,
        delivered_up_to=0,
        next_try_at=now,
        format=webhook_format,
    )


async def webhooks_of(queryable: Queryable, mailbox: str) -> list[Webhook]:
    """The endpoints of a mailbox, oldest first."""
    return await _OF_MAILBOX.fetch(queryable, mailbox)


async def find_webhook(queryable: Queryable, public_id: str, mailbox: str | None = None) -> Webhook:
    """An endpoint of a mailbox, or of any for the operator; raises `NotFound` if there is none."""
    # No database stores a NUL character.
    webhook = await _BY_ID.first(queryable, public_id) if public_id.isprintable() else None
    if webhook is not None and mailbox in {None, webhook.mailbox}:
        return webhook
    raise NotFound("there is no webhook with this id; list them to see their ids")


async def rotate_secret(tx: Transaction, webhook: Webhook, now: int) -> str:
    """Give an endpoint a new secret; the one before it signs for another day.

    If that day is not over, the response may have been lost: the same old secret goes on.
    """
    secret = new_secret()
    await tx.execute(_ROTATE, secret, now + DAY, webhook.id, now)
    return secret


async def delete_webhooks(tx: Transaction, webhooks: Sequence[Webhook]) -> None:
    """Delete endpoints and their logs."""
    for webhook in webhooks:
        await tx.execute(_DELETE_LOG, webhook.id)
        await tx.execute(_DELETE, webhook.id)


async def all_webhooks(queryable: Queryable) -> list[Webhook]:
    """Every endpoint, oldest first."""
    return await _ALL.fetch(queryable)


async def due_webhooks(queryable: Queryable, now: int, limit: int) -> list[Webhook]:
    """The endpoints with something to send now, the quick ones first.

    Those of a revoked key wait for a new one, and those without a secret for a new secret.
    """
    last = await last_event(queryable)
    return await _DUE.fetch(queryable, now, last, limit, SLOW_MS)


async def last_event(queryable: Queryable) -> int:
    """The id of the newest event, or 0."""
    ((last,),) = await queryable.fetch("SELECT coalesce(max(id), 0) FROM events")
    return int(last)


async def save_webhook(tx: Transaction, before: Webhook, after: Webhook, now: int) -> bool:
    """Store a change, and mail the owner if it switched the endpoint off.

    Returns whether it was stored: not if the endpoint has been changed or deleted since.
    """
    stored = await tx.fetch(
        _SAVE,
        *(after.state, after.delivered_up_to, after.failures, after.failing_since),
        *(after.next_try_at, after.last_delivery_at, after.why, after.messages_up_to),
        *(before.id, before.state, before.delivered_up_to, before.failures),
    )
    if not stored:
        return False
    if after.state == "disabled":
        await _mail_owner(tx, after, now)
    return True


async def log_delivery(tx: Transaction, webhook: str, delivery: Delivery) -> None:
    """Append an attempt to the log of an endpoint, and drop the oldest."""
    ((last,),) = await tx.fetch(_LAST_NUMBER, webhook)
    await tx.execute(_LOG, webhook, last + 1, *delivery)
    await tx.execute(_FORGET, webhook, last + 1 - KEPT_DELIVERIES)


async def deliveries_of(queryable: Queryable, webhook: str) -> list[Delivery]:
    """The logged attempts of an endpoint, newest first."""
    return await _DELIVERIES.fetch(queryable, webhook)


async def _mail_owner(tx: Transaction, webhook: Webhook, now: int) -> None:
    since = now if webhook.failing_since is None else webhook.failing_since
    text = f"""\
We switched off your Barograph webhook {webhook.id}.

Host: {webhook.host}
Why: {webhook.why}
Since: {iso_timestamp(since)}

Nothing more is sent to it. To start again, delete it with DELETE /api/v1/webhooks/{webhook.id}
and register it with POST /api/v1/webhooks. The messages of alerts that it missed are on the page
/alerts, and the events in /api/v1/events?after={webhook.delivered_up_to}
"""
    if webhook.email is not None:
        await put_mail(tx, webhook.email, SUBJECT, text, now=now, give_up_at=now + DAY)


_TABLES = """
FROM webhooks LEFT JOIN (
    SELECT mailbox AS owner, email FROM api_keys WHERE revoked_at IS NULL
) AS valid_keys ON owner = mailbox
"""
_IS_SLOW = """
failures > 0 OR coalesce((
    SELECT avg(duration_ms) FROM (
        SELECT duration_ms FROM webhook_deliveries WHERE webhook = webhooks.id
        ORDER BY number DESC LIMIT 5
    ) AS newest
), 0) > CAST($4 AS BIGINT)
"""


def _webhooks(conditions: str, is_slow: str = "1 = 0") -> Statement[Webhook]:
    return Statement(Webhook, f"SELECT {{columns}} {_TABLES} {conditions}", is_slow=is_slow)


_OF_MAILBOX = _webhooks("WHERE mailbox = $1 ORDER BY created_at, id")
_BY_ID = _webhooks("WHERE id = $1")
_ALL = _webhooks("ORDER BY created_at, id")
_DUE = _webhooks(
    """
WHERE next_try_at <= $1 AND email IS NOT NULL AND secret <> ''
    AND (state = 'pending' OR state = 'active' AND (
        format = 'json' AND delivered_up_to < $2 OR messages_up_to < coalesce(
            (SELECT max(id) FROM alert_messages WHERE mailbox = webhooks.mailbox), 0)))
ORDER BY is_slow, next_try_at, id LIMIT $3
""",
    _IS_SLOW,
)
_ROTATE = """
UPDATE webhooks SET secret = $1,
    previous_until = CASE WHEN previous_until > $4 THEN previous_until ELSE $2 END,
    previous_secret = CASE WHEN previous_until > $4
        THEN previous_secret ELSE nullif(secret, '') END,
    why = CASE secret WHEN '' THEN NULL ELSE why END
WHERE id = $3
"""
_ADD = """
INSERT INTO webhooks
    (id, mailbox, url, types, symbols, secret, state, created_at, delivered_up_to, failures,
    next_try_at, format)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, $8, $9)
"""
_SAVE = """
UPDATE webhooks SET state = $1, delivered_up_to = $2, failures = $3, failing_since = $4,
    next_try_at = $5, last_delivery_at = $6, why = $7, messages_up_to = $8
WHERE id = $9 AND state = $10 AND delivered_up_to = $11 AND failures = $12 RETURNING id
"""
_DELETE = "DELETE FROM webhooks WHERE id = $1"
_DELETE_LOG = "DELETE FROM webhook_deliveries WHERE webhook = $1"
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM webhook_deliveries WHERE webhook = $1"
_LOG = """
INSERT INTO webhook_deliveries
    (webhook, number, message, event, at, attempt, status, failure, duration_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_FORGET = "DELETE FROM webhook_deliveries WHERE webhook = $1 AND number <= $2"
_DELIVERIES = Statement(
    Delivery, "SELECT {columns} FROM webhook_deliveries WHERE webhook = $1 ORDER BY number DESC"
)
