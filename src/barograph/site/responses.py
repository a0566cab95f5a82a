"""Page documents, private responses, and a router for pages, which are not part of OpenAPI."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from barograph.kit.documents import FOREVER, NO_STORE, Document, Headers

HTML = b"text/html; charset=utf-8"
CSS = b"text/css; charset=utf-8"
SCRIPT = b"text/javascript; charset=utf-8"
TEXT = b"text/plain; charset=utf-8"
SVG = b"image/svg+xml"
PNG = b"image/png"

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Headers = [
    (b"content-security-policy", _POLICY),
    # Under `no-referrer` browsers send our own forms with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
]

CACHE_ONE_MINUTE = b"public, max-age=60"
CACHE_ONE_HOUR = b"public, max-age=3600"
CACHE_FOREVER = b"public, max-age=31536000, immutable"
REVALIDATE = b"no-cache"


class Page(Document):
    """A page, static file or download that is the same for everyone; text is compressed once."""

    __slots__ = ()

    def __init__(
        self,
        body: bytes,
        *,
        since: int = 0,
        until: int = FOREVER,
        content_type: bytes = HTML,
        cache_control: bytes | None = None,
        fields: Headers | None = None,
        security: Headers = SECURITY_HEADERS,
    ) -> None:
        super().__init__(
            body,
            since=since,
            until=until,
            content_type=content_type,
            cache_control=cache_control,
            fields=[*security, *(fields or [])],
            compress=content_type != PNG,
        )


def private_page(
    status: int, body: bytes, *fields: tuple[bytes, bytes], content_type: bytes = HTML
) -> Response:
    """A response for one caller, which caches must not store and other origins cannot read."""
    response = Response(body, status)
    kind, length = (b"content-type", content_type), (b"content-length", b"%d" % len(body))
    response.raw_headers = [kind, *fields, length, NO_STORE, *SECURITY_HEADERS]
    return response


def accepts(fields: Iterable[tuple[bytes, bytes]], media_type: bytes) -> bool:
    """Whether a request's `Accept` lists a media type explicitly; `*/*` does not count."""
    for name, value in fields:
        if name == b"accept":
            for choice in value.split(b","):
                kind, *parameters = (part.strip().lower() for part in choice.split(b";"))
                if kind == media_type and not any(_is_zero(part) for part in parameters):
                    return True
    return False


def _is_zero(parameter: bytes) -> bool:
    name, _, value = parameter.partition(b"=")
    return name.strip() == b"q" and not value.strip(b" 0.")


PageEndpoint = Callable[..., Coroutine[Any, Any, Response]]
"""Takes a request and the path parameters by name."""


class PageRouter(Router):
    """Routes pages directly, without FastAPI's parameter parsing and OpenAPI."""

    def get(self, path: str) -> Callable[[PageEndpoint], PageEndpoint]:
        """Add a GET endpoint."""

        def add(endpoint: PageEndpoint) -> PageEndpoint:
            self.add(path, endpoint, "GET")
            return endpoint

        return add

    def add(self, path: str, endpoint: PageEndpoint, *methods: str) -> None:
        """Add an endpoint for all of these methods."""

        async def handle(request: Request) -> Response:
            response = await endpoint(request, **request.path_params)
            if request.method == "HEAD":
                response.body = b""
            return response

        route = Route(path, handle, include_in_schema=False)
        # Starlette would add HEAD; free paths receive HEAD requests as GET.
        route.methods = set(methods)
        self.routes.append(route)
