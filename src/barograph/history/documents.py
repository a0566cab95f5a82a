"""Queries and bodies of the public history (pure)."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.history.checkpoint import PublishedCheckpoint, RetiredKey
from barograph.history.records import DigestRow
from barograph.kit.documents import Document
from barograph.kit.http import clamped_integer
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel

Hash = Annotated[str, Field(description="SHA-256 in lower-case hex.", pattern="^[0-9a-f]{64}$")]
Kind = Annotated[str, Field(description="The kind of stance.")]
Count = Annotated[int, Field(description="Number of entries in the whole list.")]
After = Annotated[int, Field(description="The page starts after this sequence number.")]
Next = Annotated[int | None, Field(description="`after` of the next page; null on the last page.")]


class HistoryEntry(WireModel):
    """One recorded version."""

    sequence: Annotated[int, Field(description="Position in the list, from 1, without gaps.")]
    history_digest: Hash
    issued_at: str


class History(WireModel):
    """A page of the versions of one kind, in recording order."""

    kind: Kind
    count: Count
    after: After
    next: Next
    entries: list[HistoryEntry]
    notice: Notice


class EventEntry(WireModel):
    """One recorded event, such as a withdrawal."""

    sequence: Annotated[int, Field(description="Position in the list, from 1, without gaps.")]
    event_digest: Hash
    at: str


class EventHistory(WireModel):
    """A page of the events of one kind, in recording order."""

    kind: Kind
    count: Count
    after: After
    next: Next
    entries: list[EventEntry]
    notice: Notice


class PreviousKey(WireModel):
    """A key that no longer signs, or that signed this log under an earlier name."""

    public_key: str
    retired_at: str
    checkpoints: Annotated[
        list[str],
        Field(description="Its last checkpoint, which names the log and the key that follow."),
    ]


class PublishedLog(WireModel):
    """The newest checkpoint of the public log."""

    size: Annotated[int, Field(description="Number of entries it covers.")]
    root: Hash
    checkpoint: Annotated[str, Field(description="The C2SP checkpoint. Keep it unchanged.")]
    verifier: Annotated[
        str, Field(description="The public key as a C2SP verifier key, with the name of the log.")
    ]
    public_key: Annotated[str, Field(description="The Ed25519 public key: 32 bytes in base64.")]
    previous_keys: Annotated[
        list[PreviousKey], Field(description="Keys that signed before, oldest first.")
    ]
    notice: Notice


HISTORY_FOLDER = "/api/history/"
CHECKPOINT_PATH = f"{HISTORY_FOLDER}checkpoint"
DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_AFTER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""


class PageQuery(NamedTuple):
    """Which entries a caller requests."""

    after: int
    limit: int


def page_from_query(query: QueryParams) -> PageQuery:
    """Read `after` and `limit`: integers are clamped, anything else means the default."""
    after, limit = query.getlist("after"), query.getlist("limit")
    return PageQuery(
        after=clamped_integer(after, default=0, lowest=0, highest=MAX_AFTER),
        limit=clamped_integer(limit, default=DEFAULT_LIMIT, lowest=1, highest=MAX_LIMIT),
    )


def history_document(kind: str, page: PageQuery, rows: Sequence[DigestRow], count: int) -> Document:
    """A page of versions."""
    entries = [
        HistoryEntry(
            sequence=row.sequence, history_digest=row.digest, issued_at=iso_timestamp(row.at)
        )
        for row in rows
    ]
    return Document(History(entries=entries, **_page(kind, page, rows, count)).encode())


def events_document(kind: str, page: PageQuery, rows: Sequence[DigestRow], count: int) -> Document:
    """A page of events."""
    entries = [
        EventEntry(sequence=row.sequence, event_digest=row.digest, at=iso_timestamp(row.at))
        for row in rows
    ]
    return Document(EventHistory(entries=entries, **_page(kind, page, rows, count)).encode())


def checkpoint_document(
    published: PublishedCheckpoint, public_key: bytes, retired: Sequence[RetiredKey]
) -> Document:
    """The newest checkpoint, and the last ones of earlier keys."""
    body = PublishedLog(
        size=published.checkpoint.size,
        root=published.checkpoint.root.hex(),
        checkpoint=published.note,
        verifier=published.verifier.text,
        public_key=b64encode(public_key).decode(),
        previous_keys=[
            PreviousKey(
                public_key=b64encode(key.public_key).decode(),
                retired_at=iso_timestamp(key.retired_at),
                checkpoints=list(key.checkpoints),
            )
            for key in retired
        ],
        notice=NOTICE,
    )
    return Document(body.encode())


def _page(kind: str, page: PageQuery, rows: Sequence[DigestRow], count: int) -> dict[str, Any]:
    is_last = not rows or rows[-1].sequence >= count
    following = None if is_last else rows[-1].sequence
    return {"kind": kind, "count": count, "after": page.after, "next": following, "notice": NOTICE}
