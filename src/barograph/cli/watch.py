"""`barograph watch`: the newest stances of a service, and what changed, as a subscriber sees it."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from barograph.cli.stances import KINDS

if TYPE_CHECKING:
    from barograph.client import Subscriber
    from barograph.client.subscriber import Event
    from barograph.client.wire import Assessment, TapeEntry

    Show = Callable[[Sequence[TapeEntry], Sequence[Event]], None]

TOKEN = "FEED_TOKEN"  # noqa: S105  the name of a variable
"""Not named as the settings are: those are the service's, and this is its reader's."""

LONGEST = 86_400
NOT_FOUND = 404


class WatchEnded(click.ClickException):
    """The end of a watch, with an exit code that tells why.

    The codes go on from those of every command, where 2 is a wrong command line and 3 a wrong
    configuration: here a token that cannot be read, or is none.
    """

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it in one line, as every command does."""
        click.echo(f"barograph: {self.message}", file=file, err=file is None)


class NoService(WatchEnded):
    """The first look found no service at the address that was given."""

    exit_code = 2


class Unanswered(WatchEnded):
    """The only look found out nothing; another one later may."""

    exit_code = 4


class Refused(WatchEnded):
    """The service refuses the token, now and later."""

    exit_code = 5


@click.command()
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind; repeatable."
)
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="The service.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the access token, read anew each time (or {TOKEN} in the environment).",
)
@click.option(
    "--references",
    type=click.Path(dir_okay=False, path_type=Path),
    default="references.json",
    show_default=True,
    help="File that keeps what was seen, to compare the next version with.",
)
@click.option(
    "--interval",
    type=click.IntRange(1, LONGEST),
    default=60,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Look once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def watch(
    kinds: tuple[str, ...],
    url: str,
    token_file: Path | None,
    references: Path,
    interval: int,
    once: bool,
    as_json: bool,
) -> None:
    """Follow the stances of a service with a subscriber's token, and compare each new version.

    It ends when the token does not open Feed. It never pays.

    \b
    Exit codes:
      0  looked once, or stopped with Ctrl-C or because nobody reads any more
      1  the references cannot be read or kept
      2  the command line is wrong, or no service is at that address (404)
      3  there is no token that can be read, or what is there is none
      4  --once: no answer, or none for now (429, 5xx); try again later
      5  the service refuses the token (401, 402, 404); trying again is of no use

    \b
    Examples:
      barograph demo token --tier feed > token
      barograph watch --token-file token --kind rates-desk
      barograph watch --token-file token --once --json
    """
    from barograph.client import Barograph, ReferenceFile, Subscriber

    bearer = token_reader(token_file)
    bearer()  # a token that cannot be read is told before anything is asked
    try:
        client = Barograph(url, bearer=bearer)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error
    with client:
        subscriber = Subscriber(client, ReferenceFile(references), kinds or None)
        try:
            follow(subscriber, _show(as_json), interval=None if once else interval)
        except KeyboardInterrupt:
            return  # that is how it is stopped
        except BrokenPipeError:
            _drop_output()  # and that is how `head` stops it


def follow(
    subscriber: "Subscriber",
    show: "Show",
    *,
    interval: float | None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Look again and again, and show what is new; once without an interval.

    Raises:
        Refused: the token does not open Feed.
        NoService: nobody knew the address at the first look.
        Unanswered: the only look found out nothing.
        BarographError: the references cannot be kept.
    """
    from barograph.client.errors import ClientError
    from barograph.client.subscriber import Later, Stopped
    from barograph.errors import BarographError

    tape: Sequence[TapeEntry] = ()
    told: Sequence[Event] | None = None
    while True:
        try:
            events = subscriber.look()
        except (ClientError, ValueError) as error:
            raise BarographError(str(error)) from error
        is_new = subscriber.tape != tape
        before = told or ()
        show(subscriber.tape if is_new else (), [each for each in events if each not in before])
        for event in events:
            if isinstance(event, Stopped):
                raise Refused(f"{_plain(event.message)} ({event.status})")
        pauses = [each for each in events if isinstance(each, Later)]
        if told is None and any(each.kind is None and each.status == NOT_FOUND for each in pauses):
            raise NoService(f"no service is at that address ({NOT_FOUND})")
        tape, told = subscriber.tape, events
        if interval is None and pauses:
            raise Unanswered(_plain(pauses[0].message))
        if interval is None:
            return
        asked_for = [each.retry_after for each in pauses if each.retry_after is not None]
        sleep(min(LONGEST, max([interval, *asked_for])))


def token_reader(file: Path | None) -> Callable[[], str]:
    """Gives the present token; a file may be replaced by a newer one at any time."""
    from barograph.errors import ConfigurationError

    last = ""

    def read() -> str:
        nonlocal last
        try:
            text = os.environ.get(TOKEN, "") if file is None else file.read_text("ascii")
        except (OSError, UnicodeError) as error:
            if last:
                return last  # it is being replaced
            raise ConfigurationError(f"{file} cannot be read as a token") from error
        text = text.strip()
        if text and not _is_token(text) and not last:
            place = TOKEN if file is None else file
            raise ConfigurationError(f"{place} holds something else than one token")
        last = text if _is_token(text) else last
        if not last:
            raise ConfigurationError(
                f"there is no access token: give a file with --token-file, or set {TOKEN} "
                "(`barograph demo token --tier feed` prints one of the demo)"
            )
        return last

    return read


def _is_token(text: str) -> bool:
    """Whether it can be a bearer token: one word of visible characters."""
    return text.isascii() and text.isprintable() and len(text.split()) == 1


def _drop_output() -> None:
    """Let go of what could not be written: at the end Python would try again, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(as_json: bool) -> "Show":
    if as_json:
        return _show_json
    return _show_rich if sys.stdout.isatty() else _show_plain


def _show_json(tape: "Sequence[TapeEntry]", events: "Sequence[Event]") -> None:
    import msgspec

    for each in (*({"event": "stance", "stance": entry} for entry in tape), *events):
        click.echo(msgspec.json.encode(each))


def _show_plain(tape: "Sequence[TapeEntry]", events: "Sequence[Event]") -> None:
    for entry in tape:
        click.echo("  ".join(_cells(entry)))
    for line in _lines(events):
        click.echo(line)


def _show_rich(tape: "Sequence[TapeEntry]", events: "Sequence[Event]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if tape:
        table = Table("kind", "state", "issued", "leg", "revision", "record")
        for entry in tape:
            table.add_row(*(Text(cell) for cell in _cells(entry)))
        console.print(table)
    for line in _lines(events):
        console.print(Text(line), soft_wrap=True)


def _cells(entry: "TapeEntry") -> tuple[str, ...]:
    record = "on record" if entry.history_durable else "not on record"
    texts = (entry.kind, entry.state, entry.issued_at, entry.leg_id)
    return (*map(_plain, texts), f"revision {entry.revision}", record)


def _lines(events: "Iterable[Event]") -> Iterator[str]:
    from barograph.client.subscriber import Compared, Kept, Later, NotComparable, Skipped

    for event in events:
        match event:
            case Kept(kind):
                yield f"{_plain(kind)}: kept, to be compared with the next version"
            case Skipped(kind, _, revision):
                yield f"{_plain(kind)}: revision {revision} is not on record, skipped"
            case NotComparable(kind):
                yield f"{_plain(kind)}: no pair to compare; going on from the newest version"
            case Later(message):
                yield f"later: {_plain(message)}"
            case Compared(kind, comparison):
                yield from _assessed(_plain(kind), comparison.assessment)


def _assessed(kind: str, assessment: "Assessment") -> Iterator[str]:
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
    """Text that cannot move a terminal's cursor, whoever sent it."""
    return text if text.isprintable() else repr(text)
