"""The documents of badges (pure): SVG, and JSON in the Shields endpoint schema."""

from copy import copy
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from barograph.badges.contents import BadgeContent, TimedContent
from barograph.badges.gauge import GaugeContent, render_gauge
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
GAUGE_PATH = f"{BADGE_FOLDER}gauge.svg"
SVG = b"image/svg+xml; charset=utf-8"
POLICY = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
"""An image that is opened as a page runs and loads nothing. The gauge has its own style."""

KEEP_SECONDS = 600
KEEP_ERROR_SECONDS = 60
CACHED_DOCUMENTS = 2048

_HOT_QUERIES: tuple[tuple[bytes, Style], ...] = (
    (b"", "flat"),
    (b"style=flat", "flat"),
    (b"style=flat-square", "flat-square"),
)


@lru_cache(CACHED_DOCUMENTS)
def badge_document(content: BadgeContent, style: Style, form: Form) -> Document:
    """The document of a badge."""
    if form == "json":
        body = EndpointBadge(
            label=content.label,
            message=content.message,
            color=content.colour,
            isError=content.is_error,
            style=style,
            cacheSeconds=keep_seconds(content),
        )
        return Document(body.encode(), cache_control=cache_control(content))
    badge = Badge(
        content.label, content.message, content.colour, style, content.title, content.description
    )
    return _image(render(badge), content)


@lru_cache(64)
def gauge_document(content: GaugeContent) -> Document:
    """The document of the regime gauge."""
    return _image(render_gauge(content), content)


def _image(svg: str, content: BadgeContent | GaugeContent) -> Document:
    kept = cache_control(content)
    return Document(svg.encode(), content_type=SVG, cache_control=kept, fields=[POLICY])


def keep_seconds(content: BadgeContent | GaugeContent) -> int:
    """How long caches may keep a badge; an error only briefly."""
    return KEEP_ERROR_SECONDS if content.is_error else KEEP_SECONDS


def cache_control(content: BadgeContent | GaugeContent) -> bytes:
    """`Cache-Control` of a badge."""
    return f"public, max-age={keep_seconds(content)}".encode()


def hot_documents(name: str, timed: TimedContent, now: int) -> dict[HotKey, Document]:
    """Every style and form of the badge `name`, valid from `now` until it may change."""
    if timed.until <= now:
        return {}
    return {
        (f"{BADGE_FOLDER}{name}.{form}", query): _valid(
            badge_document(timed.content, style, form), now, timed.until
        )
        for form in FORMS
        for query, style in _HOT_QUERIES
    }


def _valid(document: Document, since: int, until: int) -> Document:
    """The same document with its own validity; both share their bytes."""
    timed = copy(document)
    timed.since = since
    timed.until = until
    return timed
