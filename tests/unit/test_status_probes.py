"""What is learned about those outside: from questions that are asked anyway, and from probes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import httpx2
import pytest
from msgspec import structs

from barograph.errors import BarographError
from barograph.identity.key_set import KeySetCache
from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import Token, UserCache
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.timestamps import HOUR, SECOND
from barograph.payments.records import FacilitatorUnavailable, InvalidProof, SettlementUnknown
from barograph.settings import Settings
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity_http import PROBE_AGE, TokenIdentity
from barograph.upstream.identity_providers import identity_provider
from support.clock import START, HandClock
from support.identities import identity_settings, resolve_example
from support.payments import PAYER, STANCE, proof
from support.tokens import key, key_set

Answering = Callable[[httpx2.Request], httpx2.Response]
AGE = 10 * SECOND


def told(health: DependencyHealth) -> str:
    """The last thing that was learned."""
    if health.failing_since is not None:
        return "failed"
    return "nothing" if health.answered_at is None else "answered"


class Keys:
    """A key set on a clock held by hand, and what its publisher does."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.body = key_set(key("EC", 0))
        self.error: Exception | None = None
        self.asked = 0
        self.cache = KeySetCache(self.publish, self.clock)

    async def publish(self) -> bytes:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.body

    def renew(self) -> None:
        asyncio.run(self.cache.renew(AGE))

    def find(self, kid: str) -> str:
        try:
            asyncio.run(self.cache.find(kid, self.clock()))
        except IdentityRefused:
            return "refused"
        except IdentityUnavailable:
            return "unavailable"
        return "found"


def test_a_key_set_is_read_again_for_a_probe_only_when_it_is_older_than_that() -> None:
    keys = Keys()
    for milliseconds, asked in ((0, 1), (AGE - 1, 1), (1, 2)):
        keys.clock.now += milliseconds
        keys.renew()
        assert keys.asked == asked
    assert keys.cache.health.answered_at == START + AGE


@pytest.mark.parametrize("error", [None, IdentityUnavailable("no answer")])
async def test_a_probe_joins_a_call_under_way(error: IdentityUnavailable | None) -> None:
    keys = Keys()
    keys.error = error
    may_answer, is_asked = asyncio.Event(), asyncio.Event()

    async def publish() -> bytes:
        is_asked.set()
        await may_answer.wait()
        return await keys.publish()

    cache = KeySetCache(publish, keys.clock)
    finding = asyncio.create_task(cache.find("EC-0"))
    await is_asked.wait()
    probing = asyncio.create_task(cache.renew(AGE))
    await asyncio.sleep(0)
    keys.clock.pass_seconds(1)
    may_answer.set()
    await asyncio.gather(finding, probing, return_exceptions=True)

    assert keys.asked == 1
    noted = cache.health.answered_at if error is None else cache.health.failing_since
    assert noted == START + 1_000


@pytest.mark.parametrize(
    "failure", [IdentityUnavailable("no answer"), RuntimeError("?"), b"<html>"]
)
def test_a_key_set_that_does_not_come_is_noted_and_not_raised(failure: Exception | bytes) -> None:
    keys = Keys()
    good = keys.body
    if isinstance(failure, bytes):
        keys.body = failure
    else:
        keys.error = failure
    keys.renew()
    assert told(keys.cache.health) == "failed"

    keys.error, keys.body = None, good
    keys.renew()
    assert told(keys.cache.health) == "answered"


def test_a_key_that_is_new_right_after_a_probe_is_asked_for_at_once() -> None:
    keys = Keys()
    keys.renew()
    keys.clock.pass_seconds(1)
    keys.body = key_set(key("EC", 0), key("EC", 1))

    assert keys.find("EC-1") == "found"
    assert keys.asked == 2


def test_probes_do_not_let_invented_keys_ask_more_often() -> None:
    keys = Keys()
    assert keys.find("invented") == "refused"
    asked = keys.asked
    keys.clock.pass_seconds(1)

    assert [keys.find("invented") for _ in range(5)] == ["unavailable"] * 5
    assert keys.asked == asked


async def test_an_unknown_key_that_meets_a_probe_is_asked_for_once_more_and_not_again() -> None:
    keys = Keys()
    probing = asyncio.create_task(keys.cache.renew(AGE))
    await asyncio.sleep(0)
    for _ in range(3):
        with pytest.raises((IdentityRefused, IdentityUnavailable)):
            await keys.cache.find("invented", keys.clock() + 1)
    await probing

    assert keys.asked == 2


@pytest.mark.parametrize(
    ("error", "learned"),
    [
        (None, "answered"),
        (IdentityRefused("no such user"), "answered"),
        (IdentityUnavailable("no answer"), "failed"),
    ],
)
async def test_answers_about_users_are_noted(error: BarographError | None, learned: str) -> None:
    verdicts = UserCache(HandClock(), 60)

    async def ask() -> Identity:
        if error is not None:
            raise error
        return Identity("user")

    with suppress(IdentityRefused, IdentityUnavailable):
        await verdicts.check("token", Token("user", START + HOUR, {}), ask)

    assert told(verdicts.health) == learned


@pytest.mark.parametrize("name", ["supabase", "oidc"])
@pytest.mark.parametrize("status", [302, 401, 404, 500, 503])
async def test_a_provider_is_probed_by_its_key_set(name: str, status: int) -> None:
    clock, failure = HandClock(), list[int]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if failure:
            return httpx2.Response(*failure)
        if request.url.path.endswith("openid-configuration"):
            issuer = str(request.url).partition("/.well-known")[0]
            return httpx2.Response(200, json={"issuer": issuer, "jwks_uri": f"{issuer}/keys"})
        return httpx2.Response(200, content=key_set(key("EC", 0)))

    network = httpx2.MockTransport(answer)
    provider = identity_provider(identity_settings(identity=name), clock, network, resolve_example)
    assert isinstance(provider, TokenIdentity)
    keys, users = provider.health
    for learned in ("answered", "failed"):
        await provider.probe()
        assert told(keys) == learned
        clock.now += PROBE_AGE
        failure.append(status)
    assert told(users) == "nothing"


def facilitator(answer: Answering) -> HttpFacilitator:
    settings = Settings.model_validate(
        {
            "x402_facilitator_url": "https://pay.example",
            "x402_asset": STANCE.asset,
            "x402_pay_to": STANCE.pay_to,
        }
    )
    return HttpFacilitator(settings, clock=HandClock(), transport=httpx2.MockTransport(answer))


def lost(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("no route")


@pytest.mark.parametrize(
    ("answer", "learned"),
    [
        (httpx2.Response(200, json={"kinds": []}), "answered"),
        (httpx2.Response(404, json={"error": "no such thing"}), "nothing"),
        (httpx2.Response(404, html="<h1>nothing here</h1>"), "nothing"),
        (httpx2.Response(405, content=b""), "nothing"),
        (httpx2.Response(200, html="<h1>be right back</h1>"), "failed"),
        (httpx2.Response(307, headers={"location": "/"}), "failed"),
        *((httpx2.Response(status, json={}), "failed") for status in (401, 429, 503)),
        (None, "failed"),
    ],
)
async def test_a_facilitator_can_be_probed(answer: httpx2.Response | None, learned: str) -> None:
    asked: list[str] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url}")
        return lost(request) if answer is None else answer

    probed = facilitator(reply)
    await probed.probe()

    payments, offer = probed.health
    assert (told(payments), told(offer)) == ("nothing", learned)
    assert asked == ["GET https://pay.example/supported"]


@pytest.mark.parametrize(
    ("answer", "learned"),
    [
        (httpx2.Response(200, json={"isValid": True, "payer": PAYER}), "answered"),
        (httpx2.Response(200, json={"isValid": False, "invalidReason": "no_funds"}), "answered"),
        (httpx2.Response(200, json={"isValid": False, "invalidReason": "timeout"}), "answered"),
        (httpx2.Response(500, json={}), "nothing"),
        (httpx2.Response(502, html="<h1>bad gateway</h1>"), "nothing"),
        (httpx2.Response(429, json={}), "failed"),
        (httpx2.Response(200, html="<h1>be right back</h1>"), "failed"),
        (None, "failed"),
    ],
)
async def test_answers_on_payments_are_noted(answer: httpx2.Response | None, learned: str) -> None:
    asked = facilitator(lost if answer is None else lambda _: answer)

    for question in (asked.verify, asked.settle):
        with suppress(FacilitatorUnavailable, InvalidProof, SettlementUnknown):
            await question(proof())

    payments, offer = asked.health
    assert (told(payments), told(offer)) == (learned, "nothing")


OTHER_PAYER = "0x" + "d5" * 20
VALID = httpx2.Response(200, json={"isValid": True, "payer": PAYER})
BROKEN = httpx2.Response(500, json={})


@pytest.mark.parametrize(
    ("questions", "learned"),
    [
        ([(PAYER, BROKEN), (PAYER, BROKEN)], "nothing"),
        ([(PAYER, BROKEN), (OTHER_PAYER, BROKEN)], "failed"),
        ([(PAYER, BROKEN), (OTHER_PAYER, BROKEN), (PAYER, VALID)], "answered"),
        ([(OTHER_PAYER, BROKEN), (PAYER, VALID), (PAYER, BROKEN)], "answered"),
    ],
)
async def test_a_server_error_counts_when_the_payments_of_two_wallets_meet_it(
    questions: list[tuple[str, httpx2.Response]], learned: str
) -> None:
    answers = [answer for _, answer in questions]
    asked = facilitator(lambda _: answers.pop(0))

    for payer, _ in questions:
        with suppress(FacilitatorUnavailable):
            await asked.verify(structs.replace(proof(), payer=payer))

    assert told(asked.health[0]) == learned


def test_a_set_that_a_probe_could_read_tells_again_which_keys_there_are() -> None:
    keys = Keys()
    keys.error = IdentityUnavailable("no answer")
    assert keys.find("invented") == "unavailable"

    keys.error = None
    keys.clock.pass_seconds(1)
    keys.renew()

    assert keys.find("invented") == "refused"
    assert keys.find("EC-0") == "found"
