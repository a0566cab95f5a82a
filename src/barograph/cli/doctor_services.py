"""The checks of `barograph doctor` on the exchanges and on the services that an instance uses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from barograph.cli.diagnosis import (
    Diagnosis,
    connection_problem,
    explain_failure,
    explained,
    failed,
    host_of,
    note,
    ok,
    open_problem,
)
from barograph.collector.app import ADAPTERS, FILE_SECONDS, macro_sources
from barograph.errors import ConfigurationError, Forbidden, InvalidReply, UpstreamError
from barograph.history.cosigning import load_policy
from barograph.identity.provider import IdentityMisconfigured
from barograph.kit.business_days import business_days, trading_days
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import SECOND
from barograph.macro.evidence import day_of, is_recent
from barograph.payments.records import SCHEME, X402_VERSION
from barograph.settings import PREFIX, REQUEST_SECONDS, VENUE_SETTINGS, Settings
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.files import FileClient
from barograph.upstream.identity_http import TokenIdentity
from barograph.upstream.identity_providers import identity_provider
from barograph.upstream.mail import SmtpSender, parse_smtp_url
from barograph.venues.kit.stream import VenueStream
from barograph.venues.records import classes_left_out
from barograph.venues.registry import BYBIT, HYPERLIQUID, VENUES

MAX_SKEW_MS = 2_000
MAX_BLOCK_AGE = 120 * SECOND
"""Blocks of the supported chains are 2 to 12 seconds apart."""

SMTP_PORT = 25
GEO_BLOCKS: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS)


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


@asynccontextmanager
async def _closing(client: C) -> AsyncIterator[C]:
    try:
        yield client
    finally:
        await client.close()


def _geo_block(name: str, error: object) -> Diagnosis:
    other = BYBIT if name == HYPERLIQUID else HYPERLIQUID
    hosts = "; docs/doctor.md lists Bybit's hosts for some countries" if name == BYBIT else ""
    return failed(
        f"a geo-block: {error} -> choose a venue that answers from here, such as "
        f"BAROGRAPH_VENUES={other}: the lines {', '.join(f'`{venue}`' for venue in VENUES)} show "
        f"which do (docs/venues.md compares them){hosts}"
    )


async def check_venue(name: str, settings: Settings, *, is_read: bool = True) -> Diagnosis:
    """Ask for the time, because a reading may take much longer, and then perhaps for a reading."""
    async with _closing(ADAPTERS[name](settings, clock=system_clock)) as exchange:
        try:
            await exchange.server_time()
            if not is_read:
                return ok("it answers from here")
            reading = await exchange.perpetuals()
        except Forbidden as error:
            return _geo_block(name, error)
    detail = f"{len(reading.contracts)} crypto perpetuals"
    if reading.left_out:
        detail += f"; left out because they are not crypto: {classes_left_out(reading)}"
    if reading.unknown_classes:
        detail += f"; new classes: {', '.join(reading.unknown_classes)}"
        return note(f"{detail} -> look for a newer version of Barograph")
    return ok(detail)


def stream_url(name: str, settings: Settings) -> str:
    """The address of a venue's websocket."""
    return VENUES[name].stream_url(ADAPTERS[name].rest_url(settings))


async def check_stream(name: str, settings: Settings) -> Diagnosis:
    """Wait for the first message of the liquidation stream."""
    address, seconds = stream_url(name, settings), 2 * REQUEST_SECONDS
    rest = f"{PREFIX}{VENUE_SETTINGS.get(name, 'venue_urls').upper()}"
    remedy = f"check {rest}; a proxy or firewall may not pass websockets"
    stream, agent = ADAPTERS[name].stream, settings.user_agent
    assert stream is not None
    try:
        async with connect(
            address + stream.query,
            proxy=None,
            open_timeout=seconds,
            close_timeout=0,
            user_agent_header=agent,
        ) as socket:
            return await _first_message(stream, socket, seconds)
    except InvalidStatus as error:
        status = error.response.status_code
        if status in GEO_BLOCKS:
            return _geo_block(name, f"HTTP {status}")
        return failed(f"HTTP {status} instead of a websocket -> {remedy}")
    except InvalidReply as error:
        return failed(f"{error.kind}: {error} -> {remedy}")
    except (WebSocketException, OSError) as error:
        problem = connection_problem(error, host_of(address))
        return problem or failed(f"no websocket answers -> {remedy}")


async def _first_message(
    stream: type[VenueStream], socket: ClientConnection, seconds: float
) -> Diagnosis:
    """Bybit confirms a subscription, Binance sends a mark price."""
    for request in stream.connection.hello:
        await socket.send(request)
    try:
        message = await asyncio.wait_for(socket.recv(decode=False), seconds)
    except TimeoutError:
        return failed("it connects, but sends nothing -> try again later")
    if detail := stream.refusal(message):
        return failed(f"it refuses the subscription: {detail} -> try again later")
    return ok("the liquidation stream answers")


async def check_clock(settings: Settings) -> Diagnosis:
    """Compare this machine's clock with those of the configured venues."""
    names = settings.venue_names
    measured = await asyncio.gather(*(_skew(name, settings) for name in names))
    skews = {name: skew for name, skew in zip(names, measured, strict=True) if skew is not None}
    if not skews:
        detail = "not compared, because no venue's clock can be read"
        return note(f"{detail} -> fix the checks of the venues first")
    detail = ", ".join(f"{skew / 1000:+.1f} s compared with {name}" for name, skew in skews.items())
    wrong = [name for name, skew in skews.items() if abs(skew) > MAX_SKEW_MS]
    if not wrong:
        return ok(detail)
    if len(wrong) == len(skews):
        return failed(f"{detail} -> synchronise this machine's clock")
    theirs = ", ".join(wrong)
    return failed(f"{detail} -> wait; the clock of {theirs} seems wrong, not this machine's")


async def _skew(name: str, settings: Settings) -> int | None:
    """How far this machine's clock is ahead of a venue's, in milliseconds; None if unknown."""
    async with _closing(ADAPTERS[name](settings, clock=system_clock)) as exchange:
        before = system_clock()
        try:
            theirs = await exchange.server_time()
        except UpstreamError:
            return None
    return (before + system_clock()) // 2 - theirs


async def check_publisher(prefixes: tuple[str, ...], settings: Settings) -> Diagnosis:
    """Read the sources of daily figures whose names begin so."""
    is_etf = prefixes == ("etf-",)
    is_file = is_etf and settings.etf_file is not None
    client = FileClient(seconds=FILE_SECONDS, clock=system_clock, user_agent=settings.user_agent)
    async with _closing(client) as files:
        try:
            days = [
                max((figure.day for figure in await source.read()), default="")
                for source in macro_sources(settings, files, clock=system_clock)
                if source.name.startswith(prefixes)
            ]
        except UpstreamError as error:
            if not is_file:
                raise
            remedy = "correct the file that BAROGRAPH_ETF_FILE names"
            return failed(f"{error.kind}: {error} -> {remedy}")
    day, calendar = min(days), trading_days if is_etf else business_days
    if day and is_recent(day, day_of(system_clock()), calendar):
        return ok(f"newest day: {day}")
    advice = "add newer days to BAROGRAPH_ETF_FILE" if is_file else "wait; the collector retries"
    return note(f"newest day: {day or 'none'}, too old for a stance -> {advice}")


async def check_identity(settings: Settings) -> Diagnosis:
    """Count the public keys of the identity provider."""
    provider = identity_provider(settings, system_clock)
    assert isinstance(provider, TokenIdentity)
    async with _closing(provider):
        try:
            count = await provider.check()
        except IdentityMisconfigured as error:
            return explained(error, "create a signing key at the provider", "; ")
    return ok(f"{count} public key{'' if count == 1 else 's'}")


async def check_facilitator(settings: Settings) -> Diagnosis:
    """Whether the facilitator supports our scheme on our network."""
    try:
        client = HttpFacilitator(settings)
    except ConfigurationError as error:
        return failed(f"{error} -> correct the setting")
    async with _closing(client) as facilitator:
        try:
            kinds = await facilitator.supported()
        except UpstreamError as error:
            if "; " in str(error):  # the remedy for a redirect
                return explained(error, mark="; ")
            raise
    ours = (X402_VERSION, SCHEME, settings.x402_network)
    if ours in [(kind.x402_version, kind.scheme, kind.network) for kind in kinds]:
        return ok(f"it supports {SCHEME} payments on {settings.x402_network}")
    networks = ", ".join(sorted({kind.network for kind in kinds})) or "none"
    return failed(
        f"it supports no {SCHEME} payments of x402 v{X402_VERSION} on {settings.x402_network}; its "
        f"networks: {networks} -> set BAROGRAPH_X402_NETWORK to one of its networks, or use "
        "another facilitator"
    )


async def check_chain(settings: Settings) -> Diagnosis:
    """Whether the node knows the token and is in sync."""
    if not settings.x402_chain_url:
        return note(
            "nothing resolves a payment whose result the facilitator doesn't report -> set "
            "BAROGRAPH_X402_CHAIN_URL, or resolve such payments with `barograph payments`"
        )
    async with _closing(JsonRpcChain(settings)) as chain:
        age = system_clock() - (await chain.check()).timestamp * SECOND
    if age > MAX_BLOCK_AGE:
        age_text = f"the node's newest block is {age // SECOND} s old"
        return failed(f"{age_text} -> use a node that is in sync")
    return ok(f"the node of {settings.x402_network} knows the token and is in sync")


async def check_mail(settings: Settings) -> Diagnosis:
    """Whether the mail server greets us and accepts our login."""
    remedy = "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM"
    try:
        sender = SmtpSender(settings, clock=system_clock, seconds=REQUEST_SECONDS)
        await sender.greet()
    except ConfigurationError as error:
        return failed(f"{error} -> {remedy}")
    except UpstreamError as error:
        server = parse_smtp_url(settings.smtp_url.get_secret_value())
        problem = await explain_failure(error, f"{server.host}:{server.port}", remedy)
        hint = "; many networks block port 25" if server.port == SMTP_PORT else ""
        return problem._replace(remedy=remedy + hint)
    return ok("the mail server answers")


async def check_witnesses(settings: Settings) -> Diagnosis:
    """Whether every witness of the policy can be reached."""
    policy = load_policy(settings.witness_policy)
    if policy is None:
        return note("not configured: only our key signs checkpoints")
    for name, url in policy.urls.items():
        problem = await open_problem(url)
        if problem is not None:
            return problem._replace(detail=f"{name}: {problem.detail}")
    count = len(policy.witnesses)
    return ok(f"every witness can be reached ({count}); quorum: {policy.in_words()}")
