"""What a subscriber finds out in one look, as frozen records.

Each is encoded by `msgspec.json.encode` with its name as the member `event`.
"""

from msgspec import Struct

from barograph.client.wire import Comparison, Reference


class Kept(Struct, frozen=True, tag_field="event", tag="kept"):
    """The first version that was seen of a kind; there is nothing to compare it with yet."""

    kind: str
    reference: Reference


class Skipped(Struct, frozen=True, tag_field="event", tag="skipped"):
    """A stance that is not on record: nothing of it is kept, and what was kept stays."""

    kind: str
    leg_id: str
    revision: int


class Compared(Struct, frozen=True, tag_field="event", tag="compared"):
    """The version that was kept and the new one, compared; the new one is kept now."""

    kind: str
    comparison: Comparison


class NotComparable(Struct, frozen=True, tag_field="event", tag="not-comparable"):
    """The version that was kept and the new one are no pair; the new one is kept now."""

    kind: str
    before: Reference
    after: Reference


class Later(Struct, frozen=True, tag_field="event", tag="later"):
    """It cannot be told now: what was kept stays, and the next look asks again."""

    message: str
    kind: str | None = None
    """The kind whose comparison it was; None when it was the feed."""

    retry_after: float | None = None
    status: int | None = None
    """What the service, or somebody in between, answered with; None when no answer came."""


class Stopped(Struct, frozen=True, tag_field="event", tag="stopped"):
    """The credential does not open Feed, or not any more; asking again changes nothing."""

    status: int
    code: str
    message: str


Event = Kept | Skipped | Compared | NotComparable | Later | Stopped
