"""Queries and bodies of the public history (pure)."""

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.errors import InvalidRequest
from barograph.history.checkpoint import LogName, PublishedCheckpoint, RetiredKey
from barograph.history.records import DigestRow
from barograph.kit.documents import Document
from barograph.kit.http import clamped_integer
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel

Hash = Annotated[str, Field(description="SHA-256 in lower-case hex.", pattern="^[0-9a-f]{64}$")]
Hashes = Annotated[list[Hash], Field(description="From the leaves upwards, as in RFC 6962.")]
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


class SignedCheckpoint(WireModel):
    """The signed root of one list."""

    kind: Kind
    log: Annotated[LogName, Field(description="Which list of the kind.")]
    size: Annotated[int, Field(description="Number of entries it covers.")]
    root: Hash
    checkpoint: Annotated[str, Field(description="The C2SP checkpoint. Keep it unchanged.")]
    verifier: Annotated[
        str, Field(description="The public key as a C2SP verifier key, with the name of the log.")
    ]


class PreviousKey(WireModel):
    """A key that no longer signs."""

    public_key: str
    retired_at: str
    checkpoints: Annotated[
        list[str], Field(description="The last checkpoint of each list, which names the next key.")
    ]


class Checkpoints(WireModel):
    """The newest checkpoint of every list."""

    checkpoints: list[SignedCheckpoint]
    event_log: Annotated[
        SignedCheckpoint, Field(description="The same for the log of all events, /api/v1/events.")
    ]
    public_key: Annotated[str, Field(description="The Ed25519 public key: 32 bytes in base64.")]
    previous_keys: Annotated[
        list[PreviousKey], Field(description="Keys that signed before, oldest first.")
    ]
    notice: Notice


class Inclusion(WireModel):
    """Proof that one entry is in the tree."""

    sequence: int
    hashes: Hashes


class Consistency(WireModel):
    """Proof that an older tree is the beginning of this one."""

    size: Annotated[int, Field(description="The size of the older tree.")]
    root: Hash
    hashes: Hashes


class HistoryProof(WireModel):
    """Proofs for one tree. A proof that was not requested is null."""

    kind: Kind
    log: LogName
    size: Annotated[int, Field(description="Number of entries in the tree.")]
    root: Hash
    inclusion: Inclusion | None
    consistency: Consistency | None
    notice: Notice


HISTORY_FOLDER = "/api/history/"
CHECKPOINT_PATH = f"{HISTORY_FOLDER}checkpoint"
DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_AFTER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""

_NATURAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


class PageQuery(NamedTuple):
    """Which entries a caller requests."""

    after: int
    limit: int


class ProofQuery(NamedTuple):
    """Which proofs a caller requests; None for a parameter that is missing."""

    size: int | None
    older: int | None
    sequence: int | None


def page_from_query(query: QueryParams) -> PageQuery:
    """Read `after` and `limit`: integers are clamped, anything else means the default."""
    after, limit = query.getlist("after"), query.getlist("limit")
    return PageQuery(
        after=clamped_integer(after, default=0, lowest=0, highest=MAX_AFTER),
        limit=clamped_integer(limit, default=DEFAULT_LIMIT, lowest=1, highest=MAX_LIMIT),
    )


def proof_from_query(query: QueryParams) -> ProofQuery:
    """Read the optional parameters `size`, `from` and `sequence`.

    Raises:
        InvalidRequest: one is repeated, or not a whole number.
    """
    return ProofQuery(natural(query, "size"), natural(query, "from"), natural(query, "sequence"))


def require_within(size: int, asked: ProofQuery) -> None:
    """Check that the requested proofs exist in a tree of `size`.

    Raises:
        InvalidRequest: they do not; the message gives the range.
    """
    if asked.older is not None and asked.older > size:
        raise InvalidRequest(f"from must be between 0 and {size}")
    if asked.sequence is not None and not 1 <= asked.sequence <= size:
        raise InvalidRequest(
            f"sequence must be between 1 and {size}" if size else "nothing is recorded yet"
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


def checkpoints_document(
    published: Sequence[PublishedCheckpoint], public_key: bytes, retired: Sequence[RetiredKey]
) -> Document:
    """The newest checkpoints, the log of events last, and the last ones of earlier keys."""
    signed = [
        SignedCheckpoint(
            kind=each.kind,
            log=each.log,
            size=each.checkpoint.size,
            root=each.checkpoint.root.hex(),
            checkpoint=each.note,
            verifier=each.verifier.text,
        )
        for each in published
    ]
    body = Checkpoints(
        checkpoints=signed[:-1],
        event_log=signed[-1],
        public_key=b64encode(public_key).decode(),
        previous_keys=[
            PreviousKey(
                public_key=b64encode(each.public_key).decode(),
                retired_at=iso_timestamp(each.retired_at),
                checkpoints=list(each.checkpoints),
            )
            for each in retired
        ],
        notice=NOTICE,
    )
    return Document(body.encode())


def _page(kind: str, page: PageQuery, rows: Sequence[DigestRow], count: int) -> dict[str, Any]:
    is_last = not rows or rows[-1].sequence >= count
    following = None if is_last else rows[-1].sequence
    return {"kind": kind, "count": count, "after": page.after, "next": following, "notice": NOTICE}


def natural(query: QueryParams, name: str) -> int | None:
    """An optional whole number.

    Raises:
        InvalidRequest: it is repeated, or not a whole number.
    """
    values = query.getlist(name)
    if not values:
        return None
    if len(values) != 1 or _NATURAL.fullmatch(values[0]) is None:
        raise InvalidRequest(f"{name} must be given once, as a whole number")
    return int(values[0])
