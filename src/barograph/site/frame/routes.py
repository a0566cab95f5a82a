"""Routes of pages: a request goes in and a page comes out, and nothing of it is described."""

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

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
