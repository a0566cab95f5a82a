"""Where badges become bytes (pure): as SVG and in the schema of Shields."""

from copy import copy
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from barograph.badges.content import Face, Showing
from barograph.badges.svg import Badge, Style, render
from barograph.kit.documents import Document, HotKey
from barograph.kit.wire import WireModel


class EndpointBadge(WireModel):
    """A badge that Shields can draw. It refuses members that it does not know."""

    schemaVersion: Literal[1] = 1
    label: Annotated[str, Field(description="The text on the left.")]
    message: Annotated[str, Field(description="The text on the right.")]
    color: Annotated[str, Field(description="Colour of the right side.")]
    isError: Annotated[
        bool, Field(description="Whether the badge shows an error or an unknown value.")
    ]
    style: Literal["flat", "flat-square"]
    cacheSeconds: Annotated[int, Field(description="How long the badge may be cached, in seconds.")]


Form = Literal["svg", "json"]
FORMS: tuple[Form, ...] = ("svg", "json")

BADGE_FOLDER = "/badge/"
SVG = b"image/svg+xml; charset=utf-8"
KEEP_SECONDS = 600
KEEP_ERROR_SECONDS = 60
KEPT_DOCUMENTS = 2048

_HOT_QUERIES: tuple[tuple[bytes, Style], ...] = (
    (b"", "flat"),
    (b"style=flat", "flat"),
    (b"style=flat-square", "flat-square"),
)


@lru_cache(KEPT_DOCUMENTS)
def badge_document(face: Face, style: Style, form: Form) -> Document:
    """Make the document of a badge, or give the one that says the same."""
    if form == "json":
        body = EndpointBadge(
            label=face.label,
            message=face.message,
            color=face.colour,
            isError=face.is_error,
            style=style,
            cacheSeconds=keep_seconds(face),
        )
        return Document(body.encode(), cache_control=cache_control(face))
    badge = Badge(face.label, face.message, face.colour, style, face.title, face.description)
    return Document(render(badge).encode(), content_type=SVG, cache_control=cache_control(face))


def keep_seconds(face: Face) -> int:
    """How long caches keep a badge; an error not for long, because proxies pin what they get."""
    return KEEP_ERROR_SECONDS if face.is_error else KEEP_SECONDS


def cache_control(face: Face) -> bytes:
    """The same as a header's value."""
    return f"public, max-age={keep_seconds(face)}".encode()


def hot_documents(name: str, showing: Showing, now: int) -> dict[HotKey, Document]:
    """Every style and form of the badge `name`, to be given from `now` until it may be wrong."""
    if showing.until <= now:
        return {}
    return {
        (f"{BADGE_FOLDER}{name}.{form}", query): _given(
            badge_document(showing.face, style, form), now, showing.until
        )
        for form in FORMS
        for query, style in _HOT_QUERIES
    }


def _given(document: Document, since: int, until: int) -> Document:
    """The same document with a life of its own; its bytes and messages are shared."""
    lent = copy(document)
    lent.since = since
    lent.until = until
    return lent
