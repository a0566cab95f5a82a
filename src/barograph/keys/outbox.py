"""The outbox: mails that are not sent yet.

The transaction that causes a mail also stores it, and the leader sends it at least once. After a
crash between sending and deleting it goes out again, with the same `Message-ID`.
"""

import logging
from collections.abc import Callable, Coroutine
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

from barograph.errors import Forbidden, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Statement, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import MINUTE, SECOND

log = logging.getLogger(__name__)

FIRST_PAUSE = 10 * SECOND
LONGEST_PAUSE = 15 * MINUTE
IN_FLIGHT = MINUTE
"""How long no other process tries a mail that is being sent: longer than any attempt lasts."""

BATCH = 20
"""The most mails per round."""


class Undeliverable(Forbidden):
    """The mail server permanently refuses this mail; it may accept others."""


class RecipientRefused(Undeliverable):
    """The mail server permanently refuses any mail to this recipient."""


class Deferred(UpstreamError):
    """The mail server does not accept this mail now; it may accept others."""

    kind = "deferred"


class Mail(NamedTuple):
    """A mail in the outbox."""

    id: str
    recipient: str
    subject: str
    body: str
    attempts: int
    give_up_at: int
    created_at: int = 0
    stop_url: str | None = None
    """The link that stops what it is about."""

    message: int | None = None
    """The message of an alert that it is about."""

    picture: bytes | None = None
    """A PNG to attach."""


class AlertMails(NamedTuple):
    """What mails of alerts need in addition."""

    draw: Callable[[int], Coroutine[Any, Any, bytes | None]]
    """Draws the picture of a message."""

    refused: Callable[[Mail, Lease], Coroutine[Any, Any, None]]
    """Handles a mail whose recipient the mail server permanently refuses."""


class MailSender(Protocol):
    """A mail server."""

    async def send(self, mail: Mail) -> None:
        """Send a mail.

        Raises:
            Undeliverable: the server permanently refuses this mail; `RecipientRefused`: any mail.
            Deferred: the server does not accept this mail now.
            UpstreamError: the server accepts no mail now. No message contains an address.
        """


async def put_mail(
    tx: Transaction,
    recipient: str,
    subject: str,
    body: str,
    *,
    now: int,
    give_up_at: int,
    stop_url: str | None = None,
    message: int | None = None,
) -> None:
    """Store a mail, which is sent if the transaction is committed."""
    row = (token_hex(16), recipient, subject, body, now, 0, now, give_up_at, stop_url, message)
    await tx.execute(_PUT, *row)


async def deliver_due(
    database: Database,
    lease: Lease,
    sender: MailSender,
    clock: Clock,
    alerts: AlertMails | None = None,
) -> int:
    """Send the due mails one after the other; returns how many were sent.

    A server that does not answer, or asks us to slow down, ends the round. A refusal of one mail
    does not, but the later alerts of its recipient wait for it.

    Raises:
        LeaseLost: another process sends them.
        DatabaseUnavailable: the outbox is unavailable.
    """
    sent, held = 0, set()
    for mail in await _DUE.fetch(database, clock(), BATCH):
        if mail.recipient in held or not await _claim(database, lease, mail, clock()):
            continue
        try:
            await sender.send(await _pictured(mail, alerts))
        except UpstreamError as error:
            if mail.message is not None:
                held.add(mail.recipient)
                if alerts is not None and isinstance(error, RecipientRefused):
                    await alerts.refused(mail, lease)
            await _note_failure(database, mail, error, clock())
            if not isinstance(error, Undeliverable | Deferred):
                break
        else:
            await _delete(database, mail)
            sent += 1
    return sent


async def outbox_depth(database: Database) -> int:
    """How many mails wait to be sent."""
    ((count,),) = await database.fetch("SELECT count(*) FROM outbox")
    return int(count)


def pause_after(attempts: int) -> int:
    """The pause after that many attempts, in milliseconds."""
    doublings = min(attempts - 1, 16)  # attempts may be many, but a shift must not
    return min(LONGEST_PAUSE, FIRST_PAUSE << doublings)


async def _claim(database: Database, lease: Lease, mail: Mail, now: int) -> bool:
    """Count the attempt before it is made; false if another process has made one."""

    async def work(tx: Transaction) -> bool:
        await lease.fence(tx)
        return bool(await tx.fetch(_CLAIM, now + IN_FLIGHT, mail.id, mail.attempts))

    return await database.write(work)


async def _pictured(mail: Mail, alerts: AlertMails | None) -> Mail:
    if alerts is None or mail.message is None:
        return mail
    return mail._replace(picture=await alerts.draw(mail.message))


async def _note_failure(database: Database, mail: Mail, error: UpstreamError, now: int) -> None:
    attempts = mail.attempts + 1
    fields = {"mail": mail.id, "attempts": attempts, "kind": error.kind, "why": str(error)}
    next_try_at = now + pause_after(attempts)
    if isinstance(error, Undeliverable) or next_try_at >= mail.give_up_at:
        log.warning("mail given up", extra=fields)
        await _delete(database, mail)
    else:
        log.warning("mail deferred", extra=fields)
        # Unless another process has made an attempt meanwhile.
        await database.write(lambda tx: tx.execute(_DEFER, next_try_at, mail.id, attempts))


async def _delete(database: Database, mail: Mail) -> None:
    """Delete a mail even without the lease, because it was sent or refused."""
    await database.write(lambda tx: tx.execute("DELETE FROM outbox WHERE id = $1", mail.id))


_PUT = """
INSERT INTO outbox
    (id, recipient, subject, body, created_at, attempts, next_try_at, give_up_at, stop_url, message)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
_DUE = Statement(
    Mail,
    """
SELECT {columns} FROM outbox WHERE next_try_at <= $1 AND (message IS NULL OR recipient NOT IN (
    SELECT recipient FROM outbox WHERE next_try_at > $1 AND attempts > 0 AND message IS NOT NULL))
ORDER BY coalesce(message, 0), created_at, id LIMIT $2
""",
    picture="NULL",
)
"""Alerts keep their order, even if one of them has to be sent again."""

_CLAIM = """
UPDATE outbox SET attempts = attempts + 1, next_try_at = $1
WHERE id = $2 AND attempts = $3 RETURNING id
"""
_DEFER = "UPDATE outbox SET next_try_at = $1 WHERE id = $2 AND attempts = $3"
