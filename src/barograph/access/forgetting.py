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

    What an allowance counted leaves its window within a day; it never held the address in the
    shared file.

    Raises:
        DatabaseUnavailable: nothing was deleted.
    """

    async def work(tx: Transaction) -> Forgotten:
        keys = await tx.fetch("DELETE FROM api_keys WHERE mailbox = $1 RETURNING id", mailbox)
        links = await tx.fetch(
            "DELETE FROM registrations WHERE mailbox = $1 RETURNING link_digest", mailbox
        )
        waiting = await tx.fetch("SELECT id, recipient FROM outbox")
        mails = [(mail,) for mail, recipient in waiting if _is_of(recipient, mailbox)]
        await tx.execute_many("DELETE FROM outbox WHERE id = $1", mails)
        return Forgotten(len(keys), len(links), len(mails))

    return await database.write(work)


def _is_of(recipient: str, mailbox: str) -> bool:
    try:
        return parse_address(recipient).mailbox == mailbox
    except InvalidRequest:
        return False
