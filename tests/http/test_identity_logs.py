"""What the whole service logs about those who come with a token: nothing that tells who they are.

The adapters are the real ones: one asks the demo's provider over connections, the other an issuer
that repeats what it was told.
"""

import asyncio
import logging
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from joserfc.jwk import ECKey

from barograph.entitlements.store import Entitlements, Holder
from barograph.kit.logs import EventFormatter
from barograph.kit.timestamps import DAY
from barograph.settings import Settings
from barograph.upstream.identity_providers import identity_provider
from barograph_demo.servers.faults import IdentityFault, IdentityFaults
from barograph_demo.servers.identity import API_KEY, USERS, DemoUser, running_identity, sign_token
from support.clock import START, HandClock
from support.identities import identity_settings, resolve_example
from support.processes import unused_port
from support.service import BASE_URL, Service
from support.subscribers import ENTITLED_PATHS
from support.tokens import SUBJECT, claims, key, key_set, token

PART = 17
"""So many characters of a token in a row are more than may be seen of it."""

ISSUER = "https://issuer.example"
EMAIL = "name@example.com"
FEED_USER = USERS[0]


class Readers:
    """Those who come with a token; one user has Feed."""

    def __init__(
        self,
        folder: Path,
        user: str,
        settings: Settings,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.provider = identity_provider(settings, HandClock(), transport, resolve_example)
        self.service = Service(folder, identity=self.provider)
        self.close = self.service.close
        self.sent: set[str] = set()
        self.statuses: set[int] = set()
        entitlements = Entitlements(self.service.database, self.service.clock)
        said = {"source": "test", "by": "test", "why": "test"}
        asyncio.run(entitlements.add_period(Holder("user", user), "feed", period_ms=DAY, **said))

    async def come(self, text: str) -> None:
        """Read everything that Feed opens."""
        self.sent.add(text)
        transport = httpx2.ASGITransport(app=self.service.app)
        bearer = {"Authorization": f"Bearer {text}"}
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            reads = (client.get(path, headers=bearer) for path in ENTITLED_PATHS)
            self.statuses |= {answer.status_code for answer in await asyncio.gather(*reads)}

    async def lose_entitlements(self) -> None:
        """Let looking them up fail."""

        await self.service.database.write(
            lambda tx: tx.execute("ALTER TABLE entitlements RENAME TO elsewhere")
        )


class Log:
    """Everything that was logged, with every field of it."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        formatter = EventFormatter()
        self.events = {record.getMessage() for record in records}
        self._text = "\n".join(f"{formatter.format(each)} {vars(each)!r}" for each in records)

    def parts(self, tokens: set[str]) -> list[str]:
        """The parts of tokens that were written."""
        written = {self._text[at : at + PART] for at in range(len(self._text) - PART + 1)}
        parts = {each[at : at + PART] for each in tokens for at in range(len(each) - PART + 1)}
        return sorted(parts & written)

    def words(self, *words: str) -> list[str]:
        """The words of these that were written."""
        return [word for word in words if word in self._text]


def test_whoever_is_named_in_a_log_is_found(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = token()
    logging.getLogger("x").debug("came", extra={"headers": [("authorization", text[3:20])]})
    logging.getLogger("x").info("came: %s", EMAIL)
    log = Log(caplog.records)
    assert log.parts({text}) == [text[3:20]]
    assert log.words(EMAIL, SUBJECT) == [EMAIL]


def test_no_log_names_a_user_of_a_supabase_project(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    port, made, faults = unused_port(), ECKey.generate_key("P-256"), IdentityFaults()
    settings = identity_settings(f"http://127.0.0.1:{port}")

    def signed(user: DemoUser, at: int = START, by: ECKey = made) -> str:
        return sign_token(by, user, at, settings.identity_url)

    good = signed(FEED_USER)
    tokens = [
        *(signed(user) for user in (*USERS, DemoUser("nobody"))),
        *(signed(FEED_USER, by=ECKey.generate_key("P-256")), signed(FEED_USER, START - DAY)),
        *(good[:-8], f"{good}=", good.replace(".", " "), f"{good}{good * 9}"),
    ]

    async def come(readers: Readers) -> None:
        async with running_identity(made, faults, port=port, clock=HandClock()):
            for text in tokens:
                await readers.come(text)
            for fault in IdentityFault:
                faults.turn_on(fault)
                await readers.come(good)
                faults.clear()
            await readers.lose_entitlements()
            await readers.come(good)
        await readers.provider.close()

    with closing(Readers(tmp_path, FEED_USER.id, settings)) as readers:
        asyncio.run(come(readers))
    log = Log(caplog.records)
    assert readers.statuses >= {200, 401, 402, 503}
    assert {"token refused by the identity provider", "entitled read unavailable"} <= log.events
    assert log.parts(readers.sent) == []
    named = [word for user in USERS for word in (user.id, user.email) if word]
    assert log.words(*named, API_KEY) == []


def test_no_log_has_what_an_issuer_repeats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    statuses = [500, 429, 404, 403, 401, 200]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        match request.url.path:
            case "/.well-known/openid-configuration":
                ends = {"jwks_uri": f"{ISSUER}/keys", "userinfo_endpoint": f"{ISSUER}/me"}
                return httpx2.Response(200, json={"issuer": ISSUER, **ends})
            case "/keys":
                return httpx2.Response(200, content=key_set())
        told = f"{request.headers['authorization']} {EMAIL}"
        challenge = f'Bearer error="invalid_token", error_description="{told}"'
        body = {"sub": SUBJECT, "email": EMAIL, "email_verified": True, "error": told}
        return httpx2.Response(statuses[-1], json=body, headers={"WWW-Authenticate": challenge})

    async def come(readers: Readers) -> None:
        while statuses:
            await readers.come(token(claims(iss=ISSUER, email=EMAIL)))
            statuses.pop()
        await readers.come(token(claims(iss=ISSUER), by=key("EC", 1)))
        await readers.provider.close()

    settings = identity_settings(ISSUER, identity="oidc", identity_claims="userinfo")
    transport = httpx2.MockTransport(answer)
    with closing(Readers(tmp_path, SUBJECT, settings, transport)) as readers:
        asyncio.run(come(readers))
    log = Log(caplog.records)
    assert readers.statuses >= {200, 401, 503}
    assert "question refused by the identity provider" in log.events
    assert log.parts(readers.sent) == []
    assert log.words(EMAIL, SUBJECT) == []
