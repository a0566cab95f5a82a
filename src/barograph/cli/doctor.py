"""`barograph doctor`: check what a live instance needs, one line per check."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.common import data_option, served_settings

if TYPE_CHECKING:
    from barograph.cli.diagnosis import Check, Diagnosis
    from barograph.settings import Settings

CHECK_SECONDS = 50.0
"""The timeout of one check. All run at once, so this limits the command too. The Treasury may take
45 seconds."""

COLOURS = {"ok": "green", "note": "yellow", "fail": "red"}

log = logging.getLogger(__name__)


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
    from barograph.kit.logs import configure_logs

    configure_logs("error")
    found = asyncio.run(_print_all(served_settings(data), as_json=as_json))
    sys.exit(1 if any(each.status == "fail" for each in found) else 0)


async def _print_all(settings: "Settings", *, as_json: bool) -> "list[Diagnosis]":
    """Print each result as soon as it and those before it are known; JSON at the end."""
    found = []
    async for each in examine(settings):
        found.append(each)
        if not as_json:
            click.echo(_line(each))
    if as_json:
        click.echo(json.dumps([each._asdict() | {"ok": each.status != "fail"} for each in found]))
    return found


def _line(found: "Diagnosis") -> str:
    label = "FAIL" if found.status == "fail" else found.status
    mark = click.style(f"{label:<4}", fg=COLOURS[found.status])
    remedy = f" -> {found.remedy}" if found.remedy else ""
    text = f"{found.name}: {found.detail}{remedy}"
    # Parts come from other servers and must not control the terminal.
    return f"{mark} " + "".join(each if each.isprintable() else "?" for each in text)


async def examine(settings: "Settings") -> "AsyncIterator[Diagnosis]":
    """Run every check at once, and yield the results in order."""
    from barograph.cli import doctor_limits, doctor_local, doctor_upstreams, doctor_venues
    from barograph.terms.store import unconfirmed_sources, without_unconfirmed

    unconfirmed = unconfirmed_sources(settings)
    checks: dict[str, Check] = {
        **doctor_local.CHECKS,
        **doctor_limits.CHECKS,
        "terms": partial(doctor_local.check_terms, unconfirmed),
        **doctor_venues.venue_checks(settings, unconfirmed),
        **doctor_upstreams.CHECKS,
        **doctor_upstreams.unread_publishers(settings, unconfirmed),
    }
    used = without_unconfirmed(settings, unconfirmed)
    tasks = [asyncio.create_task(bounded(name, check(used))) for name, check in checks.items()]
    for task in tasks:
        yield await task


async def bounded(
    name: str, check: "Awaitable[Diagnosis]", seconds: float = CHECK_SECONDS
) -> "Diagnosis":
    """Run one check; it gets a line even if it takes too long or has a bug."""
    from barograph.cli.diagnosis import explained, failed, note
    from barograph.errors import ConfigurationError
    from barograph.kit.database import DatabaseUnavailable

    try:
        found = await asyncio.wait_for(check, seconds)
    except TimeoutError:
        found = failed(f"no result within {seconds:.0f} s", "check the network")
    except ConfigurationError as error:
        found = explained(error)
    except DatabaseUnavailable as error:
        found = note(f"not checked, because {error}", "see the line `database`")
    except Exception as error:
        log.exception("check failed", extra={"check": name})
        # Only the name: the text may hold an address with a key.
        kind = type(error).__name__
        found = failed(f"the check itself failed ({kind})", "report this as a bug")
    return found._replace(name=name)
