"""One line of `barograph doctor`, and what a failed connection means for the operator."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import httpx2
from redis.exceptions import AuthenticationError, OutOfMemoryError, ReadOnlyError, ResponseError

from barograph.errors import BarographError, Throttled, Unreachable, UpstreamError
from barograph.kit.http_client import tls_context
from barograph.settings import Settings

LOOK_SECONDS = 5.0

_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
_SIGN_IN = 511


class Diagnosis(NamedTuple):
    """The result of one check. Only `fail` needs the operator; a `note` says what is left out."""

    name: str
    """The name of the check; `doctor.run_check` fills it in."""

    status: Literal["ok", "note", "fail"]
    detail: str
    remedy: str = ""


Check = Callable[[Settings], Awaitable[Diagnosis]]


def _result(status: Literal["ok", "note", "fail"], text: str) -> Diagnosis:
    """A result from a text as it is printed: `detail`, or `detail -> remedy`."""
    detail, _, remedy = text.rpartition(" -> ") if " -> " in text else (text, "", "")
    return Diagnosis("", status, detail, remedy)


ok, note, failed = partial(_result, "ok"), partial(_result, "note"), partial(_result, "fail")
"""The check passed; nothing is wrong, but the operator should know this; the check failed."""


def command(text: str, settings: Settings) -> str:
    """A command as the operator runs it: through sudo if that started this one."""
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    return f"{sudo}barograph {text} --data {settings.data}"


def explained(error: Exception, remedy: str = "", mark: str = ": ") -> Diagnosis:
    """The check failed with an error whose message may name the remedy after a mark."""
    detail, _, named = str(error).partition(mark)
    return Diagnosis("", "fail", detail, named or remedy)


def host_of(address: str) -> str:
    """The host of a URL, and its port if the URL has one."""
    return urlsplit(address).netloc.rpartition("@")[2]


async def explain_failure(
    error: BarographError, host: str, remedy: str, page: str | None = None
) -> Diagnosis:
    """Explain a failure: what broke the connection, or what answered at `page` instead."""
    problem = connection_problem(error, host)
    if problem is None and page is not None and not isinstance(error, Throttled):
        problem = await reply_problem(page)
    kind = f"{error.kind}: " if isinstance(error, UpstreamError) else ""
    if problem is None and isinstance(error, Unreachable):
        kind = "an outage: "  # it did answer
    problem = problem or Diagnosis("", "fail", str(error), remedy)
    return problem._replace(detail=kind + problem.detail)


def connection_problem(error: BaseException, host: str) -> Diagnosis | None:
    """What a server refused, or went wrong before it answered; None if we can't tell."""
    proxy = next((name for name in _PROXIES if os.environ.get(name)), None)
    hint = "" if proxy is None else f"; Barograph connects directly and does not use {proxy}"
    causes = list(_causes(error))
    for table in (ANSWERS, CONNECTIONS):
        for cause in reversed(causes):
            if meaning := _meaning(cause, table):
                return failed(meaning.format(host=host) + (hint if table is CONNECTIONS else ""))
    return None


async def open_problem(address: str) -> Diagnosis | None:
    """What keeps a connection from opening; the server is asked for nothing."""
    parts = urlsplit(address)
    is_secure = parts.scheme in ("https", "wss")
    port = parts.port or (443 if is_secure else 80)
    tls = tls_context() if is_secure else None
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    except OSError as error:
        return connection_problem(error, host_of(address))
    writer.transport.abort()
    return None


async def reply_problem(address: str) -> Diagnosis | None:
    """Whether something other than the expected server answers there, such as a sign-in page."""
    host = host_of(address)
    try:
        async with (
            httpx2.AsyncClient(
                trust_env=False, verify=tls_context(), timeout=LOOK_SECONDS
            ) as client,
            client.stream("GET", address) as response,
        ):
            # Only the host: the rest may repeat the address that was asked for, and its key.
            target = host_of(response.headers.get("location", ""))[:200] or "another path"
            is_page = "html" in response.headers.get("content-type", "")
    except (httpx2.HTTPError, OSError, ValueError) as error:  # or a malformed location
        return connection_problem(error, host)
    if response.has_redirect_location:
        return failed(
            f"{host} answers HTTP {response.status_code} and redirects to {target} -> open the "
            "address in a browser: if the service moved, set its new address; if this network "
            "shows a sign-in page, sign in"
        )
    if response.status_code == _SIGN_IN or (response.is_success and is_page):
        return failed(
            f"{host} answers with a web page instead of data -> open the address in a browser "
            "here: the network asks you to sign in, a filter answers, or the address is wrong"
        )
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):  # one for each IP address of the host
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__


Meanings = Mapping[type[BaseException], str]


def _meaning(cause: BaseException, table: Meanings) -> str | None:
    kind: type = type(cause)
    if isinstance(cause, ssl.SSLCertVerificationError) and table is CONNECTIONS:
        return CERTIFICATES.get(cause.verify_code, CERTIFICATES[None])
    if isinstance(cause, ConnectionResetError) and not cause.args:  # asyncio's, in a TLS handshake
        kind = ssl.SSLError
    return next((text for error, text in table.items() if issubclass(kind, error)), None)


CONNECTIONS: Final[Meanings] = {
    socket.gaierror: "the name {host} can't be resolved -> check this machine's network and name "
    "server; some networks block names",
    ssl.SSLError: "{host} does not speak TLS -> check the address; a proxy or a sign-in page may "
    "answer instead",
    TimeoutError: "{host} does not answer in time -> check the network; a firewall may drop the "
    "connection",
    ConnectionRefusedError: "{host} refuses the connection -> check the address; a firewall may "
    "block it",
    ConnectionError: "the connection to {host} was closed -> try again; a firewall may close it",
    OSError: "{host} can't be reached -> check the network of this machine",
    httpx2.RemoteProtocolError: "the reply of {host} is cut off or is not HTTP -> check the "
    "address; a proxy or firewall may break the connection",
}
"""The meaning of an error below HTTP; the first that fits counts."""

GRANT: Final = "run deploy/postgresql-roles.sql again"
ANSWERS: Final[Meanings] = {
    asyncpg.ClientConfigurationError: "the options of the URL for {host} can't be used -> correct "
    "them: sslmode=verify-full needs sslrootcert=FILE",
    asyncpg.InvalidAuthorizationSpecificationError: "{host} refuses our user name or password -> "
    "correct the URL, or pg_hba.conf on the server",
    asyncpg.InvalidCatalogNameError: "{host} has no database of that name -> create it with "
    "deploy/postgresql-roles.sql",
    asyncpg.InsufficientPrivilegeError: f"our role lacks rights on {{host}} -> {GRANT}",
    asyncpg.TooManyConnectionsError: "{host} has no free connection -> raise max_connections, or "
    "put a pooler in front of it",
    asyncpg.CannotConnectNowError: "{host} is starting or stopping -> try again",
    AuthenticationError: "{host} refuses the user or the password -> check them in "
    "BAROGRAPH_LIMITS_URL; write special characters percent-encoded",
    ReadOnlyError: "{host} is a read-only replica -> name the primary in BAROGRAPH_LIMITS_URL",
    OutOfMemoryError: "the memory of {host} is full -> raise its maxmemory",
    # After the two above, which it includes. A script that may not run a command raises it.
    ResponseError: "{host} refuses to run our script -> give the user of BAROGRAPH_LIMITS_URL the "
    "commands that docs/operating.md lists",
}
"""The meaning of an error that PostgreSQL or Valkey answers with."""

_WRONG_TIME: Final = (
    "the certificate of {host} is not valid at this machine's time -> correct this machine's "
    "clock; if it is right, the server's certificate expired"
)
_OTHER_HOST: Final = (
    "the certificate is for another host than {host} -> sign in to this network, or turn off the "
    "filter that answers instead"
)
CERTIFICATES: Final[dict[int | None, str]] = {
    9: _WRONG_TIME,
    10: _WRONG_TIME,
    62: _OTHER_HOST,
    64: _OTHER_HOST,
    None: "the certificate of {host} is not from a trusted authority -> a proxy or firewall here "
    "decrypts connections: exempt {host} from it",
}
"""By OpenSSL's number of the error (X509_V_ERR_…); None stands for all others."""
