"""From what a rule found to a brief (pure)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from barograph.briefs.records import Brief, Category
from barograph.kit.canonical import Json, canonical, digest
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.markets.trailing import Evidence


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


class RuleText(NamedTuple):
    """What a rule adds to each of its briefs."""

    id: str
    category: Category
    explanation: str


def write_brief(rule: RuleText, draft: Draft, evidence: Evidence) -> Brief:
    """Write the brief of a draft."""
    at = evidence.reading.as_of
    source = evidence.reading.source
    inputs = canonical({"source": source, "as_of": iso_timestamp(at), **draft.inputs})
    summary = f"{draft.sentence} Source: {source}, as of {iso_timestamp(at)}."
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
        cooldown_key=f"{rule.id}:{draft.subject}",
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
