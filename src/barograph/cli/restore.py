"""Puts a backup back: to SQLite files or to PostgreSQL, whichever the settings name.

Both databases are copied beside their places, checked and upgraded there, and moved only then. The
service's is moved first: until the history follows, a service that starts finds no history, and
signs nothing. If a restore is interrupted, it can be run again.
"""

import shutil
from functools import partial
from hashlib import sha256
from pathlib import Path

import apsw

from barograph.cli.backup_folder import (
    DATABASES,
    SMALL_FILES,
    BackupFile,
    Manifest,
    given_keys,
    read_manifest,
    seal_file,
)
from barograph.cli.common import UPGRADE_WAIT_MS, make_folder, progress_bar
from barograph.cli.databases import run_once
from barograph.cli.db_copy import Files, copy_databases
from barograph.demo.files import FILE_NAME as WORLD_FILE
from barograph.demo.files import write_once
from barograph.errors import BarographError, ConfigurationError
from barograph.history.ledger import HISTORY as RECORD
from barograph.history.origins import hold_signing
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.operating_system import lock_folder, sync_folder
from barograph.settings import Settings

STAGED = ".restoring"


def restore_backup(settings: Settings, folder: Path) -> Manifest:
    """Restore a backup to a data folder and databases that have no data yet.

    Raises:
        ConfigurationError: the folder is no backup, a newer version made it, or the target has
            data or another key.
        BarographError: a file of the backup was changed, or the target can't be written.
        DatabaseUnavailable: a database can't be used.
    """
    manifest = read_manifest(folder)
    try:
        small = _read_small_files(settings, folder, manifest)
        for each in (settings.data, settings.history_path.parent):
            make_folder(each)
        with lock_folder(settings.data):
            _restore(settings, folder, manifest, small)
    except (OSError, apsw.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BarographError(
            f"{folder} was not restored ({reason}): check that it can be read, and that "
            f"{settings.data} is writable and has room, then run this again"
        ) from error
    return manifest


def _restore(settings: Settings, folder: Path, manifest: Manifest, small: dict[str, bytes]) -> None:
    places = settings.database_path, settings.history_path
    staged = _staged(places[0]), _staged(places[1])
    hold = partial(hold_signing, now=system_clock())
    is_on_server = bool({settings.database_address, settings.history_address} - {*places})
    is_half_moved = places[0].exists() and not staged[0].exists() and staged[1].exists()
    if is_on_server or not is_half_moved:
        if not is_on_server:
            _require_no_data(places)
        _stage(folder, manifest, staged)
    for name, content in small.items():
        write_once(settings.data / name, content)
    if is_on_server:
        try:
            with progress_bar("copying to PostgreSQL") as progress:
                copy_databases(settings, staged, progress, hold)
        finally:
            _remove(staged)
        return
    if not is_half_moved:
        run_once(staged[0], lambda database: database.write(hold))
    _move(staged, places)


def _staged(place: Path) -> Path:
    return place.with_name(place.name + STAGED)


def _read_small_files(settings: Settings, folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """The keys, and a demo's world, unless settings name them.

    Raises:
        ConfigurationError: the data folder has others.
    """
    found = {}
    for name in manifest.files.keys() & {*SMALL_FILES} - given_keys(settings):
        content = (folder / name).read_bytes()
        _require_unchanged(
            folder / name, BackupFile(len(content), sha256(content).hexdigest()), manifest
        )
        found[name] = content
    for name in {*found, WORLD_FILE}:
        file = settings.data / name
        if file.exists() and file.read_bytes() != found.get(name):
            raise ConfigurationError(
                f"{file} is not the one of the backup: move it away, or choose another folder with "
                "--data"
            )
    return found


def _require_unchanged(file: Path, found: BackupFile, manifest: Manifest) -> None:
    if found != manifest.files[file.name]:
        raise BarographError(
            f"{file} was changed after the backup: its size or its SHA-256 digest is not the one "
            "in the manifest. Nothing was restored. Use another backup"
        )


def _require_no_data(places: Files) -> None:
    # SQLite would apply a log that another database left behind.
    found = [
        file
        for place in places
        for suffix in ("", "-wal", "-shm")
        if (file := place.with_name(place.name + suffix)).exists()
    ]
    if found:
        aside = places[0].parent / "before-restore"
        raise ConfigurationError(
            f"{found[0].parent} has data already. To restore a backup in its place, stop the "
            f"service, then run `mkdir {aside} && mv {' '.join(map(str, found))} {aside}`"
        )


def _stage(folder: Path, manifest: Manifest, staged: Files) -> None:
    """Copy both databases, check the copies, and upgrade them."""
    _remove(staged)
    try:
        for name, schema, file in zip(DATABASES, (SERVICE, RECORD), staged, strict=True):
            with progress_bar(f"checking and copying {name}"):
                shutil.copyfile(folder / name, file)
                _require_unchanged(folder / name, seal_file(file), manifest)
            run_once(file, partial(_upgrade, schema=schema), wait_ms=UPGRADE_WAIT_MS)
    except BaseException:
        _remove(staged)
        raise


async def _upgrade(database: Database, schema: str) -> None:
    await upgrade(database, packaged_migrations(schema), system_clock)


def _remove(staged: Files) -> None:
    for file in staged:
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _move(staged: Files, places: Files) -> None:
    for file, place in zip(staged, places, strict=True):
        if file.exists():
            file.rename(place)
            sync_folder(place.parent)
