"""What the pages of the record show (pure): digests, places and signed roots, nothing that is paid.

A kind has two lists, of versions and of events, and each list is a log with checkpoints of its own.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import QueryParams

from barograph.history.checkpoint import LOGS, LogName, PublishedCheckpoint, log_origin
from barograph.history.documents import HISTORY_FOLDER
from barograph.history.records import KINDS
from barograph.site.frame.paths import RECORD_FOLDER

PAGE = 100
"""How many digests a page has."""

TITLES: Mapping[str, str] = {
    "btc-etf-stance": "BTC ETF flows",
    "rates-desk": "US rates",
    "funding-regime-stance": "Funding regime",
}
ABOUT: Mapping[str, str] = {
    "btc-etf-stance": "What the flows of BTC ETFs say, for each data day; another version of the "
    "same day when its figures or the decision change.",
    "rates-desk": "What US Treasury yields and overnight rates say, for each data day. They are "
    "published one after the other, so most days have several versions.",
    "funding-regime-stance": "What settled funding says about the BTC perpetual, for each funding "
    "interval; another version of the same one when a rate is corrected or the decision changes.",
}

_PLACE = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class Retention(NamedTuple):
    """For how many days data outside the hash chain is kept."""

    minute_days: int
    hour_days: int
    liquidation_days: int


class NoSuchPage(ValueError):
    """The list has no such page."""


class Entry(NamedTuple):
    """One line of a list: what anyone may see of a version or of an event."""

    sequence: int
    digest: str
    at: int


class Log(NamedTuple):
    """One list as it stood when its newest checkpoint was signed."""

    name: LogName
    published: PublishedCheckpoint
    newest: Entry | None
    """None while the list is empty."""

    path: str

    @property
    def size(self) -> int:
        """How many entries there are."""
        return self.published.checkpoint.size


class Kind(NamedTuple):
    """Both lists of a kind."""

    name: str
    title: str
    about: str
    logs: tuple[Log, ...]

    @property
    def versions(self) -> Log:
        """What was concluded."""
        return self.logs[0]

    @property
    def events(self) -> Log:
        """What happened to it afterwards."""
        return self.logs[1]


class ListPage(NamedTuple):
    """A part of a list, newest first."""

    entries: tuple[Entry, ...]
    query: str
    """Its own query; empty for the newest part of all."""

    newer: str | None
    """The query of the part before this one."""

    older: str | None
    api_query: str
    """The query by which the API gives the same entries."""


def list_path(kind: str, log: LogName) -> str:
    """The address of a list's pages."""
    return RECORD_FOLDER + list_name(kind, log)


def list_name(kind: str, log: LogName) -> str:
    """How addresses and origins call a list."""
    return kind if log == "versions" else f"{kind}/{log}"


def kinds_of(
    published: Sequence[PublishedCheckpoint], newest: Mapping[tuple[str, LogName], Entry | None]
) -> list[Kind]:
    """The checkpoints of all lists and their newest entries, by kind."""
    by_list = {(each.kind, each.log): each for each in published}
    return [
        Kind(
            kind,
            TITLES[kind],
            ABOUT[kind],
            tuple(
                Log(log, by_list[kind, log], newest[kind, log], list_path(kind, log))
                for log in LOGS
            ),
        )
        for kind in KINDS
    ]


def verifier_facts(base_url: str, public_key: bytes) -> dict[str, str]:
    """What the script must know to check a checkpoint of any list."""
    some = KINDS[0]
    return {
        "folder": HISTORY_FOLDER,
        "prefix": log_origin(base_url, some, "versions").removesuffix(some),
        "lists": " ".join(list_name(kind, log) for kind in KINDS for log in LOGS),
        "public_key": b64encode(public_key).decode(),
    }


def before_from_query(query: QueryParams) -> int | None:
    """The place before which a page's entries stand; None for the newest ones.

    Raises:
        NoSuchPage: it comes twice or is no place.
    """
    values = query.getlist("before")
    if not values:
        return None
    if len(values) > 1 or _PLACE.fullmatch(values[0]) is None:
        raise NoSuchPage
    return int(values[0])


def place_of_page(count: int, before: int | None) -> tuple[int, int]:
    """After which place a page's entries begin, and how many they are.

    Raises:
        NoSuchPage: nothing stands before that place, or it is further than the list goes.
    """
    end = count if before is None else before - 1
    if before is not None and not 1 <= end <= count:
        raise NoSuchPage
    after = max(0, end - PAGE)
    return after, end - after


def list_page(entries: Sequence[Entry], count: int) -> ListPage:
    """A page of entries that stand one after the other, oldest first, in a list of `count`."""
    if not entries:
        return ListPage((), "", None, None, "")
    first, last = entries[0].sequence, entries[-1].sequence
    newer = None
    if last < count:
        newer = "" if last + PAGE >= count else f"?before={last + PAGE + 1}"
    return ListPage(
        tuple(reversed(entries)),
        "" if newer is None else f"?before={last + 1}",
        newer,
        f"?before={first}" if first > 1 else None,
        f"?after={first - 1}&limit={len(entries)}",
    )
