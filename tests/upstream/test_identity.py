"""The demo's identity provider over real connections, as the service asks it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc.jwk import ECKey

from barograph.kit.dependency_health import MonitoredDependency
from barograph.status.reader import reachability
from barograph.upstream.identity_providers import NO_PUBLIC_KEY, identity_provider
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.faults import IdentityFaults
from barograph_demo.servers.identity import (
    BY_ID,
    DEMO_USERS,
    KEYS_PATH,
    running_identity,
    sign_token,
)
from support.clock import START, HandClock
from support.identities import identity_settings, outcome
from support.tokens import confused_token

FEED = DEMO_USERS["feed"]


class World:
    """The demo's provider on loopback, and the service's adapter before it."""

    def __init__(self, address: ServerAddress, faults: IdentityFaults, made: ECKey) -> None:
        self.address = address
        self.faults = faults
        self.clock = HandClock()
        self.key = made
        self.provider = identity_provider(identity_settings(address.url), self.clock)

    def token(self, tier: str) -> str:
        return sign_token(self.key, BY_ID[DEMO_USERS[tier]], self.clock(), self.address.url)

    async def outcome(self, tier: str = "feed") -> str:
        return await outcome(self.provider, self.token(tier))


@asynccontextmanager
async def running_world() -> AsyncIterator[World]:
    faults = IdentityFaults()
    made = ECKey.generate_key("P-256")
    async with running_identity(made, faults, clock=HandClock()) as address:
        world = World(address, faults, made)
        yield world
        await world.provider.close()


@pytest.mark.contract("auth.bearer.verified-and-entitled")
async def test_only_users_with_a_confirmed_address_are_identified() -> None:
    async with running_world() as world:
        outcomes = {tier: await world.outcome(tier) for tier in DEMO_USERS}
    assert outcomes == {
        **{tier: DEMO_USERS[tier] for tier in ("feed", "reserve", "none")},
        "anonymous": "refused",
        "unconfirmed": "refused",
    }


@pytest.mark.outcome(
    "The identity provider returns 503 or a web page, or redirects, which the service doesn't "
    "follow",
    "Tokens get 503.",
)
@pytest.mark.outcome(
    "The identity provider hangs",
    "Tokens get 503 within the time limit.",
)
@pytest.mark.outcome(
    "The identity provider returns a different user from the one in the token",
    "The token is refused with 401.",
)
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("fault", ["outage", "html", "redirect", "hang", "lying"])
async def test_provider_fault_admits_no_caller_until_it_ends(fault: str, is_first: bool) -> None:
    expected = "refused" if fault == "lying" else "unavailable"
    async with running_world() as world:
        if not is_first:  # with the keys in the cache
            assert await world.outcome() == FEED
        world.faults.turn_on(fault)
        assert await world.outcome() == expected
        assert await world.outcome("unconfirmed") == expected
        world.faults.turn_off(fault)
        if is_first:
            await world.outcome()  # may still wait for the question that hung
            world.clock.pass_seconds(1)
        assert await world.outcome() == FEED


@pytest.mark.outcome(
    "A Supabase project signs tokens with the legacy HS256 secret, so its key set is empty",
    "Every token gets 503, including HS256 ones. The log (once), `/api/status` and `doctor` name "
    "the cause and the fix.",
)
async def test_a_project_with_the_legacy_secret_admits_no_caller_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_world() as world:
        world.faults.turn_on("empty-key-set")
        assert await world.outcome() == "unavailable"
        world.clock.pass_seconds(1)
        legacy = await outcome(world.provider, confused_token(b"legacy secret"))
        assert legacy == "unavailable"
        assert isinstance(world.provider, MonitoredDependency)
        assert reachability(world.provider.health, world.clock()).reason == NO_PUBLIC_KEY
        world.faults.turn_off("empty-key-set")
        world.clock.pass_seconds(1)
        assert await world.outcome() == FEED
    assert [vars(each)["reason"] for each in caplog.records] == [NO_PUBLIC_KEY]


async def test_a_token_of_another_key_is_refused_before_anybody_is_asked() -> None:
    user, stranger = BY_ID[FEED], ECKey.generate_key("P-256")
    async with running_world() as world:
        forged = sign_token(stranger, user, START, world.address.url)
        elsewhere = sign_token(world.key, user, START, "http://127.0.0.1:1")
        for text in (forged, elsewhere, "x"):
            assert await outcome(world.provider, text) == "refused"
        counted: Any = await asyncio.to_thread(send_command, world.address.url, {"count": True})
    assert counted["requests"] == {KEYS_PATH: 1}
