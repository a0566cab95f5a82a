"""Briefs and the rules' drafts as frozen records."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from inspect import getdoc
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

from msgspec import Struct

from barograph.kit.json import Json, canonical, digest
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.markets.evidence import MarketEvidence

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
"""The rule name of briefs that an operator wrote."""


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
    """The rule writes no other brief with the same key before its cooldown has passed."""


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


class Briefs(Struct, frozen=True):
    """The newest briefs, newest first."""

    briefs: tuple[ListedBrief, ...]


class BriefsPage(NamedTuple):
    """One page of a list of briefs, and the length of the whole list."""

    briefs: Sequence[ListedBrief]
    total: int


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


def write_brief(rule: Rule[E], draft: Draft, evidence: MarketEvidence) -> Brief:
    """Write the brief of a draft."""
    at = evidence.reading.as_of
    cited = draft.cited
    source, as_of = draft.source or evidence.reading.source, at
    summary = f"{draft.sentence} Source: {source}, as of {iso_timestamp(at)}."
    if cited is not None:
        source, as_of = cited.source, cited.as_of
        read_at = iso_timestamp(as_of)
        summary = f"{draft.sentence} Source: {source}, figures of {cited.day}, as of {read_at}."
    inputs = canonical({"source": source, "as_of": iso_timestamp(as_of), **draft.inputs})
    return Brief(
        slug=f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d-%H%M}-{rule.id}-{draft.subject}",
        published_at=at,
        category=rule.category,
        headline=draft.headline,
        coins=tuple(draft.coins),
        summary=summary,
        body=_body(rule, draft, summary),
        source=source,
        rule=rule.id,
        window_start=draft.window[0],
        window_end=draft.window[1],
        inputs=inputs,
        inputs_digest=digest(inputs),
        cooldown_key=cooldown_key(rule.id, draft),
    )


def _body(rule: Rule[E], draft: Draft, summary: str) -> str:
    measured = "\n".join(f"- `{name}`: {_shown(value)}" for name, value in draft.inputs.items())
    return (
        f"{summary}\n\n## What was measured\n\n{measured}\n\n## How it was found\n\n"
        f"{rule.explanation}\n"
    )


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
