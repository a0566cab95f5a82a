"""`barograph doctor`: check what a live instance needs, one line per check."""

import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barograph.cli.common import data_option, read_settings
from barograph.errors import ConfigurationError, UpstreamError
from barograph.kit.clock import system_clock

if TYPE_CHECKING:
    from barograph.settings import Settings

MIN_DISK_BYTES = 1 << 30
MAX_SKEW_MS = 2_000


class Diagnosis(NamedTuple):
    """The result of one check. If it is `ok`, a remedy is only advice."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@click.command()
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def doctor(data: Path | None, as_json: bool) -> None:
    """Check what could keep this instance from working.

    \b
    Checks the port, SQLite, the disk, the secrets, the schema, the exchange, its stream, the
    clock, the guide catalog, the mail server and the payments.
    Exits with 1 if a check fails.

    \b
    Example:
      barograph doctor --json
    """
    import asyncio

    from barograph.kit.logs import configure_logs

    configure_logs("error")
    found = asyncio.run(_examine(read_settings(data=data)))
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
    else:
        for each in found:
            click.echo(_line(each))
    sys.exit(0 if all(each.ok for each in found) else 1)


def _line(found: Diagnosis) -> str:
    mark = click.style("ok  ", fg="green") if found.ok else click.style("FAIL", fg="red")
    if found.ok and found.remedy:
        mark = click.style("note", fg="yellow")
    remedy = f" -> {found.remedy}" if found.remedy else ""
    return f"{mark} {found.name}: {found.detail}{remedy}"


async def _examine(settings: "Settings") -> list[Diagnosis]:
    checks: list[Callable[[Settings], Awaitable[Diagnosis]]] = [
        _port,
        _sqlite,
        _disk,
        _secrets,
        _schema,
        _exchange,
        _stream,
        _clock,
        _guides,
        _mail,
        _payments,
    ]
    return [await check(settings) for check in checks]


def _ok(name: str, detail: str, *, advice: str = "") -> Diagnosis:
    return Diagnosis(name, ok=True, detail=detail, remedy=advice)


def _failed(name: str, detail: str, remedy: str) -> Diagnosis:
    return Diagnosis(name, ok=False, detail=detail, remedy=remedy)


async def _port(settings: "Settings") -> Diagnosis:
    from barograph.kit.operating_system import require_free_port

    place = f"{settings.host}:{settings.port}"
    try:
        require_free_port(settings.host, settings.port)
    except ConfigurationError:
        other = _failed(
            "port", f"{place} is in use", "stop the other program or set BAROGRAPH_PORT"
        )
        return await _running_barograph(settings) or other
    return _ok("port", f"{place} is free")


async def _running_barograph(settings: "Settings") -> Diagnosis | None:
    """The result if a Barograph answers on our port; None if another program does."""
    import httpx2

    from barograph import NOTICE
    from barograph.history.documents import CHECKPOINT_PATH
    from barograph.settings import reachable

    address = f"http://{reachable(settings.host)}:{settings.port}"
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=settings.request_seconds) as client:
            status = (await client.get(f"{address}/api/status")).json()
            signed = (await client.get(f"{address}{CHECKPOINT_PATH}")).json()
    except (httpx2.HTTPError, ValueError):
        return None
    match status, signed:
        case (
            {"notice": notice, "feed": {}, "api": {"version": str(version)}},
            dict(),
        ) if notice == NOTICE:
            running = f"Barograph {version} is running on {settings.host}:{settings.port}"
            # While the history fails there is no checkpoint, and so no key to compare.
            if signed.get("public_key", _public_key(settings)) == _public_key(settings):
                return _ok("port", running)
            detail = f"{running} with another data folder"
            return _failed("port", detail, "name its folder with --data, or set BAROGRAPH_PORT")
    return None


def _public_key(settings: "Settings") -> str | None:
    """The public key of this instance's checkpoints; None before its first start."""
    from base64 import b64encode

    from barograph.history.signing import FILE_NAME, load_history_key

    if not settings.history_key.get_secret_value() and not (settings.data / FILE_NAME).exists():
        return None
    return b64encode(load_history_key(settings).public_key().public_bytes_raw()).decode()


async def _sqlite(_: "Settings") -> Diagnosis:
    import apsw

    from barograph.kit.database import SAFE_WAL, sqlite_version

    version = apsw.sqlite_lib_version()
    if sqlite_version() < SAFE_WAL:
        return _failed("sqlite", f"{version} can corrupt its log", "pip install --upgrade apsw")
    return _ok("sqlite", version)


async def _disk(settings: "Settings") -> Diagnosis:
    folder = settings.data.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < MIN_DISK_BYTES:
        return _failed("disk", detail, "free some space or set BAROGRAPH_DATA to another disk")
    return _ok("disk", detail)


async def _secrets(settings: "Settings") -> Diagnosis:
    from barograph.history.signing import FILE_NAME as HISTORY_KEY
    from barograph.keys.api_keys import PEPPER_FILE as PEPPER
    from barograph.kit.operating_system import is_exposed, is_world_writable

    exposed = [file for name in (PEPPER, HISTORY_KEY) if is_exposed(file := settings.data / name)]
    if exposed:
        names = " and ".join(file.name for file in exposed)
        detail = f"every user of this machine may read or change {names}"
        return _failed("secrets", detail, f"chmod 600 {' '.join(map(str, exposed))}")
    if is_world_writable(settings.data):
        detail = f"every user of this machine may replace files in {settings.data}"
        return _failed("secrets", detail, f"chmod o-w {settings.data}")
    return _ok("secrets", "not open to every user of this machine")


async def _schema(settings: "Settings") -> Diagnosis:
    from barograph.kit.database import DatabaseUnavailable, SQLiteDatabase
    from barograph.kit.migrations import missing_migrations, packaged_migrations

    remedy = f"barograph db upgrade --data {settings.data}"
    if not settings.database_path.exists():
        return _ok("schema", "there is no database yet: `serve` creates one")
    database = SQLiteDatabase(settings.database_path)
    try:
        missing = await missing_migrations(database, packaged_migrations())
    except ConfigurationError as error:
        return _failed("schema", str(error), "run that version")
    except DatabaseUnavailable as error:
        return _failed("schema", str(error), remedy)
    finally:
        await database.close()
    if missing:
        return _failed("schema", f"lacks {', '.join(missing)}", remedy)
    return _ok("schema", "up to date")


_REMEDIES = {
    "refused": "the exchange does not serve this region: set BAROGRAPH_EXCHANGE_REST_URL to a "
    "regional host",
    "throttled": "wait; other programs at this address use up the exchange's rate limit",
    "unreachable": "check the network and BAROGRAPH_EXCHANGE_REST_URL",
    "invalid reply": "check that BAROGRAPH_EXCHANGE_REST_URL is the exchange's own address",
    "not found": "check BAROGRAPH_EXCHANGE_REST_URL",
}


async def _exchange(settings: "Settings") -> Diagnosis:
    from barograph.upstream.bybit import BybitExchange

    exchange = BybitExchange(settings, clock=system_clock)
    try:
        reading = await exchange.perpetuals()
    except UpstreamError as error:
        return _failed("exchange", f"{error.kind}: {error}", _REMEDIES[error.kind])
    finally:
        await exchange.close()
    return _ok("exchange", f"{len(reading.contracts)} live perpetuals")


async def _stream(settings: "Settings") -> Diagnosis:
    import asyncio

    from barograph.upstream.bybit import BybitExchange

    quick = settings.model_copy(update={"stream_ping_seconds": settings.request_seconds / 4})
    exchange = BybitExchange(quick, clock=system_clock)
    watcher = _StreamWatcher()
    listening = asyncio.create_task(exchange.listen(["BTCUSDT"], watcher))
    try:
        await asyncio.wait_for(watcher.connected.wait(), 2 * settings.request_seconds)
    except TimeoutError:
        detail = "the liquidation stream does not answer"
        return _failed("stream", detail, "check BAROGRAPH_EXCHANGE_STREAM_URL")
    finally:
        listening.cancel()
        await asyncio.wait([listening])
        await exchange.close()
    return _ok("stream", "the liquidation stream answers")


class _StreamWatcher:
    """Waits until the stream has proved that it is connected."""

    def __init__(self) -> None:
        from asyncio import Event

        self.connected = Event()

    def liquidated(self, _liquidations: object) -> None:
        """Ignore what the stream reports."""

    def watched(self, _start: int, _end: int) -> None:
        self.connected.set()


async def _clock(settings: "Settings") -> Diagnosis:
    from barograph.upstream.bybit import BybitExchange

    exchange = BybitExchange(settings, clock=system_clock)
    try:
        before = system_clock()
        theirs = await exchange.server_time()
        skew = (before + system_clock()) // 2 - theirs
    except UpstreamError:
        detail = "the exchange's clock is unavailable for comparison"
        return _failed("clock", detail, "make the exchange reachable first")
    finally:
        await exchange.close()
    detail = f"{skew / 1000:+.1f} s compared with the exchange"
    if abs(skew) > MAX_SKEW_MS:
        return _failed("clock", detail, "synchronise this machine's clock")
    return _ok("clock", detail)


async def _guides(settings: "Settings") -> Diagnosis:
    from barograph.guides.files import load_catalog

    try:
        return _ok("guides", load_catalog(settings.guides_file).source)
    except ConfigurationError as error:
        return _failed("guides", str(error), f"barograph guides check {settings.guides_file}")


async def _mail(settings: "Settings") -> Diagnosis:
    from barograph.upstream.mail import SmtpSender

    if not settings.sends_mail:
        return _ok("mail", "not configured: create keys with `barograph keys create`")
    try:
        sender = SmtpSender(settings, clock=system_clock, seconds=settings.request_seconds)
        await sender.greet()
    except (ConfigurationError, UpstreamError) as error:
        return _failed("mail", str(error), "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM")
    return _ok("mail", "the mail server answers")


async def _payments(settings: "Settings") -> Diagnosis:
    if not settings.takes_payments:
        return _ok("payments", "not configured: nothing is sold by x402")
    if not settings.x402_chain_url:
        return _ok(
            "payments",
            "nothing resolves a payment whose result the facilitator doesn't report",
            advice="set BAROGRAPH_X402_CHAIN_URL, or resolve such payments yourself with "
            "`barograph payments`",
        )
    return _ok("payments", "the chain resolves what the facilitator doesn't report")
