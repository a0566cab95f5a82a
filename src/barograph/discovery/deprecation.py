"""How a path says that it will go away (pure but for passing requests on).

`docs/versioning.md` tells when that happens. The fields are those of RFC 9745 and RFC 8594, and
they are on every answer of the path, errors and 304 included.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from starlette.routing import compile_path

from barograph.kit.documents import Headers, Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.timestamps import DAY, SECOND, http_date

MIN_NOTICE = 180 * DAY
"""What is deprecated today still answers for so long."""


class Deprecation(NamedTuple):
    """Since when a path is not to be used any more, until when it answers, and what is said."""

    since: int
    sunset: int
    page: str
    """Address of what tells why, and what to use instead."""

    def fields(self) -> Headers:
        """The header fields that announce it."""
        if self.sunset < self.since + MIN_NOTICE:
            raise ValueError("what is deprecated answers for at least 180 days")
        return [
            (b"deprecation", b"@%d" % (self.since // SECOND)),
            (b"sunset", http_date(self.sunset).encode()),
            (b"link", f'<{self.page}>; rel="deprecation"; type="text/html"'.encode()),
        ]


Deprecations = Mapping[str, Deprecation]
"""By path as it is described, such as `/badge/regime.svg` or `/badge/funding/{symbol}.svg`."""


def announcing(app: ASGIApp, deprecations: Deprecations, apart: Container[str] = ()) -> ASGIApp:
    """The application, with the fields on every answer of a deprecated path.

    `apart` are paths with a route of their own: no template means them, although it may match.
    Without a deprecation it is the application itself, at no cost.
    """
    if not deprecations:
        return app
    find = _finder(deprecations, apart)

    async def announce(scope: Scope, receive: Receive, send: Send) -> None:
        fields = find(scope["path"]) if scope["type"] == "http" else None
        await app(scope, receive, send if fields is None else _adding(send, fields))

    return announce


def _finder(deprecations: Deprecations, apart: Container[str]) -> Callable[[str], Headers | None]:
    """What tells which fields go with a path, if any."""
    fields = {path: each.fields() for path, each in deprecations.items()}
    templates = [(compile_path(path)[0], found) for path, found in fields.items() if "{" in path]

    def find(path: str) -> Headers | None:
        if path in fields:
            return fields[path]
        if not templates or path in apart:
            return None
        return next((found for pattern, found in templates if pattern.fullmatch(path)), None)

    return find


def _adding(send: Send, fields: Headers) -> Send:
    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *fields]}
        await send(message)

    return forward
