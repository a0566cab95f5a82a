"""The web side, assembled."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from barograph.board.board import Board
from barograph.board.front_door import front_door
from barograph.discovery.endpoints import OPENAPI_PATH, discovery_routes
from barograph.discovery.index import INDEX_PATH, index_document
from barograph.errors import RequestError, UpstreamUnavailable
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ALLOW, ASGIApp, FreeReads, error_response
from barograph.markets.documents import hot_documents
from barograph.markets.endpoints import market_routes
from barograph.markets.feeds import FEEDS
from barograph.markets.reader import MarketReader, market_bounds
from barograph.settings import Settings
from barograph.site.endpoints import site_routes
from barograph.status.endpoints import STATUS_PATH, status_routes

log = logging.getLogger(__name__)

FREE_PATHS = ("/", INDEX_PATH, STATUS_PATH, OPENAPI_PATH)
FREE_FOLDERS = (f"{INDEX_PATH}/",)


class WebSide(NamedTuple):
    """The application, and the parts of it that can be asked apart."""

    app: ASGIApp
    routes: ASGIApp
    """The application without its front door."""

    board: Board


def create_app(settings: Settings, database: Database, *, clock: Clock = system_clock) -> WebSide:
    """Put the web side together."""
    bounds = market_bounds(settings)
    reader = MarketReader(bounds)
    index = index_document(settings.base_url)

    def render(board: Board, now: int) -> Mapping[HotKey, Document]:
        documents: dict[HotKey, Document] = {(INDEX_PATH, b""): index}
        with suppress(UpstreamUnavailable):  # the routes say so; nothing stale is kept hot
            documents |= hot_documents(reader.view(board, now))
        return documents

    board = Board(database, FEEDS, clock=clock, render=render)
    routes = _routed_app(board, database)
    routes.include_router(discovery_routes(settings.base_url, index, clock))
    routes.include_router(market_routes(board, reader))
    routes.include_router(status_routes(board, bounds))
    routes.include_router(site_routes(clock))
    free = FreeReads(routes, is_free)
    return WebSide(front_door(free, board), free, board)


def is_free(path: str) -> bool:
    """Whether anyone from any origin may read this path; `/api/agents` is not `/api/agent`."""
    return path in FREE_PATHS or path.startswith(FREE_FOLDERS)


def _routed_app(board: Board, database: Database) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await board.refresh()
        except DatabaseUnavailable as error:
            log.warning("starting without data", extra={"reason": str(error)})
        following = asyncio.create_task(board.follow())
        yield
        following.cancel()
        await asyncio.wait([following])
        await database.close()

    app = FastAPI(
        title="Barograph",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    return app


async def _request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.status, error.message)


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown paths and wrong methods."""
    assert isinstance(error, HTTPException)
    free = is_free(request.scope["path"])
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return error_response(error.status_code, "not found", is_free=free)
    allow = (b"allow", ALLOW if free else b"GET")
    return error_response(error.status_code, "method not allowed", allow, is_free=free)


async def _unexpected_error(request: Request, error: Exception) -> Response:
    log.error("unexpected failure", exc_info=error)
    return error_response(500, "internal error", is_free=is_free(request.scope["path"]))
