"""The bodies of the public history: digests, roots and proofs, never what was concluded."""

from typing import Annotated

from pydantic import Field

from barograph.kit.wire import WireModel
from barograph.stances.checkpoint import LogName

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
