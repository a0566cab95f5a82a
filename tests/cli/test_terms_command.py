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
from barograph.kit.database import Transaction
from barograph.macro.records import Figure
from barograph.macro.store import record_figures
from barograph.settings import Settings
from barograph.terms.sources import SOURCES, Unconfirmed, require_venue
from barograph.terms.store import without_selling, without_unconfirmed
from barograph.upstream.files import FileClient
from barograph_demo.configuration import payment_settings
from support.clock import HandClock
from support.operator import on_database


def run(data: Path, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(data)], env=environment)


def states(data: Path, **environment: str) -> dict[str, str]:
    listed = run(data, "terms", "list", "--json", **environment)
    assert listed.exit_code == 0, listed.output
    return {row["name"]: row["state"] for row in json.loads(listed.stdout)}


@pytest.mark.outcome(
    "No exchange's terms are confirmed",
    "`collect` and `serve --collect` exit with code 3 before they call any exchange, and name "
    "the command that confirms them.",
)
@pytest.mark.parametrize("command", [["collect"], ["serve", "--collect"]])
def test_nothing_is_collected_before_the_terms_of_a_venue_are_confirmed(
    tmp_path: Path, command: list[str]
) -> None:
    ended = run(tmp_path, *command, BAROGRAPH_ACCEPT_TERMS="treasury")

    assert isinstance(ended.exception, ConfigurationError)
    assert f"`barograph terms accept bybit --data {tmp_path}`" in str(ended.exception)
    assert "docs/live.md" in str(ended.exception)


@pytest.mark.outcome(
    "The terms of some of the configured venues are not confirmed",
    "The collector reads the others; the first of them is the primary. `/api/status` lists the "
    "unconfirmed ones as `not_configured`.",
)
@pytest.mark.parametrize(
    ("unconfirmed", "used"),
    [
        ({}, ("binance", "bybit", "hyperliquid")),
        ({"binance": None, "treasury": None}, ("bybit", "hyperliquid")),
        ({"binance": None, "bybit": 1, "hyperliquid": None}, ("bybit",)),
        ({"binance": None, "bybit": None, "hyperliquid": None}, ()),
    ],
)
def test_only_confirmed_venues_are_read_in_the_configured_order(
    tmp_path: Path, unconfirmed: dict[str, int | None], used: tuple[str, ...]
) -> None:
    settings = Settings(data=tmp_path, venues="binance,bybit,hyperliquid")
    found, venues = Unconfirmed(unconfirmed), settings.venue_names
    without = without_unconfirmed(settings, found)

    if not used:
        with pytest.raises(ConfigurationError, match="`barograph terms accept binance --data"):
            require_venue(venues, found, tmp_path)
        assert without.venue_names == venues  # the web side starts without data
        return
    require_venue(venues, found, tmp_path)
    assert without.venue_names == used


def test_confirmed_terms_are_listed_with_their_date_before_and_after_the_first_start(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    unconfirmed = states(data)
    assert not data.exists()
    assert "`barograph terms accept bybit`" in unconfirmed["bybit"]
    assert unconfirmed["selling"] == "not configured"
    listed = run(data, "terms", "list").stdout
    assert listed.count("You confirm that you hold the publisher's written consent.") == 1

    accepted = run(data, "terms", "accept", "bybit", "treasury")

    assert "confirmed bybit: your use under the terms (https://" in accepted.stdout
    assert (data / "history.sqlite3").exists()  # or the first start would miss it
    held = states(data, BAROGRAPH_ACCEPT_TERMS="nyfed")
    confirmed = [name for name, state in held.items() if state.startswith("confirmed")]
    assert confirmed == ["bybit", "treasury", "nyfed"]
    revoked = run(data, "terms", "revoke", "bybit", "nyfed", BAROGRAPH_ACCEPT_TERMS="nyfed")
    assert revoked.stdout == "revoked bybit\nnyfed was not confirmed\n"
    assert "BAROGRAPH_ACCEPT_TERMS names nyfed, so the next start confirms it" in revoked.stderr
    assert states(data)["bybit"].startswith("not used")


@pytest.mark.parametrize("word", ["all", "bibit"])
def test_each_source_is_confirmed_by_its_own_name(tmp_path: Path, word: str) -> None:
    refused = run(tmp_path, "terms", "accept", word)
    assert refused.exit_code == 2
    listed = ", ".join(SOURCES)
    assert listed in refused.stderr.replace("\n", " ")
    started = run(tmp_path, "collect", BAROGRAPH_ACCEPT_TERMS=f"bybit,{word}")
    assert isinstance(started.exception, ConfigurationError)
    assert f"{word!r} is not a data source: in BAROGRAPH_ACCEPT_TERMS" in str(started.exception)


def test_a_database_before_its_upgrade_shows_what_the_upgrade_will_allow(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    upgrade_database(settings)
    figure = Figure("sofr", "2026-11-02", 4.1, "a publisher")

    async def undo_upgrade(tx: Transaction) -> None:
        await record_figures(tx, [figure], 0)
        for table in ("instance", "terms_confirmations"):
            await tx.execute(f"DROP TABLE {table}")

    on_database(settings.database_path, lambda database: database.write(undo_upgrade))

    listed = states(tmp_path)
    assert "starts after" in listed["nyfed"]
    assert listed["treasury"].startswith("not used")


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

    assert asyncio.run(names(Unconfirmed({"nyfed": None, "selling": None}))) == [
        "treasury",
        "etf-ibit",
    ]
    assert asyncio.run(names(Unconfirmed(dict.fromkeys(SOURCES)))) == []
    used = asyncio.run(names(Unconfirmed({"treasury": 1, "ishares": None})))
    assert used == ["treasury", "sofr", "effr"]


def test_workers_start_with_x402_disabled_while_selling_is_not_confirmed() -> None:
    selling = {**payment_settings("127.0.0.1:1"), "x402_facilitator_token": "secret"}
    settings = without_selling(Settings.model_validate(selling))

    assert not settings.takes_payments
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.outcome(
    "You run `serve` or `collect` on the demo's data folder, or `demo` on a live one",
    "It refuses with exit code 3, writes nothing and says which folder to choose.",
)
def test_demo_and_live_data_are_never_mixed(tmp_path: Path) -> None:
    demo, live = Settings(data=tmp_path / "demo"), Settings(data=tmp_path / "live")
    demo.data.mkdir()
    (demo.data / "world.json").write_text("{}")
    upgrade_database(demo)
    upgrade_database(live)

    for command in (["serve"], ["serve", "--collect"], ["collect"], ["terms", "accept", "bybit"]):
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
