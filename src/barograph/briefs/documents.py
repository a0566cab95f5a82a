"""Renders the lists of briefs (pure)."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.briefs.records import Briefs, ListedBrief
from barograph.kit.documents import Document
from barograph.kit.http import clamped_integer
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel

BRIEFS_PATH = "/api/agent/briefs"
BRIEF_PAGES = "/briefs/"
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
            headline=each.headline,
            category=each.category,
            coins=list(each.coins),
            summary=each.summary,
            url=f"{base_url}{BRIEF_PAGES}{each.slug}",
            publishedAt=iso_timestamp(each.published_at),
        )
        for each in briefs
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
