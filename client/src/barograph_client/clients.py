"""The two clients: the same calls, sent with and without `await`."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from inspect import signature
from ipaddress import ip_address
from time import monotonic
from types import GenericAlias
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_type_hints
from urllib.parse import urlsplit

import httpx2

from barograph_client import calls
from barograph_client.calls import Call, E, ListCall, PageT, Words
from barograph_client.errors import ClientError, Unreachable
from barograph_client.following import NEWEST, SILENCE, Following
from barograph_client.reads import (
    OK,
    PATIENCE,
    Clock,
    Credentials,
    Get,
    HttpReply,
    Patience,
    Pause,
    Reader,
    Secret,
    Steps,
    system_clock,
)
from barograph_client.records import LogEvent

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

SECONDS = 10.0
"""How long a request waits for the next byte by default."""

WHOLE = 3
"""The whole response may take this many times the timeout."""

LARGEST = 8 * 1024 * 1024
"""Far larger than any response of the service."""


def _sent(call: Callable[P, Call[T]]) -> "Callable[Concatenate[Barograph, P], T]":
    def method(client: "Barograph", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.run(client.reader.read(call(*args, **kwargs)))

    return _described(method, call)


def _awaited(
    call: Callable[P, Call[T]],
) -> "Callable[Concatenate[AsyncBarograph, P], Coroutine[Any, Any, T]]":
    async def method(client: "AsyncBarograph", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.run(client.reader.read(call(*args, **kwargs)))

    return _described(method, call)


def _listed(
    call: Callable[P, ListCall[PageT, E]],
) -> "Callable[Concatenate[Barograph, P], Iterator[E]]":
    def method(client: "Barograph", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[E]:
        wanted = call(*args, **kwargs)
        return (entry for page in client.pages(wanted) for entry in wanted.entries(page))

    return _described(method, call, Iterator)


def _listed_async(
    call: Callable[P, ListCall[PageT, E]],
) -> "Callable[Concatenate[AsyncBarograph, P], AsyncIterator[E]]":
    def method(client: "AsyncBarograph", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[E]:
        wanted = call(*args, **kwargs)
        return (entry async for page in client.pages(wanted) for entry in wanted.entries(page))

    return _described(method, call, AsyncIterator)


def _request(step: Get) -> dict[str, Any]:
    """A request as the HTTP library takes it."""
    sent = {"method": step.method, "url": step.url, "headers": dict(step.headers)}
    return sent if not step.body else {**sent, "content": step.body}


def _described(method: M, call: Callable[..., Any], iterator: type | None = None) -> M:
    """Give a method the name, docstring and signature of its call, for `help`."""
    *_, answer = get_type_hints(call)["return"].__args__
    client, *_ = signature(method).parameters.values()
    shown = signature(call)
    shown = shown.replace(
        parameters=[client, *shown.parameters.values()],
        return_annotation=answer if iterator is None else GenericAlias(iterator, answer),
    )
    described = {"__name__": call.__name__, "__doc__": call.__doc__, "__signature__": shown}
    for name, value in described.items():
        setattr(method, name, value)
    return method


class Barograph:
    """Reads a Barograph service.

    Every read asks the service, with `If-None-Match` where the client has an earlier answer. A free
    read retries on 429 and 503 as `patience` allows; a subscriber read is sent once, as is what
    changes an alert. Each credential goes only where it is needed: the key to signals and alerts,
    the token (or without one the payment proof) to Feed endpoints. Use a client in one thread only.
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
        """A credential is a string, or a function that returns the current one.

        Raises:
            ValueError: `base_url` is not an HTTP address.
        """
        self.reader = Reader(base_url, Credentials(api_key, bearer, proof), patience, clock)
        self._sleep = sleep
        self._answer_seconds = WHOLE * timeout
        self._http = httpx2.Client(transport=transport, **_options(base_url, timeout))

    index = _sent(calls.index)
    briefs = _sent(calls.briefs)
    derivatives = _sent(calls.derivatives)
    market = _sent(calls.market)
    market_state = _sent(calls.market_state)
    guides = _sent(calls.guides)
    signals = _sent(calls.signals)
    status = _sent(calls.status)
    perpetuals = _sent(calls.perpetuals)
    perpetual = _sent(calls.perpetual)
    venues = _sent(calls.venues)
    cross = _sent(calls.cross)
    cross_coin = _sent(calls.cross_coin)
    carry = _sent(calls.carry)
    series = _listed(calls.series)
    listings = _listed(calls.listings)
    liquidations = _listed(calls.liquidations)
    liquidation_files = _sent(calls.liquidation_files)
    liquidation_file = _sent(calls.liquidation_file)
    events = _listed(calls.events)
    incidents = _listed(calls.incidents)
    accuracy = _sent(calls.accuracy)
    alerts = _sent(calls.alerts)
    alert_messages = _sent(calls.alert_messages)
    create_alert = _sent(calls.create_alert)
    preview_alert = _sent(calls.preview_alert)
    change_alert = _sent(calls.change_alert)
    delete_alert = _sent(calls.delete_alert)
    revealed = _listed(calls.revealed)
    feed_now = _sent(calls.feed_now)
    stance = _sent(calls.stance)
    material_change = _sent(calls.material_change)

    def pages(self, wanted: ListCall[PageT, Any]) -> Iterator[PageT]:
        """The pages of a list, such as `calls.liquidations()`; each is requested in its turn."""
        call: Call[PageT] | None = wanted.first
        while call is not None:
            page = self.run(self.reader.read(call))
            yield page
            call = call.at(page.next)

    def follow(
        self,
        after: int | None = None,
        *,
        types: Words = (),
        symbols: Words = (),
        venue: str | None = None,
    ) -> Iterator[LogEvent]:
        """Each event after this id once, in order, as it happens; 0 is the beginning of the log.

        None starts from now: with the first event after you begin to iterate.

        It reads what you missed, then the stream, and starts over when the connection breaks. It
        ends when the client is closed.

        Raises:
            ClientError: the service refuses, such as an id that isn't in its log, or this is no
                Barograph service. Retrying won't help.
        """
        if after is None:
            after = self.run(self.reader.read(NEWEST)).last_id
        place = Following(self.reader.base_url, after, types, symbols, venue)
        while not self._http.is_closed:
            failure: Exception | None = None
            url, headers, *_ = place.connect()
            try:
                with self._http.stream("GET", url, headers=headers, timeout=SILENCE) as response:
                    if response.status_code != OK:
                        raise self.reader.refusal(self._whole(response))
                    place.opened(response.headers)
                    for chunk in response.iter_raw():
                        yield from place.take(chunk)
            except (ClientError, httpx2.RequestError) as error:
                failure = error
            if not self._http.is_closed:
                self._sleep(place.pause(failure))

    def run(self, steps: Steps[T]) -> T:
        """Carry out the steps of a read and return its result."""
        reply: HttpReply | Unreachable | None = None
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
                with self._http.stream(**_request(step)) as response:
                    reply = self._whole(response)
            except httpx2.RequestError as error:
                reply = _unreachable(error)

    def _whole(self, response: httpx2.Response) -> HttpReply:
        body = _Body(response, self._answer_seconds)
        for chunk in response.iter_bytes():
            body.take(chunk)
        return _reply(response, body)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncBarograph:
    """The same as `Barograph`, with `await`."""

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
        """A credential is a string, or a function that returns the current one.

        Raises:
            ValueError: `base_url` is not an HTTP address.
        """
        self.reader = Reader(base_url, Credentials(api_key, bearer, proof), patience, clock)
        self._sleep = sleep
        self._answer_seconds = WHOLE * timeout
        self._http = httpx2.AsyncClient(transport=transport, **_options(base_url, timeout))

    index = _awaited(calls.index)
    briefs = _awaited(calls.briefs)
    derivatives = _awaited(calls.derivatives)
    market = _awaited(calls.market)
    market_state = _awaited(calls.market_state)
    guides = _awaited(calls.guides)
    signals = _awaited(calls.signals)
    status = _awaited(calls.status)
    perpetuals = _awaited(calls.perpetuals)
    perpetual = _awaited(calls.perpetual)
    venues = _awaited(calls.venues)
    cross = _awaited(calls.cross)
    cross_coin = _awaited(calls.cross_coin)
    carry = _awaited(calls.carry)
    series = _listed_async(calls.series)
    listings = _listed_async(calls.listings)
    liquidations = _listed_async(calls.liquidations)
    liquidation_files = _awaited(calls.liquidation_files)
    liquidation_file = _awaited(calls.liquidation_file)
    events = _listed_async(calls.events)
    incidents = _listed_async(calls.incidents)
    accuracy = _awaited(calls.accuracy)
    alerts = _awaited(calls.alerts)
    alert_messages = _awaited(calls.alert_messages)
    create_alert = _awaited(calls.create_alert)
    preview_alert = _awaited(calls.preview_alert)
    change_alert = _awaited(calls.change_alert)
    delete_alert = _awaited(calls.delete_alert)
    revealed = _listed_async(calls.revealed)
    feed_now = _awaited(calls.feed_now)
    stance = _awaited(calls.stance)
    material_change = _awaited(calls.material_change)

    async def pages(self, wanted: ListCall[PageT, Any]) -> AsyncIterator[PageT]:
        """The same as `Barograph.pages`, for `async for`."""
        call: Call[PageT] | None = wanted.first
        while call is not None:
            page = await self.run(self.reader.read(call))
            yield page
            call = call.at(page.next)

    async def follow(
        self,
        after: int | None = None,
        *,
        types: Words = (),
        symbols: Words = (),
        venue: str | None = None,
    ) -> AsyncGenerator[LogEvent]:
        """The same as `Barograph.follow`, for `async for`."""
        if after is None:
            after = (await self.run(self.reader.read(NEWEST))).last_id
        place = Following(self.reader.base_url, after, types, symbols, venue)
        while not self._http.is_closed:
            failure: Exception | None = None
            url, headers, *_ = place.connect()
            asked = self._http.stream("GET", url, headers=headers, timeout=SILENCE)
            try:
                async with asked as response:
                    if response.status_code != OK:
                        raise self.reader.refusal(await self._whole(response))
                    place.opened(response.headers)
                    async for chunk in response.aiter_raw():
                        for event in place.take(chunk):
                            yield event
            except (ClientError, httpx2.RequestError) as error:
                failure = error
            if not self._http.is_closed:
                await self._sleep(place.pause(failure))

    async def run(self, steps: Steps[T]) -> T:
        """Carry out the steps of a read and return its result."""
        reply: HttpReply | Unreachable | None = None
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
                asked = self._http.stream(**_request(step))
                async with asked as response:
                    reply = await self._whole(response)
            except httpx2.RequestError as error:
                reply = _unreachable(error)

    async def _whole(self, response: httpx2.Response) -> HttpReply:
        body = _Body(response, self._answer_seconds)
        async for chunk in response.aiter_bytes():
            body.take(chunk)
        return _reply(response, body)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Body:
    """A response body, read within a size limit and a deadline."""

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
            raise httpx2.ReadError("the response is too large")
        if monotonic() > self._until:
            raise httpx2.ReadTimeout("the response took too long")


def _reply(response: httpx2.Response, body: _Body) -> HttpReply:
    # The names of `httpx2.Headers` are in lower case.
    return HttpReply(response.status_code, dict(response.headers), bytes(body.taken))


def _unreachable(error: httpx2.RequestError) -> Unreachable:
    # The error's own text may contain what we sent.
    return Unreachable(f"the service could not be reached ({type(error).__name__})")


def _options(base_url: str, timeout: float) -> dict[str, Any]:
    """The options of both HTTP clients. A service on this machine needs no proxy."""
    return {
        "timeout": timeout,
        "headers": {"Accept-Encoding": "gzip"},
        "trust_env": not _is_loopback(urlsplit(base_url).hostname or ""),
    }


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
