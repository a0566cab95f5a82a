"""The key that signs checkpoints: a setting, or a file that is made once."""

import logging
from base64 import b64decode
from binascii import Error as NotBase64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import LogName
from barograph.history.ledger import RecordDamaged
from barograph.history.merkle import EMPTY_ROOT, Head
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.operating_system import load_or_create_secret
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import Settings

FILE_NAME = "history-key"
SIZE = 32


def load_history_key(settings: Settings) -> Ed25519PrivateKey:
    """The key of this instance; every process gets the same, also when all start at once.

    Raises:
        ConfigurationError: the setting or its file is not such a key, or no file can be made.
    """
    given = settings.history_key.get_secret_value()
    return Ed25519PrivateKey.from_private_bytes(_decode(given) if given else _kept(settings))


def _decode(given: str) -> bytes:
    try:
        secret = b64decode(given, validate=True)
    except (NotBase64, ValueError):
        secret = b""
    if len(secret) != SIZE:  # without the cause, which may hold part of the secret
        raise ConfigurationError(f"BAROGRAPH_HISTORY_KEY must be {SIZE} bytes in base64") from None
    return secret


def _kept(settings: Settings) -> bytes:
    file = settings.data / FILE_NAME
    try:
        secret = load_or_create_secret(file, SIZE)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make {settings.data} a folder that can be "
            "written, or set BAROGRAPH_HISTORY_KEY"
        ) from error
    if len(secret) != SIZE:
        raise ConfigurationError(
            f"{file} is damaged: put back the file of {SIZE} bytes, or delete it, after which "
            "checkpoints are signed by a new key that nobody knows yet"
        )
    return secret


logger = logging.getLogger(__name__)

CONTRADICTED = "the history contradicts what was recorded or signed before; nothing has been signed"
UNAVAILABLE = "the history cannot be read or signed"


class SignedHeads:
    """What all processes signed, and whether this one can sign now."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.failure: str | None = None
        """Why no checkpoint can be signed, and since when; safe to publish."""

    async def last(self, kind: str, log: LogName) -> Head:
        """The last signed head; the head of the empty list if nothing was signed yet.

        Raises:
            DatabaseUnavailable: the service's database cannot be read.
        """

        async def work(tx: Transaction) -> Head:
            return await _last(tx, kind, log)

        return await self._database.read(work)

    async def advance(self, kind: str, log: LogName, last: Head, head: Head) -> bool:
        """Store a head, before it is signed, as the successor of `last`.

        Returns whether it is the newest now; otherwise another process was faster.

        Raises:
            DatabaseUnavailable: nothing was stored, so nothing may be signed.
        """

        async def work(tx: Transaction) -> bool:
            values = (kind, log, head.size, head.root.hex(), last.size, last.root.hex())
            await tx.execute(_ADVANCE, *values)
            return await _last(tx, kind, log) == head

        return await self._database.write(work)

    def worked(self) -> None:
        """Record that every checkpoint could be signed."""
        if self.failure is not None:
            logger.warning("checkpoints are signed again")
        self.failure = None

    def failed(self, error: DatabaseUnavailable) -> None:
        """Record that one could not be signed; each change of state is logged once."""
        is_damaged = isinstance(error, RecordDamaged)
        why = CONTRADICTED if is_damaged else UNAVAILABLE
        if self.failure is None or not self.failure.startswith(why):
            self.failure = f"{why} since {iso_timestamp(self._clock())}"
            level = logging.CRITICAL if is_damaged else logging.WARNING
            logger.log(level, "checkpoints are not signed", extra={"reason": str(error)})


async def _last(tx: Transaction, kind: str, log: LogName) -> Head:
    rows = await tx.fetch(_LAST, kind, log)
    return Head(rows[0][0], bytes.fromhex(rows[0][1])) if rows else Head(0, EMPTY_ROOT)


_LAST = "SELECT size, root FROM signed_heads WHERE kind = $1 AND log = $2"
_ADVANCE = """
INSERT INTO signed_heads (kind, log, size, root) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, log) DO UPDATE SET size = excluded.size, root = excluded.root
WHERE signed_heads.size = $5 AND signed_heads.root = $6
"""
