"""`python -m benchmarks`: measure the service and print one table. Nothing is saved."""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import (
    backup,
    badges,
    charts,
    comparison,
    event_stream,
    first_start,
    floods,
    footprint,
    hot_reads,
    ledger,
    logs,
    mcp,
    metrics,
    nginx,
    pages,
    pauses,
    payments,
    perpetuals,
    postgresql,
    rate_limits,
    readers,
    series,
    signals_and_badges,
    snapshot,
    tokens,
    upstream_calls,
    venues,
)
from benchmarks.load import require_wrk
from benchmarks.plan import ROUNDS, Plan, full, quick
from benchmarks.processes import BenchmarkFailed
from benchmarks.table import Section, render

SUBJECTS: tuple[Callable[[Plan, Path], Section], ...] = (
    hot_reads.measure,
    metrics.measure,
    nginx.measure,
    signals_and_badges.measure,
    mcp.measure,
    badges.measure,
    pages.measure,
    perpetuals.measure,
    charts.measure,
    series.measure,
    floods.measure,
    pauses.measure,
    event_stream.measure,
    rate_limits.measure,
    upstream_calls.measure,
    venues.measure,
    snapshot.measure,
    ledger.measure,
    logs.measure,
    comparison.measure,
    tokens.measure,
    payments.measure,
    postgresql.measure,
    readers.measure,
    backup.measure,
    footprint.measure,
    first_start.measure,
)


def main() -> None:
    """Measure everything, one subject after the other."""
    options = _options()
    plan = quick(options.rounds) if options.quick else full(options.rounds)
    chosen = [each for each in SUBJECTS if not options.only or _name(each) in options.only]
    # A signal must also end the child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        require_wrk()
        sections = [_measure(subject, plan) for subject in chosen]
    except BenchmarkFailed as failure:
        sys.exit(f"benchmarks: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{_heading(plan)}\n\n{render(sections)}\n")
    print(f"{_verdict(sections)} Measured in {time.monotonic() - started:.0f} s.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=_positive, help=f"rounds per comparison ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a coarse run of about 3 minutes")
    names = [_name(subject) for subject in SUBJECTS]
    parser.add_argument("--only", nargs="+", choices=names, help="measure only these")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be an integer from 1 up")
    return int(text)


def _measure(subject: Callable[[Plan, Path], Section], plan: Plan) -> Section:
    print(f"measuring {_name(subject)}", file=sys.stderr)
    with TemporaryDirectory(prefix="barograph-benchmark-", ignore_cleanup_errors=True) as folder:
        return subject(plan, Path(folder))


def _name(subject: Callable[[Plan, Path], Section]) -> str:
    return subject.__module__.removeprefix("benchmarks.")


def _heading(plan: Plan) -> str:
    return (
        f"Barograph, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {os.cpu_count()} cores, load "
        f"{os.getloadavg()[1]:.1f}, Python {platform.python_version()}, {plan.rounds} rounds"
    )


def _verdict(sections: list[Section]) -> str:
    figures = [figure for section in sections for figure in section.figures]
    missed = [figure.name.strip() for figure in figures if figure.met is False]
    return f"Not met: {', '.join(missed)}." if missed else "Every target is met."


if __name__ == "__main__":
    main()
