"""Registration for a personal key by e-mail.

A request mails a link that works once, for a day. Opening the link only shows a page, because mail
scanners open every link. Pressing the button there makes the key and shows it once.

Nothing here looks up whether an address is known, so no response can reveal it.
"""

import re
from hashlib import sha256
from secrets import token_urlsafe
from typing import NamedTuple

from barograph.errors import InvalidRequest, RequestError
from barograph.keys.api_keys import ApiKeys, NewKey
from barograph.keys.email_address import Address, parse_address
from barograph.keys.outbox import put_mail
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Statement, Transaction
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import (
    MAILBOX,
    REGISTRATIONS,
    RateLimit,
    TooManyRequests,
    Usage,
)

LINK_FOLDER = "/keys"
LINK_HOURS = 24
MAIL_HOURS = 12
"""How long we try to send the link; a later one would leave too little time to use it."""

ANSWER = (
    f"If this mailbox was sent fewer than {MAILBOX.requests} links in the last "
    f"{MAILBOX.window // HOUR} hours, one is on its way; open it within {LINK_HOURS} hours to get "
    "the key."
)
"""The response to every request, true also for an address that gets no more mails."""

FORGET_ROWS = 2_000
"""The most rows that one transaction deletes, so that a clean-up blocks no request for long."""

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class LinkNotUsable(RequestError):
    """The link is unknown, too old or was used; the response does not reveal which."""

    status = 410
    text = "this link was already used, is older than a day or never existed; ask for a new one"


class Registrations:
    """Requests for a key. A method that raises DatabaseUnavailable changed nothing."""

    def __init__(self, database: Database, keys: ApiKeys, *, base_url: str, clock: Clock) -> None:
        self._database = database
        self._keys = keys
        self.base_url = base_url
        self._clock = clock

    async def request(self, address: Address, caller: str) -> Usage:
        """Mail a link to an address, unless its mailbox received enough of them today.

        The transaction that stores the registration also counts both limits, so a failed write
        uses up neither. A registration that sends no mail is stored too, so that the response time
        reveals nothing about the mailbox.

        Raises:
            TooManyRequests: the caller's limit is used up.
        """
        hashed = self._keys.digest(f"caller {caller}")
        token = token_urlsafe(TOKEN_BYTES)
        now = self._clock()

        async def admit(queryable: Queryable) -> Usage:
            usage = await _usage(queryable, REGISTRATIONS, _BY_CALLER, hashed, now)
            if not usage.accepted:
                raise TooManyRequests(usage)
            return usage

        async def work(tx: Transaction) -> Usage:
            usage = await admit(tx)
            mailed = (await _usage(tx, MAILBOX, _BY_MAILBOX, address.mailbox, now)).accepted
            row = (_digest(token), *address, now, now + LINK_HOURS * HOUR, hashed, int(mailed))
            await tx.execute(_REGISTER, *row)
            if mailed:
                text = _text(self.base_url, token)
                give_up_at = now + MAIL_HOURS * HOUR
                await put_mail(tx, address.email, SUBJECT, text, now=now, give_up_at=give_up_at)
            return usage

        # Read first, so that a refused caller does not take the write lock.
        await admit(self._database)
        return await self._database.write(work)

    async def is_usable(self, token: str) -> bool:
        """Whether a link can still be used."""
        if _TOKEN.fullmatch(token) is None:
            return False
        values = (_digest(token), self._clock())
        return bool(await self._database.fetch(_USABLE, *values))

    async def redeem(self, token: str) -> NewKey:
        """Use up a link and make the key; the mailbox's earlier key stops working.

        Raises:
            LinkNotUsable: the link can't be used, or not any more.
        """
        # Read first, so that guessed links do not take the write lock.
        if not await self.is_usable(token):
            raise LinkNotUsable

        async def work(tx: Transaction) -> NewKey:
            address = await _REDEEM.first(tx, self._clock(), _digest(token))
            if address is None:
                raise LinkNotUsable
            return await self._keys.issue(tx, address)

        return await self._database.write(work)


async def forget_registrations(tx: Transaction, now: int) -> None:
    """Delete expired links and unsent mails, a bounded number at once."""
    await tx.execute(_FORGET_LINKS, now, FORGET_ROWS)
    await tx.execute(_FORGET_MAILS, now, FORGET_ROWS)


async def _usage(queryable: Queryable, limit: RateLimit, sql: str, who: str, now: int) -> Usage:
    """What one more registration leaves of the limit of a caller or a mailbox."""
    _, requests, window = limit
    [(used, oldest)] = await queryable.fetch(sql, who, now - window)
    remaining = requests - used - 1
    resets_in = window if oldest is None else oldest + window - now
    return Usage(limit, remaining >= 0, max(0, remaining), resets_in)


def _digest(token: str) -> str:
    """The stored form of a link; 256 random bits need no salt."""
    return sha256(token.encode()).hexdigest()


def _text(base_url: str, token: str) -> str:
    return f"""\
Someone, probably you, asked for a free Barograph API key.

Open this link within {LINK_HOURS} hours and press the button on its page:

{base_url}{LINK_FOLDER}/{token}

The key is shown once. It replaces any earlier key of yours.

If you did not ask for a key, ignore this mail: nothing happens without the link.
"""


SUBJECT = "Your Barograph API key"

_REGISTER = """
INSERT INTO registrations
    (link_digest, email, mailbox, created_at, expires_at, caller, mailed)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_BY_CALLER = """
SELECT COUNT(*), MIN(created_at) FROM registrations WHERE caller = $1 AND created_at > $2
"""
_BY_MAILBOX = """
SELECT COUNT(*), MIN(created_at) FROM registrations
WHERE mailbox = $1 AND created_at > $2 AND mailed = 1
"""
_USABLE = """
SELECT 1 FROM registrations WHERE link_digest = $1 AND used_at IS NULL AND expires_at > $2
"""
_REDEEM = Statement(
    Address,
    """
UPDATE registrations SET used_at = $1
WHERE link_digest = $2 AND used_at IS NULL AND expires_at > $1 RETURNING {columns}
""",
)
_FORGET_LINKS = """
DELETE FROM registrations WHERE link_digest IN (
    SELECT link_digest FROM registrations WHERE expires_at <= $1 LIMIT $2)
"""
_FORGET_MAILS = """
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE give_up_at <= $1 LIMIT $2)
"""


class Forgotten(NamedTuple):
    """How many rows of each kind were deleted."""

    keys: int
    links: int
    mails: int


async def forget_mailbox(tx: Transaction, mailbox: str) -> Forgotten:
    """Delete a mailbox's keys, also revoked ones, its links and its unsent mails.

    Rate limits never contain the address.
    """
    keys, links = [len(await tx.fetch(sql, mailbox)) for sql in (_KEYS, _LINKS)]
    mails = [(row,) for row, to in await tx.fetch(_WAITING) if _is_of(to, mailbox)]
    await tx.execute_many(_MAIL, mails)
    return Forgotten(keys, links, len(mails))


def _is_of(email: str, mailbox: str) -> bool:
    try:
        return parse_address(email).mailbox == mailbox
    except InvalidRequest:
        return False


_KEYS = "DELETE FROM api_keys WHERE mailbox = $1 RETURNING id"
_LINKS = "DELETE FROM registrations WHERE mailbox = $1 RETURNING link_digest"
_WAITING = "SELECT id, recipient FROM outbox"
_MAIL = "DELETE FROM outbox WHERE id = $1"
