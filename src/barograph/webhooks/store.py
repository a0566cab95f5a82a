"""The tables of webhooks. Events are not queued: each endpoint has a position in their log."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from secrets import token_hex

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import NotFound
from barograph.events.query import EventFilter
from barograph.keys.outbox import put_mail
from barograph.kit.database import Database, Queryable, Transaction
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.webhooks.records import MAX_WEBHOOKS, Delivery, TooManyWebhooks, Webhook
from barograph.webhooks.signing import new_secret

KEPT_DELIVERIES = 100
"""Of each endpoint."""

SUBJECT = "Your Barograph webhook was switched off"


async def signing_key(database: Database) -> Ed25519PrivateKey:
    """The instance's key for `v1a`; the first caller creates it."""
    rows = await database.fetch(_KEY)
    if not rows:
        fresh = b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
        await database.write(lambda tx: tx.execute(_ADD_KEY, fresh))
        rows = await database.fetch(_KEY)
    return Ed25519PrivateKey.from_private_bytes(b64decode(str(rows[0][0])))


async def add_webhook(
    tx: Transaction, mailbox: str, url: str, wanted: EventFilter, now: int
) -> Webhook:
    """Store a new endpoint, to be challenged at once.

    Raises:
        TooManyWebhooks: the mailbox has enough of them.
    """
    if len(await webhooks_of(tx, mailbox)) >= MAX_WEBHOOKS:
        raise TooManyWebhooks
    types, symbols = (",".join(sorted(each)) for each in (wanted.types, wanted.symbols))
    new = Webhook(
        *(f"wh_{token_hex(8)}", mailbox, url, types, symbols, new_secret()),
        state="pending",
        created_at=now,
        delivered_up_to=0,
        next_try_at=now,
    )
    await tx.execute(_ADD, *new[:-1])
    return new


async def webhooks_of(queryable: Queryable, mailbox: str) -> list[Webhook]:
    """The endpoints of a mailbox, oldest first."""
    return [Webhook(*row) for row in await queryable.fetch(_OF_MAILBOX, mailbox)]


async def find_webhook(queryable: Queryable, public_id: str, mailbox: str | None = None) -> Webhook:
    """An endpoint of a mailbox, or of any for the operator.

    Raises:
        NotFound: there is none.
    """
    # No database stores a NUL character.
    for row in await queryable.fetch(_BY_ID, public_id) if public_id.isprintable() else ():
        found = Webhook(*row)
        if mailbox in {None, found.mailbox}:
            return found
    raise NotFound("there is no webhook with this id; list them to see their ids")


async def delete_webhooks(tx: Transaction, found: Sequence[Webhook]) -> None:
    """Delete endpoints and their logs."""
    for each in found:
        await tx.execute(_DELETE_LOG, each.id)
        await tx.execute(_DELETE, each.id)


async def all_webhooks(queryable: Queryable) -> list[Webhook]:
    """Every endpoint, oldest first."""
    return [Webhook(*row) for row in await queryable.fetch(_ALL)]


async def due_webhooks(queryable: Queryable, now: int, limit: int) -> list[Webhook]:
    """The endpoints with something to send now, those that don't fail first.

    Those of a revoked key wait for a new one.
    """
    last = await last_event(queryable)
    return [Webhook(*row) for row in await queryable.fetch(_DUE, now, last, limit)]


async def last_event(queryable: Queryable) -> int:
    """The id of the newest event, or 0."""
    ((last,),) = await queryable.fetch("SELECT coalesce(max(id), 0) FROM events")
    return int(last)


async def save_webhook(tx: Transaction, before: Webhook, after: Webhook, now: int) -> bool:
    """Store a change, and mail the owner if it switched the endpoint off.

    Returns whether it was stored: not if the endpoint has been changed or deleted since.
    """
    changed = (after.state, *after[8:-1])
    unchanged = (before.id, before.state, before.delivered_up_to, before.failures)
    if not await tx.fetch(_SAVE, *changed, *unchanged):
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
    return [Delivery(*row) for row in await queryable.fetch(_DELIVERIES, webhook)]


async def _mail_owner(tx: Transaction, webhook: Webhook, now: int) -> None:
    since = now if webhook.failing_since is None else webhook.failing_since
    text = f"""\
We switched off your Barograph webhook {webhook.id}.

Host: {webhook.host}
Why: {webhook.why}
Since: {iso_timestamp(since)}

Nothing more is sent to it. To start again, delete it with DELETE /api/v1/webhooks/{webhook.id}
and register it with POST /api/v1/webhooks. The events that it missed are in
/api/v1/events?after={webhook.delivered_up_to}
"""
    if webhook.email is not None:
        await put_mail(tx, webhook.email, SUBJECT, text, now=now, give_up_at=now + DAY)


_SELECT = """
SELECT w.id, w.mailbox, w.url, w.types, w.symbols, w.secret, w.state, w.created_at,
    w.delivered_up_to, w.failures, w.failing_since, w.next_try_at, w.last_delivery_at, w.why,
    k.email
FROM webhooks w LEFT JOIN api_keys k ON k.mailbox = w.mailbox AND k.revoked_at IS NULL
"""
_OF_MAILBOX = _SELECT + "WHERE w.mailbox = $1 ORDER BY w.created_at, w.id"
_BY_ID = _SELECT + "WHERE w.id = $1"
_ALL = _SELECT + "ORDER BY w.created_at, w.id"
_DUE = (
    _SELECT
    + """
WHERE w.next_try_at <= $1 AND k.email IS NOT NULL
    AND (w.state = 'pending' OR w.state = 'active' AND w.delivered_up_to < $2)
ORDER BY w.failures > 0, w.next_try_at, w.id LIMIT $3
"""
)
_KEY = "SELECT private_key FROM webhook_keys"
_ADD_KEY = "INSERT INTO webhook_keys (id, private_key) VALUES (1, $1) ON CONFLICT DO NOTHING"
_ADD = """
INSERT INTO webhooks
    (id, mailbox, url, types, symbols, secret, state, created_at, delivered_up_to, failures,
    failing_since, next_try_at, last_delivery_at, why)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
"""
_SAVE = """
UPDATE webhooks SET state = $1, delivered_up_to = $2, failures = $3, failing_since = $4,
    next_try_at = $5, last_delivery_at = $6, why = $7
WHERE id = $8 AND state = $9 AND delivered_up_to = $10 AND failures = $11 RETURNING id
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
_DELIVERIES = """
SELECT message, event, at, attempt, status, failure, duration_ms FROM webhook_deliveries
WHERE webhook = $1 ORDER BY number DESC
"""
