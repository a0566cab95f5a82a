"""A backup: a folder with both databases as SQLite files, the keys, and a manifest of them all.

`write_backup` writes the folder under a hidden name, and renames it when it is complete.

A restore copies both databases next to where they belong, checks and upgrades the copies, and marks
the service's database as restored. It moves that one first. Until the history follows, a service
that starts finds no history, and signs nothing. If a restore is interrupted, run it again.

Functions raise ConfigurationError for folders and settings that can't be used, BarographError if a
file is damaged or can't be written, and DatabaseUnavailable.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from glob import escape
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import apsw
import msgspec

from barograph import __version__
from barograph.cli.common import UPGRADE_WAIT_MS, make_folder, progress_bar, read_history
from barograph.cli.databases import (
    DATABASE,
    HISTORY,
    has_database,
    kind_of_folder,
    run_once,
)
from barograph.cli.db_copy import (
    RELEASE_LEASES,
    Counts,
    Files,
    SQLiteTables,
    copy_databases,
    copy_to_file,
)
from barograph.cli.stances import verify_record
from barograph.cli.stances_text import verified_text
from barograph.errors import BarographError, ConfigurationError
from barograph.history.guards import wrong_guards
from barograph.history.ledger import HISTORY as RECORD
from barograph.history.origins import hold_signing
from barograph.history.public_log import LogTree
from barograph.history.signing import FILE_NAME as HISTORY_KEY_FILE
from barograph.history.verify import BrokenRecord
from barograph.keys.api_keys import PEPPER_FILE
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Engine, Transaction
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations, upgrade
from barograph.kit.opening import Address
from barograph.kit.operating_system import (
    OWNER_ONLY,
    is_exposed,
    lock_folder,
    replace_file,
    sync_folder,
    write_once,
)
from barograph.kit.sqlite import copy_sqlite_file
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import PREFIX, WORLD_FILE, Settings
from barograph.terms.sources import Kind
from barograph.webhooks.keys import FILE_NAME as WEBHOOK_KEY_FILE

MANIFEST = "manifest.json"
DATABASES = ("barograph.sqlite3", "history.sqlite3")
KEYS = (PEPPER_FILE, HISTORY_KEY_FILE, WEBHOOK_KEY_FILE)
SMALL_FILES = (*KEYS, WORLD_FILE)
"""What a data folder has besides its databases. Only a demo has a world file."""

SmallFiles = dict[str, bytes]


class BackupFile(msgspec.Struct, frozen=True):
    """The size and digest that a file of a backup must still have when it is restored."""

    bytes: int
    sha256: str


class LogHead(msgspec.Struct, frozen=True):
    """The size and root of the public log."""

    size: int
    root: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds; `created_at` is when the first database was read."""

    format: Literal[1] = 1
    version: str
    created_at: str
    kind: Kind
    engine: Engine
    files: dict[str, BackupFile]
    rows: dict[str, Counts]
    log: LogHead | None = None
    """None in the backup of a version that had several logs."""

    @property
    def size(self) -> str:
        """How much it holds, for people."""
        rows = sum(sum(tables.values()) for tables in self.rows.values())
        return f"{rows:,} rows, {sum(file.bytes for file in self.files.values()) / 1e6:,.1f} MB"


def write_backup(settings: Settings, target: Path, *, with_keys: bool) -> Manifest:
    """Make a backup while the service runs."""
    _require_source(settings)
    advice = "check that its parent folder exists, is writable and has room for both databases"
    with _failure_explained(f"no backup was made in {target}", advice):
        if target.exists() and any(target.iterdir()):
            raise ConfigurationError(f"{target} is in use: name a new or an empty folder")
        if target.resolve().is_relative_to(settings.data.resolve()):
            raise ConfigurationError(
                f"{target} would be lost with the data: name a folder outside {settings.data}"
            )
        # Hidden, so that nobody mistakes what a killed backup leaves behind for a backup.
        draft = Path(mkdtemp("", f".{target.name}.incomplete-", target.parent))
        try:
            manifest = _fill(settings, draft, with_keys=with_keys)
            sync_folder(draft)
            draft.rename(target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return manifest


def uses_both_engines(settings: Settings) -> bool:
    """Whether one database is on PostgreSQL and the other is a file; a restore can't do that."""
    return isinstance(settings.database_address, Path) != isinstance(settings.history_address, Path)


def seal_file(file: Path) -> BackupFile:
    """Make a file survive a power cut, readable by its owner only, and compute its digest."""
    file.chmod(OWNER_ONLY)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        return BackupFile(file.stat().st_size, file_digest(opened, "sha256").hexdigest())


_REASONS: dict[type[BaseException], str] = {
    apsw.FullError: "the disk is full",
    apsw.IOError: "the disk can't be read or written",
}
"""SQLite's own text may be `not an error`."""


@contextmanager
def _failure_explained(what: str, advice: str) -> Iterator[None]:
    """Turn a failure of a disk or of a SQLite file into one line."""
    try:
        yield
    except (OSError, apsw.Error) as error:
        first: BaseException = error
        while isinstance(first.__context__, OSError | apsw.Error):  # a rollback fails too
            first = first.__context__
        reason = getattr(first, "strerror", None) or _REASONS.get(type(first), first)
        raise BarographError(f"{what} ({reason}): {advice}") from error


def _given_keys(settings: Settings) -> set[str]:
    """The keys that come from settings and not from files."""
    values = settings.key_pepper, settings.history_key, settings.webhook_key
    given = zip(KEYS, values, strict=True)
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
    names = {*SMALL_FILES} - (_given_keys(settings) if with_keys else {*KEYS})
    small = _read_small_files(settings.data, names)
    copy = Settings.from_environment({f"{PREFIX}DATA": str(draft)})
    # The history comes second, so that it holds everything that the service has published. But the
    # head of the log of events in it must not be newer than the events.
    signed = run_once(settings.history_address, lambda it: it.fetch("SELECT * FROM event_heads"))
    _copy_database(settings.database_address, SERVICE, copy.database_path)
    _copy_database(settings.history_address, RECORD, copy.history_path)
    with closing(apsw.Connection(str(copy.history_path))) as connection:
        connection.execute("DELETE FROM event_heads")
        connection.executemany("INSERT INTO event_heads VALUES (?, ?, ?)", signed)
    if _read_small_files(settings.data, names) != small:
        raise BarographError("no backup was made, because a key was replaced meanwhile: try again")
    verified = verify_record(copy)
    if isinstance(verified[0], BrokenRecord):
        raise BarographError(f"no backup was made: {verified_text(*verified)}")
    head = run_once(copy.database_path, lambda database: LogTree(database).head())
    if not with_keys:
        _blank_secrets(copy.database_path)
    rows = {SERVICE: _finish(copy.database_path), RECORD: _finish(copy.history_path)}
    _write_small_files(draft, small)
    manifest = Manifest(
        version=__version__,
        created_at=created_at,
        kind=kind_of_folder(settings.data),
        engine="sqlite" if isinstance(settings.database_address, Path) else "postgresql",
        files={file.name: seal_file(file) for file in sorted(draft.iterdir())},
        rows=rows,
        log=LogHead(head.size, head.root.hex()),
    )
    write_once(draft / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _read_small_files(folder: Path, names: set[str]) -> SmallFiles:
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def _write_small_files(folder: Path, small: SmallFiles) -> None:
    for name, content in small.items():
        write_once(folder / name, content)
    sync_folder(folder)


def _copy_database(address: Address, schema: str, file: Path) -> None:
    with progress_bar(f"copying the {schema} database") as progress:
        if isinstance(address, Path):
            copy_sqlite_file(address, file, progress)
        else:
            asyncio.run(copy_to_file(address, schema, file, progress))


def _blank_secrets(file: Path) -> None:
    """Take the secrets of webhooks and alerts out of a copy, also out of its unused space."""
    with closing(apsw.Connection(str(file))) as connection:
        for sql in _BLANK:
            connection.execute(sql)


# Anyone with the address of a chat service can write there. No link stops an alert by its id.
_BLANK = (
    """
UPDATE webhooks SET secret = '', previous_secret = NULL, why = CASE
    WHEN state IN ('pending', 'active')
    THEN 'its secret was not in the backup: ask for a new one with POST /api/v1/webhooks/' || id
        || '/secret'
    ELSE why END
""",
    """
UPDATE webhooks SET url = '', state = 'disabled',
    why = 'its address was not in the backup: add it again'
WHERE format <> 'json'
""",
    "UPDATE alerts SET stop_token = id",
    "DELETE FROM outbox WHERE message IS NOT NULL",
    "DELETE FROM webhook_keys",
    "VACUUM",
)


def _finish(file: Path) -> Counts:
    """Check a copied database and make it a single file without a log; return its row counts."""
    with closing(apsw.Connection(str(file))) as connection:
        tables = SQLiteTables(connection)
        if "leases" in tables.types:
            connection.execute(RELEASE_LEASES)
        if (problem := connection.execute("PRAGMA quick_check(1)").get) != "ok":
            raise BarographError(f"no backup was made: {file.name} is damaged ({problem})")
        connection.pragma("journal_mode", "delete")
        return tables.counts


def restore_backup(settings: Settings, folder: Path) -> Manifest:
    """Restore a backup to a data folder and databases that have no data yet."""
    manifest = _read_manifest(folder)
    wanted = manifest.files.keys() - _given_keys(settings)
    if missing := [name for name in sorted(wanted) if not (folder / name).exists()]:
        raise ConfigurationError(f"{folder} lacks {', '.join(missing)}: use another backup")
    if uses_both_engines(settings):
        raise ConfigurationError(
            f"{DATABASE} and {HISTORY} name a PostgreSQL database and a file: for a restore, name "
            "two empty PostgreSQL databases, or unset both to restore files"
        )
    advice = f"check that {settings.data} is writable and has room, then run this again"
    with _failure_explained(f"{folder} was not restored", advice):
        small = _checked_small_files(settings, folder, manifest)
        make_folder(settings.data)
        make_folder(settings.history_path.parent)
        with lock_folder(settings.data):
            is_on_server = isinstance(settings.database_address, str)
            restore = _restore_to_server if is_on_server else _restore_files
            restore(settings, folder, manifest, small)
    return manifest


def _read_manifest(folder: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        if not {*DATABASES} <= manifest.files.keys() <= {*DATABASES, *SMALL_FILES}:
            raise msgspec.ValidationError("it lists other files than a backup has")
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{folder} is not a complete backup that this version can read: {MANIFEST} is missing, "
            f"damaged or from a newer version ({error})"
        ) from error
    return manifest


def _checked_small_files(settings: Settings, folder: Path, manifest: Manifest) -> SmallFiles:
    """The keys, unless settings name them, and a demo's world."""
    found: SmallFiles = {}
    for name in manifest.files.keys() & {*SMALL_FILES} - _given_keys(settings):
        file = folder / name
        if is_exposed(file):
            raise ConfigurationError(
                f"every user of this machine may read or change {file}: run `chmod -R go= {folder}`"
                ", and replace the keys after restoring if someone may have read them"
            )
        content = found[name] = file.read_bytes()
        actual = BackupFile(len(content), sha256(content).hexdigest())
        _require_unchanged(file, actual, manifest)
    for name, content in _read_small_files(settings.data, {*found, WORLD_FILE}).items():
        if content != found.get(name):
            raise ConfigurationError(
                f"{settings.data / name} differs from the one in the backup: move it away, or "
                "choose another folder with --data"
            )
    return found


def _require_unchanged(file: Path, found: BackupFile, manifest: Manifest) -> None:
    if found != manifest.files[file.name]:
        raise BarographError(
            f"{file} was changed after the backup: its size or SHA-256 digest differs from the "
            "manifest. Nothing was restored. Use another backup"
        )


def _restore_files(settings: Settings, folder: Path, manifest: Manifest, small: SmallFiles) -> None:
    service, history = settings.database_path, settings.history_path
    staged = _staged(service, manifest), _staged(history, manifest)
    is_half_done = service.exists() and not staged[0].exists() and staged[1].exists()
    if not is_half_done:
        _require_no_data(service, history)
        _stage(folder, manifest, staged)
        replace_file(staged[0], service)
    # The keys come second: a service that has them must also find the mark that forbids signing.
    _write_small_files(settings.data, small)
    replace_file(staged[1], history)


def _restore_to_server(
    settings: Settings, folder: Path, manifest: Manifest, small: SmallFiles
) -> None:
    staged = _staged(settings.database_path, manifest), _staged(settings.history_path, manifest)
    try:
        _stage(folder, manifest, staged)
        # A demo's databases are marked with its world.
        _write_small_files(settings.data, {name: small[name] for name in small.keys() - {*KEYS}})
        with progress_bar("copying to PostgreSQL") as progress:
            copy_databases(settings, staged, progress)
        _hold(settings.database_address)  # an earlier copy of the rows may lack the mark
    finally:
        _remove_staged(staged)
    _write_small_files(settings.data, small)


def _staged(place: Path, manifest: Manifest) -> Path:
    """Where a copy waits; each backup has its own name, so that two backups are never mixed."""
    digest = sha256(msgspec.json.encode(manifest)).hexdigest()
    return place.with_name(f"{place.name}.{digest[:8]}.restoring")


def _require_no_data(*places: Path) -> None:
    # A leftover log counts too, because SQLite would apply it to the restored database.
    ends = ("", "-wal", "-shm", "-journal")
    files = (place.with_name(place.name + end) for place in places for end in ends)
    if existing := [file for file in files if file.exists()]:
        aside = places[0].parent / "before-restore"
        raise ConfigurationError(
            f"{existing[0].parent} has data already. To restore a backup in its place, stop the "
            f"service, then run `mkdir {aside} && mv {' '.join(map(str, existing))} {aside}`"
        )


def _remove_staged(staged: Files) -> None:
    """Remove what this or a killed restore copied, and its logs."""
    for file in staged:
        place = file.name.removesuffix("".join(file.suffixes[-2:]))
        for leftover in file.parent.glob(f"{escape(place)}.*.restoring*"):
            leftover.unlink(missing_ok=True)


def _stage(folder: Path, manifest: Manifest, staged: Files) -> None:
    """Copy both databases, check and upgrade the copies, and forbid the service's to sign."""
    _remove_staged(staged)
    try:
        for name, schema, file in zip(DATABASES, (SERVICE, RECORD), staged, strict=True):
            with progress_bar(f"checking and copying {name}"):
                file.touch(OWNER_ONLY)
                shutil.copyfile(folder / name, file)
                _require_unchanged(folder / name, seal_file(file), manifest)
            run_once(file, partial(_upgrade, schema=schema), wait_ms=UPGRADE_WAIT_MS)
            run_once(file, partial(_require_shipped_triggers, schema=schema))
        _hold(staged[0])
        run_once(staged[0], lambda service: service.write(_renew_stop_tokens))
    except BaseException:
        _remove_staged(staged)
        raise


async def _renew_stop_tokens(tx: Transaction) -> None:
    await tx.execute(
        "UPDATE alerts SET stop_token = lower(hex(randomblob(24))) WHERE stop_token = id"
    )


async def _require_shipped_triggers(database: Database, schema: str) -> None:
    """Refuse triggers and views that no migration made: they can change what is written later."""
    if wrong := await wrong_guards(database, schema):
        raise BarographError(
            f"the triggers or views of the {schema} database in the backup differ from the shipped "
            f"ones ({', '.join(wrong)}). Nothing was restored. Use another backup"
        )


def _hold(address: Address) -> None:
    hold = partial(hold_signing, now=system_clock())
    run_once(address, lambda database: database.write(hold))


async def _upgrade(database: Database, schema: str) -> None:
    await upgrade(database, packaged_migrations(schema), system_clock)
