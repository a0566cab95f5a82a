"""The two clients: one set of calls, sent with and without `await`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from inspect import signature
from ipaddress import ip_address
from time import monotonic
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_type_hints
from urllib.parse import urlsplit

import httpx2

from barograph.client import calls
from barograph.client.calls import Call
from barograph.client.errors import Unreachable
from barograph.client.exchange import (
    PATIENCE,
    Clock,
    Credentials,
    Exchange,
    Patience,
    Pause,
    Reply,
    Secret,
    Steps,
    system_clock,
)

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

SECONDS = 10.0
"""So long a request waits for the next byte, unless told otherwise."""

WHOLE = 3
"""So many times as long the whole answer may take."""

LARGEST = 8 * 1024 * 1024
"""No answer of the service comes near this."""

_HEADERS = {"Accept-Encoding": "gzip"}


def _sent(call: Callable[P, Call[T]]) -> "Callable[Concatenate[Barograph, P], T]":
    def method(client: "Barograph", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.run(client.exchange.read(call(*args, **kwargs)))

    return _described(method, call)


def _awaited(
    call: Callable[P, Call[T]],
) -> "Callable[Concatenate[AsyncBarograph, P], Coroutine[Any, Any, T]]":
    async def method(client: "AsyncBarograph", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.run(client.exchange.read(call(*args, **kwargs)))

    return _described(method, call)


def _described(method: M, call: Callable[..., Call[Any]]) -> M:
    """A method that `help` shows as the call it sends."""
    client, *_ = signature(method).parameters.values()
    shown = signature(call)
    shown = shown.replace(
        parameters=[client, *shown.parameters.values()],
        return_annotation=get_type_hints(call)["return"].__args__[0],
    )
    described = {"__name__": call.__name__, "__doc__": call.__doc__, "__signature__": shown}
    for name, value in described.items():
        setattr(method, name, value)
    return method


class Barograph:
    """Reads a Barograph service.

    Each read asks the service; what it has sent before and says is not modified is not sent again.
    When it says to wait, a free read waits as `patience` allows; entitled reads are sent once.
    Each credential goes only where it counts: the key to the signals, the token (or without one the
    payment proof) to what Feed opens. One client belongs to one thread.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Secret | None = None,
        bearer: Secret | None = None,
        proof: Secret | None = None,
        patience: Patience = PATIENCE,
        timeout: float = SECONDS,
        transport: httpx2.BaseTransport | None = None,
        clock: Clock = system_clock,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """A credential is a text, or a function that gives the present one.

        Raises:
            ValueError: that is not an address.
        """
        self.exchange = Exchange(base_url, Credentials(api_key, bearer, proof), patience, clock)
        self._sleep = sleep
        self._answer_seconds = WHOLE * timeout
        self._http = httpx2.Client(
            transport=transport,
            timeout=timeout,
            headers=_HEADERS,
            trust_env=not _is_loopback(base_url),
        )

    index = _sent(calls.index)
    briefs = _sent(calls.briefs)
    derivatives = _sent(calls.derivatives)
    market = _sent(calls.market)
    market_state = _sent(calls.market_state)
    guides = _sent(calls.guides)
    signals = _sent(calls.signals)
    status = _sent(calls.status)
    feed_now = _sent(calls.feed_now)
    stance = _sent(calls.stance)
    material_change = _sent(calls.material_change)

    def run(self, steps: Steps[T]) -> T:
        """Do the steps of a conversation and return where it leads."""
        reply: Reply | Unreachable | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, Pause):
                self._sleep(step.seconds)
                reply = None
                continue
            try:
                with self._http.stream("GET", step.url, headers=dict(step.headers)) as response:
                    body = _Body(response, self._answer_seconds)
                    for chunk in response.iter_bytes():
                        body.take(chunk)
                reply = _reply(response, body)
            except httpx2.RequestError as error:
                reply = _unreachable(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncBarograph:
    """Reads a Barograph service without blocking; in everything else as `Barograph`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Secret | None = None,
        bearer: Secret | None = None,
        proof: Secret | None = None,
        patience: Patience = PATIENCE,
        timeout: float = SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock = system_clock,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """A credential is a text, or a function that gives the present one.

        Raises:
            ValueError: that is not an address.
        """
        self.exchange = Exchange(base_url, Credentials(api_key, bearer, proof), patience, clock)
        self._sleep = sleep
        self._answer_seconds = WHOLE * timeout
        self._http = httpx2.AsyncClient(
            transport=transport,
            timeout=timeout,
            headers=_HEADERS,
            trust_env=not _is_loopback(base_url),
        )

    index = _awaited(calls.index)
    briefs = _awaited(calls.briefs)
    derivatives = _awaited(calls.derivatives)
    market = _awaited(calls.market)
    market_state = _awaited(calls.market_state)
    guides = _awaited(calls.guides)
    signals = _awaited(calls.signals)
    status = _awaited(calls.status)
    feed_now = _awaited(calls.feed_now)
    stance = _awaited(calls.stance)
    material_change = _awaited(calls.material_change)

    async def run(self, steps: Steps[T]) -> T:
        """Do the steps of a conversation and return where it leads."""
        reply: Reply | Unreachable | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, Pause):
                await self._sleep(step.seconds)
                reply = None
                continue
            try:
                asked = self._http.stream("GET", step.url, headers=dict(step.headers))
                async with asked as response:
                    body = _Body(response, self._answer_seconds)
                    async for chunk in response.aiter_bytes():
                        body.take(chunk)
                reply = _reply(response, body)
            except httpx2.RequestError as error:
                reply = _unreachable(error)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Body:
    """An answer as it comes, as long and as large as one may be."""

    def __init__(self, response: httpx2.Response, seconds: float) -> None:
        # httpx2 decodes up to five encodings: a few kB can cost seconds and yield nothing to count.
        if response.headers.get("content-encoding", "identity").lower() not in {"identity", "gzip"}:
            raise httpx2.DecodingError(
                "the response has an encoding that this client did not ask for"
            )
        self._until = monotonic() + seconds
        self.taken = bytearray()

    def take(self, chunk: bytes) -> None:
        self.taken += chunk
        if len(self.taken) > LARGEST:
            raise httpx2.ReadError("the answer is too large")
        if monotonic() > self._until:
            raise httpx2.ReadTimeout("the answer takes too long")


def _reply(response: httpx2.Response, body: _Body) -> Reply:
    # The names of `httpx2.Headers` are in lower case.
    return Reply(response.status_code, dict(response.headers), bytes(body.taken))


def _unreachable(error: httpx2.RequestError) -> Unreachable:
    # Its own text may hold what was sent.
    return Unreachable(f"no whole answer came ({type(error).__name__})")


def _is_loopback(base_url: str) -> bool:
    """Whether the service is on this machine, where no proxy stands between."""
    host = urlsplit(base_url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
