"""The checks of `barograph doctor` on the venues: which of them answer from here."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from barograph.cli.diagnosis import (
    Check,
    Diagnosis,
    connection_problem,
    explain_failure,
    failed,
    host_of,
    note,
    ok,
    only_opened,
    unread,
)
from barograph.collector.app import ADAPTERS, Adapter
from barograph.errors import Forbidden, InvalidReply, UpstreamError
from barograph.kit.clock import system_clock
from barograph.markets.records import Perpetuals, classes_left_out
from barograph.markets.venues import BINANCE, BYBIT, HYPERLIQUID, VENUES
from barograph.settings import REQUEST_SECONDS, Settings
from barograph.terms.sources import Unconfirmed
from barograph.upstream.binance.stream import LIQUIDATIONS, PROOF
from barograph.upstream.bybit.messages import (
    Subscribed,
    decode_message,
    subscribe_request,
    topics_by_connection,
)

MAX_SKEW_MS = 2_000
GEO_BLOCKS: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS)


class _Address(NamedTuple):
    """The settings with a venue's addresses, and the path of its clock."""

    rest: str
    time_path: str
    stream: str = ""


_ADDRESSES: Final[Mapping[str, _Address]] = {
    BYBIT: _Address("exchange_rest_url", "/v5/market/time", "exchange_stream_url"),
    HYPERLIQUID: _Address("hyperliquid_url", "/info"),
    BINANCE: _Address("binance_rest_url", "/fapi/v1/time", "binance_stream_url"),
}
_REMEDIES: Final = {
    "throttled": "wait; other programs at this IP address may use up the venue's rate limit",
    "unreachable": "wait; the collector retries",
    "invalid reply": "synchronise this machine's clock if the line `clock` fails, or check "
    "{setting}",
    "not found": "check {setting}",
}


def _geo_block(name: str, error: object) -> Diagnosis:
    other = BYBIT if name == HYPERLIQUID else HYPERLIQUID
    remedy = (
        f"choose a venue that answers from here, such as BAROGRAPH_VENUES={other}: the lines "
        f"{', '.join(f'`{each}`' for each in VENUES)} show which do (docs/venues.md compares them)"
    )
    if name == BYBIT:
        remedy += "; docs/doctor.md lists Bybit's hosts for some countries"
    return failed(f"a geo-block: {error}", remedy)


@asynccontextmanager
async def _opened(name: str, settings: Settings) -> AsyncIterator[Adapter]:
    exchange = ADAPTERS[name](settings, clock=system_clock)
    try:
        yield exchange
    finally:
        await exchange.close()


async def _venue(name: str, settings: Settings, *, is_confirmed: bool = True) -> Diagnosis:
    """Ask for the time, and for a reading if the venue is configured and confirmed."""
    is_configured = name in settings.venue_names
    found = await _asked(name, settings, may_read=is_configured and is_confirmed)
    if not is_confirmed:
        return unread(name, settings) if found.status == "ok" else found
    if is_configured:
        return found
    advice = "to read it, add it to BAROGRAPH_VENUES; docs/venues.md says what it publishes"
    return note(f"not configured; {found.detail}", advice if found.status == "ok" else "")


async def _asked(name: str, settings: Settings, *, may_read: bool) -> Diagnosis:
    address = _ADDRESSES[name]
    url = getattr(settings, address.rest)
    async with _opened(name, settings) as exchange:
        try:
            await exchange.server_time()  # first, because a reading may take much longer
            if may_read:
                return _described(await exchange.perpetuals())
        except Forbidden as error:
            return _geo_block(name, error)
        except UpstreamError as error:
            remedy = _REMEDIES[error.kind].format(setting=f"BAROGRAPH_{address.rest.upper()}")
            return await explain_failure(error, host_of(url), remedy, url + address.time_path)
    return ok("it answers from here")


def _described(reading: Perpetuals) -> Diagnosis:
    detail = f"{len(reading.contracts)} crypto perpetuals"
    if reading.left_out:
        detail += f"; left out because they are not crypto: {classes_left_out(reading)}"
    if reading.unknown_classes:
        detail += f"; new classes: {', '.join(reading.unknown_classes)}"
        return note(detail, "look for a newer version of Barograph")
    return ok(detail)


async def _stream(name: str, settings: Settings) -> Diagnosis:
    address, seconds = getattr(settings, _ADDRESSES[name].stream), 2 * REQUEST_SECONDS
    setting = _ADDRESSES[name].rest.upper()
    remedy = f"check BAROGRAPH_{setting}; a proxy or firewall may not pass websockets"
    url = f"{address}?streams={LIQUIDATIONS}/{PROOF}@1s" if name == BINANCE else address
    agent = settings.user_agent
    try:
        async with connect(
            url, proxy=None, open_timeout=seconds, close_timeout=0, user_agent_header=agent
        ) as socket:
            return await _answered(name, socket, seconds)
    except InvalidStatus as error:
        status = error.response.status_code
        if status in GEO_BLOCKS:
            return _geo_block(name, f"HTTP {status}")
        return failed(f"HTTP {status} instead of a websocket", remedy)
    except InvalidReply as error:
        return failed(f"{error.kind}: {error}", remedy)
    except (WebSocketException, OSError) as error:
        problem = connection_problem(error, host_of(address))
        return problem or failed("no websocket answers", remedy)


async def _answered(name: str, socket: ClientConnection, seconds: float) -> Diagnosis:
    """Wait for the first message: Bybit confirms a subscription, Binance sends a mark price."""
    if name == BYBIT:
        await socket.send(subscribe_request(1, *topics_by_connection(["BTCUSDT"])))
    try:
        message = await asyncio.wait_for(socket.recv(decode=False), seconds)
    except TimeoutError:
        return failed("it connects, but sends nothing", "try again later")
    reply = decode_message(message) if name == BYBIT else None
    if isinstance(reply, Subscribed) and not reply.accepted:
        return failed(f"it refuses the subscription: {reply.detail}", "try again later")
    return ok("the liquidation stream answers")


async def _clock(settings: Settings) -> Diagnosis:
    names = settings.venue_names
    skews = await asyncio.gather(*(_skew(name, settings) for name in names))
    known = {name: skew for name, skew in zip(names, skews, strict=True) if skew is not None}
    if not known:
        detail = "not compared, because no venue's clock can be read"
        return note(detail, "fix the checks of the venues first")
    detail = ", ".join(f"{skew / 1000:+.1f} s compared with {name}" for name, skew in known.items())
    wrong = [name for name, skew in known.items() if abs(skew) > MAX_SKEW_MS]
    if len(wrong) == len(known):
        return failed(detail, "synchronise this machine's clock")
    if wrong:
        return failed(
            detail, f"wait; the clock of {', '.join(wrong)} seems wrong, not this machine's"
        )
    return ok(detail)


async def _skew(name: str, settings: Settings) -> int | None:
    """How far this machine's clock is ahead of a venue's, in milliseconds; None if unknown."""
    async with _opened(name, settings) as exchange:
        before = system_clock()
        try:
            theirs = await exchange.server_time()
        except UpstreamError:
            return None
    return (before + system_clock()) // 2 - theirs


CHECKS: Final[Mapping[str, Check]] = {
    **{name: partial(_venue, name) for name in VENUES},
    **{f"{name}-stream": partial(_stream, name) for name, at in _ADDRESSES.items() if at.stream},
    "clock": _clock,
}
"""In the order of their lines."""


def venue_checks(settings: Settings, unconfirmed: Unconfirmed) -> dict[str, Check]:
    """The checks of every known venue, and of the streams of those that are configured."""
    checks = dict(CHECKS)
    for name in VENUES:
        is_confirmed, stream = name not in unconfirmed.names, f"{name}-stream"
        checks[name] = partial(_venue, name, is_confirmed=is_confirmed)
        if name not in settings.venue_names:
            checks.pop(stream, None)
        elif stream in checks and not is_confirmed:
            address = getattr(settings, _ADDRESSES[name].stream)
            checks[stream] = partial(only_opened, name, address)
    return checks
