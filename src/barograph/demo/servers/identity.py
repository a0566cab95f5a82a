"""The users of the demo, one for each way in which a bearer token can end, and their tokens."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_DNS, uuid5

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo.files import write_once
from barograph.demo.servers import identity_faults as named
from barograph.demo.servers.control import (
    CONTROL_PATH,
    TEXT,
    ControlServer,
    ServerAddress,
    after_hanging,
    reply,
)
from barograph.demo.servers.exchange import real_clock
from barograph.demo.servers.identity_faults import IdentityFaults
from barograph.demo.world.paths import HOUR
from barograph.errors import ConfigurationError

KEY_FILE: Final = "identity-key.pem"
ALGORITHM: Final = "ES256"
AUDIENCE: Final = "authenticated"
API_KEY: Final = "demo-publishable-key"
"""What the simulated provider wants with each question; it is not a secret, there or anywhere."""

TOKEN_LIFE: Final = HOUR

_SECOND: Final = 1_000
_DOMAIN: Final = "demo.example"
_LONG_AGO: Final = "2026-01-05T09:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class DemoUser:
    """Somebody with an account at the simulated provider."""

    tier: str
    is_anonymous: bool = False
    is_confirmed: bool = True

    @property
    def id(self) -> str:
        """Always the same for the same tier."""
        return str(uuid5(NAMESPACE_DNS, f"{self.tier}.{_DOMAIN}"))

    @property
    def email(self) -> str:
        """Nobody's real address; an anonymous user has none."""
        return "" if self.is_anonymous else f"{self.tier}@{_DOMAIN}"


USERS: Final = (
    DemoUser("feed"),
    DemoUser("reserve"),
    DemoUser("none"),
    DemoUser("anonymous", is_anonymous=True, is_confirmed=False),
    DemoUser("unconfirmed", is_confirmed=False),
)
BY_ID: Final = {user.id: user for user in USERS}
DEMO_USERS: Final = {user.tier: user.id for user in USERS}
"""The id of each tier's user."""


def issuer(base_url: str) -> str:
    """What the provider at an address calls itself in tokens."""
    return f"{base_url}/auth/v1"


def user_record(user: DemoUser) -> dict[str, Any]:
    """What the provider knows about somebody."""
    confirmed = {"email_confirmed_at": _LONG_AGO, "confirmed_at": _LONG_AGO}
    return {
        "id": user.id,
        "aud": AUDIENCE,
        "role": AUDIENCE,
        "email": user.email,
        **(confirmed if user.is_confirmed else {}),
        "phone": "",
        "app_metadata": _app_metadata(user),
        "user_metadata": {},
        "identities": [],
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "is_anonymous": user.is_anonymous,
    }


def demo_token(data: Path, tier: str, now: int, base_url: str) -> str:
    """A token of one hour for a tier's user, as the provider at that address issues them.

    Raises:
        ConfigurationError: there is no such tier, or the folder holds no key.
    """
    if tier not in DEMO_USERS:
        raise ConfigurationError(f"there is no tier {tier!r}; there are {', '.join(DEMO_USERS)}")
    file = data / KEY_FILE
    if not file.exists():
        raise ConfigurationError(f"{file} is missing: start a demo there first")
    return sign_token(load_or_create_key(data), BY_ID[DEMO_USERS[tier]], now, base_url)


def sign_token(key: ECKey, user: DemoUser, now: int, base_url: str) -> str:
    """A token for one hour; `now` is in milliseconds."""
    issued = now // _SECOND
    claims = {
        "iss": issuer(base_url),
        "sub": user.id,
        "aud": AUDIENCE,
        "exp": issued + TOKEN_LIFE // _SECOND,
        "iat": issued,
        "email": user.email,
        "phone": "",
        "role": AUDIENCE,
        "aal": "aal1",
        "session_id": str(uuid5(NAMESPACE_DNS, f"{now}.{user.tier}.{_DOMAIN}")),
        "app_metadata": _app_metadata(user),
        # Users write this themselves, so it proves nothing, whatever it says.
        "user_metadata": {"email_verified": True},
        "is_anonymous": user.is_anonymous,
    }
    return jwt.encode({"alg": ALGORITHM, "kid": key.thumbprint()}, claims, key, [ALGORITHM])


def load_or_create_key(data: Path) -> ECKey:
    """The provider's own key, kept in the folder; it is made once, whoever comes first.

    Raises:
        ConfigurationError: the file holds something else.
    """
    file = data / KEY_FILE
    if not file.exists():
        write_once(file, ECKey.generate_key("P-256").as_pem(private=True))
    try:
        return ECKey.import_key(file.read_bytes())
    except (JoseError, ValueError) as error:
        raise ConfigurationError(
            f"{file} is not a key: delete it, and the demo makes a new one"
        ) from error


def _app_metadata(user: DemoUser) -> dict[str, Any]:
    return {} if user.is_anonymous else {"provider": "email", "providers": ["email"]}


KEYS_PATH: Final = "/auth/v1/.well-known/jwks.json"
USER_PATH: Final = "/auth/v1/user"

_PAGE: Final = b"<!DOCTYPE html>\n<html lang=en><title>Sign in</title><h1>Sign in</h1></html>\n"


class IdentityAddress(ServerAddress):
    """Where a running provider is."""

    @property
    def issuer(self) -> str:
        """What it calls itself in tokens."""
        return issuer(self.url)


class Provider(ControlServer):
    """One running provider: answers requests and obeys commands."""

    def __init__(self, key: ECKey, clock: Callable[[], int], faults: IdentityFaults) -> None:
        super().__init__()
        self._key = key
        self._clock = clock
        self._faults = faults
        public = key.as_dict(kid=key.thumbprint(), use="sig", alg=ALGORITHM)
        self._key_set = msgspec.json.encode({"keys": [public]})

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""
        path = urlsplit(request.path).path
        if path == CONTROL_PATH:
            return None
        self.requests[path if path in {KEYS_PATH, USER_PATH} else "other"] += 1
        match await after_hanging(self._faults, self._faults.replacing, connection):
            case named.HANG | named.OUTAGE:
                return reply(HTTPStatus.SERVICE_UNAVAILABLE, b"service unavailable\n", TEXT)
            case named.REDIRECT:
                return reply(HTTPStatus.FOUND, b"", TEXT, Location=f"{path}/")
            case named.HTML:
                return reply(HTTPStatus.OK, _PAGE, "text/html; charset=utf-8")
        return self._answer(path, request)

    def _answer(self, path: str, request: Request) -> Response:
        if path == KEYS_PATH:
            return reply(HTTPStatus.OK, self._key_set)
        if path != USER_PATH:
            return _gateway_refusal(HTTPStatus.NOT_FOUND, message="no route matches that address")
        api_key = request.headers.get("apikey")
        if api_key is None:
            return _gateway_refusal(
                HTTPStatus.UNAUTHORIZED,
                message="No API key found in request",
                hint="an `apikey` header is needed",
            )
        if api_key != API_KEY:
            return _gateway_refusal(
                HTTPStatus.UNAUTHORIZED, message="Invalid API key", hint="check the project's keys"
            )
        return self._tell_user(request.headers.get("authorization", ""))

    def _tell_user(self, authorization: str) -> Response:
        scheme, _, text = authorization.partition(" ")
        if scheme != "Bearer" or not text:
            return _refusal(HTTPStatus.UNAUTHORIZED, "no_authorization", "a token is needed")
        claims = self._claims(text)
        if claims is None:
            return _refusal(HTTPStatus.FORBIDDEN, "bad_jwt", "the token is not valid")
        user = BY_ID.get(str(claims.get("sub")))
        if user is None:
            return _refusal(HTTPStatus.FORBIDDEN, "user_not_found", "there is no such user")
        if self._faults.is_on(named.LYING):
            user = DemoUser("somebody-else")
        return reply(HTTPStatus.OK, msgspec.json.encode(user_record(user)))

    def _claims(self, text: str) -> dict[str, Any] | None:
        """What a token says, if it is the provider's own and has not expired."""
        try:
            claims = jwt.decode(text, self._key, [ALGORITHM]).claims
        except (JoseError, ValueError):
            return None
        expires = claims.get("exp")
        is_valid = isinstance(expires, int) and expires * 1_000 > self._clock()
        return claims if is_valid else None

    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""
        return self._faults.obey(command, self._clock())


def _refusal(status: HTTPStatus, code: str, message: str) -> Response:
    """How the provider itself refuses."""
    body = {"code": int(status), "error_code": code, "msg": message}
    return reply(status, msgspec.json.encode(body))


def _gateway_refusal(status: HTTPStatus, **members: str) -> Response:
    """How the gateway before the provider refuses, whoever the user is."""
    return reply(status, msgspec.json.encode(members))


@asynccontextmanager
async def running_identity(
    key: ECKey,
    faults: IdentityFaults | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Callable[[], int] = real_clock,
) -> AsyncIterator[IdentityAddress]:
    """A provider for as long as the context lasts; port 0 takes any free one.

    Raises:
        OSError: the port is taken.
    """
    provider = Provider(key, clock, IdentityFaults() if faults is None else faults)
    async with provider.running(host, port) as bound:
        yield IdentityAddress(host, bound)
