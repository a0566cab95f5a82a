"""The secret that API keys are stored under: a setting, or a file that is made once."""

import hmac
import re
from secrets import token_hex
from typing import NamedTuple

from barograph.errors import ConfigurationError
from barograph.keys.email_address import Address, parse_address
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Row, Transaction
from barograph.kit.operating_system import load_or_create_secret
from barograph.settings import Settings

ID_BYTES = 8
SECRET_BYTES = 32

# Only this spelling: a key that was cut, upper-cased or decorated is not asked the database for.
_KEY = re.compile(rf"bg_([0-9a-f]{{{2 * ID_BYTES}}})_[0-9a-f]{{{2 * SECRET_BYTES}}}")


class NewKey(NamedTuple):
    """A key that was just made; nobody can show its text a second time."""

    id: str
    key: str
    email: str


class KeyRecord(NamedTuple):
    """What is known of a key, in the order of the query's columns."""

    id: str
    email: str
    created_at: int
    revoked_at: int | None


class ApiKeys:
    """Every personal key of this instance."""

    def __init__(self, database: Database, pepper: bytes, clock: Clock) -> None:
        self._database = database
        self._pepper = pepper
        self._clock = clock

    async def create(self, email: str) -> NewKey:
        """Make a key for an address; the mailbox's earlier key stops working.

        Raises:
            InvalidRequest: that is no address.
            DatabaseUnavailable: no key was made.
        """
        address = parse_address(email)

        async def work(tx: Transaction) -> NewKey:
            return await self.issue(tx, address)

        return await self._database.write(work)

    async def issue(self, tx: Transaction, address: Address) -> NewKey:
        """Make a key as a part of a larger transaction."""
        public_id = token_hex(ID_BYTES)
        new = NewKey(public_id, f"bg_{public_id}_{token_hex(SECRET_BYTES)}", address.email)
        now = self._clock()
        await tx.execute(_REVOKE_EARLIER, now, address.mailbox)
        await tx.execute(_ADD, new.id, self.digest(new.key), new.email, address.mailbox, now)
        return new

    async def verify(self, text: str) -> str | None:
        """The mailbox that a key that works belongs to, or None for everything else.

        The mailbox is what an allowance is charged to: a new key brings no new one.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """
        found = _KEY.fullmatch(text)
        if found is None:
            return None

        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(_WORKING, found[1])

        for stored, mailbox in await self._database.read(work):
            if hmac.compare_digest(stored, self.digest(text)):
                return str(mailbox)
        return None

    async def records(self) -> list[KeyRecord]:
        """Every key that was ever made, the oldest first."""

        async def work(tx: Transaction) -> list[KeyRecord]:
            return [KeyRecord(*row) for row in await tx.fetch(_RECORDS)]

        return await self._database.read(work)

    async def revoke(self, public_id: str) -> bool:
        """Make a key stop working; tell whether it did work until now."""

        async def work(tx: Transaction) -> bool:
            return bool(await tx.fetch(_REVOKE, self._clock(), public_id))

        return await self._database.write(work)

    def digest(self, text: str) -> str:
        """An HMAC under the instance's pepper."""
        return hmac.digest(self._pepper, text.encode(), "sha256").hex()


_ADD = """
INSERT INTO api_keys (id, digest, email, mailbox, created_at) VALUES ($1, $2, $3, $4, $5)
"""
_REVOKE_EARLIER = "UPDATE api_keys SET revoked_at = $1 WHERE mailbox = $2 AND revoked_at IS NULL"
_WORKING = "SELECT digest, mailbox FROM api_keys WHERE id = $1 AND revoked_at IS NULL"
_RECORDS = "SELECT id, email, created_at, revoked_at FROM api_keys ORDER BY created_at, id"
_REVOKE = "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL RETURNING id"


FILE_NAME = "key-pepper"
SIZE = 32


def load_pepper(settings: Settings) -> bytes:
    """The pepper of this instance; every process gets the same, also when all start at once.

    Raises:
        ConfigurationError: its file cannot be read or made, or holds something else.
    """
    given = settings.key_pepper.get_secret_value()
    if given:
        return given.encode()
    file = settings.data / FILE_NAME
    try:
        pepper = load_or_create_secret(file, SIZE)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make {settings.data} a folder that can be "
            "written, or set BAROGRAPH_KEY_PEPPER"
        ) from error
    if len(pepper) != SIZE:
        raise ConfigurationError(
            f"{file} is damaged: put back the file of {SIZE} bytes, or delete it, after which "
            "every API key stops working"
        )
    return pepper
