"""A simulated venue with a stream, whose connections faults cut and silence."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final, cast
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request

from barograph_demo.servers.control import CONTROL_PATH, until_changed
from barograph_demo.servers.faults import VenueFault, VenueFaults
from barograph_demo.servers.venue_server import V, VenueServer

_log = logging.getLogger(__name__)

PUSH_SECONDS: Final = 0.5


class Listener:
    """One open connection and its subscriptions."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.id = str(uuid4())
        self.topics: set[str] = set()
        self.muted = False

    @property
    def transport(self) -> asyncio.Transport:
        """The TCP connection."""
        return self.connection.transport

    def mute(self, wanted: bool) -> None:
        """Stop or continue reading. Without reading, not even protocol pings are answered."""
        if wanted and not self.muted:
            self.transport.pause_reading()
        elif self.muted and not wanted and not self.transport.is_closing():
            self.transport.resume_reading()
        self.muted = wanted

    async def say(self, message: object) -> None:
        """Send a message to this connection only."""
        await self.connection.send(msgspec.json.encode(message).decode())


class Listeners(ABC):
    """All connections of a stream."""

    def __init__(self, faults: VenueFaults) -> None:
        self._faults = faults
        self._listeners: set[Listener] = set()

    @abstractmethod
    async def receive(self, listener: Listener, message: str | bytes) -> None:
        """Handle a message of a client."""

    async def serve(self, connection: ServerConnection, topics: Iterable[str] = ()) -> None:
        """Serve one connection until it closes; it is subscribed to `topics` from the start."""
        listener = Listener(connection)
        if self._faults.stream_is_down:
            listener.transport.abort()
            return
        listener.topics.update(topics)
        self._listeners.add(listener)
        listener.mute(self._silent)
        try:
            async for message in connection:
                # Messages read before the silence are answered after it.
                while self._silent and not connection.transport.is_closing():
                    await until_changed(self._faults, connection)
                await self.receive(listener, message)
        except ConnectionClosed:
            pass
        finally:
            self._listeners.discard(listener)

    @property
    def _silent(self) -> bool:
        return self._faults.is_on(VenueFault.STREAM_SILENCE)

    @property
    def _nobody_hears(self) -> bool:
        return not self._listeners or self._silent or self._faults.stream_is_down

    @abstractmethod
    def pump(self) -> None:
        """Send the news since the last call."""

    @asynccontextmanager
    async def feeding(self, seconds: float) -> AsyncIterator[None]:
        """Send the news every so many seconds until the context ends."""
        tasks = [asyncio.create_task(each) for each in (self._feed(seconds), self._watch_faults())]
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed(self, seconds: float) -> None:
        while True:
            self.pump()
            await asyncio.sleep(seconds)

    async def _watch_faults(self) -> None:
        """Cut or mute the connections whenever a fault is switched."""
        while True:
            for listener in list(self._listeners):
                if self._faults.stream_is_down:
                    listener.transport.abort()
                else:
                    listener.mute(self._silent)
            await self._faults.changed()

    def _send(self, topic: str, text: str) -> None:
        """Send a message to all who subscribed to its topic; twice if that fault is on."""
        listening = [
            listener.connection for listener in self._listeners if topic in listener.topics
        ]
        for _ in range(2 if self._faults.is_on(VenueFault.STREAM_DUPLICATES) else 1):
            broadcast(listening, text)


class StreamServer(VenueServer[V]):
    """Answers REST requests and feeds the stream, on one port."""

    stream: Listeners

    async def on_websocket(self, connection: ServerConnection) -> None:
        """Serve a stream or control connection until it closes."""
        if urlsplit(cast("Request", connection.request).path).path == CONTROL_PATH:
            await super().on_websocket(connection)
        else:
            await self.stream.serve(connection)

    @asynccontextmanager
    async def serving(self, host: str, port: int, push_seconds: float) -> AsyncIterator[int]:
        """Serve and feed the stream until the context ends; yields the port."""
        async with self.running(host, port) as bound, self.stream.feeding(push_seconds):
            yield bound


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("stream task failed", exc_info=task.exception())
