"""One line of `barograph doctor`, and what a failed connection means for the operator."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx2

from barograph.errors import BarographError, Throttled, Unreachable, UpstreamError
from barograph.settings import Settings
from barograph.terms.sources import SETTING
from barograph.upstream.http import tls_context

LOOK_SECONDS = 5.0

_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
_SIGN_IN = 511


class Diagnosis(NamedTuple):
    """The result of one check. Only `fail` needs the operator; a `note` says what is left out."""

    name: str
    """The name of the check; `doctor.bounded` fills it in."""

    status: Literal["ok", "note", "fail"]
    detail: str
    remedy: str = ""


Check = Callable[[Settings], Awaitable[Diagnosis]]

ok = partial(Diagnosis, "", "ok")
"""The check passed: takes the detail."""

note = partial(Diagnosis, "", "note")
"""Nothing is wrong, but the operator should know this: takes the detail and perhaps an advice."""

failed = partial(Diagnosis, "", "fail")
"""The check failed: takes the detail and the remedy."""


def command(text: str, settings: Settings) -> str:
    """A command as the operator runs it: through sudo if that started this one."""
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    return f"{sudo}barograph {text} --data {settings.data}"


def explained(error: Exception, remedy: str = "", mark: str = ": ") -> Diagnosis:
    """The check failed with an error whose message may name the remedy after a mark."""
    detail, _, named = str(error).partition(mark)
    return failed(detail, named or remedy)


def connection_problem(error: BaseException, host: str) -> Diagnosis | None:
    """What went wrong before `host` answered; None if it did, or if we can't tell."""
    for cause in reversed(list(_causes(error))):
        problem = _explain(cause, host)
        if problem is not None:
            return problem._replace(remedy=problem.remedy + _proxy_hint())
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
        unknown = failed(f"{host_of(address)} can't be reached", "check this machine's network")
        return connection_problem(error, host_of(address)) or unknown
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
            f"{host} answers HTTP {response.status_code} and redirects to {target}",
            "open the address in a browser: if the service moved, set its new address; if this "
            "network shows a sign-in page, sign in",
        )
    if response.status_code == _SIGN_IN or (response.is_success and is_page):
        return failed(
            f"{host} answers with a web page instead of data",
            "open the address in a browser here: the network asks you to sign in, a filter "
            "answers, or the address is wrong",
        )
    return None


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
    found = problem or failed(str(error), remedy)
    return found._replace(detail=kind + found.detail)


def unread(source: str, settings: Settings) -> Diagnosis:
    """A source that answers, but that the operator has not confirmed."""
    remedy = f"read its terms (`{command('terms list', settings)}`), then add {source} to {SETTING}"
    return note("it answers, but is not read, because its terms are not confirmed", remedy)


async def only_opened(source: str, address: str, settings: Settings) -> Diagnosis:
    """Only connect: a source without confirmation is not asked for data, and can't fail."""
    problem = await open_problem(address)
    if problem is None:
        return unread(source, settings)
    detail = f"not read, because its terms are not confirmed; {problem.detail}"
    return note(detail, problem.remedy)


def host_of(address: str) -> str:
    """The host of a URL, and its port if the URL has one."""
    return urlsplit(address).netloc.rpartition("@")[2]


def _explain(cause: BaseException, host: str) -> Diagnosis | None:
    found = next((each for kind, each in _CONNECTIONS.items() if isinstance(cause, kind)), None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        found = _CERTIFICATES.get(cause.verify_code, _UNKNOWN_AUTHORITY)
    if isinstance(cause, ConnectionResetError) and not cause.args:  # asyncio's, in a TLS handshake
        found = _CONNECTIONS[ssl.SSLError]
    return None if found is None else failed(*(text.format(host=host) for text in found[2:]))


_CONNECTIONS: Final[dict[type[Exception], Diagnosis]] = {
    socket.gaierror: failed(
        "the name {host} can't be resolved",
        "check this machine's network and name server; some networks block names",
    ),
    ssl.SSLError: failed(
        "{host} does not speak TLS",
        "check the address; a proxy or a sign-in page may answer instead",
    ),
    TimeoutError: failed(
        "{host} does not answer in time", "check the network; a firewall may drop the connection"
    ),
    ConnectionRefusedError: failed(
        "{host} refuses the connection", "check the address; a firewall may block it"
    ),
    ConnectionError: failed(
        "the connection to {host} was closed", "try again; a firewall may close it"
    ),
    OSError: failed("{host} can't be reached", "check the network of this machine"),
    httpx2.RemoteProtocolError: failed(
        "the reply of {host} is cut off or is not HTTP",
        "check the address; a proxy or firewall may break the connection",
    ),
}
"""The meaning of an error below HTTP; the first that fits counts."""

_WRONG_TIME: Final = failed(
    "the certificate of {host} is not valid at this machine's time",
    "correct this machine's clock; if it is right, the server's certificate expired",
)
_OTHER_HOST: Final = failed(
    "the certificate is for another host than {host}",
    "sign in to this network, or turn off the filter that answers instead",
)
_UNKNOWN_AUTHORITY: Final = failed(
    "the certificate of {host} is not from a trusted authority",
    "a proxy or firewall here decrypts connections: exempt {host} from it",
)
_CERTIFICATES: Final = {9: _WRONG_TIME, 10: _WRONG_TIME, 62: _OTHER_HOST, 64: _OTHER_HOST}
"""By OpenSSL's number of the error (X509_V_ERR_…)."""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):  # one for each IP address of the host
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__


def _proxy_hint() -> str:
    named = next((name for name in _PROXIES if os.environ.get(name)), None)
    return "" if named is None else f"; Barograph connects directly and does not use {named}"
