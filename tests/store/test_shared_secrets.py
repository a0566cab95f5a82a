"""Hosts of one PostgreSQL database have the same secrets."""

import asyncio
import shutil
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from barograph.cli import cli
from barograph.cli.doctor_databases import check_secrets
from barograph.errors import ConfigurationError
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.kit.database import Database
from barograph.kit.fingerprints import replace_fingerprint
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.settings import Settings
from barograph.web.shared_secrets import forget_secrets, require_shared_secrets, web_secrets
from barograph.webhooks.keys import shared_webhook_keys
from support.clock import HandClock
from support.databases import upgraded_database
from support.postgresql import PostgreSQL


def host(folder: Path, name: str) -> Settings:
    (folder / name).mkdir()
    return Settings(data=folder / name)


async def start(database: Database, host: Settings) -> None:
    await require_shared_secrets(database, host.data, web_secrets(host))


@pytest.mark.outcome(
    "A host has another pepper, checkpoint key or webhook key than the others of its "
    "PostgreSQL database",
    "It refuses to start and says how to share them.",
)
def test_host_with_other_secrets_is_refused_until_they_are_replaced(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    url = postgresql.create()
    first, second = host(tmp_path, "first"), host(tmp_path, "second")
    pepper = (first.data / PEPPER_FILE).read_bytes

    async def work() -> None:
        database = open_database(url)
        await upgrade(database, packaged_migrations(SERVICE, database.engine), HandClock())
        with pytest.raises(ConfigurationError, match="copy webhook-key"):
            await shared_webhook_keys(database, first)
        for _ in range(2):
            await start(database, first)
        # A collector that was started before the web server on its host signs from now on.
        assert len(await shared_webhook_keys(database, first)) == 1
        with pytest.raises(
            ConfigurationError, match="another history-key and key-pepper and webhook-key: "
        ):
            await start(database, second)
        with pytest.raises(ConfigurationError, match="copy webhook-key"):
            await shared_webhook_keys(database, second)
        (second.data / PEPPER_FILE).write_bytes(pepper())
        with pytest.raises(ConfigurationError, match="another history-key and webhook-key: "):
            await start(database, second)
        await forget_secrets(database)
        await start(database, second)
        with pytest.raises(ConfigurationError, match="another history-key and webhook-key: "):
            await start(database, first)
        (first.data / PEPPER_FILE).write_bytes(b"p" * 32)
        for name, secret in web_secrets(first).items():
            await database.write(partial(replace_fingerprint, name=name, secret=secret))
        await start(database, first)
        stored = await database.fetch("SELECT * FROM secret_fingerprints")
        assert pepper().hex() not in str(stored)
        await database.close()

    asyncio.run(work())


def test_doctor_names_secrets_that_are_missing_or_differ_and_stores_nothing(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    url = postgresql.create()
    given = {"database_url": SecretStr(url)}
    first, second = (host(tmp_path, each).model_copy(update=given) for each in ("first", "second"))
    said = []

    async def work() -> None:
        database = open_database(url)
        await upgrade(database, packaged_migrations(SERVICE, database.engine), HandClock())
        said.append(await check_secrets(second))
        await start(database, first)
        said.append(await check_secrets(first))
        said.append(await check_secrets(second))
        assert list(second.data.iterdir()) == []
        web_secrets(second)
        said.append(await check_secrets(second))
        await database.close()

    asyncio.run(work())
    other = "is not the one that this database was used with"
    assert [each.status for each in said] == ["ok", "ok", "fail", "fail"]
    assert said[2].detail == "history-key is missing; key-pepper is missing; webhook-key is missing"
    assert said[3].detail == f"history-key {other}; key-pepper {other}; webhook-key {other}"
    assert f"copy the files from the data folder of another host to {second.data}" in said[3].remedy


def test_command_that_needs_the_pepper_compares_nothing_else(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    url = postgresql.create(SERVICE)
    office, web = host(tmp_path, "office"), host(tmp_path, "web")

    async def work() -> None:
        database = open_database(url)
        pepper = {PEPPER_FILE: load_pepper(office)}
        for _ in range(2):
            await require_shared_secrets(database, office.data, pepper)
        shutil.copy(office.data / PEPPER_FILE, web.data)
        await start(database, web)
        await require_shared_secrets(database, office.data, pepper)
        await database.close()

    asyncio.run(work())


def test_new_pepper_revokes_every_key_even_if_the_old_one_is_lost(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    file, url = tmp_path / PEPPER_FILE, postgresql.create(SERVICE)

    def run(command: str, *options: str, **environment: str) -> Result:
        arguments = ["keys", command, *options, "--data", str(tmp_path)]
        environment["BAROGRAPH_DATABASE_URL"] = url
        return CliRunner().invoke(cli, arguments, input="n\n", env=environment)

    for name in ("a", "b"):
        assert run("create", "--email", f"{name}@example.com").exit_code == 0
    old = file.read_bytes()
    assert (run("rotate-pepper").exit_code, file.read_bytes()) == (1, old)
    file.write_bytes(bytes(32))
    assert run("list").exit_code == 1
    result = run("rotate-pepper", "--yes")
    assert result.output.startswith("revoked 2 keys\nreplaced key-pepper"), result.output
    assert file.read_bytes() not in (old, bytes(32))
    assert "works" not in run("list").output
    result = run("rotate-pepper", "--yes", BAROGRAPH_KEY_PEPPER="p" * 32)
    assert "now set BAROGRAPH_KEY_PEPPER to another secret" in result.output


def test_sqlite_serves_one_host_and_stores_no_fingerprint(tmp_path: Path) -> None:
    database = upgraded_database(tmp_path / "barograph.sqlite3")

    async def work() -> None:
        await start(database, Settings(data=tmp_path))
        assert await database.fetch("SELECT * FROM secret_fingerprints") == []
        await database.close()

    asyncio.run(work())
