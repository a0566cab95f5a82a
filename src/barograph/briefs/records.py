"""What a brief is, as frozen records."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from msgspec import Struct

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

OPERATOR = "operator"
"""The rule of briefs that a person wrote."""


class Brief(NamedTuple):
    """A brief and where it comes from, in the order of the table's columns."""

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
    """Canonical JSON of what the rule looked at."""

    inputs_digest: str
    """SHA-256 of `inputs`."""

    cooldown_key: str
    """Another brief with the same key is not written before the rule's cooldown has passed."""


class ListedBrief(Struct, frozen=True):
    """A brief as lists show it."""

    slug: str
    published_at: int
    category: str
    headline: str
    coins: tuple[str, ...]
    summary: str
    source: str = ""
    """The venue, or that the operator wrote it."""


class Briefs(Struct, frozen=True):
    """The newest briefs, newest first."""

    briefs: tuple[ListedBrief, ...]


class BriefsPage(NamedTuple):
    """A part of a list of briefs, and how many the whole list has."""

    briefs: Sequence[ListedBrief]
    total: int


class Neighbours(NamedTuple):
    """The briefs before and after one, in the order of publication."""

    older: ListedBrief | None
    newer: ListedBrief | None
