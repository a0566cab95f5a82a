"""Everything that is kept of a mailbox, deleted at the wish of whoever it belongs to."""

from typing import NamedTuple

from barograph.access.mailboxes import parse_address
from barograph.errors import InvalidRequest
from barograph.kit.database import Database, Transaction


class Forgotten(NamedTuple):
    """How many rows of each kind are gone."""

    keys: int
    links: int
    mails: int


async def forget_mailbox(database: Database, mailbox: str) -> Forgotten:
    """Delete a mailbox's keys, also revoked ones, its links and the mails that wait for it.

    Rows are found by address, not by the stored mailbox: an older version may have stored several
    mailboxes for spellings that count as one now. Rate limits never contain the address.

    Raises:
        DatabaseUnavailable: nothing was deleted.
    """

    async def work(tx: Transaction) -> Forgotten:
        return Forgotten(*[await _forget(tx, mailbox, *each) for each in _TABLES])

    return await database.write(work)


async def _forget(tx: Transaction, mailbox: str, find: str, delete: str) -> int:
    rows = [(row,) for row, email in await tx.fetch(find) if _is_of(email, mailbox)]
    await tx.execute_many(delete, rows)
    return len(rows)


def _is_of(email: str, mailbox: str) -> bool:
    try:
        return parse_address(email).mailbox == mailbox
    except InvalidRequest:
        return False


_TABLES = (
    ("SELECT id, email FROM api_keys", "DELETE FROM api_keys WHERE id = $1"),
    (
        "SELECT link_digest, email FROM registrations",
        "DELETE FROM registrations WHERE link_digest = $1",
    ),
    ("SELECT id, recipient FROM outbox", "DELETE FROM outbox WHERE id = $1"),
)
