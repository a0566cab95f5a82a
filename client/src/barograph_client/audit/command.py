"""The command `barograph-audit`, which is also `barograph audit` of the service."""

import asyncio
import json
import re
import sys
import traceback
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from barograph_client.audit.logs import AuditedLog, audit_log
from barograph_client.audit.notes import LOG_KEY, parse_key, parse_policy
from barograph_client.audit.stance import ProvenStance, check_stance
from barograph_client.audit.trust import Trusted, read_kept, readable
from barograph_client.clients import AsyncBarograph
from barograph_client.decode import to_builtins
from barograph_client.errors import (
    ClientError,
    Contradiction,
    InvalidAnswer,
    NotAudited,
    Refused,
    Unreachable,
)
from barograph_client.reads import Patience

T = TypeVar("T")
Connect = Callable[[str], AsyncBarograph]

SHOWN = 20
FINE, CONTRADICTION, NOT_FINISHED, INTERRUPTED = 0, 1, 2, 130
CONNECT: Connect = partial(AsyncBarograph, patience=Patience(tries=10, seconds=300))
DESCRIPTION = """\
Check everything that a service has logged, from outside: its signatures, every
entry and every tile of its log, the text of every event, and the lists of stances.
A key counts only for the log that it names (its origin). Without --key or --kept,
the command trusts the key that the service shows today, if its origin is URL.

exit codes:
  0  no contradiction found
  1  a contradiction, which the message names
  2  the command line is wrong, or the audit could not be finished: this says
     nothing about the service
"""
EXAMPLES = """\
examples:
  {prog} https://barograph.example --save kept.json
  {prog} https://barograph.example --kept kept.json --save kept.json
  {prog} https://barograph.example --policy policy.txt --json
  {prog} --stance stance.json --proof stance.tlog-proof --key VKEY
"""
NO_WITNESSES = "Cosignatures were not checked: name the witnesses that you trust with --policy."
NOT_PROVEN = (
    "This does not prove that a stance was right, or that others see the same log. Keep the "
    "checkpoint with --save, and compare it with someone else's. See {url}/record#trust"
)


def main(
    arguments: Sequence[str] | None = None,
    prog: str = "barograph-audit",
    connect: Connect = CONNECT,
) -> int:
    """Run the command and return its exit code."""
    options = _parse(arguments, prog)
    try:
        return _show(options, *_outcome(options, connect))
    except (KeyboardInterrupt, BrokenPipeError):
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - Python would exit with 1, as for a contradiction
        traceback.print_exc()
        return NOT_FINISHED


def _outcome(options: Namespace, connect: Connect) -> tuple[int, dict[str, Any]]:
    started, found = monotonic(), dict[str, Any]()
    try:
        found = _run(options, connect)
        code, verdict = FINE, "no contradiction found"
    except Contradiction as error:
        found = {"message": str(error), "checkpoints": error.notes}
        code, verdict = CONTRADICTION, "contradiction"
    except ClientError as error:
        found = {"message": str(error)}
        code, verdict = NOT_FINISHED, "not finished"
    finally:
        _show_progress(0)
    return code, {"verdict": verdict, **found, "seconds": round(monotonic() - started, 1)}


def _show(options: Namespace, code: int, outcome: dict[str, Any]) -> int:
    if options.json:
        print(json.dumps(to_builtins(outcome)))  # noqa: T201
    else:
        for line in _lines(outcome, options):
            shown = "".join(each if each.isprintable() else "?" for each in line)
            file = sys.stderr if code else sys.stdout
            encoding = file.encoding or "utf-8"  # it may lack characters
            print(shown.encode(encoding, "backslashreplace").decode(encoding), file=file)
    return code


def _parse(arguments: Sequence[str] | None, prog: str) -> Namespace:
    parser = ArgumentParser(
        prog,
        description=DESCRIPTION,
        epilog=EXAMPLES.format(prog=prog),
        formatter_class=RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="the address of the service")
    add("--kept", type=Path, metavar="FILE", help="compare with the checkpoint in this file")
    add("--key", action="append", default=[], metavar="VKEY", help="trust this key; repeatable")
    add("--policy", type=Path, metavar="FILE", help="require cosignatures by this tlog-policy")
    add("--save", type=Path, metavar="FILE", help="keep the checkpoint for the next audit")
    add("--stance", type=Path, metavar="FILE", help="check this stance offline, with --proof")
    add("--proof", type=Path, metavar="FILE", help="the tlog-proof of the stance")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    is_offline = options.stance is not None
    if (options.proof is not None) != is_offline or (options.url is None) != is_offline:
        parser.error("give either URL, or --stance with --proof")
    return options


def _run(options: Namespace, connect: Connect) -> dict[str, Any]:
    with readable("--key"):
        trusted = Trusted(tuple(parse_key(each, LOG_KEY) for each in options.key))
    if options.policy is not None:
        trusted = trusted._replace(policy=_parsed(options.policy, parse_policy))
    if options.kept is not None:
        trusted = trusted._replace(kept=_parsed(options.kept, read_kept))
    if options.stance is not None:
        proof, stance = (_parsed(file, str) for file in (options.proof, options.stance))
        return {"stance": check_stance(stance.encode(), proof, trusted)}
    log = asyncio.run(_audit(options, trusted, connect))
    if options.save is not None:
        _save(options.save, log)
    return {"log": log}


async def _audit(options: Namespace, trusted: Trusted, connect: Connect) -> AuditedLog:
    with readable("URL"):
        client = connect(options.url)
    async with client:
        try:
            return await audit_log(client, trusted, _show_progress)
        except (Unreachable, InvalidAnswer, Refused) as error:
            raise NotAudited(f"{_without_password(options.url)}: {error}") from error


def _without_password(url: str) -> str:
    return re.sub("//[^/]*@", "//", url.rstrip("/"))


def _save(file: Path, log: AuditedLog) -> None:
    """Replace what was kept: the log covers everything that kept checkpoints of earlier logs do."""
    try:
        draft = file.with_name(f".{file.name}.new")
        kept = {"checkpoint": log.checkpoint, "verifier": log.key}
        draft.write_text(json.dumps(kept, indent=1), "utf-8")
        draft.replace(file)
    except OSError as error:
        raise NotAudited(f"{file} can't be written ({error.strerror})") from error


def _parsed(file: Path, parse: Callable[[str], T]) -> T:
    try:
        with readable(str(file)):
            return parse(file.read_bytes().decode())
    except OSError as error:
        raise NotAudited(f"{file} can't be read ({error.strerror})") from error


def _lines(outcome: dict[str, Any], options: Namespace) -> Iterator[str]:
    if "message" in outcome:
        yield f"{outcome['verdict']}: {outcome['message']}"
        for note in outcome.get("checkpoints", ()):
            yield from ("", *note.splitlines())
        return
    if "stance" in outcome:
        yield _stance_line(outcome["stance"])
        if options.policy is None:
            yield NO_WITNESSES
        return
    yield from _audit_lines(outcome, options)


def _audit_lines(outcome: dict[str, Any], options: Namespace) -> Iterator[str]:
    log: AuditedLog = outcome["log"]
    yield _log_line(log, has_kept=options.kept is not None)
    yield f"No contradiction found ({outcome['seconds']} seconds, {log.requests} requests)."
    if log.key_from == "the service":
        yield (
            "You named no key, so the audit trusted the one that the service shows today. Compare "
            f"it with another source: {log.key}"
        )
    if not log.witnesses:
        yield NO_WITNESSES
    yield NOT_PROVEN.format(url=_without_password(options.url))


def _log_line(log: AuditedLog, *, has_kept: bool) -> str:
    newest = f", newest entry at {log.newest_at}" if log.newest_at else ""
    parts = [
        f"size {log.size}, root {log.root[:16]}…{newest}",
        f"origin {log.origin}",
        f"signed by a key from {log.key_from}",
    ]
    if log.witnesses:
        times = ", ".join(f"{name} {at}" for name, at in log.cosigned.items())
        parts.append(f"cosigned by {len(log.cosigned)} of {log.witnesses} ({times})")
    if log.kept_size is not None:
        parts.append(f"unchanged up to the size {log.kept_size} that you kept")
    elif has_kept:
        parts.append("not in your kept file")
    if log.kept_lists:
        lists = ", ".join(f"{name} {size}" for name, size in log.kept_lists.items())
        parts.append(f"earlier logs that you kept, unchanged up to their sizes: {lists}")
    if log.texts or log.removed:
        parts.append(f"texts: {log.texts} match, {len(log.removed)} removed")
    if log.removed:
        some = ", ".join(map(str, log.removed[:SHOWN]))
        parts.append(f"removed: events {some}{', …' if len(log.removed) > SHOWN else ''}")
    return "; ".join((*parts, f"tiles {log.tiles}, requests {log.requests}"))


def _stance_line(stance: ProvenStance) -> str:
    cosigned = f", cosigned by {', '.join(stance.cosigned)}" if stance.cosigned else ""
    return (
        f"The leg, salt and times of the stance are those of sequence {stance.sequence} of "
        f"{stance.kind}, as recorded, in a signed checkpoint of {stance.origin} with {stance.size} "
        f"entries{cosigned}."
    )


def _show_progress(requests: int) -> None:
    if sys.stderr.isatty():
        shown = f"{requests} requests" if requests else ""
        print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True)  # noqa: T201


def run() -> None:
    """Run the command as a program."""
    sys.exit(main())
