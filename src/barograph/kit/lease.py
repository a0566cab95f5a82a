"""Leader election: a lease row with a fencing token that every write of the leader checks.

A frozen leader is replaced when its lease expires. When it wakes up, its token is old and its next
write fails, so two leaders never mix their writes.

On PostgreSQL the server's clock decides, so that hosts whose clocks differ agree. A SQLite file
serves one host, which has one clock.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import POSTGRESQL, Database, Queryable, Statement, Transaction
from barograph.kit.timestamps import SECOND

MAX_MILLISECONDS = 300_000
"""The longest possible lease."""

MAX_SKEW_MS = 5 * SECOND
"""A host whose clock differs by more doesn't lead: readers and exchanges would refuse its times."""

ServerClock = Callable[[Queryable], Awaitable[int]]
"""Asks a database server for its time, in milliseconds since the Unix epoch."""


async def postgresql_time(queryable: Queryable) -> int:
    """The time of a PostgreSQL server."""
    ((now,),) = await queryable.fetch(_SERVER_TIME)
    return int(now)


def server_clock(database: Database) -> ServerClock | None:
    """The clock that all hosts of a database share; None for a file, which serves one host."""
    return postgresql_time if database.engine == POSTGRESQL else None


class HostClock:
    """Our clock, compared with the database server's; a file has no clock of its own."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.ahead_ms = 0
        """How far it was ahead, at least, when we last asked."""

    async def probe(self) -> None:
        """Ask the server; the round trip doesn't count as a difference."""
        if (server := server_clock(self._database)) is not None:
            before, now = self._clock(), await server(self._database)
            self.ahead_ms = max(0, before - now) + min(0, self._clock() - now)

    @property
    def problem(self) -> str | None:
        """What is wrong with it; safe to publish."""
        if abs(self.ahead_ms) <= MAX_SKEW_MS:
            return None
        how = "ahead of" if self.ahead_ms > 0 else "behind"
        return f"this host's clock is {abs(self.ahead_ms) / SECOND:.1f} s {how} the database's"


class StoredLease(NamedTuple):
    """A lease in the database."""

    holder: str | None
    token: int
    expires_at: int


class Lease:
    """A claim to be the only leader, for as long as it is renewed.

    Every lease object needs its own `holder`, also within one process.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        holder: str,
        *,
        clock: Clock,
        milliseconds: int,
        server: ServerClock | None = None,
    ) -> None:
        """Without the clock of a `server`, our own decides when the lease expires."""
        self._database = database
        self._name = name
        self._holder = holder
        self._clock = clock
        self._milliseconds = milliseconds
        self._server = server
        self._token: int | None = None
        self._held_until = 0
        """By our own clock."""

    @property
    def is_held(self) -> bool:
        """Whether it is ours, and was renewed in time as far as we know."""
        return self._token is not None and self._clock() < self._held_until

    async def acquire(self) -> bool:
        """Take the lease if it is free, and return whether it is ours now."""

        async def work(tx: Transaction) -> int | None:
            current = await _READ.first(tx, self._name)
            now = await self._now(tx)
            if not is_free(current, now):
                return None
            token = 0 if current is None else current.token
            # At least the time: the history database outlives this one and must not mistake a
            # new or restored service database for an old leader.
            following = max(token + 1, now // SECOND)
            expiry = now + self._milliseconds
            await tx.execute(_TAKE, self._name, self._holder, following, expiry)
            return following

        held_until = self._clock() + self._milliseconds
        self._token = await self._database.write(work)
        self._held_until = held_until
        return self._token is not None

    async def is_free(self) -> bool:
        """Whether nobody holds the lease; this takes and writes nothing."""
        current = await _READ.first(self._database, self._name)
        return is_free(current, await self._now(self._database))

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

        async def work(tx: Transaction) -> None:
            await self.fence(tx)
            expiry = await self._now(tx) + self._milliseconds
            await tx.execute(_TAKE, self._name, self._holder, self._token, expiry)

        held_until = self._clock() + self._milliseconds
        await self._database.write(work)
        self._held_until = held_until

    async def fence(self, queryable: Queryable) -> None:
        """Check that the lease is still ours; a write needs this check in its transaction.

        Raises:
            LeaseLost: another process took over, so the transaction is rolled back.
        """
        current = await _READ.first(queryable, self._name)
        if current is None or (current.holder, current.token) != (self._holder, self._token):
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

    async def _now(self, queryable: Queryable) -> int:
        return self._clock() if self._server is None else await self._server(queryable)


def is_free(lease: StoredLease | None, now: int) -> bool:
    """Whether nobody holds a lease."""
    if lease is None or lease.holder is None:
        return True
    # An expiry too far ahead was written by a clock that was wrong.
    return not now < lease.expires_at <= now + MAX_MILLISECONDS


_SERVER_TIME = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_READ = Statement(StoredLease, "SELECT {columns} FROM leases WHERE name = $1")
_TAKE = """
INSERT INTO leases (name, holder, token, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, expires_at = excluded.expires_at
"""
_RELEASE = "UPDATE leases SET holder = NULL, expires_at = 0 WHERE name = $1 AND holder = $2"
