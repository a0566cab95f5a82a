"""`barograph backup` and `barograph restore`."""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click
import msgspec

from barograph.cli.backup_folder import (
    KEYS,
    Manifest,
    restore_backup,
    uses_both_engines,
    write_backup,
)
from barograph.cli.common import data_option, json_option, read_demo_settings, read_settings
from barograph.cli.stances import end_verification, verify_record
from barograph.cli.stances_signing import resume_record
from barograph.cli.stances_text import verified_json, verified_text
from barograph.errors import BarographError

_folder = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("folder", metavar="DIR", type=_folder)
@click.option("--without-keys", is_flag=True, help="Leave out all keys and webhook secrets.")
@data_option
@json_option
def backup(folder: Path, without_keys: bool, data: Path | None, as_json: bool) -> None:
    """Back up both databases and the keys to the new folder DIR, while the service runs.

    The backup holds SQLite files, even of PostgreSQL databases, so that you can restore it on
    either engine. The command checks the copies and verifies the record. Only the owner of DIR can
    read it. Copy it to another machine, and keep it as secret as the keys in it.

    \b
    Examples:
      barograph backup /var/backups/barograph/2027-01-31
      barograph backup /mnt/nas/barograph --without-keys --json
    """
    # A backup that is stopped deletes what it has written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings, started = read_settings(data=data), time.monotonic()
    if uses_both_engines(settings):
        click.echo(_MIXED, err=True)
    manifest = write_backup(settings, folder, with_keys=not without_keys)
    seconds = time.monotonic() - started
    if as_json:
        click.echo(_json(manifest, folder=str(folder), seconds=round(seconds, 3)))
        return
    click.echo(f"backed up to {folder}: {manifest.size}, in {seconds:.1f} s")
    _say_missing_keys(manifest)


@click.command()
@click.argument("folder", metavar="DIR", type=_folder)
@click.option(
    "--checkpoint",
    "kept",
    multiple=True,
    type=click.File(encoding="utf-8", errors="replace"),
    help="The newest checkpoint that you kept. If nothing is missing, the log keeps its name.",
)
@data_option
@json_option
def restore(folder: Path, kept: Sequence[TextIO], data: Path | None, as_json: bool) -> None:
    """Restore the backup in DIR to an empty data folder, or to empty PostgreSQL databases.

    Stop the service first. On PostgreSQL, use the owner's URLs. The command checks the backup,
    upgrades its databases and verifies the record. If it is interrupted, run it again.

    A backup lacks what was logged after it. So the public log continues as a new origin, under a
    new name, unless the newest checkpoint that was published proves that nothing is missing. Set
    BAROGRAPH_BASE_URL to the address of the service, which is part of the name.

    \b
    Examples:
      barograph restore /var/backups/barograph/2027-01-31 --data /var/lib/barograph
      barograph restore /var/backups/barograph/2027-01-31 --checkpoint kept.json
    """
    notes, settings = [file.read() for file in kept], read_demo_settings(data)
    manifest = restore_backup(settings, folder)
    verified = verify_record(settings)
    if as_json:
        click.echo(_json(manifest, data=str(settings.data), verified=verified_json(*verified)))
    else:
        click.echo(f"restored {folder} to {settings.data}: {manifest.size}")
        click.echo(verified_text(*verified))
        _say_missing_keys(manifest)
        click.echo(_LOST.format(created_at=manifest.created_at))
        if settings.database_url.get_secret_value():
            click.echo(_ON_SERVER)
    end_verification(*verified)
    try:
        lines = resume_record(settings, notes)
    except BarographError:
        click.echo(_HELD.format(data=settings.data), err=True)
        raise
    click.echo("\n".join(lines), err=as_json)


def _json(manifest: Manifest, **more: object) -> str:
    return json.dumps({**msgspec.to_builtins(manifest), **more})


def _say_missing_keys(manifest: Manifest) -> None:
    if missing := [name for name in KEYS if name not in manifest.files]:
        click.echo(
            f"The backup has no {' and no '.join(missing)}. Keep what is missing, or "
            "BAROGRAPH_KEY_PEPPER, BAROGRAPH_HISTORY_KEY and BAROGRAPH_WEBHOOK_KEY, elsewhere: "
            "with another key-pepper no API key works, with another history-key the record needs a "
            "new origin, and with another webhook-key receivers need the new public key."
        )


_MIXED = (
    "One database is on PostgreSQL, and the other is a file. You can restore the backup to two "
    "PostgreSQL databases or to two files, but not to one of each."
)
_LOST = """
This is the state of {created_at}. Everything since then is lost:
- Payments settled since then are not in the journal. Find them on the chain or at the facilitator,
  and give the payers what they bought with `barograph entitlements grant`.
- Entitlements granted since then are gone: grant them again. Entitlements revoked since then are
  valid again: run `barograph entitlements revoke`.
- API keys created since then don't work: their owners can request new ones. API keys revoked since
  then work again: run `barograph keys revoke`.
- Stances recorded since then are gone. Subscribers may have received them.
- E-mails that waited to be sent at that time are sent again.
"""
_ON_SERVER = """Run deploy/postgresql-roles.sql again: it gives the run-time role its rights.
"""
_HELD = """You can start the service, but it signs no checkpoint until you complete this:
  barograph stances resume --data {data}"""
