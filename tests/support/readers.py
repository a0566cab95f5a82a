"""Clients of a service in process, and a server on a real port."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from inspect import iscoroutine
from itertools import islice
from typing import Any

import httpx2

from barograph.kit.http import ASGIApp
from barograph_client import AsyncBarograph, AsyncSubscriber, Barograph, ReferenceFile, Subscriber
from support.service import BASE_URL, Answer


class InProcess(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Sends requests of both clients to an application, and records them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        self.asked: list[httpx2.Request] = []
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._app.handle_async_request(request)
        self.asked.append(request)
        self.statuses.append(answer.status_code)
        body = b"".join([chunk async for chunk in answer.aiter_raw()])
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return asyncio.run(self.handle_async_request(request))


class Reader:
    """The synchronous or the asynchronous client; a test uses both in the same way."""

    def __init__(
        self,
        way: str,
        transport: InProcess,
        *,
        sleep: Callable[[float], object] = lambda _: None,
        **options: Any,
    ) -> None:
        self.is_async = way == "async"
        self.transport = transport
        self.slept: list[float] = []

        def pause(seconds: float) -> None:
            self.slept.append(seconds)
            sleep(seconds)

        async def pause_async(seconds: float) -> None:
            pause(seconds)

        self.client: Barograph | AsyncBarograph = (
            AsyncBarograph(BASE_URL, transport=transport, sleep=pause_async, **options)
            if self.is_async
            else Barograph(BASE_URL, transport=transport, sleep=pause, **options)
        )

    def read(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the client."""
        return result(getattr(self.client, name)(*arguments, **named))

    def first(self, count: int, name: str, *arguments: Any, **named: Any) -> list[Any]:
        """The first entries of what a method iterates over."""
        found = getattr(self.client, name)(*arguments, **named)
        return asyncio.run(first_of(found, count)) if self.is_async else [*islice(found, count)]

    def subscriber(self, store: ReferenceFile, *kinds: str) -> Subscriber | AsyncSubscriber:
        if isinstance(self.client, AsyncBarograph):
            return AsyncSubscriber(self.client, store, kinds or None)
        return Subscriber(self.client, store, kinds or None)

    def close(self) -> None:
        result(self.client.close())


def result(given: Any) -> Any:
    """The result of a method, awaited if necessary."""
    return asyncio.run(given) if iscoroutine(given) else given


async def first_of(found: AsyncGenerator[Any], count: int) -> list[Any]:
    """The first entries of an asynchronous iterator."""
    entries: list[Any] = []
    async with aclosing(found):
        async for entry in found:
            entries.append(entry)
            if len(entries) == count:
                break
    return entries


@contextmanager
def on_a_port(ask: Callable[..., Answer]) -> Iterator[str]:
    """Answer on a real port of this machine; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ("authorization", "content-type", "if-none-match", "x-api-key")
            sent = {name.replace("-", "_"): self.headers[name] for name in names}
            given = {name: value for name, value in sent.items() if value}
            if self.command != "GET":
                length = int(self.headers["content-length"] or 0)
                given |= {"method": self.command, "body": self.rfile.read(length).decode()}
            answer = ask(self.path, **given)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - the library's own names

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
