"""A demo's databases on a PostgreSQL server, and commands that must not mix them with live ones."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from barograph.cli import cli
from barograph.cli.common import (
    is_history,
    read_demo_settings,
    read_settings,
    run_on_database,
    upgrade_database,
    upgrade_history,
)
from barograph.cli.databases import database_kind, require_kind, run_once, tables_in
from barograph.collector.leader import LEASE
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.lease import Lease
from barograph.kit.operating_system import free_port
from barograph.settings import Settings
from barograph.terms.sources import Kind
from barograph_demo.databases import move_history_away, start_over, store_urls
from barograph_demo.files import load_or_create_anchor
from support.postgresql import PostgreSQL

NOW = 1_790_000_000_000


@pytest.fixture
def urls(server: PostgreSQL) -> dict[str, SecretStr]:
    return {name: SecretStr(server.create()) for name in ("database_url", "history_url")}


def made(data: Path, urls: Mapping[str, SecretStr], *, world: bool) -> Settings:
    settings = Settings(data=data, **urls)
    if world:
        load_or_create_anchor(data, 1, NOW)
    upgrade_database(settings)
    upgrade_history(settings)
    return settings


@pytest.mark.outcome(
    "A live service is pointed at a demo's PostgreSQL database, or a demo at a live one",
    "It refuses with exit code 3 and changes nothing.",
)
def test_demo_and_live_service_refuse_each_others_databases(
    tmp_path: Path, server: PostgreSQL, urls: dict[str, SecretStr]
) -> None:
    live = made(tmp_path / "live", urls, world=False)
    other = {name: SecretStr(server.create()) for name in urls}
    demo = made(tmp_path / "demo", other, world=True)
    require_kind(live, "live")
    require_kind(demo, "demo")

    for name in urls:
        refusals: list[tuple[Settings, Kind, str]] = [
            (live, "demo", "live data"),
            (demo, "live", "of a demo"),
        ]
        for taken, kind, why in refusals:
            place = {name: getattr(taken, name)}
            with pytest.raises(ConfigurationError, match=f"BAROGRAPH_{name.upper()}.*{why}"):
                require_kind(Settings(data=tmp_path / "new", **place), kind)
    with pytest.raises(ConfigurationError, match="holds the simulated data of a demo"):
        require_kind(Settings(data=demo.data, **urls), "live")


@pytest.mark.thorough
@pytest.mark.outcome(
    "A demo without `--fresh` is pointed at the PostgreSQL database of another demo",
    "It refuses with exit code 3 and changes nothing.",
)
def test_demo_refuses_the_databases_of_another_world(
    tmp_path: Path, urls: dict[str, SecretStr]
) -> None:
    for _ in range(2):
        made(tmp_path / "first", urls, world=True)
    other = Settings(data=tmp_path / "second", **urls)
    load_or_create_anchor(other.data, 1, NOW)  # an equal world, with a record of its own
    for upgrade in (upgrade_database, upgrade_history):
        with pytest.raises(ConfigurationError, match=r"another demo than .*--fresh"):
            upgrade(other)


@pytest.mark.thorough
@pytest.mark.parametrize("world", [True, False])
def test_process_of_the_other_kind_that_starts_at_the_same_moment_is_refused(
    tmp_path: Path, urls: dict[str, SecretStr], world: bool
) -> None:
    late = Settings(data=tmp_path / "late", **urls)
    require_kind(late, "live" if world else "demo")
    made(tmp_path / "first", urls, world=world)
    if not world:
        load_or_create_anchor(late.data, 1, NOW)

    for upgrade in (upgrade_database, upgrade_history):
        with pytest.raises(ConfigurationError, match="of a demo" if world else "with live data"):
            upgrade(late)


@pytest.mark.thorough
def test_fresh_demo_drops_its_own_tables_and_no_others(
    tmp_path: Path, urls: dict[str, SecretStr]
) -> None:
    live = made(tmp_path / "live", urls, world=False)
    tables = tables_in(live.database_address)
    start_over(live)
    assert tables_in(live.database_address) == tables

    demo = tmp_path / "demo"
    demo.mkdir()
    run_on_database(live, lambda database: database.write(lambda tx: tx.script(_AS_DEMO)))
    start_over(Settings(data=demo, database_url=urls["database_url"]))
    assert tables_in(live.database_address) == {"notes"}
    made(demo, {"database_url": urls["database_url"]}, world=True)
    assert tables_in(live.database_address) == tables | {"notes"}


@pytest.mark.thorough
@pytest.mark.outcome(
    "`barograph demo --fresh` names the PostgreSQL databases of a running demo",
    "It refuses with exit code 3 and changes nothing.",
)
def test_fresh_demo_refuses_the_databases_of_a_running_demo(
    tmp_path: Path, urls: dict[str, SecretStr]
) -> None:
    running = made(tmp_path / "first", urls, world=True)
    run_once(
        running.database_address,
        lambda it: Lease(it, LEASE, "first", clock=system_clock, milliseconds=60_000).acquire(),
    )
    tables = tables_in(running.database_address)

    port, data = str(free_port("127.0.0.1")), str(tmp_path / "second")
    fresh = [sys.executable, "-m", "barograph", "demo", "--fresh", "--port", port, "--data", data]
    servers = {f"BAROGRAPH_{name.upper()}": url.get_secret_value() for name, url in urls.items()}
    ended = subprocess.run(
        fresh,
        env={**os.environ, **servers},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3
    assert "a demo is running on these databases" in ended.stderr
    assert tables_in(running.database_address) == tables


@pytest.mark.outcome(
    "The two PostgreSQL URLs name one database, even in two ways, or are swapped",
    "It refuses with exit code 3 and changes nothing.",
)
def test_urls_of_one_database_or_swapped_ones_are_refused(
    tmp_path: Path, urls: dict[str, SecretStr], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(data: Path, service: SecretStr, history: SecretStr) -> str:
        with pytest.raises(ConfigurationError):
            require_kind(Settings(data=data, database_url=service, history_url=history), "demo")
        monkeypatch.setenv("BAROGRAPH_DATABASE_URL", service.get_secret_value())
        monkeypatch.setenv("BAROGRAPH_HISTORY_URL", history.get_secret_value())
        result = CliRunner().invoke(cli, ["db", "upgrade", "--data", str(data)])
        assert isinstance(result.exception, ConfigurationError)
        return str(result.exception)

    one, two = urls.values()
    same = SecretStr(one.get_secret_value().replace("127.0.0.1", "localhost"))
    assert "name the same database" in refusal(tmp_path / "new", one, same)
    assert tables_in(one.get_secret_value()) == set()
    made(tmp_path / "first", urls, world=True)
    assert "swap the two URLs" in refusal(tmp_path / "second", two, one)


@pytest.mark.thorough
def test_fault_takes_the_history_away_and_brings_it_back(
    tmp_path: Path, urls: dict[str, SecretStr]
) -> None:
    settings = made(tmp_path, urls, world=True)
    for _ in range(2):
        move_history_away(settings, away=True)
        assert not is_history(settings.history_address)
    for _ in range(2):
        move_history_away(settings, away=False)
        upgrade_history(settings)  # its triggers are the shipped ones


def test_folder_of_a_demo_names_its_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://demo:secret@db.example/{}"
    store_urls(Settings(data=tmp_path, database_url=SecretStr(url.format("one"))))
    assert (tmp_path / "databases.json").stat().st_mode & 0o777 == 0o600
    assert read_settings(data=tmp_path).database_address == url.format("one")

    monkeypatch.setenv("BAROGRAPH_DATABASE_URL", "postgresql://me:new@db.example:5432/one")
    assert (
        read_settings(data=tmp_path).database_address == "postgresql://me:new@db.example:5432/one"
    )
    monkeypatch.setenv("BAROGRAPH_DATABASE_URL", url.format("two"))
    with pytest.raises(ConfigurationError, match="BAROGRAPH_DATABASE_URL names another") as refused:
        read_settings(data=tmp_path)
    assert "secret" not in str(refused.value)
    assert read_demo_settings(tmp_path).database_address == url.format("two")


def test_missing_tables_are_explained_by_the_setting(
    tmp_path: Path, urls: dict[str, SecretStr]
) -> None:
    settings = Settings(data=tmp_path, **urls)
    assert database_kind(settings.database_address) is None
    with pytest.raises(ConfigurationError, match="BAROGRAPH_DATABASE_URL names has no tables"):
        run_on_database(settings, lambda database: database.fetch("SELECT 1"))


_AS_DEMO = "UPDATE instance SET kind = 'demo'; CREATE TABLE notes (text TEXT);"
_AS_DEMO += "COMMENT ON TABLE schema_migrations IS 'demo 1 2'"
