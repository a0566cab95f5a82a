"""Leader election: a lease row with a fencing token that every write of the leader checks.

A frozen leader is replaced when its lease expires. When it wakes up, its token is old and its next
write fails, so two leaders never mix their writes.
"""

from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Row, Transaction
from barograph.kit.timestamps import SECOND

MAX_MILLISECONDS = 300_000
"""The longest possible lease."""


class Lease:
    """A claim to be the only leader, for as long as it is renewed.

    Every lease object needs its own `holder`, also within one process.
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
        self._expires_at = 0

    @property
    def is_held(self) -> bool:
        """Whether it is ours, and was renewed in time as far as we know."""
        return self._token is not None and self._clock() < self._expires_at

    async def acquire(self) -> bool:
        """Take the lease if it is free, and return whether it is ours now."""

        async def work(tx: Transaction) -> int | None:
            rows = await tx.fetch(_READ, self._name)
            now = self._clock()
            if not is_free(rows, now):
                return None
            token = rows[0][1] if rows else 0
            # At least the time: the history database outlives this one and must not mistake a
            # new or restored service database for an old leader.
            following = max(int(token) + 1, now // SECOND)
            self._expires_at = now + self._milliseconds
            await tx.execute(_TAKE, self._name, self._holder, following, self._expires_at)
            return following

        self._token = await self._database.write(work)
        return self._token is not None

    async def is_free(self) -> bool:
        """Whether nobody holds the lease; this takes and writes nothing."""
        return is_free(await self._database.fetch(_READ, self._name), self._clock())

    @property
    def token(self) -> int:
        """The number of this leadership; every later one is higher.

        Raises:
            LeaseLost: the lease is not held.
        """
        if self._token is None:
            raise LeaseLost("the lease is not held")
        return self._token

    async def renew(self) -> None:
        """Extend the lease by its full length.

        Raises:
            LeaseLost: another process has held it since, so our state may be out of date.
        """

        async def work(tx: Transaction) -> int:
            await self.fence(tx)
            expiry = self._clock() + self._milliseconds
            await tx.execute(_TAKE, self._name, self._holder, self._token, expiry)
            return expiry

        self._expires_at = await self._database.write(work)

    async def fence(self, queryable: Queryable) -> None:
        """Check that the lease is still ours; a write needs this check in its transaction.

        Raises:
            LeaseLost: another process took over, so the transaction is rolled back.
        """
        rows = await queryable.fetch(_READ, self._name)
        if not rows or rows[0][:2] != (self._holder, self._token):
            self._token = None
            raise LeaseLost(f"the lease '{self._name}' is held by another process")

    async def release(self) -> None:
        """Free the lease at once; the token stays, so that it is never reused.

        It also undoes an `acquire` whose caller was cancelled.
        """

        async def work(tx: Transaction) -> None:
            await tx.execute(_RELEASE, self._name, self._holder)

        await self._database.write(work)
        self._token = None


def is_free(rows: list[Row], now: int) -> bool:
    """Whether nobody holds the lease with this row."""
    holder, _, expires_at = rows[0] if rows else (None, 0, 0)
    # An expiry too far ahead was written by a clock that was wrong.
    return holder is None or not now < expires_at <= now + MAX_MILLISECONDS


_READ = "SELECT holder, token, expires_at FROM leases WHERE name = $1"
_TAKE = """
INSERT INTO leases (name, holder, token, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, expires_at = excluded.expires_at
"""
_RELEASE = "UPDATE leases SET holder = NULL, expires_at = 0 WHERE name = $1 AND holder = $2"
