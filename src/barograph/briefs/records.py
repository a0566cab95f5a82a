"""What a brief is, as frozen records."""

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


E = TypeVar("E")
"""What a rule looks at: the market's evidence, or that of daily figures."""


class Citation(NamedTuple):
    """Who published the figures of a day, and when they were read."""

    source: str
    day: str
    as_of: int


class Draft(NamedTuple):
    """What a rule found."""

    subject: str
    """What it is about, as part of the address: `btc`."""

    headline: str
    sentence: str
    """What was measured, with its numbers; the source is added."""

    coins: Sequence[str]
    window: tuple[int, int]
    inputs: dict[str, Json]
    cited: Citation | None = None
    """What it rests on in place of the reading of the market."""


class RuleText(NamedTuple):
    """What a rule adds to each of its briefs."""

    id: str
    category: Category
    explanation: str


class Rule(NamedTuple, Generic[E]):
    """A rule, what it is about, and how long it stays silent about a subject."""

    id: str
    category: Category
    cooldown: int
    drafts: Callable[[E], Iterator[Draft]]

    @property
    def text(self) -> RuleText:
        """What it adds to each of its briefs."""
        return RuleText(self.id, self.category, " ".join((getdoc(self.drafts) or "").split()))


def cooldown_key(rule: str, draft: Draft) -> str:
    """What a rule's cooldown goes by: the rule and its subject."""
    return f"{rule}:{draft.subject}"


def write_brief(rule: RuleText, draft: Draft, evidence: MarketEvidence) -> Brief:
    """Write the brief of a draft."""
    at = evidence.reading.as_of
    cited = draft.cited
    source, as_of = evidence.reading.source, at
    summary = f"{draft.sentence} Source: {source}, as of {iso_timestamp(at)}."
    if cited is not None:
        source, as_of = cited.source, cited.as_of
        read_at = iso_timestamp(as_of)
        summary = f"{draft.sentence} Source: {source}, figures of {cited.day}, as of {read_at}."
    inputs = canonical({"source": source, "as_of": iso_timestamp(as_of), **draft.inputs})
    return Brief(
        slug=f"{_stamp(at)}-{rule.id}-{draft.subject}",
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


def _body(rule: RuleText, draft: Draft, summary: str) -> str:
    measured = "\n".join(f"- `{name}`: {_shown(value)}" for name, value in draft.inputs.items())
    return (
        f"{summary}\n\n## What was measured\n\n{measured}\n\n## How it was found\n\n"
        f"{rule.explanation}\n"
    )


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)


def _stamp(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d-%H%M}"
