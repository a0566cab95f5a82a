"""Numbered SQL files, each applied once and in order.

All run in one transaction under the database's write lock, so concurrent upgrades all succeed and a
crash leaves the old schema.
"""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.database import SQLITE, Database, Engine, Transaction

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """Shows whether a file was edited after it was applied."""
        return sha256(self.sql.encode()).hexdigest()


SERVICE = "service"
"""The schema of the service's database, and the folder of its migrations."""


def packaged_migrations(schema: str = SERVICE, engine: Engine = SQLITE) -> list[Migration]:
    """The migrations of this version, in order.

    PostgreSQL starts with one file that has the number of the newest SQLite file it replaces.
    """
    place = files("barograph") / "migrations" / schema / engine
    names = sorted(entry.name for entry in place.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql")[5:], (place / name).read_text("utf-8"))
        for name in names
    ]


async def upgrade(database: Database, migrations: Sequence[Migration], clock: Clock) -> list[str]:
    """Apply missing migrations and return their names.

    Raises:
        ConfigurationError: the database is newer than this version, or an applied file changed.
    """

    async def work(tx: Transaction) -> list[str]:
        await tx.script(_TABLE)
        applied = {int(row[0]): str(row[1]) for row in await tx.fetch(_APPLIED)}
        _refuse_other_history(applied, migrations)
        missing = [step for step in migrations if step.number not in applied]
        for step in missing:
            await tx.script(step.sql)
            await tx.execute(_RECORD, step.number, step.name, step.digest, clock())
        return [step.name for step in missing]

    return await database.write(work)


async def missing_migrations(database: Database, migrations: Sequence[Migration]) -> list[str]:
    """The names of the migrations that a database lacks.

    Raises:
        ConfigurationError: the database is newer than this version, or an applied file changed.
        DatabaseUnavailable: it cannot be read, or was never upgraded.
    """

    async def work(tx: Transaction) -> dict[int, str]:
        return {int(row[0]): str(row[1]) for row in await tx.fetch(_APPLIED)}

    applied = await database.read(work)
    _refuse_other_history(applied, migrations)
    return [step.name for step in migrations if step.number not in applied]


_APPLIED = "SELECT number, digest FROM schema_migrations ORDER BY number"
_RECORD = "INSERT INTO schema_migrations (number, name, digest, applied_at) VALUES ($1, $2, $3, $4)"


def _refuse_other_history(applied: dict[int, str], migrations: Sequence[Migration]) -> None:
    known = {step.number: step for step in migrations}
    for number, digest in applied.items():
        if number not in known:
            raise ConfigurationError(
                f"the database has migration {number}, which this version does not know: "
                "run the newer barograph that made it"
            )
        if known[number].digest != digest:
            raise ConfigurationError(
                f"migration {number} ({known[number].name}) was edited after it was applied: "
                "restore the file and add a new migration instead"
            )
