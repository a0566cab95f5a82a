"""The demo's identity provider over real connections, as the service asks it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import pytest
from joserfc.jwk import ECKey
from pydantic import SecretStr

from barograph.kit.dependency_health import MonitoredDependency
from barograph.status.reader import reachability
from barograph.upstream.identity_providers import NO_PUBLIC_KEY, identity_provider
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.faults import IdentityFault, IdentityFaults
from barograph_demo.servers.identity import (
    API_KEY,
    BY_ID,
    DEMO_USERS,
    KEYS_PATH,
    USER_PATH,
    DemoUser,
    running_identity,
    sign_token,
)
from support.clock import START, HandClock
from support.identities import identity_settings, outcome
from support.tokens import confused_token

T = TypeVar("T")


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


def with_world(work: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with running_world() as world:
            return await work(world)

    return asyncio.run(run())


@pytest.mark.contract("auth.bearer.verified-and-entitled")
def test_only_users_with_a_confirmed_address_are_identified() -> None:
    async def work(world: World) -> dict[str, str]:
        return {tier: await world.outcome(tier) for tier in DEMO_USERS}

    assert with_world(work) == {
        **{tier: DEMO_USERS[tier] for tier in ("feed", "reserve", "none")},
        "anonymous": "refused",
        "unconfirmed": "refused",
    }


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(
            "outage",
            "unavailable",
            marks=pytest.mark.outcome(
                "The identity provider returns 503",
                "Tokens get 503.",
            ),
        ),
        pytest.param(
            "hang",
            "unavailable",
            marks=pytest.mark.outcome(
                "The identity provider hangs",
                "Tokens get 503 within the time limit.",
            ),
        ),
        pytest.param(
            "redirect",
            "unavailable",
            marks=pytest.mark.outcome(
                "The identity provider redirects",
                "The service doesn't follow it. Tokens get 503.",
            ),
        ),
        pytest.param(
            "html",
            "unavailable",
            marks=pytest.mark.outcome(
                "The identity provider returns a web page",
                "Tokens get 503.",
            ),
        ),
        pytest.param(
            "lying",
            "refused",
            marks=pytest.mark.outcome(
                "The identity provider returns a different user from the one in the token",
                "The token is refused with 401.",
            ),
        ),
    ],
)
def test_provider_fault_admits_no_caller_until_it_ends(fault: str, expected: str) -> None:
    async def work(world: World) -> list[str]:
        outcomes = [await world.outcome()]
        world.faults.turn_on(fault)
        outcomes.append(await world.outcome())
        outcomes.append(await world.outcome("unconfirmed"))
        world.faults.turn_off(fault)
        outcomes.append(await world.outcome())
        return outcomes

    feed = DEMO_USERS["feed"]
    assert with_world(work) == [feed, expected, expected, feed]


@pytest.mark.parametrize("fault", ["outage", "hang", "redirect", "html"])
def test_a_provider_that_is_broken_from_the_start_is_unavailable(fault: str) -> None:
    async def work(world: World) -> list[str]:
        world.faults.turn_on(fault)
        outcomes = [await world.outcome()]
        world.faults.turn_off(fault)
        await world.outcome()  # may still wait for the question that hung
        world.clock.pass_seconds(1)
        return [*outcomes, await world.outcome()]

    assert with_world(work) == ["unavailable", DEMO_USERS["feed"]]


@pytest.mark.outcome(
    "A Supabase project signs tokens with the legacy HS256 secret, so its key set is empty",
    "Every token gets 503, including HS256 ones. The log (once), `/api/status` and `doctor` name "
    "the cause and the fix.",
)
def test_a_project_with_the_legacy_secret_admits_no_caller_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(world: World) -> list[str]:
        world.faults.turn_on("empty-key-set")
        outcomes = [await world.outcome()]
        world.clock.pass_seconds(1)
        outcomes.append(await outcome(world.provider, confused_token(b"legacy secret")))
        assert isinstance(world.provider, MonitoredDependency)
        health = reachability(world.provider.health, world.clock())
        world.faults.turn_off("empty-key-set")
        world.clock.pass_seconds(1)
        return [*outcomes, str(health.reason), await world.outcome()]

    assert with_world(work) == ["unavailable"] * 2 + [NO_PUBLIC_KEY, DEMO_USERS["feed"]]
    assert [vars(each)["reason"] for each in caplog.records] == [NO_PUBLIC_KEY]


def test_a_provider_that_is_gone_is_unavailable() -> None:
    async def work() -> str:
        async with running_world() as world:
            place, text = world.address.url, world.token("feed")
        provider = identity_provider(identity_settings(place), HandClock())
        try:
            return await outcome(provider, text)
        finally:
            await provider.close()

    assert asyncio.run(work()) == "unavailable"


def test_a_token_of_another_key_is_refused_before_anybody_is_asked() -> None:
    async def work(world: World) -> list[str]:
        stranger = ECKey.generate_key("P-256")
        forged = sign_token(stranger, BY_ID[DEMO_USERS["feed"]], START, world.address.url)
        elsewhere = sign_token(world.key, BY_ID[DEMO_USERS["feed"]], START, "http://127.0.0.1:1")
        outcomes = [await outcome(world.provider, text) for text in (forged, elsewhere, "x")]
        reply = await asyncio.to_thread(_requests, world.address)
        return [*outcomes, str(USER_PATH in reply), str(reply[KEYS_PATH])]

    assert with_world(work) == ["refused", "refused", "refused", "False", "1"]


def test_the_demos_provider_wants_its_key_and_a_token_that_it_issued() -> None:
    async def work(world: World) -> list[tuple[int, Any]]:
        bearer = {"Authorization": f"Bearer {world.token('feed')}"}
        nobody = sign_token(world.key, DemoUser("nobody"), START, world.address.url)
        cases = [
            bearer,
            {**bearer, "apikey": "x"},
            {"apikey": API_KEY},
            {"apikey": API_KEY, "Authorization": "Bearer x.y.z"},
            {"apikey": API_KEY, "Authorization": f"Bearer {nobody}"},
            {**bearer, "apikey": API_KEY},
        ]
        async with httpx2.AsyncClient(
            base_url=world.address.url, trust_env=False, verify=False
        ) as client:
            replies = [await client.get(USER_PATH, headers=each) for each in cases]
            replies.append(await client.get("/elsewhere"))
        return [(reply.status_code, reply.json().get("error_code")) for reply in replies]

    assert with_world(work) == [
        (401, None),
        (401, None),
        (401, "no_authorization"),
        (403, "bad_jwt"),
        (403, "user_not_found"),
        (200, None),
        (404, None),
    ]


def test_a_withdrawn_api_key_makes_identity_unavailable_and_not_everybody_refused() -> None:
    async def work(world: World) -> list[str]:
        settings = identity_settings(world.address.url, identity_api_key=SecretStr("withdrawn"))
        stale = identity_provider(settings, world.clock)
        nobody = sign_token(world.key, DemoUser("nobody"), START, world.address.url)
        try:
            outcomes = [await outcome(stale, text) for text in (world.token("feed"), nobody)]
        finally:
            await stale.close()
        return [*outcomes, await outcome(world.provider, nobody)]

    assert with_world(work) == ["unavailable", "unavailable", "refused"]


def test_faults_are_switched_by_command_and_unknown_ones_are_named() -> None:
    faults = IdentityFaults()
    assert faults.execute({"fault": "hang", "on": True}, START) == {"ok": True, "active": ["hang"]}
    assert faults.execute({"fault": "hang", "on": False}, START) == {"ok": True, "active": []}
    assert faults.execute({"off": "all"}, START) == {"ok": True, "active": []}
    commands: list[dict[str, object]] = [{"fault": "flood", "on": True}, {"fault": "hang"}, {}]
    for command in commands:
        assert faults.execute(command, START)["ok"] is False
    assert set(IdentityFault) == {"outage", "hang", "redirect", "lying", "html", "empty-key-set"}


def _requests(address: ServerAddress) -> dict[str, int]:
    counted: Any = send_command(address.url, {"count": True})["requests"]
    return dict(counted)
