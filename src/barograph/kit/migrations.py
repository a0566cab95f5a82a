"""Numbered SQL files, applied once each and in order.

All of them run in one transaction under the database's own write lock, so three upgrades at
once all succeed and a crash leaves the old schema whole.
"""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction

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
        """What tells that a file was edited after it was applied."""
        return sha256(self.sql.encode()).hexdigest()


def packaged_migrations(folder: str = "") -> list[Migration]:
    """The migrations that ship with this version, in order.

    A database of its own, such as the record, has its numbered files in a folder of its own.
    """
    place = files("barograph") / "migrations" / folder
    names = sorted(entry.name for entry in place.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql")[5:], (place / name).read_text("utf-8"))
        for name in names
    ]


async def upgrade(database: Database, migrations: Sequence[Migration], clock: Clock) -> list[str]:
    """Apply what is missing and return the names of what was applied.

    Raises:
        ConfigurationError: the database was made by a newer version, or an applied file changed.
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
    """The names of the migrations that this database still lacks.

    Raises:
        ConfigurationError: the database was made by a newer version, or an applied file changed.
        DatabaseUnavailable: it cannot be read, or was never upgraded at all.
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
