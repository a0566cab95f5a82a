"""Personal API keys, stored as HMACs under a secret pepper."""

import hmac
import re
from secrets import token_hex
from typing import NamedTuple

from barograph.keys.email_address import Address, parse_address
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Statement, Transaction
from barograph.kit.operating_system import load_or_create_secret
from barograph.settings import Settings

ID_BYTES = 8
SECRET_BYTES = 32
PEPPER_FILE = "key-pepper"
PEPPER_BYTES = 32

# Only this spelling: we don't look up a key that was cut, upper-cased or decorated.
_KEY = re.compile(rf"bg_([0-9a-f]{{{2 * ID_BYTES}}})_[0-9a-f]{{{2 * SECRET_BYTES}}}")


class NewKey(NamedTuple):
    """A new key; its text can't be shown a second time."""

    id: str
    key: str
    email: str


class KeyRecord(NamedTuple):
    """A stored key."""

    id: str
    email: str
    created_at: int
    revoked_at: int | None


class ApiKeys:
    """Every personal key. A method that raises DatabaseUnavailable changed nothing."""

    def __init__(self, database: Database, pepper: bytes, clock: Clock) -> None:
        self._database = database
        self._pepper = pepper
        self._clock = clock

    async def create(self, email: str) -> NewKey:
        """Make a key for an address; the mailbox's earlier key stops working.

        Raises:
            InvalidRequest: it isn't an address.
        """
        address = parse_address(email)
        return await self._database.write(lambda tx: self.issue(tx, address))

    async def issue(self, tx: Transaction, address: Address) -> NewKey:
        """Make a key as part of a larger transaction."""
        public_id = token_hex(ID_BYTES)
        new = NewKey(public_id, f"bg_{public_id}_{token_hex(SECRET_BYTES)}", address.email)
        now = self._clock()
        await tx.execute(_REVOKE_EARLIER, now, address.mailbox)
        await tx.execute(_ADD, new.id, self.digest(new.key), new.email, address.mailbox, now)
        return new

    async def verify(self, text: str) -> str | None:
        """The mailbox of a valid key, None for any other text.

        Rate limits count per mailbox, so a new key brings no new limit.
        """
        key = _KEY.fullmatch(text)
        if key is None:
            return None
        for stored, mailbox in await self._database.fetch(_VALID, key[1]):
            if hmac.compare_digest(stored, self.digest(text)):
                return str(mailbox)
        return None

    def session(self, key: str, until: int) -> str:
        """What stands for a key until a time, so that a browser need not keep the key."""
        name = f"{key.split('_')[1]}.{until}"
        return f"{name}.{self.digest(f'session {name}')}"

    async def session_owner(self, session: str) -> str | None:
        """The mailbox of a session whose key is still valid, None for any other text."""
        name, _, proof = session.rpartition(".")
        if not hmac.compare_digest(proof.encode(), self.digest(f"session {name}").encode()):
            return None
        public_id, until = name.split(".")
        rows = await self._database.fetch(_VALID, public_id) if self._clock() < int(until) else []
        return next((str(mailbox) for _, mailbox in rows), None)

    async def records(self) -> list[KeyRecord]:
        """Every key that was ever made, oldest first."""
        return await _RECORDS.fetch(self._database)

    async def revoke(self, public_id: str) -> bool:
        """Revoke a key; returns whether it was valid until now."""
        now = self._clock()
        return bool(await self._database.write(lambda tx: tx.fetch(_REVOKE, now, public_id)))

    def digest(self, text: str) -> str:
        """An HMAC under the instance's pepper."""
        return hmac.digest(self._pepper, text.encode(), "sha256").hex()


_ADD = """
INSERT INTO api_keys (id, digest, email, mailbox, created_at) VALUES ($1, $2, $3, $4, $5)
"""
_REVOKE_EARLIER = "UPDATE api_keys SET revoked_at = $1 WHERE mailbox = $2 AND revoked_at IS NULL"
_VALID = "SELECT digest, mailbox FROM api_keys WHERE id = $1 AND revoked_at IS NULL"
_RECORDS = Statement(KeyRecord, "SELECT {columns} FROM api_keys ORDER BY created_at, id")
_REVOKE = "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL RETURNING id"
_REVOKE_ALL = "UPDATE api_keys SET revoked_at = $1 WHERE revoked_at IS NULL RETURNING id"


async def revoke_all(tx: Transaction, now: int) -> int:
    """Revoke every key, and accept another pepper; returns how many were valid until now."""
    await tx.execute("DELETE FROM secret_fingerprints WHERE name = $1", PEPPER_FILE)
    return len(await tx.fetch(_REVOKE_ALL, now))


def load_pepper(settings: Settings, *, create: bool = True) -> bytes:
    """The pepper from the settings, or from a file that the first process creates.

    Raises:
        ConfigurationError: the file can't be read or created, or is damaged.
    """
    given = settings.key_pepper.get_secret_value()
    if given:
        return given.encode()
    return load_or_create_secret(
        settings.data / PEPPER_FILE,
        PEPPER_BYTES,
        setting="BAROGRAPH_KEY_PEPPER",
        loss="invalidates every API key",
        create=create,
    )
