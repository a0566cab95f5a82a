"""Renders the lists of briefs (pure)."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.briefs.records import Brief, Briefs, ListedBrief, published_text
from barograph.kit.documents import Document
from barograph.kit.http import clamped_integer
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel

BRIEFS_PATH = "/api/agent/briefs"
BRIEF_PAGES = "/briefs/"
BRIEF_PATH = "/api/v1/briefs/"
DEFAULT_BRIEFS = 15
MIN_BRIEFS = 1
MAX_BRIEFS = 50


class BriefBody(WireModel):
    """One brief."""

    headline: str
    category: Annotated[
        str,
        Field(
            description="funding, positioning, liquidations, open-interest, etf-flows, rates, "
            "market, data-quality or note."
        ),
    ]
    coins: Annotated[list[str], Field(description="Asset symbols; may be empty.")]
    summary: str
    url: Annotated[str, Field(description="Address of the brief.")]
    publishedAt: Annotated[str, Field(description="Time of publication, or of the last update.")]


class BriefList(WireModel):
    """The newest briefs, newest first."""

    source: Annotated[str, Field(description="The source of the briefs.")]
    notice: Notice
    count: Annotated[int, Field(description="Number of briefs in this response.")]
    briefs: list[BriefBody]


class BriefContent(WireModel):
    """One text of a brief; it never changes. Its members are texts, integers and lists of texts."""

    slug: str
    version: Annotated[int, Field(description="1, 2, 3 …: an update is the next version.")]
    published_at: str
    first_published_at: Annotated[str, Field(description="When version 1 was published.")]
    category: str
    headline: str
    coins: list[str]
    summary: str
    body: Annotated[str, Field(description="Markdown.")]
    source: str
    rule: Annotated[str, Field(description="The rule that wrote it, or `operator`.")]
    window_start: Annotated[str, Field(description="Start of the measured period.")]
    window_end: str
    inputs: Annotated[str, Field(description="What was measured, as canonical JSON.")]
    inputs_digest: Annotated[str, Field(description="SHA-256 of `inputs`.")]


class FollowedBody(WireModel):
    """Price changes after earlier cases of the same rule and subject that don't overlap in time."""

    symbol: Annotated[str, Field(description="Whose price, such as `BTC`.")]
    horizon_hours: int
    cases: Annotated[int, Field(description="At least 30.")]
    median_pct: float
    lowest_pct: float
    highest_pct: float


class BriefDocument(WireModel):
    """One text of a brief, and the digest that the log of events has of it."""

    as_of: Annotated[str, Field(description="When this text was published.")]
    venue: Annotated[str | None, Field(description="Null if it is not from an exchange.")]
    source: str
    notice: Notice
    text_sha256: Annotated[
        str, Field(description="SHA-256 of `text` as canonical JSON (RFC 8785).")
    ]
    text: BriefContent
    followed: Annotated[
        FollowedBody | None, Field(description="From `inputs`; null for fewer than 30 cases.")
    ]


def brief_document(brief: Brief, sources: Mapping[str, str]) -> Document:
    """One text of a brief; `sources` are those of the venues."""
    text = published_text(brief)
    body = BriefDocument(
        as_of=iso_timestamp(brief.published_at),
        venue=next((venue for venue, source in sources.items() if source == brief.source), None),
        source=brief.source,
        notice=NOTICE,
        text_sha256=digest(canonical(text)),
        text=BriefContent.model_validate(text),
        followed=json.loads(brief.inputs).get("followed"),
    )
    return Document(body.encode(), modified=brief.published_at, compress=True)


def briefs_body(briefs: Briefs, limit: int, *, source: str, base_url: str) -> bytes:
    """Render the newest `limit` briefs; `source` is that of an empty list."""
    shown = briefs.briefs[:limit]
    sources = dict.fromkeys(each.source or source for each in shown)
    body = BriefList(
        source=f"Barograph briefs, written from: {'; '.join(sources) or source}",
        notice=NOTICE,
        count=len(shown),
        briefs=brief_bodies(shown, base_url),
    )
    return body.encode()


def brief_bodies(briefs: Sequence[ListedBrief], base_url: str) -> list[BriefBody]:
    """Each brief as the contract defines it."""
    return [
        BriefBody(
            headline=brief.headline,
            category=brief.category,
            coins=list(brief.coins),
            summary=brief.summary,
            url=f"{base_url}{BRIEF_PAGES}{brief.slug}",
            publishedAt=iso_timestamp(brief.published_at),
        )
        for brief in briefs
    ]


def briefs_document(briefs: Briefs, body: bytes, *, since: int, until: int) -> Document:
    """A document that is valid from `since` until `until`."""
    newest = briefs.briefs[0].published_at if briefs.briefs else None
    return Document(body, since=since, until=until, modified=newest)


def limit_from_query(query: QueryParams) -> int:
    """Read `limit`: an integer is clamped to the range, anything else gives the default."""
    return clamped_integer(
        query.getlist("limit"), default=DEFAULT_BRIEFS, lowest=MIN_BRIEFS, highest=MAX_BRIEFS
    )
