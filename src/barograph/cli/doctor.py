"""`barograph doctor`: what is missing for a live instance, one line each with the remedy."""

import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barograph.cli.options import data_option, read_settings

if TYPE_CHECKING:
    from barograph.settings import Settings

MIN_DISK_BYTES = 1 << 30
MAX_SKEW_MS = 2_000


class Finding(NamedTuple):
    """One thing that was looked at; the remedy is empty when all is well.

    With `ok` a remedy is advice: it works, and could work better.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@click.command()
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(data: Path | None, as_json: bool) -> None:
    """Look for what would keep this instance from working.

    \b
    Checks the port, SQLite, the disk, the secrets, the schema, the exchange, its stream and
    the clock, the catalog of guides, the mail server and the payments.
    Exit code 1 when anything is wrong.

    \b
    Example:
      barograph doctor --json
    """
    import asyncio

    from barograph.kit.logs import configure_logs

    configure_logs("error")
    findings = asyncio.run(_examine(read_settings(data=data)))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        for finding in findings:
            click.echo(_line(finding))
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


def _line(finding: Finding) -> str:
    mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red")
    if finding.ok and finding.remedy:
        mark = click.style("note", fg="yellow")
    remedy = f" -> {finding.remedy}" if finding.remedy else ""
    return f"{mark} {finding.name}: {finding.detail}{remedy}"


async def _examine(settings: "Settings") -> list[Finding]:
    looks: list[Callable[[Settings], Awaitable[Finding]]] = [
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
    return [await look(settings) for look in looks]


async def _port(settings: "Settings") -> Finding:
    from barograph.errors import ConfigurationError
    from barograph.kit.operating_system import require_free_port

    try:
        require_free_port(settings.host, settings.port)
    except ConfigurationError:
        running = await _running_barograph(settings)
        if running is not None:
            return running
        return Finding(
            "port",
            ok=False,
            detail=f"{settings.host}:{settings.port} is in use",
            remedy="stop the other program or set BAROGRAPH_PORT",
        )
    return Finding("port", ok=True, detail=f"{settings.host}:{settings.port} is free")


async def _running_barograph(settings: "Settings") -> Finding | None:
    """The finding for a Barograph that answers on our port; None if it is another program."""
    import httpx

    from barograph import NOTICE
    from barograph.history.documents import CHECKPOINT_PATH
    from barograph.settings import reachable

    address = f"http://{reachable(settings.host)}:{settings.port}"
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=settings.request_seconds) as client:
            status = (await client.get(f"{address}/api/status")).json()
            signed = (await client.get(f"{address}{CHECKPOINT_PATH}")).json()
    except (httpx.HTTPError, ValueError):
        return None
    match status, signed:
        case (
            {"notice": notice, "feed": {}, "api": {"version": str(version)}},
            dict(),
        ) if notice == NOTICE:
            running = f"Barograph {version} is running on {settings.host}:{settings.port}"
            # While the history fails there is no checkpoint, and so no key to compare.
            if signed.get("public_key", _public_key(settings)) == _public_key(settings):
                return Finding("port", ok=True, detail=running)
            return Finding(
                "port",
                ok=False,
                detail=f"{running} with another data folder",
                remedy="name its folder with --data, or set BAROGRAPH_PORT",
            )
    return None


def _public_key(settings: "Settings") -> str | None:
    """The public key of this instance's checkpoints; None before its first start."""
    from base64 import b64encode

    from barograph.history.signing import FILE_NAME, load_history_key

    if not settings.history_key.get_secret_value() and not (settings.data / FILE_NAME).exists():
        return None
    return b64encode(load_history_key(settings).public_key().public_bytes_raw()).decode()


async def _sqlite(_: "Settings") -> Finding:
    import apsw

    from barograph.kit.database import SAFE_WAL, sqlite_version

    if sqlite_version() < SAFE_WAL:
        return Finding(
            "sqlite",
            ok=False,
            detail=f"{apsw.sqlite_lib_version()} can corrupt its log",
            remedy="pip install --upgrade apsw",
        )
    return Finding("sqlite", ok=True, detail=apsw.sqlite_lib_version())


async def _disk(settings: "Settings") -> Finding:
    folder = settings.data.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < MIN_DISK_BYTES:
        return Finding(
            "disk",
            ok=False,
            detail=f"{free / 1e9:.1f} GB free",
            remedy="free some space or point BAROGRAPH_DATA elsewhere",
        )
    return Finding("disk", ok=True, detail=f"{free / 1e9:.1f} GB free")


async def _secrets(settings: "Settings") -> Finding:
    from barograph.history.signing import FILE_NAME as HISTORY_KEY
    from barograph.keys.api_keys import FILE_NAME as PEPPER
    from barograph.kit.operating_system import is_exposed, is_world_writable

    exposed = [file for name in (PEPPER, HISTORY_KEY) if is_exposed(file := settings.data / name)]
    if exposed:
        names = " and ".join(file.name for file in exposed)
        remedy = f"chmod 600 {' '.join(map(str, exposed))}"
        detail = f"every user of this machine may read or change {names}"
        return Finding("secrets", ok=False, detail=detail, remedy=remedy)
    if is_world_writable(settings.data):
        detail = f"every user of this machine may replace files in {settings.data}"
        return Finding("secrets", ok=False, detail=detail, remedy=f"chmod o-w {settings.data}")
    return Finding("secrets", ok=True, detail="not open to every user of this machine")


async def _schema(settings: "Settings") -> Finding:
    from barograph.errors import ConfigurationError
    from barograph.kit.database import DatabaseUnavailable, SQLiteDatabase
    from barograph.kit.migrations import missing_migrations, packaged_migrations

    remedy = f"barograph db upgrade --data {settings.data}"
    if not settings.database_path.exists():
        return Finding("schema", ok=True, detail="there is no database yet: `serve` creates one")
    database = SQLiteDatabase(settings.database_path)
    try:
        missing = await missing_migrations(database, packaged_migrations())
    except ConfigurationError as error:
        return Finding("schema", ok=False, detail=str(error), remedy="run that version")
    except DatabaseUnavailable as error:
        return Finding("schema", ok=False, detail=str(error), remedy=remedy)
    finally:
        await database.close()
    if missing:
        return Finding("schema", ok=False, detail=f"lacks {', '.join(missing)}", remedy=remedy)
    return Finding("schema", ok=True, detail="up to date")


_REMEDIES = {
    "refused": "the exchange does not serve this region: set BAROGRAPH_EXCHANGE_REST_URL to a "
    "regional host",
    "throttled": "wait; other programs at this address use up the exchange's limit",
    "unreachable": "check the network and BAROGRAPH_EXCHANGE_REST_URL",
    "invalid reply": "check that BAROGRAPH_EXCHANGE_REST_URL is the exchange's own address",
    "not found": "check BAROGRAPH_EXCHANGE_REST_URL",
}


async def _exchange(settings: "Settings") -> Finding:
    from barograph.errors import UpstreamError
    from barograph.kit.clock import system_clock
    from barograph.upstream.bybit import BybitExchange

    exchange = BybitExchange(settings, clock=system_clock)
    try:
        reading = await exchange.perpetuals()
    except UpstreamError as error:
        detail = f"{error.kind}: {error}"
        return Finding("exchange", ok=False, detail=detail, remedy=_REMEDIES[error.kind])
    finally:
        await exchange.close()
    return Finding("exchange", ok=True, detail=f"{len(reading.contracts)} live perpetuals")


async def _stream(settings: "Settings") -> Finding:
    import asyncio

    from barograph.kit.clock import system_clock
    from barograph.upstream.bybit import BybitExchange

    quick = settings.model_copy(update={"stream_ping_seconds": settings.request_seconds / 4})
    exchange = BybitExchange(quick, clock=system_clock)
    ear = _Ear()
    listening = asyncio.create_task(exchange.listen(["BTCUSDT"], ear))
    try:
        await asyncio.wait_for(ear.proved.wait(), 2 * settings.request_seconds)
    except TimeoutError:
        return Finding(
            "stream",
            ok=False,
            detail="the liquidation stream does not answer",
            remedy="check BAROGRAPH_EXCHANGE_STREAM_URL",
        )
    finally:
        listening.cancel()
        await asyncio.wait([listening])
        await exchange.close()
    return Finding("stream", ok=True, detail="the liquidation stream answers")


class _Ear:
    """Waits for the proof that a stream is heard."""

    def __init__(self) -> None:
        from asyncio import Event

        self.proved = Event()

    def liquidated(self, _liquidations: object) -> None:
        """Nothing is counted here."""

    def watched(self, _start: int, _end: int) -> None:
        """Take note that it is heard."""
        self.proved.set()


async def _clock(settings: "Settings") -> Finding:
    from barograph.errors import UpstreamError
    from barograph.kit.clock import system_clock
    from barograph.upstream.bybit import BybitExchange

    exchange = BybitExchange(settings, clock=system_clock)
    try:
        before = system_clock()
        theirs = await exchange.server_time()
        skew = (before + system_clock()) // 2 - theirs
    except UpstreamError:
        remedy = "make the exchange reachable first"
        return Finding("clock", ok=False, detail="nothing to compare it with", remedy=remedy)
    finally:
        await exchange.close()
    detail = f"{skew / 1000:+.1f} s against the exchange"
    if abs(skew) > MAX_SKEW_MS:
        return Finding("clock", ok=False, detail=detail, remedy="synchronise this machine's clock")
    return Finding("clock", ok=True, detail=detail)


async def _guides(settings: "Settings") -> Finding:
    from barograph.errors import ConfigurationError
    from barograph.guides.files import load_catalog

    try:
        catalog = load_catalog(settings.guides_file)
    except ConfigurationError as error:
        remedy = f"barograph guides check {settings.guides_file}"
        return Finding("guides", ok=False, detail=str(error), remedy=remedy)
    return Finding("guides", ok=True, detail=catalog.source)


async def _mail(settings: "Settings") -> Finding:
    from barograph.errors import ConfigurationError, UpstreamError
    from barograph.kit.clock import system_clock
    from barograph.upstream.mail import SmtpSender

    if not settings.sends_mail:
        detail = "not configured: keys come from `barograph keys create`"
        return Finding("mail", ok=True, detail=detail)
    try:
        sender = SmtpSender(settings, clock=system_clock, seconds=settings.request_seconds)
        await sender.greet()
    except (ConfigurationError, UpstreamError) as error:
        remedy = "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM"
        return Finding("mail", ok=False, detail=str(error), remedy=remedy)
    return Finding("mail", ok=True, detail="the mail server answers")


async def _payments(settings: "Settings") -> Finding:
    if not settings.takes_payments:
        return Finding("payments", ok=True, detail="not configured: nothing is sold by x402")
    if not settings.x402_chain_url:
        return Finding(
            "payments",
            ok=True,
            detail="nobody finds out what became of a payment that the facilitator cannot tell of",
            remedy="set BAROGRAPH_X402_CHAIN_URL, or settle and fail such payments by hand with "
            "`barograph payments`",
        )
    return Finding("payments", ok=True, detail="the chain tells what the facilitator cannot")
