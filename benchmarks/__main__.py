"""`python -m benchmarks`: measure the service and print one table. Nothing is saved."""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import bench, load

SUBJECTS = (
    "hot_reads",
    "nginx",
    "mcp",
    "series",
    "floods",
    "pauses",
    "event_stream",
    "rate_limits",
    "venues",
    "disputes",
    "snapshot",
    "signals",
    "alerts",
    "ledger",
    "accuracy",
    "logs",
    "tokens",
    "payments",
    "postgresql",
    "readers",
    "footprint",
    "install",
    "first_start",
    "world",
    "chart",
)


def main() -> None:
    """Measure everything, one subject after the other."""
    options = _options()
    rounds = bench.QUICK_ROUNDS if options.quick else bench.ROUNDS
    plan = bench.Plan(options.rounds or rounds, not options.quick)
    chosen = [name for name in SUBJECTS if not options.only or name in options.only]
    # A signal must also end the child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        load.require_wrk()
        sections = [_measure(subject, plan) for subject in chosen]
    except bench.BenchmarkFailed as failure:
        sys.exit(f"benchmarks: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{_heading(plan)}\n\n{bench.render(sections)}\n")
    print(f"{_verdict(sections)} Measured in {time.monotonic() - started:.0f} s.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=_positive, help=f"rounds per comparison ({bench.ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a coarse run of a few minutes")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, help="measure only these")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be an integer from 1 up")
    return int(text)


def _measure(subject: str, plan: bench.Plan) -> bench.Section:
    print(f"measuring {subject}", file=sys.stderr)
    measure: Callable[[bench.Plan, Path], bench.Section]
    measure = import_module(f"benchmarks.{subject}").measure
    with TemporaryDirectory(prefix="barograph-benchmark-", ignore_cleanup_errors=True) as folder:
        return measure(plan, Path(folder))


def _heading(plan: bench.Plan) -> str:
    return (
        f"Barograph, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {os.cpu_count()} cores, load "
        f"{os.getloadavg()[1]:.1f}, Python {platform.python_version()}, {plan.rounds} rounds"
    )


def _verdict(sections: list[bench.Section]) -> str:
    figures = [figure for section in sections for figure in section.figures]
    missed = [figure.name.strip() for figure in figures if figure.met is False]
    return f"Not met: {', '.join(missed)}." if missed else "Every target is met."


if __name__ == "__main__":
    main()
