"""What callers may ask of the public history, and the bytes they get (pure)."""

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from barograph.errors import InvalidRequest
from barograph.kit.documents import Document
from barograph.kit.query import Query, clamped
from barograph.kit.timestamps import iso_timestamp
from barograph.notice import NOTICE
from barograph.stances.checkpoint import Published
from barograph.stances.history_wire import (
    Checkpoints,
    EventEntry,
    EventHistory,
    History,
    HistoryEntry,
    SignedCheckpoint,
)
from barograph.stances.records import DigestRow, EventDigestRow

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


def page_from_query(query: Query) -> Page:
    """Read `after` and `limit`: integers are brought into range, all else means the default."""
    after, limit = query.getlist("after"), query.getlist("limit")
    return Page(
        after=clamped(after, default=0, lowest=0, highest=LAST),
        limit=clamped(limit, default=DEFAULT, lowest=1, highest=HIGHEST),
    )


def proof_from_query(query: Query) -> ProofQuery:
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


def _natural(query: Query, name: str) -> int | None:
    values = query.getlist(name)
    if not values:
        return None
    if len(values) != 1 or _NATURAL.fullmatch(values[0]) is None:
        raise InvalidRequest(f"{name} must be given once, as a whole number")
    return int(values[0])
