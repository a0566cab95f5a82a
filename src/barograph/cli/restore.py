"""Puts a backup back: to SQLite files or to PostgreSQL, whichever the settings name.

Both databases are copied beside their places, checked and upgraded there, and moved only then. The
service's is moved first: until the history follows, a service that starts finds no history, and
signs nothing. If a restore is interrupted, it can be run again.
"""

import shutil
from functools import partial
from hashlib import sha256
from pathlib import Path

from barograph.cli.backup_folder import (
    DATABASES,
    SMALL_FILES,
    BackupFile,
    Manifest,
    failure_explained,
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
from barograph.kit.operating_system import is_exposed, lock_folder, replace_file
from barograph.settings import Settings

SmallFiles = dict[str, bytes]
"""The content of files by their names."""


def restore_backup(settings: Settings, folder: Path) -> Manifest:
    """Restore a backup to a data folder and databases that have no data yet.

    Raises:
        ConfigurationError: the folder is no backup, a newer version made it, or the target has
            data or another key.
        BarographError: a file of the backup was changed, or the target can't be written.
        DatabaseUnavailable: a database can't be used.
    """
    manifest = read_manifest(folder)
    advice = f"check that {settings.data} is writable and has room, then run this again"
    with failure_explained(f"{folder} was not restored", advice):
        small = _read_small_files(settings, folder, manifest)
        make_folder(settings.data)
        make_folder(settings.history_path.parent)
        with lock_folder(settings.data):
            _restore(settings, folder, manifest, small)
    return manifest


def _restore(settings: Settings, folder: Path, manifest: Manifest, small: SmallFiles) -> None:
    service, history = settings.database_path, settings.history_path
    staged = _staged(service), _staged(history)
    is_on_server = {settings.database_address, settings.history_address} != {service, history}
    if not is_on_server and service.exists() and not staged[0].exists() and staged[1].exists():
        replace_file(staged[1], history)  # an earlier run had done the rest
        return
    if not is_on_server:
        _require_no_data((service, history))
    hold = partial(hold_signing, now=system_clock())
    try:
        _stage(folder, manifest, staged)
        for name, content in small.items():
            write_once(settings.data / name, content)
        if is_on_server:
            with progress_bar("copying to PostgreSQL") as progress:
                copy_databases(settings, staged, progress, hold)
        else:
            run_once(staged[0], lambda database: database.write(hold))
    except BaseException:
        _remove(staged)
        raise
    if is_on_server:
        _remove(staged)
    else:
        replace_file(staged[0], service)
        replace_file(staged[1], history)


def _staged(place: Path) -> Path:
    return place.with_name(f"{place.name}.restoring")


def _read_small_files(settings: Settings, folder: Path, manifest: Manifest) -> SmallFiles:
    """The keys, unless settings name them, and a demo's world.

    Raises:
        ConfigurationError: the data folder has others, or every user may read them.
        BarographError: one was changed after the backup.
    """
    found: SmallFiles = {}
    for name in manifest.files.keys() & {*SMALL_FILES} - given_keys(settings):
        file = folder / name
        if is_exposed(file):
            raise ConfigurationError(
                f"every user of this machine may read or change {file}: run `chmod -R go= {folder}`"
                ", and replace the keys after restoring if someone may have read them"
            )
        found[name] = file.read_bytes()
        digest = sha256(found[name]).hexdigest()
        _require_unchanged(file, BackupFile(len(found[name]), digest), manifest)
    for file in (settings.data / name for name in {*found, WORLD_FILE}):
        if file.exists() and file.read_bytes() != found.get(file.name):
            raise ConfigurationError(
                f"{file} is not the one of the backup: move it away, or choose another folder with "
                "--data"
            )
    return found


def _require_unchanged(file: Path, found: BackupFile, manifest: Manifest) -> None:
    if found != manifest.files[file.name]:
        raise BarographError(
            f"{file} was changed after the backup: its size or SHA-256 digest is not that of the "
            "manifest. Nothing was restored. Use another backup"
        )


def _require_no_data(places: Files) -> None:
    # A log alone counts too: SQLite would apply it to the restored database.
    if found := [file for place in places for file in _with_logs(place) if file.exists()]:
        aside = places[0].parent / "before-restore"
        raise ConfigurationError(
            f"{found[0].parent} has data already. To restore a backup in its place, stop the "
            f"service, then run `mkdir {aside} && mv {' '.join(map(str, found))} {aside}`"
        )


def _with_logs(file: Path) -> list[Path]:
    return [file.with_name(file.name + suffix) for suffix in ("", "-wal", "-shm")]


def _remove(staged: Files) -> None:
    for file in (*_with_logs(staged[0]), *_with_logs(staged[1])):
        file.unlink(missing_ok=True)


def _stage(folder: Path, manifest: Manifest, staged: Files) -> None:
    """Copy both databases, check the copies, and upgrade them."""
    _remove(staged)
    for name, schema, file in zip(DATABASES, (SERVICE, RECORD), staged, strict=True):
        with progress_bar(f"checking and copying {name}"):
            shutil.copyfile(folder / name, file)
            _require_unchanged(folder / name, seal_file(file), manifest)
        run_once(file, partial(_upgrade, schema=schema), wait_ms=UPGRADE_WAIT_MS)


async def _upgrade(database: Database, schema: str) -> None:
    await upgrade(database, packaged_migrations(schema), system_clock)
