"""One leader among many: a lease row with a token that every write of the leader checks.

A holder that froze is replaced when its lease runs out. When it wakes up its token is old, so
its next write fails instead of mixing two leaders' work, which no lock that the frozen process
still holds could promise.
"""

from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import SECOND

MAX_MILLISECONDS = 300_000
"""No lease lasts longer."""


class Lease:
    """A claim to be the only one that does something, for as long as it is renewed.

    `holder` must be unlike that of any other lease object, also in the same process.
    """

    def __init__(
        self, database: Database, name: str, holder: str, *, clock: Clock, milliseconds: int
    ) -> None:
        self._database = database
        self._name = name
        self._holder = holder
        self._clock = clock
        self._milliseconds = milliseconds
        self._token: int | None = None

    async def acquire(self) -> bool:
        """Take the lease if nobody holds it; tell whether it is ours now."""

        async def work(tx: Transaction) -> int | None:
            rows = await tx.fetch(_READ, self._name)
            now = self._clock()
            holder, token, expires_at = rows[0] if rows else (None, 0, 0)
            # One that lasts impossibly long was written by a clock that ran ahead.
            if holder is not None and now < expires_at <= now + MAX_MILLISECONDS:
                return None
            # Never behind the time: who checks tokens elsewhere, in a database that lives longer
            # than this one, must not take a new beginning or a restored copy for an old leader.
            following = max(int(token) + 1, now // SECOND)
            await tx.execute(_TAKE, self._name, self._holder, following, now + self._milliseconds)
            return following

        self._token = await self._database.write(work)
        return self._token is not None

    @property
    def token(self) -> int:
        """The number of this leadership; a later one has a higher.

        Raises:
            LeaseLost: the lease was never taken, or was released.
        """
        if self._token is None:
            raise LeaseLost("the lease is not held")
        return self._token

    async def renew(self) -> None:
        """Make the lease last again for its whole span.

        Raises:
            LeaseLost: somebody else has held it since, even if nobody does now: what this holder
                remembers may be out of date.
        """

        async def work(tx: Transaction) -> None:
            await self.fence(tx)
            expiry = self._clock() + self._milliseconds
            await tx.execute(_TAKE, self._name, self._holder, self._token, expiry)

        await self._database.write(work)

    async def fence(self, tx: Transaction) -> None:
        """Let the transaction go on only while the lease is ours.

        Raises:
            LeaseLost: another holder took over, so the transaction is rolled back.
        """
        rows = await tx.fetch(_READ, self._name)
        if not rows or rows[0][:2] != (self._holder, self._token):
            self._token = None
            raise LeaseLost(f"the lease '{self._name}' is held by another process")

    async def release(self) -> None:
        """Let the next holder in at once; the token stays so that it can never come again.

        Goes by the holder, so that it also undoes an `acquire` whose caller was cancelled.
        """

        async def work(tx: Transaction) -> None:
            await tx.execute(_RELEASE, self._name, self._holder)

        await self._database.write(work)
        self._token = None


_READ = "SELECT holder, token, expires_at FROM leases WHERE name = $1"
_TAKE = """
INSERT INTO leases (name, holder, token, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, expires_at = excluded.expires_at
"""
_RELEASE = "UPDATE leases SET holder = NULL, expires_at = 0 WHERE name = $1 AND holder = $2"
