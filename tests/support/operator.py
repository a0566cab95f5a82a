"""An operator who runs `barograph stances`."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import AsyncMock

from click.testing import CliRunner, Result
from msgspec.structs import replace
from pydantic import SecretStr

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.cli import cli
from barograph.errors import BarographError
from barograph.history.checkpoint import RetiredKey
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.ledger import Ledger
from barograph.history.public_log import PublicLog
from barograph.history.records import KINDS, ChainEnd, Stances, Version, VersionEvent
from barograph.history.signing import load_history_key
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.json import Json
from barograph.kit.lease import Lease
from barograph.kit.opening import Address, open_database
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph.settings import Settings
from barograph.stances.log_entries import LogEntries
from barograph.stances.reader import STANCES
from barograph.stances.reveals import REVEALS, Announcement, Reveals
from support.history import tamper
from support.service import BASE_URL
from support.stances import FUNDING, proposal

T = TypeVar("T")

REVISE = ("revise", FUNDING, "--decision", "cautious", "--why", "auction tomorrow")
WITHDRAW = ("withdraw", FUNDING, "--why", "a wrong file", "--yes")


class Operator:
    """Runs the command in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"

    @property
    def history(self) -> Path:
        return self.data / "history.sqlite3"

    @property
    def database(self) -> Path:
        return self.data / "barograph.sqlite3"

    def make_record(self) -> None:
        make_databases(self.data)

    def run(self, *arguments: str, answers: Any = None, **environment: str) -> Result:
        everything = ["stances", *arguments, "--data", str(self.data)]
        return CliRunner().invoke(cli, everything, input=answers, env=environment)

    def read_json(self, *arguments: str, **environment: str) -> Any:
        result = self.run(*arguments, "--json", **environment)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str, **environment: str) -> BaseException:
        result = self.run(*arguments, **environment)
        assert isinstance(result.exception, BarographError), result.output
        return result.exception

    def record(
        self,
        number: int = 0,
        *,
        kind: str = FUNDING,
        lasts: int = DAY,
        by: str = "rules",
        conditions: Sequence[Json] = (),
    ) -> Version:
        """Record as the collector does."""
        now = system_clock()
        given = replace(proposal(number, kind=kind, by=by), issued_at=now, expires_at=now + lasts)
        if conditions:
            given = replace(given, leg=replace(given.leg, conditions=list(conditions)))

        async def work(ledger: Ledger) -> Version:
            return (await ledger.append(given)).version

        return self.on_ledger(work)

    def events(self, kind: str = FUNDING) -> list[VersionEvent]:
        return self.on_ledger(lambda ledger: ledger.events(kind))

    def publish(self) -> None:
        """Publish the current end of every chain, as the collector does."""

        async def ends(ledger: Ledger) -> dict[str, ChainEnd]:
            return {
                kind: await _end(ledger, kind)
                for kind in KINDS
                if await ledger.count(kind, "versions")
            }

        stances = Stances(0, (), {}, self.on_ledger(ends))

        on_database(
            self.database,
            lambda database: database.write(
                lambda tx: publish(tx, [Publication.of(STANCES, stances)])
            ),
        )

    def announce(self, after_days: int, at: int) -> None:
        """Publish when versions become public, as the collector does."""
        reveals = Publication.of(REVEALS, Reveals((Announcement(at, after_days),)))
        work = partial(publish, publications=[reveals])
        on_database(self.database, lambda database: database.write(work))

    def log(self) -> None:
        """Append what is recorded to the public log, as the collector does."""

        async def work(database: Database) -> None:
            history, lease = open_database(self.history), AsyncMock(spec=Lease)
            ledger = Ledger(history, system_clock)
            await LogEntries(database, ledger, BASE_URL, system_clock).append(lease)
            await history.close()

        on_database(self.database, work)

    def on_ledger(self, use: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
        return on_database(self.history, lambda database: use(Ledger(database, system_clock)))

    def tamper(self, *statements: str) -> None:
        on_database(self.history, lambda database: tamper(database, *statements))


def make_databases(data: Path) -> None:
    """Make what `barograph db upgrade` makes; an empty folder gets a copy of it."""
    if data.exists() and any(data.iterdir()):
        upgrade_folder(data)
        return
    data.mkdir(parents=True, exist_ok=True)
    for name, content in _upgraded().items():
        (data / name).write_bytes(content)


@cache
def _upgraded() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        upgrade_folder(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def upgrade_folder(data: Path) -> None:
    assert CliRunner().invoke(cli, ["db", "upgrade", "--data", str(data)]).exit_code == 0


async def _end(ledger: Ledger, kind: str) -> ChainEnd:
    (newest,), events = await ledger.newest_versions(kind, 1), await ledger.events(kind)
    last = events[-1].event_digest if events else ""
    return ChainEnd(newest.sequence, newest.history_digest, len(events), last)


def on_database(path: Path, use: Callable[[SQLiteDatabase], Coroutine[Any, Any, T]]) -> T:
    async def work() -> T:
        database = SQLiteDatabase(path)
        try:
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(work())


async def sign(
    service: Address, history: Address, settings: Settings | None = None
) -> tuple[str, list[RetiredKey]]:
    """What a web process signs and publishes: the checkpoint, and the keys that signed before."""
    settings = settings or Settings(history_key=SecretStr(b64encode(bytes(32)).decode()))
    databases = open_database(service), open_database(history)
    ledger = Ledger(databases[1], system_clock)
    key, signed = load_history_key(settings), SignedHeads(*databases, system_clock)
    continuity, base_url = Continuity(ledger, lambda: None), settings.base_url
    log = PublicLog(key, base_url, signed, continuity, reload_key=lambda: key)
    try:
        return (await log.checkpoint()).note, [*log.keys.retired]
    finally:
        for each in databases:
            await each.close()
