"""Registration by e-mail: who can read a mailbox gets the key that belongs to it.

A request mails a link that works once, for a day. Opening the link only shows a page, because mail
scanners open every link; the key is made, and shown once, when its button is pressed.

Nothing here asks whether an address is known, so no answer can tell.
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
from barograph.kit.database import Database, Transaction
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
"""A link that arrived later than this would leave too little time to use it."""

ANSWER = (
    f"If this mailbox was sent fewer than {MAILBOX.requests} links in the last "
    f"{MAILBOX.window // HOUR} hours, one is on its way; open it within {LINK_HOURS} hours to get "
    "the key."
)
"""What everybody who asks is told: it is true of an address that is mailed nothing more, too."""

FORGET_ROWS = 2_000
"""At most this many rows go in one transaction, so that nobody waits for a clean-up."""

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class LinkNotUsable(RequestError):
    """A link that is unknown, too old or was used; the answer does not tell which."""

    status = 410

    def __init__(self) -> None:
        super().__init__(
            "this link was used already, is older than a day or never existed; ask for a new one"
        )


class Registrations:
    """Everybody who asked for a key and has not got it yet."""

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
            DatabaseUnavailable: nothing was stored and nothing will be mailed.
        """
        hashed = self._keys.digest(f"caller {caller}")
        token = token_urlsafe(TOKEN_BYTES)
        now = self._clock()

        async def admit(tx: Transaction) -> Usage:
            usage = await _usage(tx, REGISTRATIONS, _BY_CALLER, hashed, now)
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

        # Read first: a caller that is refused must not hold the write lock.
        await self._database.read(admit)
        return await self._database.write(work)

    async def peek(self, token: str) -> bool:
        """Whether a link can still be used; changes nothing.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """
        if _TOKEN.fullmatch(token) is None:
            return False

        async def work(tx: Transaction) -> bool:
            return bool(await tx.fetch(_PEEK, _digest(token), self._clock()))

        return await self._database.read(work)

    async def redeem(self, token: str) -> NewKey:
        """Use a link up and make the key; the mailbox's earlier key stops working.

        Raises:
            LinkNotUsable: there is no such link, or not any more.
            DatabaseUnavailable: no key was made and the link still works.
        """
        # Whoever tries out links must not keep those who write waiting.
        if not await self.peek(token):
            raise LinkNotUsable

        async def work(tx: Transaction) -> NewKey:
            rows = await tx.fetch(_REDEEM, self._clock(), _digest(token))
            if not rows:
                raise LinkNotUsable
            return await self._keys.issue(tx, Address(*rows[0]))

        return await self._database.write(work)


async def forget_registrations(tx: Transaction, now: int) -> None:
    """Drop links that ran out and mails that nobody sent in time, a bounded number at once."""
    await tx.execute(_FORGET_LINKS, now, FORGET_ROWS)
    await tx.execute(_FORGET_MAILS, now, FORGET_ROWS)


async def _usage(tx: Transaction, limit: RateLimit, sql: str, who: str, now: int) -> Usage:
    """What one more registration leaves of the limit of a caller or a mailbox."""
    _, requests, window = limit
    [(used, oldest)] = await tx.fetch(sql, who, now - window)
    remaining = requests - used - 1
    resets_in = window if oldest is None else oldest + window - now
    return Usage(limit, remaining >= 0, max(0, remaining), resets_in)


def _digest(token: str) -> str:
    """How a link is stored; with 256 random bits there is nothing to guess."""
    return sha256(token.encode()).hexdigest()


def _text(base_url: str, token: str) -> str:
    return f"""\
Somebody, probably you, asked for a free API key of Barograph.

Open this link within {LINK_HOURS} hours and press the button on its page:

{base_url}{LINK_FOLDER}/{token}

The key is shown once. If you had one before, the new one takes its place.

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
_PEEK = """
SELECT 1 FROM registrations WHERE link_digest = $1 AND used_at IS NULL AND expires_at > $2
"""
_REDEEM = """
UPDATE registrations SET used_at = $1
WHERE link_digest = $2 AND used_at IS NULL AND expires_at > $1 RETURNING email, mailbox
"""
_FORGET_LINKS = """
DELETE FROM registrations WHERE link_digest IN (
    SELECT link_digest FROM registrations WHERE expires_at <= $1 LIMIT $2)
"""
_FORGET_MAILS = """
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE give_up_at <= $1 LIMIT $2)
"""


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
