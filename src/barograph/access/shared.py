"""Allowances counted in a SQLite file that the workers of one host share.

The file holds a row for each caller and a ring of its accepted requests: request number `n` lies
in slot `n % requests`, in place of one that has left the window. `head` is the number of the next
request, `tail` that of the oldest one in the window. So a request costs the same whatever the
allowance.

A caller is written down as a number that only the key in the same file leads to. That keeps
addresses out of what is searched, printed or compared with other logs, and who gets only a part of
the file learns none. It does not hide them from somebody who has all of it and tries out every
address.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from barograph.access.allowances import Allowance, AllowancesUnavailable, Standing
from barograph.access.limits_file import BROKEN, LimitsFile, TornFile, open_limits_file
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND

BUSY_MS = 50

SWEEP_EVERY = 16
"""After so many accepted requests a worker looks for idle callers to forget."""

SWEEP_ROWS = 64
"""So many callers are looked at then, and at most so many requests of theirs are deleted: several
times as many as can be new since the last look, and few enough that nobody waits for the lock."""

_Rows = list[Any]
_CALLER_BYTES = 8
_LEAST = -(1 << 63)


class _Ring(NamedTuple):
    """A caller's row: `oldest` is the stamp of request `tail`, `latest` that of `head - 1`."""

    head: int
    tail: int
    oldest: int
    latest: int


class SharedStore:
    """Exact windows in a file, whichever worker a request comes to.

    The clock is read under the file's write lock, so stamps are in order across processes. It may
    be set back: the time that it repeats does not count as passed, so nobody gets more, and nobody
    waits more than a second longer than a window. The file is opened at the first request, which
    is after the fork.
    """

    def __init__(self, path: Path, clock: Clock, *, busy_ms: int = BUSY_MS) -> None:
        self._path = path
        self._clock = clock
        self._busy_ms = busy_ms
        self._file: LimitsFile | None = None
        self._looked_at = 0
        self._accepted = 0
        self._swept = _LEAST

    async def spend(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller, if the allowance has one left.

        It is done on the spot: handing it to a thread would cost more than it takes.

        Raises:
            AllowancesUnavailable: the file cannot be used, or was locked for too long.
        """
        try:
            file = self._open()
            return self._transact(file, allowance, _number(file.key, allowance, caller))
        except apsw.BusyError as error:
            raise AllowancesUnavailable("the file is locked") from error
        except (apsw.Error, OSError, TornFile) as error:
            self._give_up(is_broken=isinstance(error, BROKEN))
            raise AllowancesUnavailable(f"the file fails ({type(error).__name__})") from error

    async def close(self) -> None:
        """Close the file."""
        self._give_up(is_broken=False)

    def _open(self) -> LimitsFile:
        now = self._clock()
        if not 0 <= now - self._looked_at < SECOND:
            self._looked_at = now
            if self._file is not None and not self._file.is_in_place():
                self._give_up(is_broken=True)
        if self._file is None:
            self._file = open_limits_file(self._path, self._busy_ms)
        return self._file

    def _give_up(self, *, is_broken: bool) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close(is_broken=is_broken)

    def _transact(self, file: LimitsFile, allowance: Allowance, caller: int) -> Standing:
        connection = file.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            standing = self._charge(connection, allowance, caller)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return standing

    def _charge(self, connection: apsw.Connection, allowance: Allowance, caller: int) -> Standing:
        _, requests, window = allowance
        rows: _Rows = connection.execute(_READ, (caller,)).fetchall()
        if not rows:
            raise TornFile("no state")
        seen_at, lag, *row = rows[0]
        now = self._steady_now(connection, seen_at, lag)
        ring = _Ring(0, 0, now, now) if row[0] is None else _Ring(*row)
        now = max(now, ring.latest)
        head, tail, oldest, _ = ring
        if oldest <= now - window:
            tail, oldest = _left_in_window(connection, caller, ring, allowance, now)
        accepted = head - tail < requests
        if accepted:
            connection.execute(_ADD_HIT, (caller, head % requests, now))
            head += 1
            connection.execute(_KEEP, (caller, head, tail, oldest, now, now + window))
            self._sweep_now_and_then(connection, now)
        return Standing(allowance, accepted, requests - head + tail, oldest + window - now)

    def _steady_now(self, connection: apsw.Connection, seen_at: int, lag: int) -> int:
        """The clock, without the steps back that it made; the file is told of it once a second."""
        now = self._clock()
        if not 0 <= now - seen_at < SECOND:
            lag += max(0, seen_at - now)
            connection.execute("UPDATE state SET seen_at = ?1, lag = ?2", (now, lag))
        return now + lag

    def _sweep_now_and_then(self, connection: apsw.Connection, now: int) -> None:
        """Go round all callers, a few at a time, and forget those with nothing in the window."""
        self._accepted += 1
        if self._accepted % SWEEP_EVERY != 0:
            return
        rows: _Rows = connection.execute(_GO_ROUND, (self._swept, SWEEP_ROWS)).fetchall()
        left = SWEEP_ROWS
        for caller, expires_at in rows:
            # A second later: by so much the steady time may still go back.
            if expires_at <= now - SECOND:
                connection.execute(_FORGET_HITS, (caller, left))
                left -= connection.changes()
                if left == 0:
                    return  # the next look begins with what is left of this caller
                connection.execute("DELETE FROM callers WHERE caller = ?1", (caller,))
            self._swept = caller
        if len(rows) < SWEEP_ROWS:
            self._swept = _LEAST


def _left_in_window(
    connection: apsw.Connection, caller: int, ring: _Ring, allowance: Allowance, now: int
) -> tuple[int, int]:
    """Number and stamp of the oldest request in the window; of the coming one if there is none.

    Each request is passed over once, so this costs no more in the long run than having added it.

    Raises:
        TornFile: a request that was counted is not there.
    """
    head, tail, _, latest = ring
    expired = now - allowance.window
    if latest > expired:
        for number in range(tail + 1, head):
            slot = number % allowance.requests
            rows: _Rows = connection.execute(_READ_HIT, (caller, slot)).fetchall()
            if not rows:
                raise TornFile("a request is missing")
            if rows[0][0] > expired:
                return number, rows[0][0]
    return head, now


def _number(key: bytes, allowance: Allowance, caller: str) -> int:
    """What a caller is written down as; another one for each allowance, also when it changes."""
    name, requests, window = allowance
    text = f"{name} {requests} {window} {caller}".encode()
    digest = blake2b(text, digest_size=_CALLER_BYTES, key=key).digest()
    return int.from_bytes(digest, "big", signed=True)


_READ = """
SELECT seen_at, lag, head, tail, oldest, latest
FROM state LEFT JOIN callers ON caller = ?1
"""
_READ_HIT = "SELECT stamp FROM hits WHERE caller = ?1 AND slot = ?2"
_ADD_HIT = "INSERT OR REPLACE INTO hits VALUES (?1, ?2, ?3)"
_KEEP = "INSERT OR REPLACE INTO callers VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
_FORGET_HITS = """
DELETE FROM hits
WHERE caller = ?1 AND slot IN (SELECT slot FROM hits WHERE caller = ?1 LIMIT ?2)
"""
_GO_ROUND = "SELECT caller, expires_at FROM callers WHERE caller > ?1 ORDER BY caller LIMIT ?2"
