"""How a demo runs: its settings, its subscribers, its past and its children."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from barograph.settings import Settings
import asyncio
import json
import signal
from collections.abc import Coroutine
from http import HTTPStatus

import httpx2
from msgspec.structs import replace
from pydantic import SecretStr

from barograph.cli.open_history import change_ledger, upgrade_history
from barograph.cli.options import (
    make_folder,
    progress_bar,
    read_settings,
    upgrade_database,
    warn_if_world_writable,
)
from barograph.demo.files import load_or_create_anchor
from barograph.demo.replay.replay import replay
from barograph.demo.servers.identity import API_KEY, DEMO_USERS, demo_token
from barograph.demo.servers.macro_files import FUND_PATH, FUND_QUERY
from barograph.demo.servers.wallets import load_or_create_wallets
from barograph.demo.world.world import World
from barograph.entitlements.store import FEED, RESERVE, Entitlements, Holder, Tier
from barograph.errors import BarographError
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS, Leg, Proposal, Version
from barograph.kit.clock import system_clock
from barograph.kit.database import SQLiteDatabase
from barograph.kit.logs import configure_logs
from barograph.kit.process import free_port, lock_folder, require_free_port
from barograph.kit.timestamps import DAY, SECOND
from barograph.settings import Settings
from barograph.supervisor import Child, Supervisor


def payment_settings(place: str) -> dict[str, Any]:
    """The settings by which a demo is paid, with its facilitator at `host:port`."""
    from barograph.demo.servers.facilitator import RPC_PATH
    from barograph.demo.servers.wallets import DECIMALS, NETWORK, PAY_TO, TOKEN

    return {
        "x402_facilitator_url": f"http://{place}",
        "x402_chain_url": f"http://{place}{RPC_PATH}",
        "x402_network": NETWORK,
        "x402_asset": TOKEN.verifying_contract,
        "x402_asset_name": TOKEN.name,
        "x402_asset_version": TOKEN.version,
        "x402_asset_decimals": DECIMALS,
        "x402_pay_to": PAY_TO,
    }


def print_demo_proof(data: Path, wallet: str, what: str, place: str) -> None:
    """Print a proof of a wallet for what a door asks, and nothing else."""
    from barograph.demo.servers.wallets import demo_proof
    from barograph.kit.clock import system_clock
    from barograph.payments.offers import feed_requirements, stance_requirements
    from barograph.payments.proof import wire_requirements
    from barograph.settings import Settings

    settings = Settings.model_validate(payment_settings(place))
    asked = feed_requirements if what == "feed" else stance_requirements
    click.echo(demo_proof(data, wallet, wire_requirements(asked(settings)), system_clock()))


def welcome(settings: "Settings", seconds: float, token: str) -> str:
    """Where everything is, what to try, and a token to try it with."""
    base = settings.base_url
    called = Path(sys.argv[0])
    program = f"{sys.executable} -m barograph" if called.suffix == ".py" else called
    paying = ""
    if settings.takes_payments:
        paying = f"""
  buy feed      {base}/api/x402/feed (with a payment proof, in simulated money)
  proof         {program} demo proof --wallet none --data {settings.data}"""
    return f"""\
Barograph demo, ready in {seconds:.1f} s. All of its data is simulated.

  site          {base}/
  market state  {base}/api/agent/market-state
  any perpetual {base}/api/agent/derivatives?symbol=ETH
  briefs        {base}/api/agent/briefs
  signals       {base}/api/v1/signals
  a badge       {base}/badge/regime.svg
  status        {base}/api/status
  developers    {base}/developers
  history       {base}/api/history/checkpoint
  exchange      {settings.exchange_rest_url} (simulated Bybit v5)
  data          {settings.data}

  get a key     {program} keys create --email you@example.com --data {settings.data}
  by mail       fill in the form at {base}/developers, then
                {program} demo mail --data {settings.data}
  feed          {base}/api/feed/now (with a bearer token)
  token         {program} demo token --tier feed --data {settings.data}{paying}
  break it      {program} demo fault exchange on --data {settings.data}
  mend it       {program} demo fault exchange off --data {settings.data}

A bearer token of a Feed subscriber, good for one hour:
{token}

Ctrl-C stops everything."""


EXPIRED = "expired"
BY = "demo fault"
"""Marks the revisions that expire at once, so that `off` finds them."""

RATIONALE = "Expired on request, to show what callers get for an expired stance."


def switch_stances(data: Path, *, expired: bool) -> None:
    """Let every active stance in a folder's record expire, or issue the expired ones again.

    Raises:
        ConfigurationError: there is no record in the folder.
        HeadMoved: the collector has just recorded something newer.
    """

    async def work(ledger: Ledger) -> None:
        for kind in KINDS:
            await (_expire if expired else _restore)(ledger, kind)

    change_ledger(Settings(data=data), work)


async def _expire(ledger: Ledger, kind: str) -> None:
    now = system_clock()
    withdrawn = {each.version_sequence for each in await ledger.events(kind)}
    for head in await ledger.newest(kind, 1):
        if now < head.expires_at and head.sequence not in withdrawn:
            decision = replace(head.leg.decision, rationale=RATIONALE, by=BY)
            await _revise(ledger, head, replace(head.leg, decision=decision), now, now)


async def _restore(ledger: Ledger, kind: str) -> None:
    match await ledger.newest(kind, 2):
        case [head, before] if head.leg.decision.by == BY:
            await _revise(ledger, head, before.leg, system_clock(), before.expires_at)


async def _revise(ledger: Ledger, head: Version, leg: Leg, now: int, expires_at: int) -> None:
    proposal = Proposal(head.kind, head.leg_id, now, expires_at, leg)
    await ledger.append(proposal, expected_head=head.history_digest)


HOST = "127.0.0.1"
READY_SECONDS = 60
PERIOD_DAYS = 30


def put_history_aside(data: Path, away: bool) -> None:
    """Take the record of stances away from under a running demo, or put it back."""
    for suffix in ("", "-wal", "-shm"):
        file = data / f"history.sqlite3{suffix}"
        aside = data / f"history.aside{suffix}"
        source, target = (file, aside) if away else (aside, file)
        if source.exists():
            source.rename(target)


def run_demo(port: int, data: Path, seed: int, workers: int, x402: bool) -> None:
    """Run a demo until it is stopped."""
    started = system_clock()
    configure_logs("warning")
    read_settings()  # the demo has its own, but a misspelt one is refused here too
    require_free_port(HOST, port)
    make_folder(data)
    warn_if_world_writable(data)
    with lock_folder(data):
        names = ["exchange_port", "mail_port", "macro_port", "identity_port"]
        names += ["facilitator_port"] if x402 else []
        settings = demo_settings(data, port, workers, **{name: free_port(HOST) for name in names})
        put_history_aside(data, away=False)  # faults end with their demo
        upgrade_database(settings)
        upgrade_history(settings)
        switch_stances(data, expired=False)
        asyncio.run(_grant_tiers(settings))
        asyncio.run(_supervise(settings, load_world(data, seed), started))


def demo_settings(
    data: Path,
    port: int,
    workers: int,
    *,
    exchange_port: int,
    mail_port: int,
    macro_port: int,
    identity_port: int,
    facilitator_port: int | None = None,
) -> Settings:
    """The live configuration, pointed at the simulated world and with shorter bounds."""
    takes_payments = facilitator_port is not None
    return Settings(
        host=HOST,
        port=port,
        workers=workers,
        data=data,
        log_level="warning",
        exchange_rest_url=f"http://{HOST}:{exchange_port}",
        exchange_stream_url=f"ws://{HOST}:{exchange_port}/v5/public/linear",
        exchange_source="simulated exchange (demo data)",
        poll_seconds=2,
        feed_max_age_seconds=20,
        long_accounts_calls_per_second=10,
        stream_ping_seconds=5,
        breaker_seconds=1,
        liquidations_max_age_seconds=30,
        briefs_max_age_seconds=20,
        lease_seconds=4,  # so that one that was killed starts again at once
        smtp_url=SecretStr(f"smtp://{HOST}:{mail_port}"),
        mail_from="barograph@demo.example",
        security_contact="mailto:security@demo.example",
        sales_contact="mailto:sales@demo.example",
        treasury_url=f"http://{HOST}:{macro_port}",
        nyfed_url=f"http://{HOST}:{macro_port}",
        etf_url=f"http://{HOST}:{macro_port}{FUND_PATH}?{FUND_QUERY}",
        macro_source="simulated daily figures (demo data)",
        macro_seconds=20,
        identity="supabase",
        identity_url=f"http://{HOST}:{identity_port}",
        identity_api_key=SecretStr(API_KEY),
        identity_cache_seconds=0,  # so that a fault shows at once
        **(payment_settings(f"{HOST}:{facilitator_port}") if takes_payments else {}),
    )


def load_world(data: Path, seed: int) -> World:
    """The world of a folder, begun now if the folder is new."""
    anchor = load_or_create_anchor(data, seed, system_clock())
    return World(anchor.seed, anchor.epoch)


async def _grant_tiers(settings: Settings) -> None:
    """Let the demo's subscribers have what they are called after."""
    database = SQLiteDatabase(settings.database_path)
    entitlements = Entitlements(database, system_clock)
    tiers: tuple[Tier, ...] = (FEED, RESERVE)
    holders = [(tier, Holder("user", DEMO_USERS[tier])) for tier in tiers]
    if settings.takes_payments:
        wallets = load_or_create_wallets(settings.data)
        holders += [(tier, Holder("wallet", wallets[tier].address)) for tier in tiers]
    try:
        for tier, holder in holders:
            if not await entitlements.has_active(holder, tier):
                await entitlements.add_period(
                    holder,
                    tier,
                    period_ms=PERIOD_DAYS * DAY,
                    source="demo",
                    by="demo",
                    why="The demo's own subscriber.",
                )
    finally:
        await database.close()


async def _carry_past(settings: Settings, world: World) -> None:

    # The simulated past can be made again, so nobody waits for the disk.
    paths = (settings.database_path, settings.history_path)
    database, history = (SQLiteDatabase(path, survives_power_cuts=False) for path in paths)
    databases = database, history
    try:
        with progress_bar("replaying the simulated past") as progress:
            await replay(settings, world, databases, system_clock, progress)
    finally:
        await database.close()
        await history.close()


async def _stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Do some work that Ctrl-C or SIGTERM interrupts, however often they come."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _supervise(settings: Settings, world: World, started: int) -> None:

    exchange_port = settings.exchange_rest_url.rpartition(":")[2]
    mail_port = settings.smtp_url.get_secret_value().rpartition(":")[2]
    macro_port = settings.treasury_url.rpartition(":")[2]
    identity_port = settings.identity_url.rpartition(":")[2]
    facilitator_port = settings.x402_facilitator_url.rpartition(":")[2]
    environment = settings.to_environment()
    supervisor = Supervisor()
    running = settings.data / "demo.json"

    async def ready() -> None:
        await _answers(f"{settings.base_url}/api/agent/market-state")
        ports = {"exchange": exchange_port, "macro": macro_port, "identity": identity_port}
        ports["facilitator"] = facilitator_port
        parts = {name: f"{HOST}:{port}" for name, port in ports.items() if port}
        draft = running.with_suffix(".draft")
        draft.write_text(json.dumps({"base_url": settings.base_url, **parts}))
        draft.replace(running)
        seconds = (system_clock() - started) / SECOND
        ready_token = demo_token(settings.data, "feed", system_clock(), settings.identity_url)
        click.echo(welcome(settings, seconds, ready_token))
        sys.stdout.flush()

    listening = ["--port", exchange_port, "--mail-port", mail_port, "--macro-port", macro_port]
    listening += ["--identity-port", identity_port]
    listening += ["--facilitator-port", facilitator_port] if facilitator_port else []
    world_arguments = ["demo", "world", *listening, "--data", str(settings.data)]
    try:
        # It needs nothing of the past, and begins while that is carried.
        await supervisor.start(Child("exchange", world_arguments, environment))
        await _stoppable(_carry_past(settings, world))
        await _answers(f"{settings.exchange_rest_url}/v5/market/time")
        await supervisor.start(Child("collector", ["collect"], environment))
        await supervisor.start(Child("web", ["serve"], environment, settings.stop_seconds + 2))
        await supervisor.until_stopped(ready)
    finally:
        running.unlink(missing_ok=True)
        await supervisor.stop()


async def _answers(address: str) -> None:
    """Wait until an address answers with 200.

    Raises:
        BarographError: it does not within a minute.
    """
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
        while True:
            if asyncio.get_running_loop().time() > deadline:
                raise BarographError(f"{address} does not answer")
            try:
                if (await client.get(address)).status_code == HTTPStatus.OK:
                    return
            except httpx2.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.05)
