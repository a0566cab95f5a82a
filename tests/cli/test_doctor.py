"""What `doctor` says about each fault of the simulated servers and of a network."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import pytest
from joserfc.jwk import ECKey
from pydantic import SecretStr

from barograph.cli.common import upgrade_database, upgrade_history
from barograph.cli.databases import run_once
from barograph.cli.diagnosis import Diagnosis, connection_problem
from barograph.cli.doctor import CHECKS, Row, examine, run_check
from barograph.collector.leader import collector_lease
from barograph.history.signing import FILE_NAME as HISTORY_KEY
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY
from barograph.settings import Settings
from barograph.venue_names import VENUE_NAMES
from barograph.venues.registry import VENUES
from barograph_demo.configuration import demo_settings
from barograph_demo.files import WORLD_FILE as DEMO_WORLD
from barograph_demo.servers.chain import TokenLedger
from barograph_demo.servers.facilitator import running_facilitator
from barograph_demo.servers.faults import (
    FacilitatorFaults,
    Faults,
    IdentityFaults,
    MacroFaults,
)
from barograph_demo.servers.identity import running_identity
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.servers.mailbox import running_mailbox
from barograph_demo.servers.registry import VENUE_SERVERS
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import World
from support.events import add_events, change
from support.operator import Operator, on_database, sign
from support.processes import HOST, unused_port
from support.stances import FUNDING
from support.witnesses import Witnesses

T = TypeVar("T")
SIMULATED = [name for name in VENUE_NAMES if name in VENUE_SERVERS]
STREAMS = [f"{name}-stream" for name in SIMULATED if VENUES[name].stream]
AWAY = {name for name in VENUE_NAMES if name not in VENUE_SERVERS}
"""New venues, which nothing simulates yet."""

VENUE_LINES = (*SIMULATED, *STREAMS, "clock")
WORLD = World(7, system_clock() // DAY * DAY - 60 * DAY)


class Live(NamedTuple):
    """An instance with every service configured, and the faults of each."""

    settings: Settings
    faults: dict[str, Faults]

    async def line(self, name: str, **changes: Any) -> Diagnosis:
        return await run_check(name, CHECKS[name], self.settings.model_copy(update=changes))


NO_ANSWER = {"hang", "stream-silence"}
"""A busy machine takes long to answer; only a fault without any answer is not waited for."""


@asynccontextmanager
async def running_live(folder: Path) -> AsyncIterator[Live]:
    servers = {"exchange" if name == "bybit" else name: VENUE_SERVERS[name] for name in SIMULATED}
    faults: dict[str, Any] = {
        **{name: server.faults() for name, server in servers.items()},
        "macro": (macro := MacroFaults()),
        "identity": (identity := IdentityFaults()),
        "facilitator": (facilitator := FacilitatorFaults()),
    }
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        ports = {
            name: (await enter(server.running(WORLD, faults=faults[name]))).port
            for name, server in servers.items()
        } | {
            "macro": (await enter(running_macro(MacroWorld(WORLD), macro))).port,
            "identity": (await enter(running_identity(ECKey.generate_key("P-256"), identity))).port,
            "facilitator": (await enter(running_facilitator(TokenLedger({}), facilitator))).port,
            "mail": await enter(running_mailbox(folder)),
        }
        settings = demo_settings(folder, unused_port(), 1, ports)
        terms = ",".join((*SIMULATED, "treasury", "nyfed", "ishares", "selling"))
        yield Live(settings.model_copy(update={"accept_terms": terms}), faults)


async def all_lines(settings: Settings) -> list[Diagnosis]:
    return [it async for it in examine(settings) if it.name.removesuffix("-stream") not in AWAY]


@pytest.mark.thorough
async def test_every_line_of_a_healthy_instance_is_ok(tmp_path: Path) -> None:
    policy = {"witness_policy": tmp_path / "policy"}
    policy["witness_policy"].write_text("quorum none\n")
    async with running_live(tmp_path) as live:
        found = await all_lines(live.settings.model_copy(update=policy))
    assert [each.name for each in found] == [
        name for name in CHECKS if name.removesuffix("-stream") not in AWAY
    ]
    assert [each for each in found if each.status != "ok"] == []


@pytest.mark.outcome(
    "The terms of a source are not confirmed",
    "`doctor` notes it, and only opens a connection.",
)
async def test_sources_without_confirmed_terms_are_noted_and_not_read(tmp_path: Path) -> None:
    async with running_live(tmp_path) as live:
        others = ",".join(name for name in SIMULATED if name not in {"bybit", "hyperliquid"})
        fresh = live.settings.model_copy(update={"accept_terms": f"{others},nyfed"})
        found = await all_lines(fresh)
        live.faults["exchange"].turn_on("403-html")
        lines = await all_lines(fresh)
        blocked = next(each for each in lines if each.name == "bybit")
    noted = {each.name: each.detail for each in found if each.status == "note"}
    unread = "it answers, but is not read, because its terms are not confirmed"
    assert noted == {
        "terms": "not confirmed and not used: bybit, hyperliquid, treasury, ishares, selling",
        **dict.fromkeys(["bybit", "hyperliquid", "bybit-stream", "treasury", "etf"], unread),
        "witnesses": "not configured: only our key signs checkpoints",
    }
    assert (blocked.status, blocked.detail[:11]) == ("fail", "a geo-block")


FAULTS = [
    ("exchange", "403-html", "bybit", "a geo-block", "BAROGRAPH_VENUES=hyperliquid"),
    ("exchange", "403-html", "bybit-stream", "a geo-block", "BAROGRAPH_VENUES=hyperliquid"),
    ("exchange", "403-json", "bybit", "throttled", "wait"),
    ("exchange", "429", "bybit", "throttled", "wait"),
    ("exchange", "10006", "bybit", "throttled", "wait"),
    ("exchange", "502", "bybit", "an outage: HTTP 502", "wait; "),
    ("exchange", "10016", "bybit", "an outage: code 10016", "wait; "),
    ("exchange", "truncated", "bybit", "is cut off", "a proxy"),
    ("exchange", "hang", "bybit", "does not answer in time", "firewall"),
    ("exchange", "reset", "bybit", "was closed", "firewall"),
    ("exchange", "stale-clock", "bybit", "s behind", "synchronise"),
    ("exchange", "stale-clock", "clock", "compared with bybit", "the clock of bybit seems wrong"),
    ("exchange", "stream-silence", "bybit-stream", "sends nothing", "try again later"),
    ("hyperliquid", "geo-block", "hyperliquid", "a geo-block", "BAROGRAPH_VENUES=bybit"),
    ("hyperliquid", "429", "hyperliquid", "throttled", "wait"),
    ("hyperliquid", "502", "hyperliquid", "an outage: HTTP 502", "wait; "),
    ("hyperliquid", "unequal-lists", "hyperliquid", "invalid reply", "BAROGRAPH_HYPERLIQUID_URL"),
    ("binance", "geo-block", "binance", "a geo-block", "BAROGRAPH_VENUES=hyperliquid"),
    ("binance", "geo-block", "binance-stream", "a geo-block: HTTP 451", "BAROGRAPH_VENUES="),
    ("binance", "418", "binance", "throttled", "wait"),
    ("binance", "reset", "binance", "was closed", "firewall"),
    ("binance", "stream-silence", "binance-stream", "sends nothing", "try again later"),
    ("macro", "html", "treasury", "got an HTML page", "BAROGRAPH_RATES_URL in a browser"),
    ("macro", "outage", "nyfed", "an outage: HTTP 503", "the collector retries"),
    ("macro", "reset", "treasury", "was closed", "firewall"),
    ("macro", "late", "treasury", ", too old for a stance", "the collector retries"),
    ("macro", "late", "nyfed", ", too old for a stance", "the collector retries"),
    ("macro", "late", "etf", ", too old for a stance", "the collector retries"),
    ("macro", "missing-columns", "etf", "invalid reply", "the publisher changed the file"),
    ("identity", "empty-key-set", "identity", "legacy HS256 secret", "JWT signing keys"),
    ("identity", "redirect", "identity", "HTTP 302 and redirects to", "new address"),
    ("identity", "html", "identity", "a web page instead of data", "sign in"),
    ("identity", "outage", "identity", "HTTP 503", "BAROGRAPH_IDENTITY_URL"),
    ("identity", "hang", "identity", "does not answer in time", "firewall"),
    ("facilitator", "redirect", "facilitator", "redirects to https://www.", "set BAROGRAPH_X402"),
    ("facilitator", "html", "facilitator", "a web page instead of data", "sign in"),
    ("facilitator", "outage", "facilitator", "HTTP 503", "BAROGRAPH_X402_FACILITATOR_URL"),
    ("facilitator", "chain-down", "chain", "HTTP 503", "BAROGRAPH_X402_CHAIN_URL"),
]


@pytest.mark.thorough
async def test_each_fault_of_a_service_is_named_with_its_remedy(tmp_path: Path) -> None:
    async def break_server(live: Live, server: str) -> None:
        for name, fault, check, detail, remedy in FAULTS:
            if name != server:
                continue
            live.faults[server].turn_on(fault, system_clock() - DAY)
            line = await live.line(check)
            live.faults[server].clear()
            expected = "note" if fault == "late" else "fail"
            assert (line.name, line.status) == (check, expected), (fault, line)
            assert detail in line.detail, (fault, line)
            assert remedy in line.remedy, (fault, line)
            assert re.search("[a-z](Error|Exception)", str(line)) is None, (fault, line)

    async with running_live(tmp_path) as live:
        await asyncio.gather(*(break_server(live, server) for server in live.faults))


@pytest.mark.outcome(
    "An exchange that you have not configured answers from here, or refuses this address",
    "`doctor` notes it. It asks only for the time.",
)
async def test_doctor_says_which_other_venues_answer_from_here(tmp_path: Path) -> None:
    async with running_live(tmp_path) as live:
        live.faults["binance"].turn_on("geo-block")
        one = live.settings.model_copy(update={"venues": "bybit"})
        found = [each for each in await all_lines(one) if each.name in VENUE_LINES]
    assert {each.name: each.status for each in found} == {
        **dict.fromkeys(SIMULATED, "note"),
        "bybit": "ok",
        "bybit-stream": "ok",
        "clock": "ok",
    }
    said = {each.name: f"{each.detail} -> {each.remedy}" for each in found}
    assert said["hyperliquid"].startswith("not configured; it answers from here -> to read it, add")
    assert said["binance"].startswith("not configured; a geo-block: HTTP 451")


@pytest.mark.parametrize(
    ("behind", "remedy"), [(1, "wait; the clock of "), (len(SIMULATED), "synchronise")]
)
async def test_a_clock_that_differs_from_one_venue_only_is_that_venues(
    tmp_path: Path, behind: int, remedy: str
) -> None:
    async with running_live(tmp_path) as live:
        for name in ("exchange", *SIMULATED[1:])[:behind]:
            live.faults[name].turn_on("stale-clock", system_clock() - DAY)
        found = await live.line("clock", venues="bybit,hyperliquid,binance")
    assert found.status == "fail"
    assert found.remedy.startswith(remedy)


async def test_contracts_that_are_not_crypto_are_counted_by_class(tmp_path: Path) -> None:
    async with running_live(tmp_path) as live:
        usual = await live.line("bybit")
        live.faults["exchange"].turn_on("unknown-class")
        new = await live.line("bybit")
    counted = r"\d+ crypto perpetuals; left out because they are not crypto: .*\d+ stock"
    assert re.match(counted, usual.detail)
    assert re.match(counted + ".*; new classes: [a-z]+$", new.detail)
    assert (usual.status, new.status) == ("ok", "note")


async def test_each_wrong_setting_is_named(tmp_path: Path) -> None:
    free = f"{HOST}:{unused_port()}"
    lost = "http://nowhere.invalid"

    async with running_live(tmp_path) as live:
        tls = live.settings.exchange_rest_url.replace("http", "https")
        live.faults["identity"].turn_on("html")
        portal = live.settings.identity_url
        found = await asyncio.gather(
            live.line("bybit", exchange_rest_url=lost),
            live.line("bybit", exchange_rest_url=f"http://{free}"),
            live.line("bybit", exchange_rest_url=tls),
            live.line("bybit", exchange_rest_url=portal),
            live.line("bybit-stream", exchange_rest_url=portal),
            live.line("bybit-stream", exchange_rest_url=f"http://{free}"),
            live.line("treasury", rates_url=lost),
            live.line("identity", identity="none", identity_url=""),
            live.line("facilitator", x402_network="eip155:1"),
            live.line("chain", x402_network="eip155:1"),
            live.line("chain", x402_asset="0x" + "12" * 20),
            live.line("chain", x402_chain_url=""),
            live.line("etf", etf_url=""),
            live.line("etf", etf_file=tmp_path / "absent.csv"),
            live.line("bybit-stream", exchange_rest_url=tls),
            live.line("chain", x402_chain_url="http://255.255.255.255"),
            live.line("mail", smtp_url=SecretStr(f"smtp://{free}")),
        )
    said = [f"{each.status} {each.detail}" for each in found]
    network = "eip155:84532"
    assert said == [
        "fail unreachable: the name nowhere.invalid can't be resolved",
        f"fail unreachable: {free} refuses the connection",
        said[2],
        said[3],
        "fail HTTP 200 instead of a websocket",
        f"fail {free} refuses the connection",
        "fail unreachable: the name nowhere.invalid can't be resolved",
        "note not configured: no bearer token is accepted",
        f"fail it supports no exact payments of x402 v2 on eip155:1; its networks: {network}",
        f"fail the node belongs to another chain, {network}",
        f"fail there is no token at 0x{'12' * 20} on {network}",
        "note nothing resolves a payment whose result the facilitator doesn't report",
        "note not configured",
        "fail unreachable: the operator's file cannot be opened: No such file or directory",
        said[2].replace("unreachable: ", ""),
        "fail 255.255.255.255 can't be reached",
        f"fail unreachable: {free} refuses the connection",
    ]
    assert found[13].remedy == "correct the file that BAROGRAPH_ETF_FILE names"
    assert "set BAROGRAPH_X402_CHAIN_URL" in found[11].remedy
    assert said[2].endswith("does not speak TLS")
    assert said[3].endswith("answers with a web page instead of data")


@pytest.mark.thorough
async def test_no_line_repeats_a_secret(tmp_path: Path) -> None:
    secret = "hunter2secret"

    async with running_live(tmp_path) as live:
        found = []
        live.faults["identity"].turn_on("redirect")
        for place in (f"{HOST}:{unused_port()}", live.settings.identity_url.partition("//")[2]):
            settings = {
                "etf_url": f"http://name:{secret}@{place}/{secret}.csv?token={secret}",
                "x402_chain_url": f"http://name:{secret}@{place}/v2/{secret}",
                "x402_facilitator_url": f"http://name:{secret}@{place}",
                "x402_facilitator_token": SecretStr(""),
                "x402_cdp_key_id": "key",
                "x402_cdp_key_secret": SecretStr(secret),
                "smtp_url": SecretStr(f"smtp+starttls://name:{secret}@{place}"),
                "identity_url": f"http://{place}",
                "identity_api_key": SecretStr(secret),
            }
            given = live.settings.model_copy(update=settings)
            found += await all_lines(given)
            token = {"x402_cdp_key_id": "", "x402_facilitator_token": SecretStr(secret)}
            found.append(await live._replace(settings=given).line("facilitator", **token))
    assert {"etf", "chain", "facilitator", "mail", "identity"} <= {
        each.name for each in found if each.status == "fail"
    }
    assert [each for each in found if secret in str(each)] == []


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        (9, "not valid at this machine's time"),
        (10, "not valid at this machine's time"),
        (62, "is for another host"),
        (20, "not from a trusted authority"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_explained(code: int, detail: str) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code = code
    problem = connection_problem(ExceptionGroup("two addresses", [error]), "api.example")
    assert problem is not None
    assert detail in problem.detail


async def test_a_check_that_hangs_or_has_a_bug_still_gets_its_line() -> None:
    async def buggy(_: Settings) -> Diagnosis:
        raise RuntimeError("a mistake")

    endless: asyncio.Future[Diagnosis] = asyncio.Future()
    late = await run_check("endless", Row(lambda _: endless), Settings(), seconds=0)
    assert (late.status, late.detail) == ("fail", "no result within 0 s")
    failed = await run_check("buggy", Row(buggy), Settings())
    said = "the check itself failed (RuntimeError)"
    assert (failed.status, failed.detail) == ("fail", said)


def lines(settings: Settings, *names: str) -> dict[str, str]:
    async def work() -> dict[str, str]:
        chosen = names or ("database", "history")
        found = [await run_check(name, CHECKS[name], settings) for name in chosen]
        return {each.name: f"{each.status} {each.detail}" for each in found}

    return asyncio.run(work())


@pytest.mark.outcome(
    "A database or the history is damaged, missing, older or a demo's, the signing key is another "
    "one, or no collector leads",
    "`doctor` says what to do, and changes nothing.",
)
def test_a_database_that_cannot_be_served_is_named(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    upgrade_database(settings)
    assert lines(settings)["history"].endswith("history.sqlite3 is missing or is no history")
    upgrade_history(settings)
    assert {line[:29] for line in lines(settings).values()} == {"ok up to date and undamaged ("}

    connection = apsw.Connection(str(settings.database_path))
    connection.execute("DELETE FROM schema_migrations WHERE number = 2")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    assert lines(settings)["database"] == "fail lacks analysis"

    connection = apsw.Connection(str(settings.history_path))
    rows = connection.execute("SELECT max(rootpage) FROM sqlite_schema WHERE type = 'table'")
    page = int(str(rows.fetchall()[0][0]))
    connection.close()
    with settings.history_path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(100))
    assert lines(settings)["history"].startswith("fail history.sqlite3 is damaged: ")


@pytest.mark.outcome(
    "A database or the history is damaged, missing, older or a demo's, the signing key is another "
    "one, or no collector leads",
    "`doctor` says what to do, and changes nothing.",
)
def test_another_key_an_older_history_and_a_dead_collector_are_named(operator: Operator) -> None:
    settings, key = Settings(data=operator.data), operator.data / HISTORY_KEY
    names = "secrets", "history", "collector"
    operator.record(0)
    operator.log()
    run_once(operator.database, lambda database: add_events(database, [change(1)]))
    asyncio.run(sign(operator.database, operator.history, settings))
    assert {each[:3] for each in lines(settings, *names).values()} == {"ok "}
    key.unlink()
    assert lines(settings, "secrets")["secrets"] == "fail history-key is missing"
    assert not key.exists()
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    other = "fail history-key is not the one that this database was used with"
    assert lines(settings, "secrets")["secrets"] == other

    operator.tamper("DELETE FROM stance_versions")
    lost = f"fail an older copy, or another history: {FUNDING}: version 1 was logged, and"
    assert lines(settings, "history")["history"] == f"{lost} is missing"
    operator.record(0)
    operator.publish()
    operator.tamper(f"UPDATE stance_versions SET history_digest = '{'0' * 64}'")
    assert "it is not the version that was published" in lines(settings, "history")["history"]

    async def lead(database: Database, expires_at: int | None = None) -> None:
        lease = collector_lease(database, system_clock)
        assert await lease.acquire()
        if expires_at == 0:
            await lease.release()
        elif expires_at is not None:
            await database.write(lambda tx: tx.execute("UPDATE leases SET expires_at = 1000"))

    said = []
    for expires_at in (1000, 0, None):
        on_database(operator.database, partial(lead, expires_at=expires_at))
        said.append(lines(settings, "collector")["collector"])
    assert said[:2] == [
        "fail none leads since 1970-01-01T00:00:01.000Z",
        "note none leads, because the last one was stopped",
    ]
    assert said[2].startswith("ok one leads, on ")


async def test_a_demos_folder_is_refused_and_confirms_no_terms(tmp_path: Path) -> None:
    async with running_live(tmp_path / "live") as live:
        settings = live.settings.model_copy(update={"data": tmp_path, "accept_terms": ""})
        (tmp_path / DEMO_WORLD).touch()
        await asyncio.to_thread(upgrade_database, settings)
        found = {each.name: each for each in await all_lines(settings)}
    assert found["database"].detail.endswith("holds the simulated data of a demo")
    assert found["database"].remedy.startswith("run it with `barograph demo")
    noted = [each for each in found.values() if "not confirmed" in each.detail]
    names = ["terms", *SIMULATED, *STREAMS, "treasury", "nyfed", "etf"]
    assert [each.name for each in noted] == names


def test_witness_policy_is_read_and_its_witnesses_are_called(tmp_path: Path) -> None:
    free, file = f"{HOST}:{unused_port()}", tmp_path / "policy"
    key = Witnesses(system_clock, "a").all["a"].verifier.text

    def line(text: str) -> str:
        file.write_text(text)
        settings = Settings(data=tmp_path, witness_policy=file)
        found = asyncio.run(run_check("witnesses", CHECKS["witnesses"], settings))
        return f"{found.status} {found.detail}: {found.remedy}"

    assert line("quorum none\n").startswith("ok every witness can be reached (0); quorum: none")
    wrong = line("quorum a\n")
    assert wrong.startswith("fail the witness policy")
    assert "line 1 of the policy: no earlier line defines a" in wrong
    away = line(f"witness a {key} http://{free}\nquorum a\n")
    assert away.startswith(f"fail a: {free} refuses the connection")
