"""When recorded stances become public (pure).

The operator chooses after how many days. A version keeps the terms that were announced when it was
issued, so nobody can hide it later.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct, json

from barograph.board.feeds import Feed
from barograph.events.records import Event, NewEvent
from barograph.kit.documents import FOREVER
from barograph.kit.timestamps import DAY


class Announcement(Struct, frozen=True):
    """The terms of versions that are recorded from an instant on."""

    at: int
    after_days: int
    """0: they stay private."""


class Reveals(Struct, frozen=True):
    """The snapshot that the collector publishes: everything that was announced, oldest first."""

    announced: tuple[Announcement, ...]

    @property
    def after_days(self) -> int:
        """How many days a version issued now stays private; 0: for good."""
        return self.announced[-1].after_days if self.announced else 0

    @property
    def announced_at(self) -> int | None:
        """When the terms of new versions were announced; None if nothing ever was."""
        return self.announced[-1].at if self.announced else None

    @property
    def sentence(self) -> str:
        """What a buyer is told about versions recorded now; empty if they stay private."""
        if self.after_days == 0:
            return ""
        return f"Recorded versions become public {in_days(self.after_days)} after they are issued."


def in_days(days: int) -> str:
    """A number of days in words."""
    return "1 day" if days == 1 else f"{days} days"


NOT_ANNOUNCED = Reveals(())
REVEALS = Feed("reveals", Reveals)


class _Members(Struct):
    after_days: int


def announcements(events: Iterable[Event]) -> tuple[Announcement, ...]:
    """Read events of the type `reveal.announced`, oldest first."""
    return tuple(
        Announcement(event.at, json.decode(event.body, type=_Members).after_days)
        for event in events
    )


def announcement_event(at: int, after_days: int) -> NewEvent:
    """Announce the terms of versions that are recorded from now on."""
    return NewEvent("reveal.announced", at, str(at), {"after_days": after_days})


def revealed_at(issued_at: int, announced: Sequence[Announcement]) -> int | None:
    """When a version becomes public; None if never."""
    terms = [each for each in announced if each.at <= issued_at]
    if not terms or terms[-1].after_days == 0:
        return None
    return issued_at + terms[-1].after_days * DAY


def private_spans(announced: Sequence[Announcement]) -> list[tuple[int, int]]:
    """The times of issue whose versions never become public, as `revealed_spans`."""
    edges = [(0, 0), *((terms.at, terms.after_days) for terms in announced), (FOREVER, 0)]
    return [(start, end) for (start, days), (end, _) in pairwise(edges) if days == 0]


def revealed_spans(announced: Sequence[Announcement], now: int) -> list[tuple[int, int]]:
    """The times of issue whose versions are public now, each as a start and an excluded end."""
    spans = []
    for number, terms in enumerate(announced):
        replaced_at = [each.at for each in announced[number + 1 :]]
        end = min(now - terms.after_days * DAY + 1, *replaced_at, FOREVER)
        if terms.after_days and terms.at < end:
            spans.append((terms.at, end))
    return spans
