"""Rate limits counted in Valkey or Redis, which all workers of all hosts share.

Each caller has a list of the times of its accepted requests. One script removes expired times from
the head of the list and appends the new one, so counting costs the same whatever the limit. The
script reads the server's clock: the clocks of our hosts don't matter.

Nothing is needed for longer than a window, so the server needs no persistence. Callers are stored
as keyed hashes.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from barograph.limits.rate_limits import CallerHash, LimitsUnavailable, RateLimit, Usage

TIMEOUT_SECONDS = 0.25
"""How long the server may take to accept a connection and to reply, together. On a busy host a
reply can take 50 ms; while the server hangs, one request per second waits this long."""

TURNS = 5
"""A timeout is this many short waits, so a busy event loop uses up only one of them."""

PREFIX = "barograph:limits:"
CLOCK_KEY = f"{PREFIX}clock"

SCRIPT = """
local requests, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The clock without its backward steps, which are recorded once per second.
local clock = redis.call('HMGET', KEYS[2], 'seen_at', 'lag')
local seen_at, lag = tonumber(clock[1] or 0), tonumber(clock[2] or 0)
if now < seen_at or now >= seen_at + 1000 then
  lag = lag + math.max(0, seen_at - now)
  redis.call('HSET', KEYS[2], 'seen_at', now, 'lag', lag)
end
now = math.max(now + lag, tonumber(redis.call('LINDEX', KEYS[1], -1) or 0))

local oldest = redis.call('LINDEX', KEYS[1], 0)
while oldest and tonumber(oldest) <= now - window do
  redis.call('LPOP', KEYS[1])
  oldest = redis.call('LINDEX', KEYS[1], 0)
end
local used = redis.call('LLEN', KEYS[1])
local resets_in = tonumber(oldest or now) + window - now
if used >= requests then
  return {0, 0, resets_in}
end
redis.call('RPUSH', KEYS[1], now)
-- A second longer than the window: this clock may run ahead of the one that expires keys.
redis.call('PEXPIRE', KEYS[1], window + 1000)
return {1, requests - used - 1, resets_in}
"""

_Request = tuple[str, str, int, int]
_Waiting = tuple[_Request, "asyncio.Future[Any]"]


class ValkeyStore:
    """Exact sliding windows on a server, whichever host gets a request.

    A worker has one connection. Requests that arrive during a round trip share the next one. If the
    server's clock is set back, the repeated time doesn't count as passed: no caller gets more
    requests, or waits more than a second longer than a window. The store connects at the first
    request, which is after the fork.
    """

    def __init__(self, url: str, secret: bytes, *, script: str = SCRIPT) -> None:
        """`socket_timeout` in the URL, in seconds, replaces the default timeout."""
        self._client, self._seconds = open_client(url)
        self._hash = CallerHash(secret)
        self._script = script
        self._digest = sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._waiting: list[_Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller, if the limit has one left.

        Raises:
            LimitsUnavailable: the server did not reply in time, or refused.
        """
        key = PREFIX + self._hash(limit, caller).hex()
        reply = asyncio.get_running_loop().create_future()
        self._waiting.append(((key, CLOCK_KEY, limit.requests, limit.window), reply))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        answer = await reply
        if isinstance(answer, BaseException):
            # Only the type: the text may name the server.
            raise LimitsUnavailable(f"Valkey fails ({type(answer).__name__})") from answer
        accepted, remaining, resets_in = answer
        return Usage(limit, bool(accepted), remaining, resets_in)

    async def close(self) -> None:
        """Close the connection."""
        if self._sending is not None:
            await asyncio.wait({self._sending})
        await self._client.aclose()

    async def _send(self) -> None:
        """Send waiting requests until none is left; after a failure, it is the reply to all."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            answers = await self._replies([request for request, _ in batch])
            if isinstance(answers, BaseException):
                batch, self._waiting = batch + self._waiting, []
                answers = [answers] * len(batch)
            for (_, reply), answer in zip(batch, answers, strict=True):
                if not reply.done():  # the client may have disconnected
                    reply.set_result(answer)

    async def _replies(self, requests: Sequence[_Request]) -> list[Any] | BaseException:
        task = asyncio.create_task(self._run(requests))
        for _ in range(TURNS):
            await asyncio.wait({task}, timeout=self._seconds / TURNS)
            if task.done():
                return task.exception() or task.result()
        task.cancel()
        return TimeoutError()

    async def _run(self, requests: Sequence[_Request], *, load: bool = False) -> list[Any]:
        """Run the script for each request in one round trip, or two if the server lacks it."""
        pipeline = self._client.pipeline(transaction=False)
        if load:
            pipeline.script_load(self._script)
        for request in requests:
            pipeline.evalsha(self._digest, 2, *request)
        replies = (await pipeline.execute(raise_on_error=False))[-len(requests) :]
        unknown = [n for n, answer in enumerate(replies) if isinstance(answer, NoScriptError)]
        if unknown and not load:
            again = await self._run([requests[n] for n in unknown], load=True)
            for n, reply in zip(unknown, again, strict=True):
                replies[n] = reply
        return replies


def open_client(url: str) -> tuple[Redis, float]:
    """A client that doesn't retry, and the seconds that a command may take."""
    scheme, _, rest = url.partition("://")
    options: dict[str, Any] = {**parse_url(f"{scheme.replace('valkey', 'redis')}://{rest}")}
    seconds = options.pop("socket_timeout", TIMEOUT_SECONDS)
    pool = ConnectionPool(
        **options,
        # Each command has a timeout of its own, which a busy event loop doesn't use up.
        socket_timeout=None,
        socket_connect_timeout=None,
        retry=Retry(NoBackoff(), 0),
        # Connecting takes fewer round trips, and servers before Redis 6 work too.
        protocol=2,
        driver_info=None,
    )
    return Redis.from_pool(pool), seconds
