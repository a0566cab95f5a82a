"""Demo and live data are never mixed, and only sources with confirmed terms are read."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.common import upgrade_database
from barograph.cli.databases import database_kind, require_kind
from barograph.collector.app import macro_sources
from barograph.errors import ConfigurationError
from barograph.settings import Settings
from barograph.terms.sources import SOURCES, Unconfirmed, require_venue
from barograph.terms.store import (
    unconfirmed_sources,
    without_selling,
    without_unconfirmed,
)
from barograph.upstream.files import FileClient
from barograph.venue_names import VENUE_NAMES
from barograph_demo.configuration import payment_settings
from support.clock import HandClock
from support.operator import on_database
from support.payments import PAYMENTS


def run(data: Path, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(data)], env=environment)


def states(data: Path, **environment: str) -> dict[str, str]:
    listed = run(data, "terms", "list", "--json", **environment)
    assert listed.exit_code == 0, listed.output
    return {row["name"]: row["state"] for row in json.loads(listed.stdout)}


@pytest.mark.outcome(
    "No exchange's terms are confirmed",
    "`collect` and `serve --collect` exit with 3 and name the line that confirms them.",
)
@pytest.mark.parametrize("command", [["collect"], ["serve", "--collect"]])
def test_nothing_is_collected_before_the_terms_of_a_venue_are_confirmed(
    tmp_path: Path, command: list[str]
) -> None:
    ended = run(tmp_path, *command, BAROGRAPH_ACCEPT_TERMS="treasury")

    assert isinstance(ended.exception, ConfigurationError)
    assert "then set BAROGRAPH_ACCEPT_TERMS=bybit" in str(ended.exception)
    assert "docs/live.md" in str(ended.exception)


@pytest.mark.outcome(
    "An earlier version stored confirmations of terms, and the setting is missing",
    "`db upgrade` prints the line to set. `serve` and `collect` refuse to start with the same "
    "line.",
)
def test_an_upgrade_names_the_line_that_keeps_stored_confirmations(tmp_path: Path) -> None:
    upgrade_database(Settings(data=tmp_path))
    stored = "INSERT INTO terms_confirmations VALUES ($1, '', 'terms', 1), ($2, '', 'terms', 1)"
    on_database(
        tmp_path / "barograph.sqlite3",
        lambda database: database.write(lambda tx: tx.execute(stored, "nyfed", "bybit")),
    )
    line = "set BAROGRAPH_ACCEPT_TERMS=bybit,nyfed"

    assert line in run(tmp_path, "db", "upgrade").stderr
    for command in (["collect"], ["serve"], ["serve", "--collect"]):
        assert line in str(run(tmp_path, *command).exception)
    some = {"BAROGRAPH_ACCEPT_TERMS": "treasury,bybit"}
    assert "=bybit,treasury,nyfed\n" in run(tmp_path, "db", "upgrade", **some).stderr
    all_of_them = {"BAROGRAPH_ACCEPT_TERMS": "nyfed,bybit"}
    assert run(tmp_path, "db", "upgrade", **all_of_them).stderr == ""


@pytest.mark.outcome(
    "The terms of some of the configured venues are not confirmed",
    "The collector reads the others. `/api/status` lists the unconfirmed ones as `not_configured`.",
)
@pytest.mark.parametrize(
    ("unconfirmed", "used"),
    [
        ((), ("binance", "bybit", "hyperliquid")),
        (("binance", "treasury"), ("bybit", "hyperliquid")),
        (("binance", "hyperliquid"), ("bybit",)),
        (("binance", "bybit", "hyperliquid"), ()),
    ],
)
def test_only_confirmed_venues_are_read_in_the_configured_order(
    unconfirmed: tuple[str, ...], used: tuple[str, ...]
) -> None:
    settings = Settings(venues="binance,bybit,hyperliquid")
    found, venues = Unconfirmed(unconfirmed), settings.venue_names
    without = without_unconfirmed(settings, found)

    if not used:
        with pytest.raises(ConfigurationError, match="set BAROGRAPH_ACCEPT_TERMS=binance"):
            require_venue(venues, found)
        assert without.venue_names == venues  # the web side starts without data
        return
    require_venue(venues, found)
    assert without.venue_names == used


def test_the_setting_alone_confirms_and_the_old_command_names_its_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    listed = states(data, BAROGRAPH_ACCEPT_TERMS="nyfed, bybit")
    confirmed = [name for name, state in listed.items() if state == "confirmed"]
    assert confirmed == ["bybit", "nyfed"]
    assert listed["treasury"].endswith("(add treasury to BAROGRAPH_ACCEPT_TERMS)")
    assert listed["selling"] == "not configured"
    text = run(data, "terms", "list").stdout
    asked = [each for each in SOURCES.values() if each.statement == "consent"]
    assert text.count("You confirm that you hold the publisher's written consent.") == len(asked)

    refused = run(data, "terms", "accept", "bybit", BAROGRAPH_ACCEPT_TERMS="nyfed")
    assert isinstance(refused.exception, ConfigurationError)
    assert "set BAROGRAPH_ACCEPT_TERMS=bybit,nyfed" in str(refused.exception)
    assert not data.exists()


@pytest.mark.parametrize("word", ["all", "bibit"])
def test_each_source_is_confirmed_by_its_own_name(tmp_path: Path, word: str) -> None:
    started = run(tmp_path, "collect", BAROGRAPH_ACCEPT_TERMS=f"bybit,{word}")
    assert isinstance(started.exception, ConfigurationError)
    assert f"{word!r} is not a data source: in BAROGRAPH_ACCEPT_TERMS" in str(started.exception)
    assert ", ".join(SOURCES) in str(started.exception)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"rates_url": "", "etf_file": "flows.csv"}, ["bybit"]),
        (
            {"etf_url": "", "venues": "binance,hyperliquid", "accept_terms": "binance,treasury"},
            ["hyperliquid", "nyfed"],
        ),
        ({"venues": ",".join(VENUE_NAMES), **PAYMENTS}, list(SOURCES)),
    ],
)
def test_only_configured_sources_need_a_confirmation(
    given: dict[str, str], names: list[str]
) -> None:
    assert unconfirmed_sources(Settings.model_validate(given)).names == tuple(names)


def test_unconfirmed_sources_of_daily_figures_are_not_read() -> None:
    async def names(unconfirmed: Unconfirmed) -> list[str]:
        settings = Settings(etf_url="https://issuer.example/f.csv")
        nothing = httpx2.MockTransport(lambda _: httpx2.Response(404))
        files = FileClient(seconds=1, clock=HandClock(), transport=nothing)
        used = without_unconfirmed(settings, unconfirmed)
        try:
            return [each.name for each in macro_sources(used, files, clock=HandClock())]
        finally:
            await files.close()

    assert asyncio.run(names(Unconfirmed(("nyfed", "selling")))) == ["treasury", "etf-ibit"]
    assert asyncio.run(names(Unconfirmed(tuple(SOURCES)))) == []
    assert asyncio.run(names(Unconfirmed(("ishares",)))) == ["treasury", "sofr", "effr"]


def test_workers_start_with_x402_disabled_while_selling_is_not_confirmed() -> None:
    selling = {**payment_settings("127.0.0.1:1"), "x402_facilitator_token": "secret"}
    settings = without_selling(Settings.model_validate(selling))

    assert not settings.takes_payments
    assert Settings.from_environment(settings.to_environment()) == settings


def test_demo_and_live_data_are_never_mixed(tmp_path: Path) -> None:
    demo, live = Settings(data=tmp_path / "demo"), Settings(data=tmp_path / "live")
    demo.data.mkdir()
    (demo.data / "world.json").write_text("{}")
    upgrade_database(demo)
    upgrade_database(live)

    for command in (["serve"], ["serve", "--collect"], ["collect"], ["terms", "list"]):
        refused = run(demo.data, *command, BAROGRAPH_ACCEPT_TERMS="bybit")
        assert isinstance(refused.exception, ConfigurationError)
        assert "holds the simulated data of a demo" in str(refused.exception)
    refused = run(live.data, "demo")
    assert isinstance(refused.exception, ConfigurationError)
    assert "holds live data" in str(refused.exception)
    assert {each.name for each in demo.data.iterdir()} == {"barograph.sqlite3", "world.json"}
    history = f"sqlite:///{demo.data}/history.sqlite3"
    refused = run(live.data, "collect", BAROGRAPH_HISTORY_URL=history)
    assert "BAROGRAPH_HISTORY_URL names a database of a demo" in str(refused.exception)
    assert run(demo.data, "keys", "create", "--email", "name@example.com").exit_code == 0
    # Beside a world, webhooks go to this machine, even if the database is a live one.
    (live.data / "world.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="holds the simulated data of a demo"):
        require_kind(live, "live")


@pytest.mark.parametrize(("file", "kind"), [("world.json", "demo"), ("notes.txt", "live")])
def test_a_database_without_a_mark_is_a_demos_if_a_world_is_beside_it(
    tmp_path: Path, file: str, kind: str
) -> None:
    settings = Settings(data=tmp_path)
    upgrade_database(settings)
    unmark = "DELETE FROM instance"
    on_database(
        settings.database_path, lambda database: database.write(lambda tx: tx.execute(unmark))
    )
    (tmp_path / file).write_text("{}")

    assert database_kind(settings.database_address) == kind
    upgrade_database(settings)
    (tmp_path / file).unlink()
    assert database_kind(settings.database_address) == kind
    require_kind(settings, "demo" if kind == "demo" else "live")
