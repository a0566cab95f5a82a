"""Where the briefs' bytes are rendered (pure)."""

from collections.abc import Sequence

from barograph.briefs.records import Briefs, ListedBrief
from barograph.briefs.wire import BriefBody, BriefList
from barograph.kit.documents import Document
from barograph.kit.timestamps import iso_timestamp
from barograph.notice import NOTICE

BRIEFS_PATH = "/api/agent/briefs"
PAGE_FOLDER = "/briefs/"


def briefs_body(briefs: Briefs, limit: int, *, source: str, base_url: str) -> bytes:
    """Render the newest `limit` briefs; `source` is that of a list without any."""
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
    """Each brief as the contract shapes it."""
    return [
        BriefBody(
            headline=each.headline,
            category=each.category,
            coins=list(each.coins),
            summary=each.summary,
            url=f"{base_url}{PAGE_FOLDER}{each.slug}",
            publishedAt=iso_timestamp(each.published_at),
        )
        for each in briefs
    ]


def briefs_document(briefs: Briefs, body: bytes, *, since: int, until: int) -> Document:
    """A body as it may be given from `since` until `until`."""
    newest = briefs.briefs[0].published_at if briefs.briefs else None
    return Document(body, since=since, until=until, modified=newest)
