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

    Rate limits never contain the address.

    Raises:
        DatabaseUnavailable: nothing was deleted.
    """

    async def work(tx: Transaction) -> Forgotten:
        keys, links = [len(await tx.fetch(sql, mailbox)) for sql in (_KEYS, _LINKS)]
        mails = [(row,) for row, to in await tx.fetch(_WAITING) if _is_of(to, mailbox)]
        await tx.execute_many(_MAIL, mails)
        return Forgotten(keys, links, len(mails))

    return await database.write(work)


def _is_of(email: str, mailbox: str) -> bool:
    try:
        return parse_address(email).mailbox == mailbox
    except InvalidRequest:
        return False


_KEYS = "DELETE FROM api_keys WHERE mailbox = $1 RETURNING id"
_LINKS = "DELETE FROM registrations WHERE mailbox = $1 RETURNING link_digest"
_WAITING = "SELECT id, recipient FROM outbox"
_MAIL = "DELETE FROM outbox WHERE id = $1"
