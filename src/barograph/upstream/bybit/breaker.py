"""When to stop asking: after repeated failures, or when the exchange says so."""

from collections.abc import Iterator
from contextlib import contextmanager

from barograph.errors import InvalidReply, Refused, Throttled, Unreachable, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND

FAILURES = 4
"""So many failed calls in a row open a breaker."""

REFUSED_SECONDS = 60.0
"""How long not to ask an exchange that will not serve us."""

ALL_FAILURES: tuple[type[UpstreamError], ...] = (Unreachable, InvalidReply, Throttled, Refused)
"""What a breaker counts. An upstream that does not know what was asked for is well."""

_LONGEST = 6


class Breaker:
    """Lets calls through until they fail, then one now and then until it succeeds.

    Closed, it lets everything through. Open, it lets nothing through and repeats the last failure
    at once. When the pause is over one call may try; its success closes the breaker, its failure
    opens it for twice as long, up to six times the first pause.
    """

    def __init__(
        self,
        clock: Clock,
        first_pause_seconds: float,
        kinds: tuple[type[UpstreamError], ...] = ALL_FAILURES,
    ) -> None:
        self._clock = clock
        self._first_pause = first_pause_seconds
        self._kinds = kinds
        self._failures = 0
        self._failure: UpstreamError | None = None
        self._pause = 0
        self._until = 0
        self._trying = False

    def check(self) -> None:
        """Say whether a call may be made now, without making it.

        Raises:
            UpstreamError: the last failure's kind, when it may not.
        """
        if self._failure is not None and (self._trying or self._left() > 0):
            raise _again(self._failure, self._left() / SECOND)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Surround one call, and learn from how it ends.

        Raises:
            UpstreamError: the last failure's kind, when no call may be made now.
        """
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
            # Also when the call was cancelled, which says nothing: the next one may try.
            if tries:
                self._trying = False

    def _succeeded(self) -> None:
        # A call that was under way while another one opened the breaker does not close it.
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
        # More than was ever asked for: the wall clock was set back, and the pause means nothing.
        return left if 0 < left <= self._pause else 0

    def _pause_after(self, error: UpstreamError) -> float:
        if isinstance(error, Throttled):
            return error.retry_after
        if isinstance(error, Refused):
            return REFUSED_SECONDS
        if self._failures < FAILURES:
            return 0.0
        return self._first_pause * min(2.0 ** min(self._failures - FAILURES, _LONGEST), _LONGEST)


def _plain(error: UpstreamError) -> UpstreamError:
    """The same failure without the traceback, which would keep a whole reply in memory."""
    if isinstance(error, Throttled):
        return Throttled(str(error), error.retry_after)
    return type(error)(str(error))


def _again(failure: UpstreamError, left: float) -> UpstreamError:
    message = f"{failure} (not asked again yet)"
    if isinstance(failure, Throttled):
        return Throttled(message, left)
    return type(failure)(message)
