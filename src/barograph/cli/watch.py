"""`barograph watch`: follow the stances of a service as a subscriber."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from barograph.cli import drop_output
from barograph.errors import BarographError, ConfigurationError
from barograph.history.records import KINDS
from barograph_client import Barograph, ReferenceFile, Subscriber
from barograph_client.decode import to_builtins
from barograph_client.errors import ClientError
from barograph_client.records import Assessment, TapeEntry
from barograph_client.subscriber import (
    Compared,
    Event,
    Kept,
    Later,
    NotComparable,
    Skipped,
    Stopped,
)

Show = Callable[[Sequence[TapeEntry], Sequence[Event]], None]

TOKEN = "FEED_TOKEN"  # noqa: S105  the name of a variable
"""Without the prefix of the settings, which configure the service and not its readers."""

LONGEST = 86_400
NOT_FOUND = 404


NO_SERVICE, NO_ANSWER, TOKEN_REFUSED = 2, 4, 5
"""Exit codes. Every command uses 2 for a wrong command line and 3 for a wrong configuration, such
as an unreadable token."""


class WatchEnded(click.ClickException):
    """The end of a watch. The exit code says why."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one line, as every command does."""
        click.echo(f"barograph: {self.message}", file=file, err=file is None)


@click.command()
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind; repeatable."
)
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="The service.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the access token, read before each poll. Default: the variable {TOKEN}.",
)
@click.option(
    "--references",
    type=click.Path(dir_okay=False, path_type=Path),
    default="references.json",
    show_default=True,
    help="File that keeps the references to compare the next version with.",
)
@click.option(
    "--interval",
    type=click.IntRange(1, LONGEST),
    default=60,
    show_default=True,
    help="Seconds between polls.",
)
@click.option("--once", is_flag=True, help="Poll once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def watch(
    kinds: tuple[str, ...],
    url: str,
    token_file: Path | None,
    references: Path,
    interval: int,
    once: bool,
    as_json: bool,
) -> None:
    """Follow the stances of a service and print a comparison for each new version.

    You need a Feed token. The command exits if the token doesn't give access to Feed. It
    never pays.

    \b
    Exit codes:
      0  polled once, or stopped by Ctrl-C or a closed pipe
      1  the file of references can't be read or written
      2  the command line is wrong, or there is no service at --url (404)
      3  there is no readable token
      4  with --once: no answer, or 429 or 5xx; retry later
      5  the service refuses the token (401, 402, 404); retrying won't help

    \b
    Examples:
      barograph demo token --tier feed > token
      barograph watch --token-file token --kind rates-desk
      barograph watch --token-file token --once --json
    """
    bearer = token_reader(token_file)
    bearer()  # fail on an unreadable token before sending a request
    try:
        client = Barograph(url, bearer=bearer)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error
    with client:
        subscriber = Subscriber(client, ReferenceFile(references), kinds or None)
        try:
            follow(subscriber, _show(as_json), interval=None if once else interval)
        except KeyboardInterrupt:
            return
        except BrokenPipeError:
            drop_output()


def follow(
    subscriber: Subscriber,
    show: Show,
    *,
    interval: float | None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Look at the feed every `interval` seconds and show what is new; once without an interval.

    Raises:
        WatchEnded: the token doesn't give access to Feed, the first look got 404, or a single look
            got no answer.
        BarographError: the file of references can't be read or written.
    """
    tape: Sequence[TapeEntry] = ()
    seen: Sequence[Event] | None = None
    while True:
        try:
            events = subscriber.look()
        except (ClientError, ValueError) as error:
            raise BarographError(str(error)) from error
        is_new = subscriber.tape != tape
        before = seen or ()
        show(subscriber.tape if is_new else (), [event for event in events if event not in before])
        for event in events:
            if isinstance(event, Stopped):
                raise WatchEnded(f"{_plain(event.message)} ({event.status})", TOKEN_REFUSED)
        pauses = [event for event in events if isinstance(event, Later)]
        if seen is None and any(it.kind is None and it.status == NOT_FOUND for it in pauses):
            missing = f"there is no service at that address ({NOT_FOUND}): check --url"
            raise WatchEnded(missing, NO_SERVICE)
        tape, seen = subscriber.tape, events
        if interval is None and pauses:
            raise WatchEnded(_plain(pauses[0].message), NO_ANSWER)
        if interval is None:
            return
        asked_for = [it.retry_after for it in pauses if it.retry_after is not None]
        sleep(min(LONGEST, max([interval, *asked_for])))


def token_reader(file: Path | None) -> Callable[[], str]:
    """Return a function that reads the current token; the file may be replaced at any time."""
    last = ""

    def read() -> str:
        nonlocal last
        try:
            text = os.environ.get(TOKEN, "") if file is None else file.read_text("ascii")
        except (OSError, UnicodeError) as error:
            if last:
                return last  # the file is being replaced
            raise ConfigurationError(f"can't read a token from {file}") from error
        text = text.strip()
        if text and not _is_token(text) and not last:
            place = TOKEN if file is None else file
            raise ConfigurationError(f"{place} must hold one token and nothing else")
        last = text if _is_token(text) else last
        if not last:
            raise ConfigurationError(
                f"no access token: name a file with --token-file or set {TOKEN} "
                "(`barograph demo token --tier feed` prints one for the demo)"
            )
        return last

    return read


def _is_token(text: str) -> bool:
    """Whether the text can be a bearer token: one word of visible characters."""
    return text.isascii() and text.isprintable() and len(text.split()) == 1


def _show(as_json: bool) -> Show:
    if as_json:
        return _show_json
    return _show_rich if sys.stdout.isatty() else _show_plain


def _show_json(tape: Sequence[TapeEntry], events: Sequence[Event]) -> None:
    for shown in (*({"event": "stance", "stance": entry} for entry in tape), *events):
        click.echo(json.dumps(to_builtins(shown), ensure_ascii=False, separators=(",", ":")))


def _show_plain(tape: Sequence[TapeEntry], events: Sequence[Event]) -> None:
    for entry in tape:
        click.echo("  ".join(_cells(entry)))
    for line in _lines(events):
        click.echo(line)


def _show_rich(tape: Sequence[TapeEntry], events: Sequence[Event]) -> None:
    console = Console()
    if tape:
        table = Table("kind", "state", "issued", "leg", "revision", "record")
        for entry in tape:
            table.add_row(*(Text(cell) for cell in _cells(entry)))
        console.print(table)
    for line in _lines(events):
        console.print(Text(line), soft_wrap=True)


def _cells(entry: TapeEntry) -> tuple[str, ...]:
    record = "on record" if entry.history_durable else "not on record"
    texts = (entry.kind, entry.state, entry.issued_at, entry.leg_id)
    return (*map(_plain, texts), f"revision {entry.revision}", record)


def _lines(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        match event:
            case Kept(kind):
                yield f"{_plain(kind)}: kept; the next version will be compared with it"
            case Skipped(kind, _, revision):
                yield f"{_plain(kind)}: revision {revision} is not on record, skipped"
            case NotComparable(kind):
                yield f"{_plain(kind)}: nothing to compare; continuing from the newest version"
            case Later(message):
                yield f"later: {_plain(message)}"
            case Compared(kind, comparison):
                yield from _assessed(_plain(kind), comparison.assessment)


def _assessed(kind: str, assessment: Assessment) -> Iterator[str]:
    if assessment.change is None:
        yield f"{kind}: abstained ({_plain(', '.join(assessment.reasons))})"
        return
    yield f"{kind}: {_plain(assessment.change)}"
    decisions = assessment.recorded_decisions
    if decisions is not None:
        before, after = decisions.before, decisions.after
        yield f"  decision: {_plain(before.label)} -> {_plain(after.label)} (by {_plain(after.by)})"
    for change in assessment.numeric_changes:
        weight = "material" if change.material else "not material"
        sides = f"{_figure(change.before)} -> {_figure(change.after)}"
        yield f"  {_plain(change.path)}: {sides} {_plain(change.unit)} ({weight})"


def _figure(value: object) -> str:
    return f"{value:,.15g}" if isinstance(value, float) else "absent"


def _plain(text: str) -> str:
    """Text without control characters, which could move a terminal's cursor."""
    return text if text.isprintable() else repr(text)
