"""Stop asking an exchange that fails or refuses to serve us, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from barograph.errors import (
    Forbidden,
    Throttled,
    UpstreamError,
)
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND

FAILURES_TO_OPEN = 4
"""This many failed calls in a row open a circuit breaker."""

REFUSALS_TO_OPEN = 3

REFUSED_SECONDS = 60.0
"""How long to wait after the exchange refused to serve us."""

_MAX_PAUSE_FACTOR = 6


class CircuitBreaker:
    """Stops calls to a failing exchange for a while.

    Closed, it lets every call through. Open, it raises the last failure at once. After the pause it
    lets one call through: success closes the breaker, failure opens it for twice as long, up to six
    times the first pause.
    """

    def __init__(
        self, clock: Clock, first_pause_seconds: float, kinds: tuple[type[UpstreamError], ...]
    ) -> None:
        """`kinds` are the failures that count."""
        self._clock = clock
        self._first_pause = first_pause_seconds
        self._kinds = kinds
        self._failures = 0
        self._failure: UpstreamError | None = None
        self._pause = 0
        self._until = 0
        self._trying = False

    def check(self) -> None:
        """Raise the last failure if no call may be made now."""
        if self._failure is not None and (self._trying or self._left() > 0):
            raise _again(self._failure, self._left() / SECOND)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wrap one call and learn from its outcome; raises as `check` does."""
        self.check()
        tries = self._trying = self._failure is not None
        try:
            yield
        except UpstreamError as error:
            if isinstance(error, self._kinds):
                self._failed(error)
            else:
                self._succeeded()
            raise
        else:
            self._succeeded()
        finally:
            # A cancelled call proves nothing, so the next one may try.
            if tries:
                self._trying = False

    def _succeeded(self) -> None:
        # A call that began before the breaker opened does not close it.
        if self._left() == 0:
            self._failures = 0
            self._failure = None

    def _failed(self, error: UpstreamError) -> None:
        left = self._left()
        if left == 0:
            self._failures += 1
        pause = round(self._pause_after(error) * SECOND)
        if pause > left:
            self._failure, self._pause = _plain(error), pause
            self._until = self._clock() + pause

    def _left(self) -> int:
        left = self._until - self._clock()
        # More than the whole pause: the wall clock was set back, so the pause is void.
        return left if 0 < left <= self._pause else 0

    def _pause_after(self, error: UpstreamError) -> float:
        if isinstance(error, Throttled):
            return error.retry_after
        if isinstance(error, Forbidden):
            # A single refusal may be a mistake; a switch to another venue needs three.
            return REFUSED_SECONDS if self._failures >= REFUSALS_TO_OPEN else 0.0
        if self._failures < FAILURES_TO_OPEN:
            return 0.0
        return self._first_pause * min(
            2.0 ** min(self._failures - FAILURES_TO_OPEN, _MAX_PAUSE_FACTOR), _MAX_PAUSE_FACTOR
        )


def _plain(error: UpstreamError) -> UpstreamError:
    """Copy a failure without its traceback, which would keep a whole reply in memory."""
    if isinstance(error, Throttled):
        return Throttled(str(error), error.retry_after)
    return type(error)(str(error))


def _again(failure: UpstreamError, left: float) -> UpstreamError:
    message = f"{failure} (circuit breaker open)"
    if isinstance(failure, Throttled):
        return Throttled(message, left)
    return type(failure)(message)
