"""The simulated identity provider: keys, user records and control on one loopback port."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo import identity_faults as named
from barograph.demo.control import CONTROL_PATH
from barograph.demo.control_server import ControlServer, until_changed
from barograph.demo.exchange import real_clock
from barograph.demo.identity import ALGORITHM, API_KEY, BY_ID, DemoUser, issuer, user_record
from barograph.demo.identity_faults import IdentityFaults
from barograph.demo.replies import TEXT, reply

KEYS_PATH: Final = "/auth/v1/.well-known/jwks.json"
USER_PATH: Final = "/auth/v1/user"

_PAGE: Final = b"<!DOCTYPE html>\n<html lang=en><title>Sign in</title><h1>Sign in</h1></html>\n"


@dataclass(frozen=True, slots=True)
class IdentityAddress:
    """Where a running provider is."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Base address of the provider."""
        return f"http://{self.host}:{self.port}"

    @property
    def issuer(self) -> str:
        """What it calls itself in tokens."""
        return issuer(self.url)

    @property
    def control_url(self) -> str:
        """Address for commands."""
        return f"ws://{self.host}:{self.port}{CONTROL_PATH}"


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
        while (fault := self._faults.replacing()) == named.HANG:
            await until_changed(self._faults, connection)
            if connection.transport.is_closing():
                return reply(503, b"", TEXT)
        match fault:
            case named.OUTAGE:
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
            return _problem(HTTPStatus.NOT_FOUND, "there is nothing here")
        if request.headers.get("apikey") != API_KEY:
            return _problem(HTTPStatus.UNAUTHORIZED, "No API key found in request")
        user = self._user(request.headers.get("authorization", ""))
        if user is None:
            return _problem(HTTPStatus.FORBIDDEN, "invalid JWT")
        if self._faults.is_on(named.LYING):
            user = DemoUser("somebody-else")
        return reply(HTTPStatus.OK, msgspec.json.encode(user_record(user)))

    def _user(self, authorization: str) -> DemoUser | None:
        try:
            token = jwt.decode(authorization.removeprefix("Bearer "), self._key, [ALGORITHM])
        except (JoseError, ValueError):
            return None
        expires = token.claims.get("exp")
        if not isinstance(expires, int) or expires * 1_000 <= self._clock():
            return None
        return BY_ID.get(str(token.claims.get("sub")))

    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""
        return self._faults.obey(command, self._clock())


def _problem(status: HTTPStatus, message: str) -> Response:
    return reply(status, msgspec.json.encode({"code": int(status), "msg": message}))


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
