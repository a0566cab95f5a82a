"""A backup: a folder with both databases as SQLite files, the keys, and a manifest of them all.

It is written under another name beside its place and renamed when it is complete.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from hashlib import file_digest
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import apsw
import msgspec

from barograph import __version__
from barograph.cli.common import progress_bar, read_history
from barograph.cli.databases import has_database, kind_of_folder, run_once
from barograph.cli.db_copy import RELEASE_LEASES, Counts, SQLiteTables, copy_to_file
from barograph.cli.stances import verify_record
from barograph.cli.stances_text import verified_text
from barograph.demo.files import FILE_NAME as WORLD_FILE
from barograph.demo.files import write_once
from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import LOGS
from barograph.history.ledger import HISTORY as RECORD
from barograph.history.public_log import PublicLog
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS
from barograph.history.signing import FILE_NAME as HISTORY_KEY_FILE
from barograph.history.verify import BrokenRecord
from barograph.keys.api_keys import PEPPER_FILE
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Engine
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations
from barograph.kit.opening import Address
from barograph.kit.operating_system import OWNER_ONLY, sync_folder
from barograph.kit.sqlite import copy_sqlite_file
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import PREFIX, Settings
from barograph.terms.sources import Kind

MANIFEST = "manifest.json"
DATABASES = ("barograph.sqlite3", "history.sqlite3")
KEYS = (PEPPER_FILE, HISTORY_KEY_FILE)
SMALL_FILES = (*KEYS, WORLD_FILE)
"""What a data folder has besides its databases. Only a demo has a world."""

LogHead = dict[str, str | int]


class BackupFile(msgspec.Struct, frozen=True):
    """What a file of a backup must still be when it is restored."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds; `created_at` is when the first database was read."""

    format: Literal[1] = 1
    version: str
    created_at: str
    kind: Kind
    engine: Engine
    files: dict[str, BackupFile]
    rows: dict[str, Counts]
    logs: list[LogHead]

    @property
    def size(self) -> str:
        """How much it holds, for people."""
        rows = sum(sum(tables.values()) for tables in self.rows.values())
        return f"{rows:,} rows, {sum(file.bytes for file in self.files.values()) / 1e6:,.1f} MB"


def write_backup(settings: Settings, target: Path, *, with_keys: bool) -> Manifest:
    """Make a backup while the service runs.

    Raises:
        ConfigurationError: there is nothing to back up, another version made it, or the folder is
            in use.
        BarographError: the folder can't be written, or a database is damaged.
        DatabaseUnavailable: a database can't be read.
    """
    _require_source(settings)
    advice = "check that its parent folder exists, is writable and has room for both databases"
    with failure_explained(f"no backup was made in {target}", advice):
        is_used = target.exists() and any(target.iterdir())
        if is_used or target.resolve() == settings.data.resolve():
            raise ConfigurationError(f"{target} is in use: name a new or an empty folder")
        draft = Path(mkdtemp("", f"{target.name}.incomplete-", target.parent))
        try:
            manifest = _fill(settings, draft, with_keys=with_keys)
            sync_folder(draft)
            draft.rename(target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return manifest


@contextmanager
def failure_explained(what: str, advice: str) -> Iterator[None]:
    """Turn a failure of a disk or of a SQLite file into one line."""
    try:
        yield
    except (OSError, apsw.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BarographError(f"{what} ({reason}): {advice}") from error


def read_manifest(folder: Path) -> Manifest:
    """Read what a backup holds.

    Raises:
        ConfigurationError: the folder is not a backup that this version can read.
    """
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        if not {*DATABASES} <= found.files.keys() <= {*DATABASES, *SMALL_FILES}:
            raise msgspec.ValidationError("it lists other files than a backup has")
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{folder} is not a complete backup that this version can read: {MANIFEST} is missing, "
            f"damaged or of a newer version ({error})"
        ) from error
    return found


def seal_file(file: Path) -> BackupFile:
    """Make a file survive a power cut, readable by its owner only, and compute its digest."""
    file.chmod(OWNER_ONLY)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        return BackupFile(file.stat().st_size, file_digest(opened, "sha256").hexdigest())


def given_keys(settings: Settings) -> set[str]:
    """The keys that come from settings and not from files."""
    given = zip(KEYS, (settings.key_pepper, settings.history_key), strict=True)
    return {name for name, value in given if value.get_secret_value()}


def _require_source(settings: Settings) -> None:
    if not has_database(settings):
        raise ConfigurationError(
            f"there is no database to back up in {settings.data}: choose its folder with --data"
        )
    run_once(settings.database_address, partial(_missing, SERVICE), create=False)
    read_history(settings, partial(_missing, RECORD))


async def _missing(schema: str, database: Database) -> list[str]:
    return await missing_migrations(database, packaged_migrations(schema, database.engine))


def _fill(settings: Settings, draft: Path, *, with_keys: bool) -> Manifest:
    created_at = iso_timestamp(system_clock())
    copy = Settings.from_environment({f"{PREFIX}DATA": str(draft)})
    # The history second: it then holds everything that the service had published.
    _copy_database(settings.database_address, SERVICE, copy.database_path)
    _copy_database(settings.history_address, RECORD, copy.history_path)
    verified = verify_record(copy)
    if isinstance(verified[0], BrokenRecord):
        raise BarographError(f"no backup was made: {verified_text(*verified)}")
    heads = run_once(copy.history_path, _read_heads)
    rows = {SERVICE: _finish(copy.database_path), RECORD: _finish(copy.history_path)}
    excluded = given_keys(settings) if with_keys else {*KEYS}
    for name in SMALL_FILES:
        if name not in excluded and (settings.data / name).exists():
            write_once(draft / name, (settings.data / name).read_bytes())
    manifest = Manifest(
        version=__version__,
        created_at=created_at,
        kind=kind_of_folder(settings.data),
        engine="sqlite" if isinstance(settings.database_address, Path) else "postgresql",
        files={file.name: seal_file(file) for file in sorted(draft.iterdir())},
        rows=rows,
        logs=heads,
    )
    write_once(draft / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _copy_database(address: Address, schema: str, file: Path) -> None:
    with progress_bar(f"copying the {schema} database") as progress:
        if isinstance(address, Path):
            copy_sqlite_file(address, file, progress)
        else:
            asyncio.run(copy_to_file(address, schema, file, progress))


async def _read_heads(history: Database) -> list[LogHead]:
    reader, heads = HistoryReader(history), list[LogHead]()
    for kind, log in product(KINDS, LOGS):
        read = partial(reader.digests, kind, log)
        head = await PublicLog(read, partial(reader.chain_links, kind, log)).head()
        heads.append({"kind": kind, "log": log, "size": head.size, "root": head.root.hex()})
    return heads


def _finish(file: Path) -> Counts:
    """Check a copied database, and make it one file that needs no log; return its rows."""
    with closing(apsw.Connection(str(file))) as connection:
        tables = SQLiteTables(connection)
        if "leases" in tables.types:
            connection.execute(RELEASE_LEASES)
        if (found := connection.execute("PRAGMA quick_check(1)").get) != "ok":
            raise BarographError(f"no backup was made: {file.name} is damaged ({found})")
        connection.pragma("journal_mode", "delete")
        return tables.counts
