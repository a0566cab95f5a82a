"""What the pages of briefs show (pure)."""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from barograph.briefs.documents import BRIEFS_PATH, PAGE_FOLDER
from barograph.briefs.records import CATEGORIES, OPERATOR, Brief, BriefsPage, Neighbours
from barograph.kit.query import Query
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.symbols import MAX_LENGTH, normalized
from barograph.notice import NOTICE
from barograph.site.frame.paths import BRIEFS_PAGE
from barograph.site.frame.writer import SITE_NAME, Pages

PAGE_SIZE = 20

_PAGE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


class Asked(NamedTuple):
    """Which briefs are listed."""

    category: str | None = None
    coin: str | None = None
    page: int = 1

    @property
    def query(self) -> str:
        """The one query that asks for this."""
        given = {"category": self.category, "coin": self.coin}
        given["page"] = str(self.page) if self.page > 1 else None
        return urlencode({name: value for name, value in given.items() if value is not None})

    @property
    def address(self) -> str:
        """The one address of this list, below the root."""
        return f"{BRIEFS_PAGE}?{self.query}" if self.query else BRIEFS_PAGE

    @property
    def offset(self) -> int:
        """How many briefs come before this page."""
        return (self.page - 1) * PAGE_SIZE


def asked_from_query(query: Query) -> Asked | None:
    """Read what is asked for; None for what can be no list. Other parameters are ignored."""
    values = {name: query.getlist(name) or [""] for name in ("category", "coin", "page")}
    if any(len(each) > 1 for each in values.values()):
        return None
    return _asked({name: each[0].strip() for name, each in values.items()})


def _asked(given: Mapping[str, str]) -> Asked | None:
    """A field that was left empty, as forms send it, asks for everything."""
    category, coin, page = given["category"], normalized(given["coin"]), given["page"] or "1"
    if category and category not in CATEGORIES:
        return None
    if (given["coin"] and coin is None) or _PAGE.fullmatch(page) is None:
        return None
    return Asked(category or None, coin, int(page))


def write_briefs(pages: Pages, asked: Asked, found: BriefsPage) -> bytes | None:
    """A page of the list; None beyond its end."""
    last = max(1, -(-found.total // PAGE_SIZE))
    if asked.page > last:
        return None
    return pages.fill(
        "briefs.html",
        here=BRIEFS_PAGE,
        asked=asked,
        briefs=found.briefs,
        total=found.total,
        last=last,
        newer=asked._replace(page=asked.page - 1) if asked.page > 1 else None,
        older=asked._replace(page=asked.page + 1) if asked.page < last else None,
        choices=[(name, asked._replace(category=name, page=1)) for name in (None, *CATEGORIES)],
        everything=Asked(),
        longest=MAX_LENGTH,
        api_path=BRIEFS_PATH,
    )


def write_brief(pages: Pages, brief: Brief, around: Neighbours) -> bytes:
    """One brief, where it comes from, and those before and after it."""
    return pages.fill(
        "brief.html",
        here=BRIEFS_PAGE,
        brief=brief,
        operator=OPERATOR,
        around=around,
        citation=citation(brief, pages.base_url),
        article=article(brief, pages.base_url),
        of_category=Asked(category=brief.category).address,
        of_coins=[(coin, Asked(coin=coin).address) for coin in brief.coins],
        api_path=BRIEFS_PATH,
    )


def article(brief: Brief, base_url: str) -> dict[str, object]:
    """A brief in the words of schema.org, for search engines."""
    publisher = {"@type": "Organization", "name": SITE_NAME, "url": f"{base_url}/"}
    return {
        "@context": "https://schema.org",
        "@type": "Article",
        "headline": brief.headline,
        "description": brief.summary,
        "datePublished": iso_timestamp(brief.published_at),
        "articleSection": brief.category,
        "keywords": list(brief.coins),
        "url": f"{base_url}{PAGE_FOLDER}{brief.slug}",
        "isAccessibleForFree": True,
        "author": publisher,
        "publisher": publisher,
    }


def citation(brief: Brief, base_url: str) -> str:
    """How a brief is cited: what, by whom, when, where, and that it is no advice."""
    at = iso_timestamp(brief.published_at)
    return (
        f"“{brief.headline}”, {SITE_NAME}, {at} ({brief.source}). "
        f"{base_url}{PAGE_FOLDER}{brief.slug} · {NOTICE}"
    )
