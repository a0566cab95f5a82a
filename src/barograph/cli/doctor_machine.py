"""The checks of `barograph doctor` on this machine, on rate limits and on confirmed terms."""

import asyncio
import os
import shutil
from base64 import b64encode
from typing import Any

import apsw
import httpx2
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from barograph import NOTICE
from barograph.cli.diagnosis import (
    LOOK_SECONDS,
    Diagnosis,
    connection_problem,
    failed,
    host_of,
    note,
    ok,
)
from barograph.errors import ConfigurationError
from barograph.guides.catalog import load_catalog
from barograph.history.checkpoint import public_bytes
from barograph.history.documents import CHECKPOINT_PATH
from barograph.history.signing import existing_key
from barograph.kit.operating_system import require_free_port
from barograph.kit.sqlite import SAFE_WAL, sqlite_version
from barograph.limits.rate_limits import LimitsUnavailable
from barograph.limits.stores import PROBE
from barograph.limits.valkey_store import ValkeyStore, open_client
from barograph.settings import REQUEST_SECONDS, Settings, reachable
from barograph.terms.sources import PAGE, SETTING, Unconfirmed, usable_venues

MIN_DISK_BYTES = 1 << 30


async def check_port(settings: Settings) -> Diagnosis:
    """Whether our port is free, or this instance uses it."""
    place = f"{settings.host}:{settings.port}"
    try:
        require_free_port(settings.host, settings.port)
    except ConfigurationError:
        other = f"{place} is in use -> stop the other program or set BAROGRAPH_PORT"
        return await _running_barograph(settings) or failed(other)
    return ok(f"{place} is free")


async def _running_barograph(settings: Settings) -> Diagnosis | None:
    """The result if a Barograph answers on our port; None if another program does."""
    address = f"http://{reachable(settings.host)}:{settings.port}"
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=REQUEST_SECONDS) as client:
            status = (await client.get(f"{address}/api/status")).json()
            signed = (await client.get(f"{address}{CHECKPOINT_PATH}")).json()
    except (httpx2.HTTPError, ValueError):
        return None
    match status, signed:
        case {"notice": str(notice), "api": {"version": str(version)}}, dict() if notice == NOTICE:
            running = f"Barograph {version} is running on {settings.host}:{settings.port}"
            key = existing_key(settings)  # None before the first start
            ours = None if key is None else b64encode(public_bytes(key)).decode()
            # While the history fails there is no checkpoint, and so no key to compare.
            if signed.get("public_key", ours) == ours:
                return ok(running)
            remedy = "name its folder with --data, or set BAROGRAPH_PORT"
            return failed(f"{running} with another data folder -> {remedy}")
    return None


async def check_sqlite(_: Settings) -> Diagnosis:
    """Whether this version of SQLite is safe."""
    version = apsw.sqlite_lib_version()
    if sqlite_version() < SAFE_WAL:
        return failed(f"{version} can corrupt its write-ahead log -> pip install --upgrade apsw")
    return ok(version)


async def check_disk(settings: Settings) -> Diagnosis:
    """Whether we can write to the data folder, and how much space is free."""
    folder = settings.data.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "change its owner or set BAROGRAPH_DATA"
        return failed(f"this user can't write to {folder} -> {remedy}")
    if free < MIN_DISK_BYTES:
        remedy = "free some space or set BAROGRAPH_DATA to another disk"
        return failed(f"{free / 1e9:.1f} GB free -> {remedy}")
    return ok(f"{free / 1e9:.1f} GB free")


async def check_guides(settings: Settings) -> Diagnosis:
    """Whether the catalog of guides is valid."""
    try:
        return ok(load_catalog(settings.guides_file).source)
    except ConfigurationError as error:
        return failed(f"{error} -> barograph guides check {settings.guides_file}")


async def check_limits(settings: Settings) -> Diagnosis:
    """Whether the server runs our script in time, and keeps what it counts."""
    url = settings.limits_url.get_secret_value()
    if not url and settings.database_url.get_secret_value():
        advice = "set BAROGRAPH_LIMITS_URL if there are several web hosts"
        return note(f"rate limits are counted per host -> {advice}")
    if not url:
        return ok("counted on this host")
    client, seconds = open_client(url)
    store = ValkeyStore(url, b"doctor")
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await client.ping()
            about = await _information(client)
        await store.count(PROBE, "")
    except (LimitsUnavailable, RedisError, OSError) as error:
        return _limits_problem(error, host_of(url), seconds)
    finally:
        await store.close()
        await client.aclose()
    name = "Valkey" if "valkey_version" in about else "Redis"
    version = about.get("valkey_version") or about.get("redis_version")
    server = "the server" if version is None else f"{name} {version}"
    policy = about.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and about.get("maxmemory"):
        detail = f"{server} deletes counts when its memory is full ({policy})"
        return note(f"{detail} -> set its maxmemory-policy to noeviction")
    return ok(f"{server} counts for all hosts")


async def _information(client: Redis) -> dict[str, Any]:
    """The server's version and memory; empty if its user may not read them."""
    try:
        return {**await client.info("server"), **await client.info("memory")}
    except ResponseError:
        return {}


def _limits_problem(error: Exception, host: str, seconds: float) -> Diagnosis:
    cause = error.__cause__ if isinstance(error, LimitsUnavailable) else error
    if isinstance(error, LimitsUnavailable) and isinstance(cause, TimeoutError):
        remedy = "use a server nearby, or set socket_timeout in BAROGRAPH_LIMITS_URL"
        limit = f"{seconds * 1000:g} ms to connect and reply"
        return failed(f"{host} takes longer than {limit} -> {remedy}")
    unknown = f"{host} fails ({type(cause).__name__}) -> check BAROGRAPH_LIMITS_URL"
    return connection_problem(error, host) or failed(unknown)


async def check_terms(unconfirmed: Unconfirmed, settings: Settings) -> Diagnosis:
    """Name the sources that are not used."""
    if not unconfirmed.names:
        return ok("confirmed for every configured source")
    problem = f"not confirmed and not used: {', '.join(unconfirmed.names)}"
    if not usable_venues(settings.venue_names, unconfirmed):
        problem += "; `collect` does not start until you confirm a venue"
    return note(f"{problem} -> read {PAGE}, then name each source you may use in {SETTING}")
