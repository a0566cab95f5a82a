"""The check of `barograph doctor` on the server that counts rate limits."""

import asyncio
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from barograph.cli.diagnosis import (
    LOOK_SECONDS,
    Check,
    Diagnosis,
    connection_problem,
    failed,
    host_of,
    note,
    ok,
)
from barograph.limits.rate_limits import LimitsUnavailable
from barograph.limits.stores import PROBE
from barograph.limits.valkey_store import ValkeyStore, open_client
from barograph.settings import Settings


async def check_limits(settings: Settings) -> Diagnosis:
    """Whether the server runs our script in time, and keeps what it counts."""
    url = settings.limits_url.get_secret_value()
    if url:
        return await _check_server(url)
    if settings.database_url.get_secret_value():
        advice = "set BAROGRAPH_LIMITS_URL if there are several web hosts"
        return note("rate limits are counted per host", advice)
    return ok("counted on this host")


async def _check_server(url: str) -> Diagnosis:
    client, seconds = open_client(url)
    store = ValkeyStore(url, b"doctor")
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await client.ping()
            found = await _information(client)
        await store.count(PROBE, "")
    except (LimitsUnavailable, RedisError, OSError) as error:
        return _problem(error, host_of(url), seconds)
    finally:
        await store.close()
        await client.aclose()
    return _kept(found)


async def _information(client: "Redis") -> dict[str, Any]:
    """The server's version and memory; empty if its user may not read them."""
    try:
        return {**await client.info("server"), **await client.info("memory")}
    except ResponseError:
        return {}


def _kept(found: dict[str, Any]) -> Diagnosis:
    name = "Valkey" if "valkey_version" in found else "Redis"
    version = found.get("valkey_version") or found.get("redis_version")
    server = "the server" if version is None else f"{name} {version}"
    policy = found.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and found.get("maxmemory"):
        detail = f"{server} deletes counts when its memory is full ({policy})"
        return note(detail, "set its maxmemory-policy to noeviction")
    return ok(f"{server} counts for all hosts")


def _problem(error: Exception, host: str, seconds: float) -> Diagnosis:
    cause = error.__cause__ if isinstance(error, LimitsUnavailable) else error
    if isinstance(error, LimitsUnavailable) and isinstance(cause, TimeoutError):
        detail = f"{host} takes longer than {seconds * 1000:g} ms to connect and reply"
        return failed(detail, "use a server nearby, or set socket_timeout in BAROGRAPH_LIMITS_URL")
    refusal = next((each for kind, each in _REFUSALS.items() if isinstance(cause, kind)), None)
    if refusal is not None:
        return failed(refusal[0].format(host=host), refusal[1])
    unknown = failed(f"{host} fails ({type(cause).__name__})", "check BAROGRAPH_LIMITS_URL")
    return connection_problem(error, host) or unknown


_REFUSALS: Final = {
    AuthenticationError: (
        "{host} refuses the user or the password",
        "check them in BAROGRAPH_LIMITS_URL; write special characters percent-encoded",
    ),
    ReadOnlyError: ("{host} is a read-only replica", "name the primary in BAROGRAPH_LIMITS_URL"),
    OutOfMemoryError: ("the memory of {host} is full", "raise its maxmemory"),
    # Last, because it includes the two above. A script that may not run a command raises it.
    ResponseError: (
        "{host} refuses to run our script",
        "give the user of BAROGRAPH_LIMITS_URL the commands that docs/many-hosts.md lists",
    ),
}

CHECKS: Final[dict[str, Check]] = {"limits": check_limits}
