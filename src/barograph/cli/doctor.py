"""`barograph doctor`: check what a live instance needs, one line per check."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click

from barograph.cli import doctor_databases as databases
from barograph.cli import doctor_machine as machine
from barograph.cli import doctor_services as services
from barograph.cli.common import data_option, served_settings
from barograph.cli.diagnosis import (
    Check,
    Diagnosis,
    command,
    explain_failure,
    explained,
    failed,
    host_of,
    note,
    open_problem,
)
from barograph.collector.app import ADAPTERS
from barograph.errors import BarographError, ConfigurationError, UpstreamError
from barograph.identity.provider import IdentityUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.logs import configure_logs
from barograph.payments.records import ChainUnavailable
from barograph.settings import PREFIX, VENUE_SETTINGS, Settings
from barograph.terms.sources import SETTING, Unconfirmed
from barograph.terms.store import unconfirmed_sources, without_unconfirmed
from barograph.upstream.identity_providers import DISCOVERY, KEYS_PATH
from barograph.venues.registry import VENUES

CHECK_SECONDS = 50.0
"""The timeout of one check. All run at once, so this limits the command too. The Treasury may take
45 seconds."""

COLOURS = {"ok": "green", "note": "yellow", "fail": "red"}

CONFIRMED: Final = Unconfirmed(())

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """A row of the table of checks: one line. Most fields are about a service that is asked."""

    run: Check
    setting: str = ""
    """The setting with the service's address."""

    remedies: str | Mapping[str, str] = ""
    """What to do if the service fails, perhaps by the kind of the failure."""

    page: str | Callable[[Settings], str] = ""
    """The path where a sign-in page may answer instead of the service."""

    applies: Callable[[Settings], object] = lambda _: True
    otherwise: str | None = None
    """The note if the check doesn't apply; None for no line."""

    source: str = ""
    """The source whose terms must be confirmed before it is read."""

    ask: Check | None = None
    """What may be asked of a source that is not read; without it, only a connection is opened."""

    address: Callable[[Settings], str] | None = None
    """The service's address, if it is not that of `setting`."""

    def address_of(self, settings: Settings) -> str:
        """The service's address."""
        if self.address is not None:
            return self.address(settings)
        return str(getattr(settings, self.setting)).rstrip("/")


def _venue(name: str) -> Row:
    return Row(
        partial(services.check_venue, name),
        VENUE_SETTINGS.get(name, "venue_urls"),
        _VENUE_REMEDIES,
        ADAPTERS[name].time_path,
        lambda settings: name in settings.venue_names,
        "not configured; {detail} -> to read it, add it to BAROGRAPH_VENUES; docs/venues.md says "
        "what it publishes",
        source=name,
        ask=partial(services.check_venue, name, is_read=False),
        address=ADAPTERS[name].rest_url,
    )


def _stream(name: str) -> Row:
    return Row(
        partial(services.check_stream, name),
        applies=lambda it: name in it.venue_names,
        source=name,
        address=partial(services.stream_url, name),
    )


def _publisher(name: str, source: str, setting: str, *prefixes: str) -> Row:
    address = f"{name}_url"
    return Row(
        partial(services.check_publisher, prefixes),
        address,
        {kind: remedy.format(setting=setting) for kind, remedy in _PUBLISHER_REMEDIES.items()},
        applies=lambda it: getattr(it, address) or (name == "etf" and it.etf_file is not None),
        otherwise=f"not configured -> set {setting}",
        source=source,
    )


_VENUE_REMEDIES: Final = {
    "throttled": "wait; other programs at this IP address may use up the venue's rate limit",
    "unreachable": "wait; the collector retries",
    "invalid reply": "synchronise this machine's clock if the line `clock` fails, or check "
    "{setting}",
    "": "check {setting}",
}
_PUBLISHER_REMEDIES: Final = {
    "refused": "the publisher blocks this IP address, as many do for data centres: try another "
    "network",
    "throttled": "wait; the collector retries",
    "unreachable": "wait; the collector retries",
    "not found": "the publisher moved the file: check {setting}",
    "": "open {setting} in a browser here: a sign-in page or a filter may answer, or the publisher "
    "changed the file",
}
CHECKS: Final = {
    "port": Row(machine.check_port),
    "sqlite": Row(machine.check_sqlite),
    "disk": Row(machine.check_disk),
    "secrets": Row(databases.check_secrets),
    "database": Row(databases.check_database),
    "history": Row(databases.check_history),
    "collector": Row(databases.check_collector),
    "guides": Row(machine.check_guides),
    "limits": Row(machine.check_limits),
    "terms": Row(partial(machine.check_terms, CONFIRMED)),
    **{name: _venue(name) for name in VENUES},
    **{f"{name}-stream": _stream(name) for name, venue in VENUES.items() if venue.stream},
    "clock": Row(services.check_clock),
    "treasury": _publisher("treasury", "treasury", f"{PREFIX}RATES_URL", "treasury"),
    "nyfed": _publisher("nyfed", "nyfed", f"{PREFIX}RATES_URL", "sofr", "effr"),
    "etf": _publisher("etf", "ishares", f"{PREFIX}ETF_URL", "etf-"),
    "identity": Row(
        services.check_identity,
        "identity_url",
        "check BAROGRAPH_IDENTITY_URL and BAROGRAPH_IDENTITY_API_KEY; if they are right, wait",
        lambda it: f"/auth/v1{KEYS_PATH}" if it.identity == "supabase" else DISCOVERY,
        lambda it: it.identity != "none",
        "not configured: no bearer token is accepted",
    ),
    "facilitator": Row(
        services.check_facilitator,
        "x402_facilitator_url",
        "check BAROGRAPH_X402_FACILITATOR_URL and its credentials; if they are right, wait",
        "/supported",
        lambda it: it.takes_payments,
        "not configured: nothing is sold by x402",
    ),
    "chain": Row(
        services.check_chain,
        "x402_chain_url",
        "check BAROGRAPH_X402_CHAIN_URL, BAROGRAPH_X402_NETWORK and BAROGRAPH_X402_ASSET",
        applies=lambda it: it.takes_payments,
        otherwise="not configured: nothing is sold by x402",
    ),
    "mail": Row(
        services.check_mail,
        applies=lambda it: it.sends_mail,
        otherwise="not configured: create keys with `barograph keys create`",
    ),
    "witnesses": Row(services.check_witnesses),
}
"""Every check by its name, in the order of their lines."""


@click.command()
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def doctor(data: Path | None, as_json: bool) -> None:
    """Check what could keep this instance from working.

    Checks this machine, which exchanges answer from here, and every configured service: the
    publishers of daily figures, the identity provider, payments and the mail server. docs/doctor.md
    explains each line and the exit codes.

    \b
    Example:
      barograph doctor --json
    """
    configure_logs("error")
    results = asyncio.run(_print_all(served_settings(data), as_json=as_json))
    sys.exit(1 if any(result.status == "fail" for result in results) else 0)


async def _print_all(settings: Settings, *, as_json: bool) -> list[Diagnosis]:
    """Print each result as soon as it and those before it are known; JSON at the end."""
    results = []
    async for result in examine(settings):
        results.append(result)
        if not as_json:
            click.echo(_line(result))
    if as_json:
        listed = [result._asdict() | {"ok": result.status != "fail"} for result in results]
        click.echo(json.dumps(listed))
    return results


def _line(result: Diagnosis) -> str:
    label = "FAIL" if result.status == "fail" else result.status
    mark = click.style(f"{label:<4}", fg=COLOURS[result.status])
    remedy = f" -> {result.remedy}" if result.remedy else ""
    text = f"{result.name}: {result.detail}{remedy}"
    # Parts come from other servers and must not control the terminal.
    return f"{mark} " + "".join(letter if letter.isprintable() else "?" for letter in text)


async def examine(settings: Settings) -> AsyncIterator[Diagnosis]:
    """Run every check at once, and yield the results in order."""
    unconfirmed = unconfirmed_sources(settings)
    rows = CHECKS | {"terms": Row(partial(machine.check_terms, unconfirmed))}
    tasks = [
        asyncio.create_task(run_check(name, row, settings, unconfirmed))
        for name, row in rows.items()
        if row.otherwise is not None or row.applies(settings)
    ]
    for task in tasks:
        yield await task


async def run_check(
    name: str,
    row: Row,
    settings: Settings,
    unconfirmed: Unconfirmed = CONFIRMED,
    seconds: float = CHECK_SECONDS,
) -> Diagnosis:
    """Run one check; it gets a line even if it takes too long or has a bug."""
    try:
        result = await asyncio.wait_for(_run(row, settings, unconfirmed), seconds)
    except TimeoutError:
        result = failed(f"no result within {seconds:.0f} s -> check the network")
    except ConfigurationError as error:
        result = explained(error)
    except DatabaseUnavailable as error:
        result = note(f"not checked, because {error} -> see the line `database`")
    except Exception as error:
        log.exception("check failed", extra={"check": name})
        # Only the name: the text may hold an address with a key.
        kind = type(error).__name__
        result = failed(f"the check itself failed ({kind}) -> report this as a bug")
    return result._replace(name=name)


async def _run(row: Row, settings: Settings, unconfirmed: Unconfirmed) -> Diagnosis:
    used = without_unconfirmed(settings, unconfirmed)
    is_read, applies = row.source not in unconfirmed.names, row.applies(settings)
    if is_read and applies:
        return await _explained(row, row.run, used)
    if row.ask is not None:
        asked = await _explained(row, row.ask, settings)
        if not applies:
            result = note((row.otherwise or "").format(detail=asked.detail))
            return result if asked.status == "ok" else result._replace(remedy="")
        if asked.status != "ok":
            return asked
    elif not applies:
        return note(row.otherwise or "")
    elif problem := await open_problem(row.address_of(settings)):
        detail = f"not read, because its terms are not confirmed; {problem.detail}"
        return problem._replace(status="note", detail=detail)
    remedy = (
        f"read its terms (`{command('terms list', settings)}`), then add {row.source} to {SETTING}"
    )
    return note(f"it answers, but is not read, because its terms are not confirmed -> {remedy}")


async def _explained(row: Row, check: Check, settings: Settings) -> Diagnosis:
    """Run a check, and explain a failure of the service that it asks."""
    try:
        return await check(settings)
    except (UpstreamError, IdentityUnavailable, ChainUnavailable) as error:
        return await _explain(row, error, settings)


async def _explain(row: Row, error: BarographError, settings: Settings) -> Diagnosis:
    remedies, address = row.remedies, row.address_of(settings)
    if not isinstance(remedies, str):
        remedies = remedies.get(getattr(error, "kind", ""), remedies[""])
    page = row.page if isinstance(row.page, str) else row.page(settings)
    remedy = remedies.format(setting=PREFIX + row.setting.upper())
    return await explain_failure(error, host_of(address), remedy, page and address + page)
