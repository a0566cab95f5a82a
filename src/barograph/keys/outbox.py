"""Mails that are still to be sent, kept until they were.

A mail is stored in the transaction that gives the reason for it, and sent by the leader. It is sent
at least once: a crash between sending and forgetting makes it go out again, always with the same
`Message-ID`. Until it is sent the store holds its text.
"""

import logging
from secrets import token_hex
from typing import NamedTuple, Protocol

from barograph.errors import Forbidden, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import MINUTE, SECOND

log = logging.getLogger(__name__)

FIRST_PAUSE = 10 * SECOND
LONGEST_PAUSE = 15 * MINUTE
IN_FLIGHT = MINUTE
"""For so long nobody else tries a mail that is being sent: longer than any attempt lasts."""

BATCH = 20
"""At most this many mails are taken at a time."""


class Undeliverable(Forbidden):
    """The mail server will never take this mail; others may go through."""


class PutOff(UpstreamError):
    """The mail server does not take this mail now; others may go through."""

    kind = "put off"


class Mail(NamedTuple):
    """A mail in the outbox, in the order of the query's columns."""

    id: str
    recipient: str
    subject: str
    body: str
    attempts: int
    give_up_at: int


class MailSender(Protocol):
    """What is needed from a mail server."""

    async def send(self, mail: Mail) -> None:
        """Hand a mail over.

        Raises:
            Undeliverable: this mail is refused for good.
            PutOff: this mail is not taken now; others may be.
            UpstreamError: no mail is taken now; it may be later. No message holds an address.
        """


async def put_mail(
    tx: Transaction, recipient: str, subject: str, body: str, *, now: int, give_up_at: int
) -> None:
    """Have a mail sent, if the transaction is kept."""
    await tx.execute(_PUT, token_hex(16), recipient, subject, body, now, 0, now, give_up_at)


async def deliver_due(database: Database, lease: Lease, sender: MailSender, clock: Clock) -> int:
    """Send the mails whose time has come, one after the other; return how many went out.

    A server that does not answer, or asks us to slow down, ends the round: the other mails would
    fare no better. What it has against one mail does not.

    Raises:
        LeaseLost: another process sends them.
        DatabaseUnavailable: the outbox cannot be read or written.
    """
    sent = 0
    for mail in await _due(database, clock()):
        if not await _claim(database, lease, mail, clock()):
            continue
        try:
            await sender.send(mail)
        except UpstreamError as error:
            await _note_failure(database, mail, error, clock())
            if not isinstance(error, Undeliverable | PutOff):
                break
        else:
            await _forget(database, mail)
            sent += 1
    return sent


def pause_after(attempts: int) -> int:
    """How long to wait after that many attempts, in milliseconds."""
    doublings = min(attempts - 1, 16)  # a number of attempts may be large, a shift should not
    return min(LONGEST_PAUSE, FIRST_PAUSE << doublings)


async def _due(database: Database, now: int) -> list[Mail]:
    async def work(tx: Transaction) -> list[Mail]:
        return [Mail(*row) for row in await tx.fetch(_DUE, now, BATCH)]

    return await database.read(work)


async def _claim(database: Database, lease: Lease, mail: Mail, now: int) -> bool:
    """Count the attempt before it is made; tell whether the mail is still ours to send."""

    async def work(tx: Transaction) -> bool:
        await lease.fence(tx)
        return bool(await tx.fetch(_CLAIM, now + IN_FLIGHT, mail.id, mail.attempts))

    return await database.write(work)


async def _note_failure(database: Database, mail: Mail, error: UpstreamError, now: int) -> None:
    attempts = mail.attempts + 1
    fields = {"mail": mail.id, "attempts": attempts, "kind": error.kind, "why": str(error)}
    next_try_at = now + pause_after(attempts)
    if isinstance(error, Undeliverable) or next_try_at >= mail.give_up_at:
        log.warning("mail given up", extra=fields)
        await _forget(database, mail)
    else:
        log.warning("mail put off", extra=fields)
        await _put_off(database, mail, next_try_at)


async def _put_off(database: Database, mail: Mail, next_try_at: int) -> None:
    """Set the next attempt, unless another process made one meanwhile."""

    async def work(tx: Transaction) -> None:
        await tx.execute(_PUT_OFF, next_try_at, mail.id, mail.attempts + 1)

    await database.write(work)


async def _forget(database: Database, mail: Mail) -> None:
    """Take a mail out, also when the lease was lost meanwhile: what was done is done."""

    async def work(tx: Transaction) -> None:
        await tx.execute("DELETE FROM outbox WHERE id = $1", mail.id)

    await database.write(work)


_PUT = """
INSERT INTO outbox
    (id, recipient, subject, body, created_at, attempts, next_try_at, give_up_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_DUE = """
SELECT id, recipient, subject, body, attempts, give_up_at FROM outbox
WHERE next_try_at <= $1 ORDER BY next_try_at, id LIMIT $2
"""
_CLAIM = """
UPDATE outbox SET attempts = attempts + 1, next_try_at = $1
WHERE id = $2 AND attempts = $3 RETURNING id
"""
_PUT_OFF = "UPDATE outbox SET next_try_at = $1 WHERE id = $2 AND attempts = $3"
