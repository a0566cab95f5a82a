"""`barograph macro`: imports earlier days of a BTC ETF from an operator's file."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from barograph.cli.common import echo, json_option, run_on_database, settings_option
from barograph.errors import InvalidReply, Unreachable, UpstreamError
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction
from barograph.macro.evidence import day_of
from barograph.macro.records import Figure, imported_source
from barograph.macro.store import etf_series, import_figures, latest_figures
from barograph.settings import Settings
from barograph.upstream.etf import InvalidLines, decode_history, read_operator_file

MAX_PROBLEMS = 20
MAX_SOURCE = 200
EVERY_DAY = 100_000
"""More days than any fund has."""


def _one_line(_context: click.Context, _option: click.Parameter, text: str) -> str:
    # A semicolon separates sources where several are published together.
    if len(text) > MAX_SOURCE or not text.isprintable() or ";" in text:
        raise click.BadParameter(
            f"it must be one line of at most {MAX_SOURCE} characters without ;"
        )
    return text.strip()


@click.group()
def macro() -> None:
    """Import earlier days of a BTC ETF.

    \b
    Example:
      barograph macro import ibit.csv --dry-run
    """


@macro.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--source",
    default="",
    callback=_one_line,
    help="Where the figures come from, in at most 200 characters. It is published with them.",
)
@click.option("--dry-run", is_flag=True, help="Check the file and store nothing.")
@json_option
@settings_option
def import_history(
    file: Path, source: str, dry_run: bool, as_json: bool, settings: Settings
) -> None:
    """Import a CSV FILE with earlier days of the fund in BAROGRAPH_ETF_FUND.

    The issuer publishes only its newest day, and an ETF stance needs 20 days. FILE is UTF-8 text
    with commas, as Excel saves "CSV UTF-8". Its first line names its columns, in any order. Use one
    of these sets:

    \b
      date,shares_outstanding,holdings_btc,nav_usd
      date,shares_outstanding,holdings_btc,market_value_usd
      date,net_flow_usd,aum_usd,holdings_btc

    Write dates as 2026-01-31. Every row must be about this one fund. FILE may have at most 1 MiB.
    If a line is invalid, nothing is stored. The newest import of a day replaces the day as a whole.
    A day from the issuer's own file is never replaced. You can import while the service runs, and
    import the same file again.

    \b
    Examples:
      barograph macro import ibit.csv --dry-run
      barograph macro import ibit.csv --source "iShares fund data, downloaded by hand"
    """
    published = imported_source(source or f"{settings.etf_fund} history file")
    today = day_of(system_clock())
    try:
        figures = decode_history(read_operator_file(file), settings.etf_fund, published, today)
    except (InvalidReply, Unreachable) as error:
        _print_problems(file, error, as_json=as_json)
        raise click.exceptions.Exit(1) from error
    days = sorted({figure.day for figure in figures})
    summary = {"ok": True, "days": len(days), "first": days[0], "last": days[-1]}
    summary |= _store(settings, figures, dry_run=dry_run)
    summary |= {"source": published, "dry_run": dry_run}
    echo(summary, _in_words(file, settings.etf_fund, summary), as_json=as_json)
    if settings.etf_file is not None:
        unused = "these figures are not used while BAROGRAPH_ETF_FILE is set"
        click.echo(f"{unused}: that file replaces them", err=True)


def _in_words(file: Path, fund: str, summary: dict[str, object]) -> str:
    verb, known = ("would be", "known now") if summary["dry_run"] else ("are", "known")
    return (
        "{file}: {days} days of {fund} from {first} to {last}; {new_days} {verb} new or corrected\n"
        "{known}: {known_days} days ({coverage}); source: {source}"
    ).format(file=file.name, fund=fund, verb=verb, known=known, **summary)


def _print_problems(file: Path, error: UpstreamError, *, as_json: bool) -> None:
    problems = error.problems if isinstance(error, InvalidLines) else [str(error)]
    if as_json:
        click.echo(json.dumps({"ok": False, "problems": problems}))
        return
    for problem in problems[:MAX_PROBLEMS]:
        click.echo(f"{file.name}: {problem}", err=True)
    hidden = len(problems) - MAX_PROBLEMS
    more = f" ({hidden} more lines are invalid)" if hidden > 0 else ""
    click.echo(f"nothing was stored{more}", err=True)


def _store(settings: Settings, figures: Sequence[Figure], *, dry_run: bool) -> dict[str, object]:
    """Store what is new in one transaction; count it, and the days that are known afterwards.

    This needs no lease: figures are only ever appended, each revision once.
    """
    fund = settings.model_copy(update={"etf_file": None})

    async def work(tx: Transaction) -> dict[str, object]:
        now = system_clock()
        new = await import_figures(tx, settings.etf_fund, figures, now, dry_run=dry_run)
        series = await etf_series(fund, lambda name: latest_figures(tx, name, EVERY_DAY))
        known = {"known_days": len(series.days), "coverage": series.coverage}
        return {"new_days": len(new), **known}

    return run_on_database(
        settings, lambda database: database.read(work) if dry_run else database.write(work)
    )
