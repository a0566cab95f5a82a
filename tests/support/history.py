"""A record of stances in a folder, and its public part over HTTP."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from barograph import NOTICE
from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.history.digest import leg_document
from barograph.history.guards import Continuity
from barograph.history.ledger import Ledger
from barograph.history.origins import Record, resume_signing, rotate_key
from barograph.history.records import (
    SCHEMA,
    ChainEnd,
    Decision,
    Leg,
    LegEvidence,
    Proposal,
    Stances,
    Version,
    VersionEvent,
)
from barograph.history.signing import install_staged_key, load_history_key, staged_key
from barograph.kit.database import POSTGRESQL, SQLITE, Database, Transaction
from barograph.kit.http import ASGIApp
from barograph.kit.json import Json
from barograph.kit.timestamps import HOUR, iso_timestamp
from barograph.stances.log_entries import LogEntries
from barograph.stances.reader import STANCES
from support.clock import START
from support.service import BASE_URL, Answer, Service, ask

RATES = "rates-desk"


def salts() -> Callable[[], str]:
    """Salts that are the same in every run."""
    numbers = count(1)
    return lambda: f"{next(numbers):064x}"


def proposal(number: int, kind: str = RATES) -> Proposal:
    """A different stance for each hour."""
    at = START + number * HOUR
    inputs: dict[str, Json] = {"levels": {"us10y": 4 + number / 1000, "sofr": 0.0, "us2y": None}}
    leg = Leg(
        period={"start": iso_timestamp(at), "end": iso_timestamp(at + HOUR)},
        levels={"us10y": 4 + number / 1000, "slope10y3m": -0.25},
        decision=Decision("cautious", "low", f"yields moved — secret {number}", "rule"),
        conditions=["us10y above 4.1"],
        method="rates-v1",
        evidence=LegEvidence("a curve", iso_timestamp(at), inputs),
    )
    return Proposal(kind, f"{kind}:{iso_timestamp(at)}", at, at + 30 * HOUR, leg)


def delivered(version: Version) -> dict[str, Any]:
    """The body that the payer of a durable stance gets."""
    return {
        "schema": SCHEMA,
        "kind": version.kind,
        "leg_id": version.leg_id,
        "revision": version.revision,
        "issued_at": iso_timestamp(version.issued_at),
        "expires_at": iso_timestamp(version.expires_at),
        "state": "active",
        "history_durable": True,
        "history_digest": version.history_digest,
        "leg": leg_document(version.leg),
        "events": [],
        "salt": version.salt,
        "notice": NOTICE,
    }


_GUARDS = {
    SQLITE: "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
    POSTGRESQL: """
SELECT tgname || ' ON ' || relname,
    pg_get_triggerdef(t.oid) || ';ALTER TABLE ' || relname || ' ENABLE ALWAYS TRIGGER ' || tgname
FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE NOT tgisinternal
""",
}


async def tamper(database: Database, *statements: str) -> None:
    """Change the record without its guards, and restore the guards."""

    async def work(tx: Transaction) -> None:
        guards = await tx.fetch(_GUARDS[database.engine])
        removals = [f"DROP TRIGGER {name}" for name, _ in guards]
        for each in (*removals, *statements, *(guard for _, guard in guards)):
            await tx.script(each)

    await database.write(work)


class PublicHistory:
    """Records as the collector does and reads as any caller does."""

    def __init__(self, folder: Path, base_url: str = BASE_URL) -> None:
        self.service = Service(folder, base_url=base_url)
        self.ledger = Ledger(self.service.history, self.service.clock, salt=salts())
        self.app = self.service.app

    def new_worker(self, **changed: object) -> ASGIApp:
        """The application of another process, perhaps with other settings."""
        return self.service.new_worker(**changed).app

    def record(self, size: int, kind: str = RATES, *, is_logged: bool = True) -> list[Version]:
        """Append until the chain has this size; return the appended versions."""

        async def work() -> list[Version]:
            known = await self.ledger.count(kind, "versions")
            proposals = (proposal(number, kind) for number in range(known, size))
            return [(await self.ledger.append(each)).version for each in proposals]

        versions = asyncio.run(work())
        if is_logged:
            self.log()
        return versions

    def log(self) -> None:
        """Append what is recorded to the public log, as the collector does."""
        service = self.service
        entries = LogEntries(service.database, self.ledger, BASE_URL, service.clock)
        asyncio.run(entries.append(service.lease))

    def withdraw(self, version: Version) -> VersionEvent:
        head = version.history_digest
        work = self.ledger.withdraw(version.kind, why="a wrong file", by="desk", expected_head=head)
        event = asyncio.run(work)
        self.log()
        return event

    def events(self, kind: str = RATES) -> list[VersionEvent]:
        return asyncio.run(self.ledger.events(kind))

    def version(self, sequence: int, kind: str = RATES) -> Version:
        found = asyncio.run(self.ledger.version_at(kind, sequence))
        assert found is not None
        return found

    def execute(self, sql: str) -> None:
        """Run SQL that no part of the service runs."""

        async def work(tx: Transaction) -> None:
            await tx.script(sql)

        asyncio.run(self.service.history.write(work))

    @property
    def both_databases(self) -> Record:
        """What the operator's commands work on."""
        service, continuity = self.service, Continuity(self.ledger, lambda: None)
        return Record(service.database, self.ledger, BASE_URL, continuity, service.clock)

    def rotate_key(self) -> None:
        """Replace the key in the data folder."""
        settings = self.service.settings
        keys = rotate_key(self.both_databases, load_history_key(settings), staged_key(settings))
        install_staged_key(settings, asyncio.run(keys).public_key)

    def start_origin(self) -> None:
        """Continue under another name, as after a restore."""
        key = load_history_key(self.service.settings)
        asyncio.run(resume_signing(self.both_databases, key, []))

    def tamper(self, *statements: str) -> None:
        asyncio.run(tamper(self.service.history, *statements))

    def publish_end(self, mark: ChainEnd) -> None:
        """Publish the end of the record of rates, as the collector does."""
        stances = Stances(as_of=0, stances=(), silent={}, recorded={RATES: mark})

        async def work(tx: Transaction) -> None:
            await publish(tx, [Publication.of(STANCES, stances)])

        asyncio.run(self.service.database.write(work))
        self.service.refresh()

    def ask(self, target: str, method: str = "GET", **headers: str) -> Answer:
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return ask(self.app, target, method, fields)

    def close(self) -> None:
        self.service.close()
