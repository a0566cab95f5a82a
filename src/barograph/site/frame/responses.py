"""Routes of pages: a request goes in and a page comes out, and nothing of it is described."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from barograph.kit.documents import FOREVER, JSON, NO_STORE, Document, Headers

HTML = b"text/html; charset=utf-8"
CSS = b"text/css; charset=utf-8"
SCRIPT = b"text/javascript; charset=utf-8"
SVG = b"image/svg+xml"
PNG = b"image/png"

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
GUARD: Headers = [
    (b"content-security-policy", _POLICY),
    # Under `no-referrer` browsers send our own forms with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
]
"""A page runs our scripts alone, loads nothing from elsewhere, sits in no frame and sends other
sites no referrer."""

KEEP = b"public, max-age=3600"
KEEP_FOR_EVER = b"public, max-age=31536000, immutable"
LOOK_EACH_TIME = b"no-cache"


class Page(Document):
    """A page, or what it is made of, that is the same for everyone.

    Texts are compressed once, when they are written, for those who take them so.
    """

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
        guard: Headers = GUARD,
    ) -> None:
        super().__init__(
            body,
            since=since,
            until=until,
            content_type=content_type,
            cache_control=cache_control,
            fields=[*guard, *(fields or [])],
            compress=content_type != PNG,
        )


def private_page(status: int, body: bytes, *fields: tuple[bytes, bytes]) -> Response:
    """A page for one caller only, which no cache and no other origin may have."""
    return _private(status, body, (b"content-type", HTML), *fields)


def private_json(status: int, body: bytes, *fields: tuple[bytes, bytes]) -> Response:
    """The same for a program."""
    return _private(status, body, (b"content-type", JSON), *fields)


def _private(status: int, body: bytes, *fields: tuple[bytes, bytes]) -> Response:
    response = Response(body, status)
    length = (b"content-length", str(len(body)).encode())
    response.raw_headers = [*fields, length, NO_STORE, *GUARD]
    return response


def accepts(fields: Iterable[tuple[bytes, bytes]], media_type: bytes) -> bool:
    """Whether a request's `Accept` names a media type; `*/*` and silence name none."""
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


Answer = Callable[..., Coroutine[Any, Any, Response]]
"""Answers a request, with the parts of its path by their names."""


class PageRouter(Router):
    """Takes the routes of pages without what the framework does for described ones."""

    def get(self, path: str) -> Callable[[Answer], Answer]:
        """Add what answers GET at this path."""

        def add(answer: Answer) -> Answer:
            self.add(path, answer, "GET")
            return answer

        return add

    def add(self, path: str, answer: Answer, *methods: str) -> None:
        """Add what answers these methods, all of them, at this path."""

        async def handle(request: Request) -> Response:
            response = await answer(request, **request.path_params)
            if request.method == "HEAD":
                response.body = b""
            return response

        route = Route(path, handle, include_in_schema=False)
        # Without a HEAD of its own: to what is free it comes as GET.
        route.methods = set(methods)
        self.routes.append(route)
