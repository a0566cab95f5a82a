"""Reads the status from what this worker knows."""

from collections.abc import Callable, Iterable, Sequence

from barograph import __version__
from barograph.board.board import Board
from barograph.history.guards import SignedHeads
from barograph.history.witnesses import WITNESSES, WitnessState
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.lease import HostClock
from barograph.macro.records import MACRO_HEALTH
from barograph.markets.disputes import DISPUTES
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.view import (
    BACKFILL,
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    FreshnessLimits,
)
from barograph.stances.reader import STANCES
from barograph.status.rules import (
    Reachability,
    ServiceStatus,
    StandbyVenue,
    StatusInputs,
    assess,
)
from barograph.terms.sources import TERMS
from barograph.venues.registry import BYBIT

LimitsFailing = Callable[[], int | None]
"""Since when the shared store of rate limits fails; None while it works."""


class StatusReader:
    """Judges the health of the feed and the API from memory."""

    def __init__(
        self,
        limits: FreshnessLimits,
        started_at: int,
        limits_failing: LimitsFailing,
        signed: SignedHeads,
        *,
        host_clock: HostClock | None = None,
        identity: Sequence[DependencyHealth] | None = None,
        payments: Sequence[DependencyHealth] | None = None,
        venues: Sequence[str] = (BYBIT,),
        witnesses: Iterable[str] = (),
    ) -> None:
        """Take the parts; `identity` and `payments` are None if not configured."""
        self._limits = limits
        self._started_at = started_at
        self._limits_failing = limits_failing
        self._signed = signed
        self._host_clock = host_clock
        self._identity = identity
        self._payments = payments
        self._venues = venues
        self._witnesses = tuple(witnesses)

    def status(self, board: Board, now: int) -> ServiceStatus:
        """The status at `now`."""
        return assess(
            StatusInputs(
                now=now,
                started_at=self._started_at,
                version=__version__,
                limits=self._limits,
                polled_at=board.polled_at,
                perpetuals=board.latest(PERPETUALS),
                shares=board.latest(LONG_ACCOUNTS),
                liquidations=board.latest(LIQUIDATIONS),
                health=board.latest(EXCHANGE_HEALTH),
                limits_failing_since=self._limits_failing(),
                macro=board.latest(MACRO_HEALTH),
                stances=board.latest(STANCES),
                identity=None if self._identity is None else reachability(self._identity, now),
                payments=None if self._payments is None else reachability(self._payments, now),
                backfill=board.latest(BACKFILL),
                wrong_clock=None if self._host_clock is None else self._host_clock.problem,
                unsigned=self._signed.failure,
                unconfirmed=board.latest(TERMS),
                in_use=board.latest(VENUE_IN_USE),
                others=self._others(board),
                venues=len(self._venues),
                disputes=board.latest(DISPUTES),
                witnesses=self._witness_states(board),
            )
        )

    def _witness_states(self, board: Board) -> dict[str, list[WitnessState]]:
        witnesses = board.latest(WITNESSES)
        states = () if witnesses is None else witnesses.states
        return {
            name: [state for state in states if state.witness == name] for name in self._witnesses
        }

    def _others(self, board: Board) -> dict[str, StandbyVenue]:
        in_use = board.latest(VENUE_IN_USE)
        used = self._venues[0] if in_use is None else in_use.venue
        return {
            venue: StandbyVenue(
                board.latest(EXCHANGE_HEALTH.of(venue)),
                board.latest(PERPETUALS.of(venue)),
                board.latest(BACKFILL if venue == self._venues[0] else BACKFILL.of(venue)),
            )
            for venue in self._venues
            if venue != used
        }


def reachability(health: Sequence[DependencyHealth], now: int) -> Reachability:
    """Combine the health of all kinds of calls to one service."""
    answers = [
        dependency.answered_at for dependency in health if dependency.answered_at is not None
    ]
    failing = [
        (dependency.failing_since, dependency.failed_at, dependency.reason)
        for dependency in health
        if dependency.failing_since is not None
        and dependency.failed_at is not None
        and not dependency.is_superseded(now)
    ]
    return Reachability(
        max(answers, default=None),
        min((since for since, _, _ in failing), default=None),
        max((last for _, last, _ in failing), default=None),
        next((why for _, _, why in failing if why is not None), None),
    )
