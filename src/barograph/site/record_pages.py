"""The content of `/record` (pure): digests, positions and the signed root, but no paid content.

A kind has two lists, of versions and of events. Each of their entries is in the one public log.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import QueryParams

from barograph.history.checkpoint import PublishedCheckpoint
from barograph.history.records import DigestRow, ListName
from barograph.history.witnesses import WitnessState

PAGE_SIZE = 100

TITLES: Mapping[str, str] = {
    "btc-etf-stance": "BTC ETF flows",
    "rates-desk": "US rates",
    "funding-regime-stance": "Funding regime",
}
ABOUT: Mapping[str, str] = {
    "btc-etf-stance": "Our reading of BTC ETF flows, one for each day with published data. A day "
    "gets a new version when its figures or the decision change.",
    "rates-desk": "Our reading of US Treasury yields and overnight rates, one for each day with "
    "published data. These rates are published at different times, so most days have several "
    "versions.",
    "funding-regime-stance": "Our reading of the BTC funding that the primary venue settled, one "
    "per funding interval. An interval gets a new version when a published rate or the decision "
    "changes.",
}

_POSITION = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class Retention(NamedTuple):
    """How many days data outside the hash chain is kept."""

    minute_days: int
    hour_days: int
    liquidation_days: int


class NoSuchPage(ValueError):
    """The list has no such page."""


class RecordedList(NamedTuple):
    """The versions or the events of a kind."""

    name: ListName
    path: str
    size: int
    newest: DigestRow | None
    """None while the list is empty."""

    pending: int
    """How many of the last ones are recorded, but not in the public log yet."""


class RecordedKind(NamedTuple):
    """Both lists of a kind."""

    name: str
    title: str
    about: str
    lists: Sequence[RecordedList]


class Record(NamedTuple):
    """Everything that is recorded, and the public log with its newest checkpoint."""

    kinds: Sequence[RecordedKind]
    published: PublishedCheckpoint
    newest: DigestRow | None
    """The last entry of the log; None while it is empty."""

    note: str
    """The checkpoint to save, with the cosignatures of witnesses."""

    witnesses: Sequence[WitnessState]

    @property
    def forks(self) -> list[WitnessState]:
        """Witnesses that refuse the log."""
        return [state for state in self.witnesses if state.is_fork]


class ListPage(NamedTuple):
    """A page of a list, newest first, with the queries of this and other pages."""

    entries: tuple[DigestRow, ...]
    query: str
    """Empty for the newest page."""

    newer: str | None
    older: str | None
    api_query: str
    """The query for the same entries in the API."""


def list_path(kind: str, name: ListName) -> str:
    """The path of a list's pages, below a folder: `KIND` or `KIND/events`."""
    return kind if name == "versions" else f"{kind}/{name}"


def before_from_query(query: QueryParams) -> int | None:
    """The position before which a page ends; None for the newest page.

    Raises:
        NoSuchPage: the parameter is repeated or not a position.
    """
    values = query.getlist("before")
    if not values:
        return None
    if len(values) > 1 or _POSITION.fullmatch(values[0]) is None:
        raise NoSuchPage
    return int(values[0])


def page_range(count: int, before: int | None) -> tuple[int, int]:
    """The position after which a page begins, and how many entries it has.

    Raises:
        NoSuchPage: there are no entries before that position, or it is beyond the list.
    """
    end = count if before is None else before - 1
    if before is not None and not 1 <= end <= count:
        raise NoSuchPage
    after = max(0, end - PAGE_SIZE)
    return after, end - after


def list_page_of(entries: Sequence[DigestRow], count: int) -> ListPage:
    """A page of consecutive entries, given oldest first, of a list of `count`."""
    if not entries:
        return ListPage((), "", None, None, "")
    first, last = entries[0].sequence, entries[-1].sequence
    newer = None
    if last < count:
        newer = "" if last + PAGE_SIZE >= count else f"?before={last + PAGE_SIZE + 1}"
    return ListPage(
        tuple(reversed(entries)),
        "" if newer is None else f"?before={last + 1}",
        newer,
        f"?before={first}" if first > 1 else None,
        f"?after={first - 1}&limit={len(entries)}",
    )
