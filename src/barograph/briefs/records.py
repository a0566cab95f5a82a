"""Briefs and the rules' drafts as frozen records."""

from collections.abc import Callable, Collection, Iterator, Sequence
from inspect import getdoc
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

from msgspec import Struct

from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp

Category = Literal[
    "funding",
    "positioning",
    "liquidations",
    "open-interest",
    "etf-flows",
    "rates",
    "market",
    "data-quality",
    "note",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)


def in_words(name: str) -> str:
    """The name of a category or of a rule for people: `ETF flows`."""
    return f"{name[:1].upper()}{name[1:].replace('-', ' ')}".replace("Etf", "ETF")


OPERATOR = "operator"
"""The rule name of briefs that an operator wrote."""

LINE_END = "\n"
"""Separates the lines of a draft's sentence, which its page shows as a list."""


class Brief(NamedTuple):
    """A brief and its origin, in the order of the table's columns."""

    slug: str
    published_at: int
    category: str
    headline: str
    coins: tuple[str, ...]
    summary: str
    body: str
    """Markdown."""

    source: str
    rule: str
    window_start: int
    window_end: int
    inputs: str
    """Canonical JSON of the rule's inputs."""

    inputs_digest: str
    """SHA-256 of `inputs`."""

    cooldown_key: str
    """The rule writes nothing else with the same key before its cooldown has passed."""

    version: int = 1
    """Which text of the brief this is: an update keeps the slug and counts on."""

    first_published_at: int | None = None
    """When the first text was published; None if this is the first."""

    @property
    def first_at(self) -> int:
        """When the first text was published."""
        return self.published_at if self.first_published_at is None else self.first_published_at

    @property
    def begins_with_summary(self) -> bool:
        """Whether the body repeats the summary, so that a page need not."""
        return self.rule != OPERATOR or self.body.startswith(self.summary)


def published_text(brief: Brief) -> dict[str, Json]:
    """Everything that a text says, as its event's `text_sha256` covers it; it never changes."""
    return {
        "slug": brief.slug,
        "version": brief.version,
        "published_at": iso_timestamp(brief.published_at),
        "first_published_at": iso_timestamp(brief.first_at),
        "category": brief.category,
        "headline": brief.headline,
        "coins": list(brief.coins),
        "summary": brief.summary,
        "body": brief.body,
        "source": brief.source,
        "rule": brief.rule,
        "window_start": iso_timestamp(brief.window_start),
        "window_end": iso_timestamp(brief.window_end),
        "inputs": brief.inputs,
        "inputs_digest": brief.inputs_digest,
    }


class ListedBrief(Struct, frozen=True):
    """A brief as lists show it."""

    slug: str
    published_at: int
    category: str
    headline: str
    coins: tuple[str, ...]
    summary: str
    source: str = ""
    """The venue, or the operator."""

    version: int = 1


class Briefs(Struct, frozen=True):
    """The newest briefs, newest first."""

    briefs: tuple[ListedBrief, ...]


class BriefText(NamedTuple):
    """One of the texts of a brief, as links to it show it."""

    slug: str
    version: int
    published_at: int
    headline: str


class Written(NamedTuple):
    """A text that a rule wrote."""

    slug: str
    version: int
    first_published_at: int
    published_at: int


class BriefsPage(NamedTuple):
    """One page of a list of briefs, and the length of the whole list."""

    briefs: Sequence[ListedBrief]
    total: int
    categories: Collection[str]
    """Those of all briefs, or of those about the list's coin."""


class Neighbours(NamedTuple):
    """The briefs before and after one, by time of publication."""

    older: ListedBrief | None
    newer: ListedBrief | None


E = TypeVar("E")
"""What a rule judges by: market evidence or daily figures."""


class Citation(NamedTuple):
    """Who published the figures of a day, and when they were read."""

    source: str
    day: str
    as_of: int


class Draft(NamedTuple):
    """What a rule found."""

    subject: str
    """What it is about, as part of the address, such as `btc`."""

    headline: str
    sentence: str
    """What was measured, with its numbers; the source is added."""

    coins: Sequence[str]
    window: tuple[int, int]
    inputs: dict[str, Json]
    cited: Citation | None = None
    """The source if it is not the market reading."""

    source: str | None = None
    """The venues, if the reading of one is not all."""

    slug: str | None = None
    """The address, if it is not made of the time, the rule and the subject."""

    table: Sequence[Sequence[str]] = ()
    """What was measured, with the names of the columns first; empty: the inputs."""


class Rule(NamedTuple, Generic[E]):
    """A rule, its category, and its cooldown per subject."""

    id: str
    category: Category
    cooldown: int
    drafts: Callable[[E], Iterator[Draft]]

    @property
    def explanation(self) -> str:
        """The rule in words, printed in its briefs: its docstring."""
        return " ".join((getdoc(self.drafts) or "").split())


def cooldown_key(rule: str, draft: Draft) -> str:
    """The key of a rule's cooldown: the rule and its subject."""
    return f"{rule}:{draft.subject}"
