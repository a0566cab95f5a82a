"""How a demo runs: its subscribers, its faults, its replay and its processes."""

import asyncio
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import httpx2
from msgspec.structs import replace

from barograph.board.board import latest_snapshot
from barograph.cli.common import (
    DEMO_FILE,
    change_ledger,
    make_folder,
    progress_bar,
    read_demo_settings,
    read_settings,
    stored_log_keys,
    upgrade_database,
    upgrade_history,
    warn_if_world_writable,
)
from barograph.cli.databases import require_kind
from barograph.entitlements.store import FEED, RESERVE, Entitlements, Holder, Tier
from barograph.errors import BarographError
from barograph.history.checkpoint import log_origin
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS, Leg, Proposal, Version
from barograph.history.signing import load_history_key
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.logs import configure_logs
from barograph.kit.opening import open_database
from barograph.kit.operating_system import free_port, lock_folder, require_free_port
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.view import PERPETUALS
from barograph.settings import PHONE_FILE, PREFIX, Settings
from barograph.supervisor import Child, Supervisor
from barograph_client.audit.notes import LOG_KEY, Key
from barograph_demo.configuration import demo_settings, welcome
from barograph_demo.databases import (
    demo_urls,
    move_history_away,
    require_stopped,
    start_over,
    store_urls,
)
from barograph_demo.files import load_or_create_anchor
from barograph_demo.replay.older import add_older_samples
from barograph_demo.replay.replay import replay
from barograph_demo.servers.control import HOST, ServerAddress
from barograph_demo.servers.exchange import run_exchange
from barograph_demo.servers.facilitator import load_ledger, running_facilitator
from barograph_demo.servers.faults import WitnessFaults
from barograph_demo.servers.identity import (
    DEMO_USERS,
    demo_token,
    load_or_create_key,
    running_identity,
)
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.servers.mailbox import running_mailbox
from barograph_demo.servers.phone import running_phone
from barograph_demo.servers.registry import VENUE_SERVERS, VenueOfDemo
from barograph_demo.servers.wallets import load_or_create_wallets
from barograph_demo.servers.witness import WitnessServer, write_policy
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.venues import VENUES
from barograph_demo.world.world import World

log = logging.getLogger(__name__)

SERVERS = ("exchange", "mail", "macro", "identity", "facilitator", *VENUES, "phone")
"""The simulated servers; the exchange is Bybit."""

READY_SECONDS = 60
VENUES_SECONDS = 10
PERIOD_DAYS = 30

EXPIRED = "expired"
BY = "demo fault"
"""Marks the revisions that expire at once, so that `off` finds them."""

RATIONALE = "Expired on request, to show what callers get for an expired stance."


def run_demo(
    port: int, data: Path, seed: int, workers: int, *, x402: bool = True, fresh: bool = False
) -> None:
    """Run a demo until it is stopped; a fresh one starts over with an empty record."""
    started = system_clock()
    # Only these: database servers, the address to bind, witnesses, logs and metrics.
    given = read_demo_settings(data)
    configure_logs("warning", given.log_format)
    require_free_port(given.host, port)
    names = [name for name in SERVERS if x402 or name != "facilitator"]
    # Witnesses are not among the servers, because they know only the key of their own demo.
    ports = {name: free_port(HOST) for name in (*names, "witness")}
    taken = ("host", "log_format", "metrics_host", "metrics_names", "metrics_port")
    passed = {name: getattr(given, name) for name in taken}
    if given.witness_policy is not None:
        passed["witness_policy"] = given.witness_policy
    settings = demo_settings(data, port, workers, ports, {**demo_urls(given), **passed})
    require_kind(settings, "demo")
    make_folder(data)
    warn_if_world_writable(data)
    with lock_folder(data):
        require_stopped(settings)
        move_history_away(settings, away=False)  # faults end with their demo
        if fresh:
            start_over(settings)
        # The anchor comes before the database, which it marks as a demo's.
        anchor = load_or_create_anchor(data, seed, started, fresh=fresh)
        past = None if anchor.fresh else World(anchor.seed, anchor.epoch)
        upgrade_database(settings)
        upgrade_history(settings)
        store_urls(settings)
        write_policy(data, ports["witness"])
        (data / PHONE_FILE).write_text(f"http://{HOST}:{ports['phone']}/")
        load_history_key(settings)  # now, because a collector on PostgreSQL never creates it
        switch_stances(settings, expired=False)
        asyncio.run(_grant_tiers(settings))
        asyncio.run(_supervise(settings, ports, past, started))


def switch_stances(settings: Settings, *, expired: bool) -> None:
    """Let every active stance of a demo expire, or issue the expired ones again.

    Raises:
        ConfigurationError: there is no history.
        HeadMoved: the collector has just recorded something newer.
    """

    async def work(ledger: Ledger) -> None:
        for kind in KINDS:
            await (_expire if expired else _restore)(ledger, kind)

    change_ledger(settings, work)


async def _expire(ledger: Ledger, kind: str) -> None:
    now = system_clock()
    withdrawn = {event.version_sequence for event in await ledger.events(kind)}
    for head in await ledger.newest_versions(kind, 1):
        if now < head.expires_at and head.sequence not in withdrawn:
            decision = replace(head.leg.decision, rationale=RATIONALE, by=BY)
            await _revise(ledger, head, replace(head.leg, decision=decision), now, now)


async def _restore(ledger: Ledger, kind: str) -> None:
    match await ledger.newest_versions(kind, 2):
        case [head, before] if head.leg.decision.by == BY:
            await _revise(ledger, head, before.leg, system_clock(), before.expires_at)


async def _revise(ledger: Ledger, head: Version, leg: Leg, now: int, expires_at: int) -> None:
    proposal = Proposal(head.kind, head.leg_id, now, expires_at, leg)
    await ledger.append(proposal, expected_head=head.history_digest)


async def run_world(
    data: Path, port: int, *, extra_contracts: int | None = None, **ports: int | None
) -> None:
    """Run the simulated exchange, and each other server that has a port, until cancelled."""
    anchor = load_or_create_anchor(data, 0, system_clock())
    world = World(anchor.seed, anchor.epoch, extra_contracts or 0)
    servers: dict[str, Callable[[int], AbstractAsyncContextManager[object]]] = {
        "mail_port": lambda port: running_mailbox(data, host=HOST, port=port),
        "macro_port": lambda port: running_macro(MacroWorld(world), port=port),
        "identity_port": lambda port: running_identity(load_or_create_key(data), port=port),
        "facilitator_port": lambda port: running_facilitator(load_ledger(data), port=port),
        "witness_port": lambda port: _witnesses(data).running(HOST, port),
    }
    places = [port, *(ports.get(f"{name}_port") for name in VENUES)]
    venues = [f"{HOST}:{place}" for place in places if place is not None]
    servers["phone_port"] = lambda port: running_phone(data, venues, port)
    for name, venue in VENUE_SERVERS.items():
        servers[f"{name}_port"] = partial(_on_port, venue, world)
    async with AsyncExitStack() as stack:
        for name, running in servers.items():
            given = ports.get(name)
            if given is not None:
                await stack.enter_async_context(running(given))
        await run_exchange(world, HOST, port)


def _on_port(
    venue: VenueOfDemo, world: World, port: int
) -> AbstractAsyncContextManager[ServerAddress]:
    return venue.running(world, port=port)


def _witnesses(data: Path) -> WitnessServer:
    own_log = partial(_own_log, read_settings(data=data))
    return WitnessServer(data, own_log, system_clock, WitnessFaults())


def _own_log(settings: Settings) -> Key:
    """The current name of the demo's log, and its key: its witnesses know no other."""
    keys = stored_log_keys(settings)
    return Key(log_origin(settings.base_url, keys.name), LOG_KEY, keys.public_key or b"")


async def run_servers(data: Path, port: int) -> None:
    """Print the settings for the simulated servers, each on a port, until cancelled."""
    ports = {name: port + offset for offset, name in enumerate(SERVERS)}
    for number in ports.values():
        require_free_port(HOST, number)
    load_or_create_wallets(data)
    places = {name: f"{HOST}:{number}" for name, number in ports.items()}
    (data / DEMO_FILE).write_text(json.dumps(places))
    settings = demo_settings(data, port, 1, ports)
    used = settings.model_fields_set - {"host", "port", "workers", "data", "log_level"}
    for name, value in settings.to_environment().items():
        if name.removeprefix(PREFIX).lower() in used:
            click.echo(f'{name}="{value}"')
    sys.stdout.flush()
    others = {f"{name}_port": ports[name] for name in SERVERS[1:]}
    await run_world(data, port, **others)


async def _grant_tiers(settings: Settings) -> None:
    """Give the demo's subscribers the tiers that they are named after."""
    database = open_database(settings.database_address)
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


async def _replay_past(settings: Settings, world: World) -> None:
    def opened(address: Path | str) -> Database:
        # A write beside the judging takes long on a busy machine. The past can be replayed again,
        # so nothing needs to wait for the disk.
        limit = READY_SECONDS * SECOND
        return open_database(address, statement_ms=limit, survives_power_cuts=False)

    database, history = opened(settings.database_address), opened(settings.history_address)
    gc.disable()  # collecting would take a quarter of the time, and there is little to collect
    try:
        with progress_bar("replaying the simulated past") as progress:
            await replay(settings, world, (database, history), system_clock, progress)
    finally:
        gc.enable()
        await database.close()
        await history.close()


async def _add_older_samples(settings: Settings, world: World) -> None:
    database = open_database(settings.database_address, statement_ms=READY_SECONDS * SECOND)
    try:
        await add_older_samples(world, database, system_clock())
    except Exception:  # the demo serves without them
        log.exception("older samples not added", extra={"do": "start again"})
    finally:
        await database.close()


async def _stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Run work that Ctrl-C or SIGTERM interrupts, however often they come."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _supervise(
    settings: Settings, ports: Mapping[str, int], past: World | None, started: int
) -> None:
    """Run all processes until stopped; if there is a `past`, replay it first."""
    environment = settings.to_environment()
    supervisor = Supervisor()
    tasks: list[asyncio.Task[None]] = []
    running = settings.data / DEMO_FILE

    async def ready() -> None:
        await _until_200(f"{settings.base_url}/api/agent/market-state")
        with suppress(TimeoutError, DatabaseUnavailable):  # totals are partial until then
            await asyncio.wait_for(_until_read(settings, started), VENUES_SECONDS)
        places = {name: f"{HOST}:{port}" for name, port in ports.items() if name != "mail"}
        draft = running.with_suffix(".draft")
        paid = {name: text for name, text in environment.items() if "_X402_" in name}
        draft.write_text(json.dumps({"base_url": settings.base_url, **places, **paid}))
        draft.replace(running)
        seconds = (system_clock() - started) / SECOND
        token = demo_token(settings.data, "feed", system_clock(), settings.identity_url)
        click.echo(welcome(settings, seconds, token, is_fresh=past is None))
        sys.stdout.flush()
        if past is not None:
            tasks.append(asyncio.create_task(_add_older_samples(settings, past)))

    try:
        # The servers don't need the past; the others load their programs while that is replayed.
        await supervisor.start(Child("exchange", _world_arguments(settings, ports), environment))
        web = Child("web", ["serve"], environment, settings.stop_seconds + 2)
        for child in (Child("collector", ["collect"], environment), web):
            await supervisor.start(child, is_held=True)
        if past is not None:
            await _stoppable(_replay_past(settings, past))
        await _until_200(f"{settings.exchange_rest_url}/v5/market/time")
        for name in ("collector", "web"):
            supervisor.release(name)
        await supervisor.until_stopped(ready)
    finally:
        running.unlink(missing_ok=True)
        for task in tasks:
            task.cancel()
        await supervisor.stop()
        await asyncio.gather(*tasks, return_exceptions=True)


def _world_arguments(settings: Settings, ports: Mapping[str, int]) -> list[str]:
    arguments = ["demo", "world", "--data", str(settings.data)]
    for name, port in ports.items():
        arguments += ["--port" if name == "exchange" else f"--{name}-port", str(port)]
    return arguments


async def _until_read(settings: Settings, since: int) -> None:
    """Wait until the collector has read every venue."""
    database = open_database(settings.database_address)
    try:
        for venue in VENUES:
            while True:
                reading = await latest_snapshot(database, PERPETUALS.of(venue))
                if reading is not None and reading.as_of >= since:
                    break
                await asyncio.sleep(0.05)
    finally:
        await database.close()


async def _until_200(address: str) -> None:
    """Wait until an address answers with 200.

    Raises:
        BarographError: it doesn't within a minute.
    """
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
        while True:
            if asyncio.get_running_loop().time() > deadline:
                raise BarographError(f"{address} didn't answer within {READY_SECONDS} seconds")
            try:
                if (await client.get(address)).status_code == HTTPStatus.OK:
                    return
            except httpx2.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.05)
