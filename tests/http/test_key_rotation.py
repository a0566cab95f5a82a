"""The identity provider gets another key while subscribers read: real connections, held clock."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from joserfc.jwk import ECKey
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.entitlements.store import Entitlements, Holder
from barograph.identity.key_set import ASK_AGAIN
from barograph.kit.timestamps import DAY
from barograph.upstream.identity_providers import identity_provider
from barograph_demo.servers.faults import IdentityFaults
from barograph_demo.servers.identity import BY_ID, DEMO_USERS, IdentityServer, sign_token
from support.clock import HandClock
from support.identities import identity_settings
from support.processes import HOST, unused_port
from support.service import BASE_URL, Service
from support.subscribers import FEED_NOW

FEED_USER = BY_ID[DEMO_USERS["feed"]]


class WatchedProvider(IdentityServer):
    """The demo's provider, which says when it is asked."""

    asked: asyncio.Event

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        self.asked.set()
        return await super().on_request(connection, request)


class Rotation:
    """A subscriber of a service whose provider can be exchanged for one with another key."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock()
        self.port = unused_port()
        self.url = f"http://{HOST}:{self.port}"
        self.old, self.new = (ECKey.generate_key("P-256") for _ in range(2))
        self.faults = IdentityFaults()
        provider = identity_provider(identity_settings(self.url), self.clock, seconds=5)
        self.service = Service(folder, identity=provider)
        entitlements = Entitlements(self.service.database, self.service.clock)
        holder, said = Holder("user", FEED_USER.id), {"source": "test", "by": "test", "why": "test"}
        asyncio.run(entitlements.add_period(holder, "feed", period_ms=DAY, **said))

    @asynccontextmanager
    async def provider(self, key: ECKey) -> AsyncIterator[WatchedProvider]:
        provider = WatchedProvider(key, self.clock, self.faults)
        provider.asked = asyncio.Event()
        async with provider.running(HOST, self.port):
            yield provider

    async def read(self, key: ECKey) -> int:
        """Read with a token of that key."""
        token = sign_token(key, FEED_USER, self.clock(), self.url)
        transport = httpx2.ASGITransport(app=self.service.app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            answer = await client.get(FEED_NOW, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code


@pytest.fixture
def rotation(tmp_path: Path) -> Iterator[Rotation]:
    rotation = Rotation(tmp_path)
    yield rotation
    rotation.service.close()


@pytest.mark.outcome(
    "The identity provider replaces its key",
    "New tokens work within 30 seconds and get 503 until then, not 401. Old ones are refused.",
)
async def test_replaced_key_is_refused_and_the_new_one_works_within_30_seconds(
    rotation: Rotation,
) -> None:
    async with rotation.provider(rotation.old):
        assert await rotation.read(rotation.old) == 200
        assert await rotation.read(rotation.new) == 401
    async with rotation.provider(rotation.new):
        rotation.clock.now += ASK_AGAIN - 1
        assert await rotation.read(rotation.new) == 503  # no telling: keys were read before it
        rotation.clock.now += 1
        both = (rotation.read(rotation.new) for _ in range(8))
        assert await asyncio.gather(*both) == [200] * 8
        assert await rotation.read(rotation.old) == 401


async def test_who_is_being_asked_about_during_the_change_gets_503_and_then_401(
    rotation: Rotation,
) -> None:
    async with rotation.provider(rotation.old) as provider:
        assert await rotation.read(rotation.old) == 200
        rotation.faults.turn_on("hang")
        provider.asked.clear()
        reading = asyncio.create_task(rotation.read(rotation.old))
        await provider.asked.wait()
    assert await reading == 503
    rotation.faults.clear()
    async with rotation.provider(rotation.new):
        assert await rotation.read(rotation.old) == 401
