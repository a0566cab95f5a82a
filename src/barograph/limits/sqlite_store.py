"""Rate limits counted in a SQLite file that the workers of one host share.

The file has one row per accepted request, which says when the request leaves the window. Rows of a
caller are numbered without gaps, so the newest number minus the oldest one in the window is the
count, and counting costs the same whatever the limit.

Nothing in the file is needed for longer than a window. SQLite doesn't flush it to disk, and a file
that can't be read or has grown too large is replaced. Callers are stored as keyed hashes.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from barograph.kit.clock import Clock
from barograph.kit.sqlite import file_identity
from barograph.kit.timestamps import SECOND
from barograph.limits.rate_limits import CallerHash, LimitsUnavailable, RateLimit, Usage

TRIES = 50
PAUSE_SECONDS = 0.001
"""How many times a worker tries to get the file's write lock, and how long it sleeps between."""

SWEEP_EVERY = 16
SWEEP_ROWS = 64
"""After every 16 accepted requests a worker deletes up to 64 expired rows: more than can have been
added since, and few enough to hold the lock only briefly."""

MAX_MEGABYTES = 512

_BROKEN = (apsw.NotADBError, apsw.CorruptError, apsw.FullError, apsw.SQLError)
"""Faults of the file itself. SQLite raises SQLError when the tables are missing or different."""

_PAGE_BYTES = 2_048
_CHECKPOINT_PAGES = 500

_Inode = tuple[int, int] | None


class SQLiteStore:
    """Exact sliding windows in a file, whichever worker gets a request.

    The clock is read under the file's write lock, so timestamps are in order across processes. If
    the system clock is set back, the repeated time doesn't count as passed: no caller gets
    more requests, or waits more than a second longer than a window. The file is opened at the
    first request, which is after the fork.
    """

    def __init__(self, path: Path, clock: Clock, secret: bytes, *, tries: int = TRIES) -> None:
        self._path = path
        self._clock = clock
        self._hash = CallerHash(secret)
        self._tries = tries
        self._turn = asyncio.Lock()
        self._failures = 0
        self._cursor: apsw.Cursor | None = None
        self._inodes: tuple[_Inode, _Inode] = (None, None)
        self._checked_at = 0
        self._accepted = 0

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller, if the limit has one left.

        A transaction takes microseconds, less than handing it to a thread, so it runs on the event
        loop. SQLite never waits for a lock there: this coroutine sleeps and tries again, and the
        worker's other requests wait for its result.

        Raises:
            LimitsUnavailable: the file was locked, or could not be used, at every try.
        """
        failures = self._failures
        async with self._turn:
            if self._failures != failures:
                raise LimitsUnavailable("the file failed for the request before")
            return await self._try_count(limit, caller)

    async def _try_count(self, limit: RateLimit, caller: str) -> Usage:
        failure: Exception | None = None
        for _ in range(self._tries):
            try:
                cursor = self._opened()
                with cursor.connection:
                    return self._count(cursor, limit, self._row_key(limit, caller))
            except apsw.BusyError as error:
                failure = error
            except (apsw.Error, OSError) as error:
                failure = error
                self._discard(is_broken=isinstance(error, _BROKEN))
            await asyncio.sleep(PAUSE_SECONDS)
        self._failures += 1
        raise LimitsUnavailable(f"the file fails ({type(failure).__name__})") from failure

    async def close(self) -> None:
        """Close the file."""
        self._discard(is_broken=False)

    def _count(self, cursor: apsw.Cursor, limit: RateLimit, caller: int) -> Usage:
        _, requests, window = limit
        newest: list[Any] = cursor.execute(_NEWEST, (caller,)).fetchall()
        expires_at, last = newest[0] if newest else (0, 0)
        now = max(self._steady_now(cursor), expires_at - window)
        oldest, first = now + window, last + 1
        if expires_at > now:
            [(oldest, first)] = cursor.execute(_OLDEST, (caller, now)).fetchall()
        used = last + 1 - first
        if used >= requests:
            return Usage(limit, False, 0, oldest - now)
        cursor.execute(_ADD, (caller, now + window, last + 1))
        self._accepted += 1
        if self._accepted % SWEEP_EVERY == 0:
            cursor.execute(_SWEEP, (now, SWEEP_ROWS))
        return Usage(limit, True, requests - used - 1, oldest - now)

    def _steady_now(self, cursor: apsw.Cursor) -> int:
        """The clock without its backward steps, which the file records once per second."""
        rows: list[Any] = cursor.execute("SELECT seen_at, lag FROM clock").fetchall()
        seen_at, lag = rows[0] if rows else (0, 0)
        now = self._clock()
        if not 0 <= now - seen_at < SECOND:
            lag += max(0, seen_at - now)
            cursor.execute("INSERT OR REPLACE INTO clock VALUES (1, ?1, ?2)", (now, lag))
        return now + lag

    def _row_key(self, limit: RateLimit, caller: str) -> int:
        return int.from_bytes(self._hash(limit, caller), "big", signed=True)

    def _opened(self) -> apsw.Cursor:
        """The open file, reopened if it was replaced: SQLite would keep using a deleted one."""
        now = self._clock()
        if not 0 <= now - self._checked_at < SECOND:
            self._checked_at = now
            if self._cursor is not None and _inodes(self._path) != self._inodes:
                self._discard(is_broken=True)
        if self._cursor is None:
            self._cursor = apsw.Connection(str(self._path)).cursor()
            self._inodes = _inodes(self._path)
            try:
                _prepare(self._cursor.connection)
            except apsw.BusyError:
                self._discard(is_broken=False)
                raise
            self._inodes = _inodes(self._path)
        return self._cursor

    def _discard(self, *, is_broken: bool) -> None:
        """Close the file, and delete a broken one unless another worker has replaced it."""
        if self._cursor is None:
            return
        if is_broken and _inodes(self._path)[0] == self._inodes[0]:
            # The database goes last: workers with any of the old files open see that it is gone.
            for file in (f"{self._path}-wal", f"{self._path}-shm", self._path):
                with suppress(OSError):
                    Path(file).unlink()
        self._cursor.connection.close()
        self._cursor = None


def _prepare(connection: apsw.Connection) -> None:
    connection.transaction_mode = "IMMEDIATE"
    connection.pragma("page_size", _PAGE_BYTES)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "off")
    connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
    connection.pragma("max_page_count", MAX_MEGABYTES * 1_024 * 1_024 // _PAGE_BYTES)
    with connection:
        connection.execute(_TABLES).fetchall()


def _inodes(path: Path) -> tuple[_Inode, _Inode]:
    """The inodes that the paths of the database and of its log have now."""
    return file_identity(path), file_identity(Path(f"{path}-wal"))


_TABLES = """
CREATE TABLE IF NOT EXISTS clock (
    id INTEGER PRIMARY KEY, seen_at INTEGER NOT NULL, lag INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS hits (
    caller INTEGER NOT NULL, expires_at INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (caller, expires_at, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hits_by_expiry ON hits (expires_at);
"""
_NEWEST = """
SELECT expires_at, number FROM hits WHERE caller = ?1
ORDER BY expires_at DESC, number DESC LIMIT 1
"""
_OLDEST = """
SELECT expires_at, number FROM hits WHERE caller = ?1 AND expires_at > ?2
ORDER BY expires_at, number LIMIT 1
"""
_ADD = "INSERT INTO hits (caller, expires_at, number) VALUES (?1, ?2, ?3)"
_SWEEP = """
DELETE FROM hits WHERE (caller, expires_at, number) IN (
    SELECT caller, expires_at, number FROM hits WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
"""
