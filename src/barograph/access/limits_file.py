"""The file that the workers of one host count allowances in: how it is opened, and thrown away.

Nothing in it is worth keeping for longer than a window. So it is never flushed to the disk, and one
that cannot be read, or has grown too large, is replaced by a new one.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_bytes

import apsw

from barograph.errors import BarographError

KEY_BYTES = 32
MAX_MEGABYTES = 512


class TornFile(BarographError):
    """Rows that belong together are not all there, as after a power cut."""


BROKEN = (apsw.NotADBError, apsw.CorruptError, apsw.FullError, apsw.SQLError, TornFile)
"""What the file itself is to blame for. One without the right tables is broken too."""

_PAGE_BYTES = 2_048
_CHECKPOINT_PAGES = 500
_NAP_SECONDS = 0.000_2

_Identity = tuple[int, int]


class LimitsFile:
    """An open file with its tables."""

    def __init__(self, path: Path, busy_ms: int) -> None:
        self._path = path
        self._busy_ms = busy_ms
        self._log = Path(f"{path}-wal")
        self.connection = _connect(path, busy_ms)
        try:
            self.key = _prepare(self.connection)
            self._identity = _identity(path)
            self._log_identity = _identity(self._log)
        except BaseException:
            self.connection.close()
            raise

    def is_in_place(self) -> bool:
        """Whether this is still what a process that opens the file now would find.

        SQLite goes on happily with a file that was deleted, and would then count apart.
        """
        found = (_identity(self._path), _identity(self._log))
        return found == (self._identity, self._log_identity)

    def close(self, *, is_broken: bool) -> None:
        """Close the file; throw a broken one away, unless another process has done so.

        That is done while it is open: until it is closed no other file can have its identity. One
        that cannot be thrown away now will be found broken again.
        """
        try:
            if is_broken:
                with suppress(OSError), _only_one(_lock(self._path), self._busy_ms):
                    if _identity(self._path) == self._identity:
                        _throw_away(self._path)
        finally:
            self.connection.close()


def open_limits_file(path: Path, busy_ms: int) -> LimitsFile:
    """Open the file; make a new one when there is none, or only one that cannot be opened.

    Only one process at a time opens it, so nobody throws away what another one has just made.

    Raises:
        apsw.Error: it cannot be opened.
        OSError: nor can its folder be used, or another process takes too long to open it.
    """
    with _only_one(_lock(path), busy_ms):
        if _identity(path) is None:
            _throw_away(path)
        try:
            return LimitsFile(path, busy_ms)
        except BROKEN:
            _throw_away(path)
            return LimitsFile(path, busy_ms)


def _connect(path: Path, busy_ms: int) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    # SQLite's own waiting soon sleeps for 10 ms and more, and in between others come first.
    connection.set_busy_handler(_patience(busy_ms))
    return connection


def _patience(busy_ms: int) -> Callable[[int], bool]:
    """What to do while the file is locked: look again and again, until it has been too long."""
    since = 0.0

    def wait(tries: int) -> bool:
        nonlocal since
        if tries == 0:
            since = time.monotonic()
        time.sleep(_NAP_SECONDS)
        return (time.monotonic() - since) * 1_000 < busy_ms

    return wait


def _prepare(connection: apsw.Connection) -> bytes:
    """Set the connection up and return the file's key."""
    connection.pragma("page_size", _PAGE_BYTES)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "off")
    connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
    connection.pragma("max_page_count", MAX_MEGABYTES * 1_024 * 1_024 // _PAGE_BYTES)
    # The lock comes first: one who reads and then wants to write is refused without waiting.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_TABLES).fetchall()
    connection.execute(_FIRST_STATE, (token_bytes(KEY_BYTES),))
    [(key,)] = connection.execute("SELECT key FROM state").fetchall()
    connection.execute("COMMIT")
    if not isinstance(key, bytes):
        raise TornFile("no key")
    return key


def _lock(path: Path) -> Path:
    return Path(f"{path}.lock")


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _throw_away(path: Path) -> None:
    # The file itself goes last: whoever has opened any part of the old one sees that it is gone.
    for each in (f"{path}-wal", f"{path}-shm", path):
        with suppress(FileNotFoundError):
            Path(each).unlink()


@contextmanager
def _only_one(lock: Path, busy_ms: int) -> Iterator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for left in reversed(range(busy_ms)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if left == 0:
                    raise
                time.sleep(0.001)
        yield
    finally:
        os.close(descriptor)


_TABLES = """
CREATE TABLE IF NOT EXISTS state (
    id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL,
    seen_at INTEGER NOT NULL, lag INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS callers (
    caller INTEGER PRIMARY KEY, head INTEGER NOT NULL, tail INTEGER NOT NULL,
    oldest INTEGER NOT NULL, latest INTEGER NOT NULL, expires_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS hits (
    caller INTEGER NOT NULL, slot INTEGER NOT NULL, stamp INTEGER NOT NULL,
    PRIMARY KEY (caller, slot)
) WITHOUT ROWID;
"""
_FIRST_STATE = "INSERT INTO state VALUES (1, ?1, 0, 0) ON CONFLICT DO NOTHING"
