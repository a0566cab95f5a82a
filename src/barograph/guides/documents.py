"""Renders the catalog once per worker (pure)."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from barograph import NOTICE
from barograph.guides.catalog import Catalog, Guide
from barograph.kit.documents import Document
from barograph.kit.wire import Notice, WireModel

Price = Annotated[
    int | float, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "description": "In USD."})
]
"""A whole price stays whole on the wire: 10, not 10.0."""


class GuideEntry(WireModel):
    """One paid guide."""

    slug: str
    title: str
    description: str
    tags: list[str]
    pages: int
    price: Price
    url: Annotated[str, Field(description="Where the guide is described or bought.")]


class Guides(WireModel):
    """The catalog."""

    source: Annotated[str, Field(description="The owner of the catalog.")]
    notice: Notice
    count: Annotated[int, Field(description="Number of guides: 27.")]
    guides: list[GuideEntry]


GUIDES_PATH = "/api/agent/guides"
GUIDE_PAGES = "/guides"


def guides_document(catalog: Catalog, base_url: str) -> Document:
    """Render the catalog of the instance at `base_url`."""
    body = Guides(
        source=catalog.source,
        notice=NOTICE,
        count=len(catalog.guides),
        guides=[_entry(guide, base_url) for guide in catalog.guides],
    )
    return Document(body.encode(), compress=True)


def guide_url(guide: Guide, base_url: str) -> str:
    """Where to buy a guide: its own link, or its page on this site."""
    return f"{base_url}{GUIDE_PAGES}/{guide.slug}" if guide.url is None else guide.url


def _entry(guide: Guide, base_url: str) -> GuideEntry:
    return GuideEntry.model_validate(guide._asdict() | {"url": guide_url(guide, base_url)})
