"""Header fields that announce the removal of a path (RFC 9745, RFC 8594).

Every response of a deprecated path has them, including errors and 304. `docs/versioning.md` has the
policy.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from starlette.routing import compile_path

from barograph.kit.documents import Headers, Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.timestamps import DAY, SECOND, http_date

MIN_NOTICE = 180 * DAY
"""How long a deprecated path keeps working."""


class Deprecation(NamedTuple):
    """When a path was deprecated, when it is removed, and the page that explains it."""

    since: int
    sunset: int
    page: str
    """Address of a page that says why and what to use instead."""

    def fields(self) -> Headers:
        """The header fields."""
        if self.sunset < self.since + MIN_NOTICE:
            raise ValueError("a deprecated path must keep working for at least 180 days")
        return [
            (b"deprecation", b"@%d" % (self.since // SECOND)),
            (b"sunset", http_date(self.sunset).encode()),
            (b"link", f'<{self.page}>; rel="deprecation"; type="text/html"'.encode()),
        ]


Deprecations = Mapping[str, Deprecation]
"""By OpenAPI path, such as `/badge/regime.svg` or `/badge/funding/{symbol}.svg`."""


def announce_deprecations(
    app: ASGIApp, deprecations: Deprecations, own_routes: Container[str] = ()
) -> ASGIApp:
    """Add the header fields to every response of a deprecated path.

    Path templates don't apply to `own_routes`, the paths that match one but have their own route.
    """
    if not deprecations:
        return app
    find = _finder(deprecations, own_routes)

    async def announce(scope: Scope, receive: Receive, send: Send) -> None:
        fields = find(scope["path"]) if scope["type"] == "http" else None
        await app(scope, receive, send if fields is None else _adding(send, fields))

    return announce


def _finder(
    deprecations: Deprecations, own_routes: Container[str]
) -> Callable[[str], Headers | None]:
    fields = {path: each.fields() for path, each in deprecations.items()}
    templates = [(compile_path(path)[0], found) for path, found in fields.items() if "{" in path]

    def find(path: str) -> Headers | None:
        if path in fields:
            return fields[path]
        if not templates or path in own_routes:
            return None
        return next((found for pattern, found in templates if pattern.fullmatch(path)), None)

    return find


def _adding(send: Send, fields: Headers) -> Send:
    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *fields]}
        await send(message)

    return forward
