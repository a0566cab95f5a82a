"""Reads the board as health: what a worker knows about everybody at one instant."""

from collections.abc import Callable

from barograph import __version__
from barograph.board.board import Board
from barograph.macro.feeds import MACRO_HEALTH
from barograph.markets.feeds import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
)
from barograph.markets.view import Bounds
from barograph.stances.feeds import STANCES
from barograph.status.rules import Observation, assess
from barograph.status.wire import Status

LimitsFailing = Callable[[], int | None]
"""Since when request allowances are not counted together; None when they are."""


class StatusReader:
    """Judges the health of feed and API from memory."""

    def __init__(self, bounds: Bounds, started_at: int, limits_failing: LimitsFailing) -> None:
        self._bounds = bounds
        self._started_at = started_at
        self._limits_failing = limits_failing

    def status(self, board: Board, now: int) -> Status:
        """The status at an instant."""
        return assess(
            Observation(
                now=now,
                started_at=self._started_at,
                version=__version__,
                bounds=self._bounds,
                polled_at=board.polled_at,
                perpetuals=board.latest(PERPETUALS),
                shares=board.latest(LONG_ACCOUNTS),
                liquidations=board.latest(LIQUIDATIONS),
                health=board.latest(EXCHANGE_HEALTH),
                limits_failing_since=self._limits_failing(),
                macro=board.latest(MACRO_HEALTH),
                stances=board.latest(STANCES),
            )
        )
