"""Caches the exchange's list of contracts between readings."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import Struct

from barograph.errors import InvalidReply, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.http_client import TimeBudget
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.venues.kit.cells import TooFewContracts

log = logging.getLogger(__name__)


_TEXT_LIMIT = 200

USABLE = 6 * HOUR
"""How long we use a list when we can't read a newer one."""


class Contract(NamedTuple):
    """A live crypto perpetual in the venue's main quote currency."""

    base: str
    funding_interval_hours: float | None = None
    unit: float = 1.0
    """How many coins 1 of its open interest is."""


class ListedContracts(Struct, frozen=True):
    """The complete list of contracts."""

    kept: Mapping[str, Contract]
    """The live crypto perpetuals against USDT."""
    symbols: AbstractSet[str]
    """Every name in the list, kept or not."""
    others: Mapping[str, str] = {}
    """The classes of the live perpetuals against USDT that are not crypto."""
    known_classes: AbstractSet[str] = frozenset()
    """The words for other classes that this version knows."""
    unusable: Sequence[str] = ()
    """The coins of live crypto perpetuals whose funding interval is unknown."""

    @property
    def left_out(self) -> dict[str, int]:
        """How many contracts are not crypto, by class."""
        return dict(Counter(self.others.values()).most_common())

    @property
    def unknown_classes(self) -> list[str]:
        """The classes that this version doesn't know."""
        return sorted(self.left_out.keys() - self.known_classes)


class ContractCache:
    """Caches the list of contracts and decides when to read it again.

    It reads the list again after `seconds`, when the tickers show a new name, and when readings
    stop fitting the list. While readings fit, it keeps the old list if the new one can't be read,
    has lost more than half of the contracts, or lists more than twice as many as have a ticker.
    """

    def __init__(
        self,
        read: Callable[[TimeBudget], Awaitable[ListedContracts]],
        clock: Clock,
        seconds: float,
        suffix: str,
    ) -> None:
        self._read = read
        self._suffix = suffix
        self._clock = clock
        self._period = round(seconds * SECOND)
        self._listing: ListedContracts | None = None
        self._read_at = 0
        self._tried_at = 0
        self._asked_about: AbstractSet[str] = frozenset()
        self._is_failing = False
        self._fits = True

    @property
    def is_empty(self) -> bool:
        """Whether there is no usable list."""
        return self._listing is None or abs(self._clock() - self._read_at) > USABLE

    async def current(self, budget: TimeBudget) -> ListedContracts:
        """The list to use now.

        Raises:
            UpstreamError: there is no usable list, and we can't read one.
        """
        if self._listing is None or self.is_empty:
            self._listing = None
            self._listing = await self._renewed(budget)
        elif not self._fits and abs(self._clock() - self._tried_at) >= MINUTE:
            await self._replace(budget)
        return self._listing

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Wrap the comparison of a reading with the list, and remember whether they fit."""
        try:
            yield
        except TooFewContracts:
            self._fits = False
            raise
        self._fits = True

    async def review(
        self, symbols: AbstractSet[str], budget: TimeBudget, *, in_doubt: bool = False
    ) -> None:
        """Read the list again if it is due, in doubt, or lacks a name that ends like all others.

        A failure is only logged while the older list is usable.
        """
        older = self._listing
        if older is None:
            return
        unlisted = {name for name in symbols if name.endswith(self._suffix)} - older.symbols
        if not self._is_due(news=in_doubt or bool(unlisted - self._asked_about)):
            return
        if await self._replace(budget, symbols):
            # Some names never get listed, contracts before their launch for one.
            self._asked_about = frozenset(unlisted)

    def _is_due(self, *, news: bool) -> bool:
        since_reading = abs(self._clock() - self._read_at)
        since_try = abs(self._clock() - self._tried_at)
        is_old = since_reading >= self._period and since_try >= min(self._period, MINUTE)
        return is_old or (news and since_try >= MINUTE)

    async def _replace(self, budget: TimeBudget, symbols: AbstractSet[str] | None = None) -> bool:
        """Read a newer list, which must fit `symbols` if they fit the older one."""
        try:
            self._listing = await self._renewed(budget, symbols)
        except UpstreamError as error:
            self._note_failure(error)
            return False
        self._note_success()
        return True

    async def _renewed(
        self, budget: TimeBudget, symbols: AbstractSet[str] | None = None
    ) -> ListedContracts:
        self._tried_at = self._clock()
        newer = await self._read(budget)
        if not newer.kept:
            raise InvalidReply(
                "the list of contracts has no crypto perpetual against USDT and "
                f"{sum(newer.left_out.values())} contracts of other classes: "
                f"{', '.join(newer.left_out)[:_TEXT_LIMIT] or 'none'}"
            )
        if symbols is not None and self._listing is not None:
            _check(newer, self._listing, symbols)
        self._read_at = self._clock()
        return newer

    def _note_failure(self, error: UpstreamError) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.warning(
                "older list of contracts kept", extra={"kind": error.kind, "detail": str(error)}
            )

    def _note_success(self) -> None:
        if self._is_failing:
            self._is_failing = False
            log.info("list of contracts renewed")


def _check(newer: ListedContracts, older: ListedContracts, symbols: AbstractSet[str]) -> None:
    """Refuse a list that lost most contracts, or that has no ticker for most of them."""
    if 2 * len(newer.kept.keys() & older.kept.keys()) < len(older.kept):
        raise InvalidReply(
            f"the list of contracts fell from {len(older.kept)} to {len(newer.kept)}"
        )
    traded = len(newer.kept.keys() & symbols)
    if 2 * traded < len(newer.kept):
        raise InvalidReply(f"{traded} of {len(newer.kept)} listed contracts have a ticker")
