"""The simulated identity provider: keys, user records and control on one loopback port."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo import identity_faults as named
from barograph.demo.control import CONTROL_PATH
from barograph.demo.control_server import ControlServer, ServerAddress, after_hanging
from barograph.demo.exchange import real_clock
from barograph.demo.identity import ALGORITHM, API_KEY, BY_ID, DemoUser, issuer, user_record
from barograph.demo.identity_faults import IdentityFaults
from barograph.demo.replies import TEXT, reply

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
