"""Badges drawn per second, compared with badge-maker, the library that Shields uses."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barograph.badges.svg import MEASURED, Badge, Style, render
from benchmarks import bench

TITLE = "Badges drawn, as a multiple of badge-maker on Node: median of the rounds"
BOUND = 5
BATCH = 2000
STYLES: tuple[Style, ...] = ("flat", "flat-square")
DESCRIPTION = "The rate of the current funding interval of BTCUSDT. Positive: longs pay shorts."

TESTS = Path(__file__).parents[1] / "tests"


class Peer:
    """badge-maker in a process of its own that draws on demand."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def seconds(self, badges: list[Badge]) -> float:
        """How long it takes to draw these."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = [
            {
                "label": badge.label,
                "message": badge.message,
                "color": badge.colour,
                "style": badge.style,
            }
            for badge in badges
        ]
        print(json.dumps(fields), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise bench.BenchmarkFailed("badge-maker ended")
        return float(line) / 1000


def measure(plan: bench.Plan, _folder: Path) -> bench.Section:
    """Draw the same badges with both, round by round: each text for the first time, then again."""
    figures = []
    with _peer() as peer:
        for style in STYLES:
            new, seen = [], []
            for number in range(plan.rounds + 1):
                badges = _badges(style, number)
                theirs = peer.seconds(badges)
                new.append(theirs / _seconds(badges))
                seen.append(peer.seconds(badges) / _seconds(badges))
            # The first round only warms both up.
            figures.append(
                bench.at_least(f"{style}, every text for the first time", new[1:], BOUND)
            )
            figures.append(bench.at_least(f"{style}, every text drawn before", seen[1:], BOUND))
    return bench.Section(TITLE, figures)


def _badges(style: Style, number: int) -> list[Badge]:
    messages = (f"+{number}.{each:04d} % / 8h" for each in range(BATCH))
    return [
        Badge("BTC funding", message, MEASURED, style, f"BTC funding: {message}", DESCRIPTION)
        for message in messages
    ]


def _seconds(badges: list[Badge]) -> float:
    begun = time.perf_counter()
    for badge in badges:
        render(badge)
    return time.perf_counter() - begun


@contextmanager
def _peer() -> Iterator[Peer]:
    command = (sys.executable, "-P", str(TESTS / "support" / "node.py"))
    try:
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except subprocess.CalledProcessError as error:
        raise bench.BenchmarkFailed(f"badge-maker cannot be installed: {error.stderr}") from error
    node, folder = printed.splitlines()
    with subprocess.Popen(
        (node, str(TESTS / "node" / "pace.mjs")),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Peer(process)
        finally:
            process.kill()
