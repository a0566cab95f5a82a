"""The content of `/record` (pure): digests, positions and signed roots, but no paid content.

A kind has two lists, of versions and of events. Each list is a log with its own checkpoints, and so
is the log of everything that changed.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from starlette.datastructures import QueryParams

from barograph.history.checkpoint import (
    EVENT_LOG,
    LOGS,
    Log,
    LogName,
    PublishedCheckpoint,
    log_origin,
    log_path,
)
from barograph.history.documents import HISTORY_FOLDER
from barograph.history.records import KINDS, DigestRow
from barograph.history.witnesses import WitnessState
from barograph.site.paths import RECORD_FOLDER

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
    "funding-regime-stance": "Our reading of the settled funding of the BTC perpetual, one per "
    "funding interval. An interval gets a new version when a rate is corrected or the decision "
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
    """A list as of its newest checkpoint."""

    published: PublishedCheckpoint
    newest: DigestRow | None
    """None while the list is empty."""

    note: str
    """The checkpoint to save, with the cosignatures of witnesses."""

    path: str
    """Of its entries: a page, or the API's list of events."""

    witnesses: Sequence[WitnessState]

    @property
    def name(self) -> LogName:
        """Whether it has versions or events."""
        return self.published.log

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.published.checkpoint.size

    @property
    def origin(self) -> str:
        """The name of the log: its address without the scheme."""
        return self.published.checkpoint.origin


class RecordedKind(NamedTuple):
    """Both lists of a kind."""

    name: str
    title: str
    about: str
    versions: RecordedList
    events: RecordedList


class Record(NamedTuple):
    """Everything that is recorded, and who cosigns it."""

    kinds: Sequence[RecordedKind]
    all_events: RecordedList

    @property
    def states(self) -> list[WitnessState]:
        """What every witness did with every log."""
        lists = [each for kind in self.kinds for each in (kind.versions, kind.events)]
        return [state for each in (*lists, self.all_events) for state in each.witnesses]

    @property
    def witnesses(self) -> list[WitnessState]:
        """The worst state of each witness: a log that it refuses, or else its last failure.

        If it has neither, its newest cosignature.
        """
        ordered = sorted(
            self.states, key=lambda each: (each.is_fork, bool(each.failure), each.cosigned_at or 0)
        )
        return list({each.witness: each for each in ordered}.values())

    @property
    def forks(self) -> list[WitnessState]:
        """Logs that a witness refuses."""
        return [each for each in self.states if each.is_fork]


class ListPage(NamedTuple):
    """A page of a list, newest first, with the queries of this and other pages."""

    entries: tuple[DigestRow, ...]
    query: str
    """Empty for the newest page."""

    newer: str | None
    older: str | None
    api_query: str
    """The query for the same entries in the API."""


def list_path(log: Log) -> str:
    """The path of a list's pages."""
    return RECORD_FOLDER + log_path(log)


def record_of(found: Iterable[RecordedList]) -> Record:
    """Group all lists by kind."""
    lists = {each.published.of: each for each in found}
    kinds = [
        RecordedKind(
            kind, TITLES[kind], ABOUT[kind], lists[kind, "versions"], lists[kind, "events"]
        )
        for kind in KINDS
    ]
    return Record(kinds, lists[EVENT_LOG])


def verifier_data(base_url: str, name: str, public_keys: Sequence[bytes]) -> dict[str, str]:
    """What the script needs to check a checkpoint of any list; the current key comes first."""
    some = KINDS[0]
    return {
        "folder": HISTORY_FOLDER,
        "prefix": log_origin(base_url, some, "versions", name).removesuffix(some),
        "lists": " ".join(map(log_path, product(KINDS, LOGS))),
        "public_key": b64encode(public_keys[0]).decode(),
        "public_keys": " ".join(b64encode(each).decode() for each in public_keys),
    }


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
