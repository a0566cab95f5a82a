"""`barograph stances resume` and `rotate-key`: signing after a restore, and with another key."""

import json
from base64 import b64encode
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from barograph.cli.common import (
    data_option,
    json_option,
    published_stances,
    read_history,
    require_database,
    served_settings,
    upgrade_database,
    yes_option,
)
from barograph.errors import BarographError, ConfigurationError
from barograph.history import guards, origins, reader, signing
from barograph.history.checkpoint import LogKeys, log_origin
from barograph.history.guards import SigningRefused
from barograph.history.origins import Record, resume_signing
from barograph.history.reader import RecordDamaged
from barograph.history.signing import is_key_in_file, load_history_key
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.opening import open_database
from barograph.settings import Settings

T = TypeVar("T")

NEWEST = (
    "Are these the newest checkpoints that were published? If the log holds everything that they "
    "cover, signing continues under the same name, and would contradict newer ones"
)
ANOTHER_LOG = (
    "Start a new origin? Everyone who kept a checkpoint will see that this is another log. This "
    "cannot be undone"
)
NEW_KEY_MISSING = "the key is in BAROGRAPH_HISTORY_KEY: give its next value with --new-key"
NEW_KEY_NOT_USED = "the key is in the data folder, and a new one is made there: leave out --new-key"
COMPLETED = (
    "an earlier change of the key was interrupted. It is complete now, and history-key is the "
    "current key. To replace the key once more, run the command again"
)
FILE_REPLACED = (
    "Web processes with this data folder use the new key at once. Copy history-key to the data "
    "folder of every other web host; until then, those hosts sign nothing"
)
SETTING_REPLACED = (
    "Set BAROGRAPH_HISTORY_KEY to the new key on every web host and restart `barograph serve` "
    "there; until then, those hosts sign nothing"
)


@click.command()
@click.option(
    "--checkpoint",
    "files",
    multiple=True,
    type=click.File(encoding="utf-8", errors="replace"),
    help="A kept copy of /api/history/checkpoint, or of one checkpoint. Give all that you have.",
)
@yes_option
@data_option
def resume(files: Sequence[TextIO], yes: bool, data: Path | None) -> None:
    """Sign checkpoints again after an interrupted restore, or after the key was lost.

    With --checkpoint, the command compares the log with everything that was signed according to
    your checkpoints and the database. If nothing is missing, the service signs again under the same
    name. Otherwise, and without a checkpoint, the log continues as a new origin, under a new name.

    \b
    Examples:
      barograph stances resume --checkpoint kept.json
      barograph stances resume --yes
    """
    settings = served_settings(data)
    if not yes:
        click.confirm(NEWEST if files else ANOTHER_LOG, abort=True, err=True)
    for line in resume_record(settings, [file.read() for file in files]):
        click.echo(line)


def resume_record(settings: Settings, notes: Sequence[str]) -> list[str]:
    """Sign again, under the same name if the checkpoints prove that the log is complete.

    Returns lines for people that say what was done.

    Raises:
        BarographError: a checkpoint is not ours.
        ConfigurationError: witnesses know the log by another address.
        DatabaseUnavailable: a database can't be used.
    """
    key = load_history_key(settings)
    keys, why = on_record(settings, lambda record: resume_signing(record, key, notes))
    origin = log_origin(settings.base_url, keys.name)
    if not why:
        return [f"{origin} holds everything that was signed, and is signed again"]
    return [
        f"started a new origin, because the log is not proven complete: {why}",
        f"the log is now {origin}, and its public key is {_encoded(keys.public_key)}",
        "Give its verifier key in /api/history/checkpoint to the operators of your witnesses",
    ]


@click.command("rotate-key")
@click.option(
    "--new-key",
    type=click.File(encoding="utf-8", errors="replace"),
    help="The next value of BAROGRAPH_HISTORY_KEY; - reads standard input.",
)
@yes_option
@json_option
@data_option
def rotate_key(new_key: TextIO | None, yes: bool, as_json: bool, data: Path | None) -> None:
    """Replace the key that signs checkpoints.

    The old key signs a last time and names the new one, so old checkpoints can still be verified.
    A key in the data folder is replaced, and the old file is kept beside it. If the key is in
    BAROGRAPH_HISTORY_KEY, give the new one with --new-key, and change the setting afterwards.

    \b
    Examples:
      barograph stances rotate-key
      barograph stances rotate-key --new-key new-key.txt --yes
    """
    settings = served_settings(data)
    if not yes:
        click.confirm("Replace the key that signs checkpoints?", abort=True, err=True)
    given = None if new_key is None else new_key.read()
    if is_key_in_file(settings) != (given is None):
        raise ConfigurationError(NEW_KEY_MISSING if given is None else NEW_KEY_NOT_USED)
    keys = on_record(settings, lambda record: _replace_key(settings, record, given))
    public_key, retired = _encoded(keys.public_key), _encoded(keys.retired[-1].public_key)
    if as_json:
        click.echo(json.dumps({"public_key": public_key, "retired": retired}))
        return
    click.echo(f"the public key is now {public_key}; {retired} is retired")
    click.echo(_next_step(settings))


async def _replace_key(settings: Settings, record: Record, given: str | None) -> LogKeys:
    """Change the key in the database, then replace the file.

    Raises:
        BarographError: an earlier change was interrupted in between, and is complete now.
    """
    if signing.install_staged_key(settings, (await record.log_keys()).public_key):
        raise BarographError(COMPLETED)
    old = signing.existing_key(settings)
    if given is not None:
        return await origins.rotate_key(record, old, signing.decode_history_key(given))
    try:
        keys = await origins.rotate_key(record, old, signing.staged_key(settings))
    except (SigningRefused, RecordDamaged):
        signing.drop_staged_key(settings, (await record.log_keys()).public_key)
        raise
    signing.install_staged_key(settings, keys.public_key)
    return keys


def on_record(
    settings: Settings,
    use: Callable[[Record], Coroutine[Any, Any, T]],
    *,
    is_read_only: bool = False,
) -> T:
    """Run an action on both databases; unless it only reads, the service's schema is upgraded."""
    require_database(settings)
    if not is_read_only:
        upgrade_database(settings)
    published = published_stances(settings)

    async def work(database: Database) -> T:
        service = open_database(settings.database_address, create=False)
        history = reader.HistoryReader(database)
        continuity = guards.Continuity(history, lambda: published)
        record = origins.Record(service, history, settings.base_url, continuity, system_clock)
        try:
            return await use(record)
        finally:
            await service.close()

    return read_history(settings, work)


def _next_step(settings: Settings) -> str:
    return FILE_REPLACED if is_key_in_file(settings) else SETTING_REPLACED


def _encoded(public_key: bytes | None) -> str:
    return b64encode(public_key or b"").decode()
