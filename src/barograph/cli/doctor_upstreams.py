"""The checks of `barograph doctor` on the services that an instance depends on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from barograph.cli.diagnosis import (
    Check,
    Diagnosis,
    command,
    connection_problem,
    explained,
    failed,
    host_of,
    note,
    ok,
    open_problem,
    reply_problem,
)
from barograph.collector.app import FILE_SECONDS, macro_sources
from barograph.errors import (
    BarographError,
    ConfigurationError,
    Forbidden,
    InvalidReply,
    Throttled,
    Unreachable,
    UpstreamError,
)
from barograph.identity.provider import IdentityMisconfigured, IdentityUnavailable
from barograph.kit.business_days import business_days, trading_days
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import SECOND
from barograph.macro.evidence import day_of, is_recent
from barograph.markets.records import Perpetuals, classes_left_out
from barograph.payments.records import SCHEME, X402_VERSION, ChainUnavailable
from barograph.settings import Settings
from barograph.terms.sources import BYBIT, Unconfirmed
from barograph.upstream.bybit import BybitExchange
from barograph.upstream.bybit.messages import (
    Subscribed,
    decode_message,
    subscribe_request,
    topics_by_connection,
)
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.files import FileClient
from barograph.upstream.identity_http import TokenIdentity
from barograph.upstream.identity_provider import identity_provider
from barograph.upstream.mail import SmtpSender, parse_smtp_url
from barograph.upstream.oidc import DISCOVERY
from barograph.upstream.supabase import KEYS_PATH

MAX_SKEW_MS = 2_000
MAX_BLOCK_AGE = 120 * SECOND
"""Blocks of the supported chains are 2 to 12 seconds apart."""

TIME_PATH = "/v5/market/time"
SMTP_PORT = 25

GEO_BLOCK: Final = (
    "run this instance in a country that Bybit serves, or set BAROGRAPH_EXCHANGE_REST_URL and "
    "BAROGRAPH_EXCHANGE_STREAM_URL to Bybit's host for your country (docs/doctor.md lists them); "
    "OKX, Hyperliquid and Gate answer US addresses, but this version reads only Bybit"
)

_EXCHANGE: Final = {
    "throttled": "wait; other programs at this IP address may use up the exchange's rate limit",
    "unreachable": "wait; the collector retries",
    "invalid reply": "synchronise this machine's clock if the line `clock` fails, or check "
    "BAROGRAPH_EXCHANGE_REST_URL",
    "not found": "check BAROGRAPH_EXCHANGE_REST_URL",
}
_PUBLISHER: Final = {
    "refused": "the publisher blocks this IP address, as many do for data centres: try another "
    "network",
    "throttled": "wait; the collector retries",
    "unreachable": "wait; the collector retries",
    "invalid reply": "open {setting} in a browser here: a sign-in page or a filter may answer, or "
    "the publisher changed the file",
    "not found": "the publisher moved the file: check {setting}",
}


async def _failure(
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


@asynccontextmanager
async def _open_exchange(settings: Settings) -> AsyncIterator[BybitExchange]:
    exchange = BybitExchange(settings, clock=system_clock)
    try:
        yield exchange
    finally:
        await exchange.close()


async def _exchange(settings: Settings, *, may_read: bool = True) -> Diagnosis:
    address = settings.exchange_rest_url
    async with _open_exchange(settings) as exchange:
        try:
            await exchange.server_time()  # first, because a reading may take much longer
            if may_read:
                return _described(await exchange.perpetuals())
        except Forbidden as error:
            return failed(f"a geo-block: {error}", GEO_BLOCK)
        except UpstreamError as error:
            page = address + TIME_PATH
            return await _failure(error, host_of(address), _EXCHANGE[error.kind], page)
    return _unread(BYBIT, settings)


def _described(reading: Perpetuals) -> Diagnosis:
    detail = f"{len(reading.contracts)} crypto perpetuals"
    if reading.left_out:
        detail += f"; left out because they are not crypto: {classes_left_out(reading)}"
    if reading.unknown_classes:
        detail += f"; new classes: {', '.join(reading.unknown_classes)}"
        return note(detail, "look for a newer version of Barograph")
    return ok(detail)


async def _stream(settings: Settings) -> Diagnosis:
    address, seconds = settings.exchange_stream_url, 2 * settings.request_seconds
    remedy = "check BAROGRAPH_EXCHANGE_STREAM_URL; a proxy or firewall may not pass websockets"
    agent = settings.user_agent
    try:
        async with connect(
            address, proxy=None, open_timeout=seconds, close_timeout=0, user_agent_header=agent
        ) as socket:
            return await _subscribe(socket, seconds)
    except InvalidStatus as error:
        status = error.response.status_code
        if status == HTTPStatus.FORBIDDEN:
            return failed(f"a geo-block: HTTP {status}", GEO_BLOCK)
        return failed(f"HTTP {status} instead of a websocket", remedy)
    except (WebSocketException, OSError) as error:
        problem = connection_problem(error, host_of(address))
        return problem or failed("no websocket answers", remedy)


async def _subscribe(socket: ClientConnection, seconds: float) -> Diagnosis:
    """Ask for one contract's liquidations; the exchange confirms that at once."""
    await socket.send(subscribe_request(1, *topics_by_connection(["BTCUSDT"])))
    try:
        reply = decode_message(await asyncio.wait_for(socket.recv(decode=False), seconds))
    except TimeoutError:
        return failed("it connects, but does not confirm the subscription", "try again later")
    except InvalidReply as error:
        return failed(f"{error.kind}: {error}", "check BAROGRAPH_EXCHANGE_STREAM_URL")
    if isinstance(reply, Subscribed) and not reply.accepted:
        return failed(f"it refuses the subscription: {reply.detail}", "try again later")
    return ok("the liquidation stream answers")


async def _clock(settings: Settings) -> Diagnosis:
    async with _open_exchange(settings) as exchange:
        before = system_clock()
        try:
            theirs = await exchange.server_time()
        except UpstreamError:
            detail = "not compared, because the exchange's clock can't be read"
            return note(detail, "fix the exchange check first")
    skew = (before + system_clock()) // 2 - theirs
    detail = f"{skew / 1000:+.1f} s compared with the exchange"
    if abs(skew) > MAX_SKEW_MS:
        return failed(detail, "synchronise this machine's clock")
    return ok(detail)


async def _publisher(setting: str, prefixes: tuple[str, ...], settings: Settings) -> Diagnosis:
    """Check the sources of daily figures whose names begin so."""
    named, is_etf = f"BAROGRAPH_{setting.upper()}", setting == "etf_url"
    is_file = is_etf and settings.etf_file is not None
    files = FileClient(seconds=FILE_SECONDS, clock=system_clock, user_agent=settings.user_agent)
    sources = macro_sources(settings, files, clock=system_clock)
    try:
        days = [
            max((each.day for each in await source.read()), default="")
            for source in sources
            if source.name.startswith(prefixes)
        ]
    except UpstreamError as error:
        if is_file:
            return failed(
                f"{error.kind}: {error}", "correct the file that BAROGRAPH_ETF_FILE names"
            )
        remedy = _PUBLISHER.get(error.kind, _PUBLISHER["invalid reply"]).format(setting=named)
        return await _failure(error, host_of(getattr(settings, setting)), remedy)
    finally:
        await files.close()
    if not days:
        return note("not configured", f"set {named}")
    day, calendar = min(days), trading_days if is_etf else business_days
    if day and is_recent(day, day_of(system_clock()), calendar):
        return ok(f"newest day: {day}")
    advice = "add newer days to BAROGRAPH_ETF_FILE" if is_file else "wait; the collector retries"
    return note(f"newest day: {day or 'none'}, too old for a stance", advice)


async def _identity(settings: Settings) -> Diagnosis:
    provider = identity_provider(settings, system_clock)
    if not isinstance(provider, TokenIdentity):
        return note("not configured: no bearer token is accepted")
    try:
        count = await provider.check()
    except IdentityMisconfigured as error:
        return explained(error, "create a signing key at the provider", "; ")
    except IdentityUnavailable as error:
        url = settings.identity_url.rstrip("/")
        page = url + (f"/auth/v1{KEYS_PATH}" if settings.identity == "supabase" else DISCOVERY)
        check = "check BAROGRAPH_IDENTITY_URL and BAROGRAPH_IDENTITY_API_KEY"
        return await _failure(error, host_of(url), f"{check}; if they are right, wait", page)
    finally:
        await provider.close()
    return ok(f"{count} public key{'' if count == 1 else 's'}")


async def _facilitator(settings: Settings) -> Diagnosis:
    if not settings.takes_payments:
        return note("not configured: nothing is sold by x402")
    try:
        facilitator = HttpFacilitator(settings)
    except ConfigurationError as error:
        return failed(str(error), "correct the setting")
    url = settings.x402_facilitator_url
    try:
        kinds = await facilitator.supported()
    except UpstreamError as error:
        if "; " in str(error):  # the remedy for a redirect
            return explained(error, mark="; ")
        remedy = "check BAROGRAPH_X402_FACILITATOR_URL and its credentials; if they are right, wait"
        return await _failure(error, host_of(url), remedy, f"{url}/supported")
    finally:
        await facilitator.close()
    ours = (X402_VERSION, SCHEME, settings.x402_network)
    if ours in [(each.x402_version, each.scheme, each.network) for each in kinds]:
        return ok(f"it supports {SCHEME} payments on {settings.x402_network}")
    networks = ", ".join(sorted({each.network for each in kinds})) or "none"
    detail = f"it supports no {SCHEME} payments of x402 v{X402_VERSION} on {settings.x402_network}"
    return failed(
        f"{detail}; its networks: {networks}",
        "set BAROGRAPH_X402_NETWORK to one of its networks, or use another facilitator",
    )


async def _chain(settings: Settings) -> Diagnosis:
    if not settings.takes_payments:
        return note("not configured: nothing is sold by x402")
    if not settings.x402_chain_url:
        return note(
            "nothing resolves a payment whose result the facilitator doesn't report",
            "set BAROGRAPH_X402_CHAIN_URL, or resolve such payments with `barograph payments`",
        )
    chain = JsonRpcChain(settings)
    try:
        age = system_clock() - (await chain.check()).timestamp * SECOND
    except ChainUnavailable as error:
        remedy = "check BAROGRAPH_X402_CHAIN_URL, BAROGRAPH_X402_NETWORK and BAROGRAPH_X402_ASSET"
        return await _failure(error, host_of(settings.x402_chain_url), remedy)
    finally:
        await chain.close()
    if age > MAX_BLOCK_AGE:
        detail = f"the node's newest block is {age // SECOND} s old"
        return failed(detail, "use a node that is in sync")
    return ok(f"the node of {settings.x402_network} knows the token and is in sync")


async def _mail(settings: Settings) -> Diagnosis:
    if not settings.sends_mail:
        return note("not configured: create keys with `barograph keys create`")
    remedy = "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM"
    try:
        sender = SmtpSender(settings, clock=system_clock, seconds=settings.request_seconds)
        await sender.greet()
    except ConfigurationError as error:
        return failed(str(error), remedy)
    except UpstreamError as error:
        server = parse_smtp_url(settings.smtp_url.get_secret_value())
        found = await _failure(error, f"{server.host}:{server.port}", remedy)
        hint = "; many networks block port 25" if server.port == SMTP_PORT else ""
        return found._replace(remedy=remedy + hint)
    return ok("the mail server answers")


def _unread(source: str, settings: Settings) -> Diagnosis:
    accept = command(f"terms accept {source}", settings)
    return note("it answers, but is not read, because its terms are not confirmed", accept)


async def _opened(source: str, address: str, settings: Settings) -> Diagnosis:
    """Only connect: a source without confirmation is not asked for data, and can't fail."""
    problem = await open_problem(address)
    if problem is None:
        return _unread(source, settings)
    detail = f"not read, because its terms are not confirmed; {problem.detail}"
    return note(detail, problem.remedy)


def unread(settings: Settings, unconfirmed: Unconfirmed) -> dict[str, Check]:
    """Replacements for the checks of sources that may not be read."""
    addresses = {
        "stream": (BYBIT, settings.exchange_stream_url),
        "treasury": ("treasury", settings.treasury_url),
        "nyfed": ("nyfed", settings.nyfed_url),
        "etf": ("ishares", settings.etf_url),
    }
    unused = unconfirmed.unused
    found: dict[str, Check] = {
        name: partial(_opened, source, address)
        for name, (source, address) in addresses.items()
        if source in unused
    }
    if BYBIT in unused:
        found["exchange"] = partial(_exchange, may_read=False)
    return found


CHECKS: Final[dict[str, Check]] = {
    "exchange": _exchange,
    "stream": _stream,
    "clock": _clock,
    "treasury": partial(_publisher, "treasury_url", ("treasury",)),
    "nyfed": partial(_publisher, "nyfed_url", ("sofr", "effr")),
    "etf": partial(_publisher, "etf_url", ("etf-",)),
    "identity": _identity,
    "facilitator": _facilitator,
    "chain": _chain,
    "mail": _mail,
}
"""In the order of their lines."""
