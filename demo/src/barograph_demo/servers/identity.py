"""The simulated identity provider: its users, their tokens, and the server that checks them."""

from collections.abc import AsyncIterator
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

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock, system_clock
from barograph.kit.operating_system import write_once
from barograph.kit.timestamps import HOUR, SECOND
from barograph_demo.servers.control import (
    HOST,
    HTML,
    OTHER,
    TEXT,
    GetServer,
    ServerAddress,
    reply,
    unavailable,
)
from barograph_demo.servers.faults import IdentityFault, IdentityFaults

KEY_FILE: Final = "identity-key.pem"
ALGORITHM: Final = "ES256"
AUDIENCE: Final = "authenticated"
API_KEY: Final = "demo-publishable-key"
"""Callers send this with each request. It is public, as with a real provider."""

TOKEN_LIFE: Final = HOUR
KEYS_PATH: Final = "/auth/v1/.well-known/jwks.json"
USER_PATH: Final = "/auth/v1/user"

_DOMAIN: Final = "demo.example"
_LONG_AGO: Final = "2026-01-05T09:00:00.000000Z"
_PAGE: Final = b"<!DOCTYPE html>\n<html lang=en><title>Sign in</title><h1>Sign in</h1></html>\n"


@dataclass(frozen=True, slots=True)
class DemoUser:
    """A user of the simulated provider."""

    tier: str
    is_anonymous: bool = False
    is_confirmed: bool = True

    @property
    def id(self) -> str:
        """The same in every demo."""
        return str(uuid5(NAMESPACE_DNS, f"{self.tier}.{_DOMAIN}"))

    @property
    def email(self) -> str:
        """An address that can't exist; an anonymous user has none."""
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
"""The user id of each tier."""


def issuer(base_url: str) -> str:
    """The issuer that a provider puts into its tokens."""
    return f"{base_url}/auth/v1"


def user_record(user: DemoUser) -> dict[str, Any]:
    """The provider's record of a user."""
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
    """A token for a tier's user from the provider at `base_url`, valid for one hour.

    Raises:
        ConfigurationError: there is no such tier, or the folder has no key.
    """
    if tier not in DEMO_USERS:
        raise ConfigurationError(f"there is no tier {tier!r}; choose from {', '.join(DEMO_USERS)}")
    file = data / KEY_FILE
    if not file.exists():
        raise ConfigurationError(f"{file} is missing: start a demo there first")
    return sign_token(load_or_create_key(data), BY_ID[DEMO_USERS[tier]], now, base_url)


def sign_token(key: ECKey, user: DemoUser, now: int, base_url: str) -> str:
    """A token that is valid for one hour."""
    issued = now // SECOND
    claims = {
        "iss": issuer(base_url),
        "sub": user.id,
        "aud": AUDIENCE,
        "exp": issued + TOKEN_LIFE // SECOND,
        "iat": issued,
        "email": user.email,
        "phone": "",
        "role": AUDIENCE,
        "aal": "aal1",
        "session_id": str(uuid5(NAMESPACE_DNS, f"{now}.{user.tier}.{_DOMAIN}")),
        "app_metadata": _app_metadata(user),
        # Users can edit this, so the service must not trust it.
        "user_metadata": {"email_verified": True},
        "is_anonymous": user.is_anonymous,
    }
    return jwt.encode({"alg": ALGORITHM, "kid": key.thumbprint()}, claims, key, [ALGORITHM])


def load_or_create_key(data: Path) -> ECKey:
    """The provider's signing key, created once per folder.

    Raises:
        ConfigurationError: the key file is damaged.
    """
    file = data / KEY_FILE
    if not file.exists():
        write_once(file, ECKey.generate_key("P-256").as_pem(private=True))
    try:
        return ECKey.import_key(file.read_bytes())
    except (JoseError, ValueError) as error:
        raise ConfigurationError(
            f"{file} is not a key; delete it and the demo creates a new one"
        ) from error


def _app_metadata(user: DemoUser) -> dict[str, Any]:
    return {} if user.is_anonymous else {"provider": "email", "providers": ["email"]}


class IdentityServer(GetServer[IdentityFaults]):
    """Serves the public keys and the user behind a token."""

    def __init__(self, key: ECKey, clock: Clock, faults: IdentityFaults) -> None:
        super().__init__(clock, faults)
        self._key = key
        public = key.as_dict(kid=key.thumbprint(), use="sig", alg=ALGORITHM)
        self._key_set = msgspec.json.encode({"keys": [public]})

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET."""
        path = urlsplit(request.path).path
        self.requests[path if path in {KEYS_PATH, USER_PATH} else OTHER] += 1
        match await self._fault_after_hanging(connection):
            case IdentityFault.HANG | IdentityFault.OUTAGE:
                return unavailable()
            case IdentityFault.REDIRECT:
                return reply(HTTPStatus.FOUND, b"", TEXT, Location=f"{path}/")
            case IdentityFault.HTML:
                return reply(HTTPStatus.OK, _PAGE, HTML)
        return self._answer(path, request)

    def _answer(self, path: str, request: Request) -> Response:
        if path == KEYS_PATH:
            has_none = self._faults.is_on(IdentityFault.NO_KEYS)
            return reply(HTTPStatus.OK, b'{"keys":[]}' if has_none else self._key_set)
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
        return self._user(request.headers.get("authorization", ""))

    def _user(self, authorization: str) -> Response:
        scheme, _, text = authorization.partition(" ")
        if scheme != "Bearer" or not text:
            return _refusal(HTTPStatus.UNAUTHORIZED, "no_authorization", "send a token")
        claims = self._claims(text)
        if claims is None:
            return _refusal(HTTPStatus.FORBIDDEN, "bad_jwt", "the token is not valid")
        user = BY_ID.get(str(claims.get("sub")))
        if user is None:
            return _refusal(HTTPStatus.FORBIDDEN, "user_not_found", "there is no such user")
        if self._faults.is_on(IdentityFault.LYING):
            user = DemoUser("another-user")
        return reply(HTTPStatus.OK, msgspec.json.encode(user_record(user)))

    def _claims(self, text: str) -> dict[str, Any] | None:
        """The claims of a token that this provider signed and that hasn't expired."""
        try:
            claims = jwt.decode(text, self._key, [ALGORITHM]).claims
        except (JoseError, ValueError):
            return None
        expires = claims.get("exp")
        is_valid = isinstance(expires, int) and expires * SECOND > self._clock()
        return claims if is_valid else None


def _refusal(status: HTTPStatus, code: str, message: str) -> Response:
    """An error of the provider itself."""
    body = {"code": int(status), "error_code": code, "msg": message}
    return reply(status, msgspec.json.encode(body))


def _gateway_refusal(status: HTTPStatus, **members: str) -> Response:
    """An error of the API gateway in front of the provider."""
    return reply(status, msgspec.json.encode(members))


@asynccontextmanager
async def running_identity(
    key: ECKey,
    faults: IdentityFaults | None = None,
    port: int = 0,
    clock: Clock = system_clock,
) -> AsyncIterator[ServerAddress]:
    """Run a provider until the context ends; port 0 picks a free one."""
    server = IdentityServer(key, clock, IdentityFaults() if faults is None else faults)
    async with server.running(HOST, port) as bound:
        yield ServerAddress(HOST, bound)
