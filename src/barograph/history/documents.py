"""What callers may ask of the public history, and the bytes they get (pure)."""

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.errors import InvalidRequest
from barograph.history.checkpoint import LogName, Published
from barograph.history.records import DigestRow, EventDigestRow
from barograph.kit.documents import Document
from barograph.kit.http import clamped_integer
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel

Hash = Annotated[str, Field(description="SHA-256 in lower-case hex.", pattern="^[0-9a-f]{64}$")]
Hashes = Annotated[list[Hash], Field(description="From the leaves upwards, as in RFC 6962.")]
Kind = Annotated[str, Field(description="The kind of stance.")]
Count = Annotated[int, Field(description="How many there are in all.")]
After = Annotated[int, Field(description="The entries are those after this sequence number.")]
Next = Annotated[
    int | None, Field(description="`after` of the next page; null when there is none.")
]
Notice = Annotated[str, Field(description="Information-only notice.")]


class HistoryEntry(WireModel):
    """One recorded version."""

    sequence: Annotated[int, Field(description="Its place in the list, from 1 without a gap.")]
    history_digest: Hash
    issued_at: str


class History(WireModel):
    """A page of the versions of one kind, in the order of recording."""

    kind: Kind
    count: Count
    after: After
    next: Next
    entries: list[HistoryEntry]
    notice: Notice


class EventEntry(WireModel):
    """One recorded event, such as a withdrawal."""

    sequence: Annotated[int, Field(description="Its place in the list, from 1 without a gap.")]
    event_digest: Hash
    at: str


class EventHistory(WireModel):
    """A page of the events of one kind, in the order of recording."""

    kind: Kind
    count: Count
    after: After
    next: Next
    entries: list[EventEntry]
    notice: Notice


class SignedCheckpoint(WireModel):
    """The signed root over one list."""

    kind: Kind
    log: Annotated[LogName, Field(description="Which list of that kind.")]
    size: Annotated[int, Field(description="How many entries it covers.")]
    root: Hash
    checkpoint: Annotated[str, Field(description="The C2SP checkpoint, to be kept as it is.")]
    verifier: Annotated[
        str, Field(description="The public key in verifier form, named as the log.")
    ]


class Checkpoints(WireModel):
    """The newest checkpoint of every list."""

    checkpoints: list[SignedCheckpoint]
    public_key: Annotated[str, Field(description="The Ed25519 public key: 32 bytes in base64.")]
    notice: Notice


class Inclusion(WireModel):
    """That one entry is in the tree."""

    sequence: int
    hashes: Hashes


class Consistency(WireModel):
    """That an older tree is the beginning of this one."""

    size: Annotated[int, Field(description="The size of the older tree.")]
    root: Hash
    hashes: Hashes


class HistoryProof(WireModel):
    """Proofs about one tree; the one that was not asked for is null."""

    kind: Kind
    log: LogName
    size: Annotated[int, Field(description="How many entries the tree has.")]
    root: Hash
    inclusion: Inclusion | None
    consistency: Consistency | None
    notice: Notice


HISTORY_FOLDER = "/api/history/"
CHECKPOINT_PATH = f"{HISTORY_FOLDER}checkpoint"
DEFAULT = 100
HIGHEST = 1000
LAST = 2**53 - 1
"""Further than any sequence number goes that JSON can carry."""

_NATURAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


class Page(NamedTuple):
    """Which entries are asked for."""

    after: int
    limit: int


class ProofQuery(NamedTuple):
    """Which proofs are asked for; None is what was left out."""

    size: int | None
    older: int | None
    sequence: int | None


def page_from_query(query: QueryParams) -> Page:
    """Read `after` and `limit`: integers are brought into range, all else means the default."""
    after, limit = query.getlist("after"), query.getlist("limit")
    return Page(
        after=clamped_integer(after, default=0, lowest=0, highest=LAST),
        limit=clamped_integer(limit, default=DEFAULT, lowest=1, highest=HIGHEST),
    )


def proof_from_query(query: QueryParams) -> ProofQuery:
    """Read `size`, `from` and `sequence`, of which all may be left out.

    Raises:
        InvalidRequest: one comes twice or is no such number.
    """
    return ProofQuery(_natural(query, "size"), _natural(query, "from"), _natural(query, "sequence"))


def expect_within(size: int, asked: ProofQuery) -> None:
    """Look whether the proofs asked for exist in a tree of `size`.

    Raises:
        InvalidRequest: they do not; the message says what does.
    """
    if asked.older is not None and asked.older > size:
        raise InvalidRequest(f"from must be between 0 and {size}")
    if asked.sequence is not None and not 1 <= asked.sequence <= size:
        raise InvalidRequest(
            f"sequence must be between 1 and {size}" if size else "nothing is recorded yet"
        )


def history_document(kind: str, page: Page, rows: Sequence[DigestRow], count: int) -> Document:
    """A page of versions."""
    body = History(
        kind=kind,
        count=count,
        after=page.after,
        next=_next(rows, count),
        entries=[
            HistoryEntry(
                sequence=row.sequence,
                history_digest=row.history_digest,
                issued_at=iso_timestamp(row.issued_at),
            )
            for row in rows
        ],
        notice=NOTICE,
    )
    return Document(body.encode())


def events_document(kind: str, page: Page, rows: Sequence[EventDigestRow], count: int) -> Document:
    """A page of events."""
    body = EventHistory(
        kind=kind,
        count=count,
        after=page.after,
        next=_next(rows, count),
        entries=[
            EventEntry(
                sequence=row.sequence, event_digest=row.event_digest, at=iso_timestamp(row.at)
            )
            for row in rows
        ],
        notice=NOTICE,
    )
    return Document(body.encode())


def checkpoints_document(published: Sequence[Published], public_key: bytes) -> Document:
    """The newest checkpoints."""
    body = Checkpoints(
        checkpoints=[
            SignedCheckpoint(
                kind=each.kind,
                log=each.log,
                size=each.checkpoint.size,
                root=each.checkpoint.root.hex(),
                checkpoint=each.note,
                verifier=each.verifier.text,
            )
            for each in published
        ],
        public_key=b64encode(public_key).decode(),
        notice=NOTICE,
    )
    return Document(body.encode())


def _next(rows: Sequence[DigestRow] | Sequence[EventDigestRow], count: int) -> int | None:
    return rows[-1].sequence if rows and rows[-1].sequence < count else None


def _natural(query: QueryParams, name: str) -> int | None:
    values = query.getlist(name)
    if not values:
        return None
    if len(values) != 1 or _NATURAL.fullmatch(values[0]) is None:
        raise InvalidRequest(f"{name} must be given once, as a whole number")
    return int(values[0])
