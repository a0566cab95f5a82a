"""The body of `/api/agent/guides`, in the contract's names and order."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from barograph.kit.wire import WireModel

Price = Annotated[
    int | float,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "description": "In USD."}),
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
    """The whole catalog."""

    source: Annotated[str, Field(description="Whose catalog it is.")]
    notice: Annotated[str, Field(description="Information-only notice.")]
    count: Annotated[int, Field(description="How many guides there are: 27.")]
    guides: list[GuideEntry]
