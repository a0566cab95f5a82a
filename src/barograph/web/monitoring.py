"""Health checks for a load balancer, and what a web worker measures besides its requests.

Both checks answer from memory. A stale exchange or a lost database doesn't make a host unready: it
must still answer with the last data, the status, or 502.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.kit.documents import Message
from barograph.kit.http import ApiRouter, ASGIApp, Receive, Scope, Send
from barograph.kit.metrics import FEED_AGE, LIMITS_FAILING, Gauges, RequestTimes, add
from barograph.macro.records import MACRO_HEALTH
from barograph.markets.view import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
)
from barograph.settings import Settings
from barograph.signals.records import SIGNALS
from barograph.stances.reader import STANCES
from barograph.status.reader import LimitsFailing

ALIVE_PATH = "/healthz"
READY_PATH = "/readyz"
HEALTH_PATHS = (ALIVE_PATH, READY_PATH)


def health_routes(board: Board, is_stopping: Callable[[], bool]) -> ApiRouter:
    """The routes; they are not part of the described API."""
    router = ApiRouter()

    @router.get(ALIVE_PATH)
    async def alive(_: Request) -> Response:
        return _answer(200, "alive")

    @router.get(READY_PATH)
    async def ready(_: Request) -> Response:
        if is_stopping():
            return _answer(503, "stopping")
        # The collector publishes this feed with every reading, even one that failed.
        if board.latest(EXCHANGE_HEALTH) is None:
            return _answer(503, "starting")
        return _answer(200, "ready")

    return router


def _answer(status: int, word: str) -> Response:
    body = f'{{"status":"{word}"}}'
    return Response(body, status, {"cache-control": "no-store"}, "application/json")


DATED: tuple[Feed[Any], ...] = (PERPETUALS, LIQUIDATIONS, REGIME, EXCHANGE_HEALTH, SIGNALS, STANCES)
OTHER = "other"
"""The route of every path that no route matches."""


def route_finder(routes: Sequence[BaseRoute]) -> Callable[[str], str]:
    """A function that finds the route template of a path, such as `/guides/{slug}`."""
    known = [(route.path_regex, route.path) for route in routes if isinstance(route, Route)]

    return lambda path: next((template for regex, template in known if regex.match(path)), OTHER)


async def web_gauges(
    board: Board, settings: Settings, limits_failing: LimitsFailing, gauges: Gauges
) -> None:
    """Add the times of the newest data of each feed, and whether the limits store fails."""
    dated = [(feed.name, board.latest(feed)) for feed in DATED]
    times = {name: record.as_of for name, record in dated if record is not None}
    if (long := board.latest(LONG_ACCOUNTS)) is not None and long.shares:
        times[LONG_ACCOUNTS.name] = max(share.sampled_at for share in long.shares.values())
    if (macro := board.latest(MACRO_HEALTH)) is not None and macro.sources:
        times[MACRO_HEALTH.name] = min(source.as_of for source in macro.sources.values())
    gauges |= {(FEED_AGE.name, name): at for name, at in times.items()}
    gauges[LIMITS_FAILING.name, _store(settings)] = float(limits_failing() is not None)


def _store(settings: Settings) -> str:
    if settings.limits_url.get_secret_value():
        return "valkey"
    return "sqlite" if settings.limits_use_file else "memory"


def measured(app: ASGIApp, times: RequestTimes) -> ASGIApp:
    """Measure every request to an application until its response begins."""

    async def measure(scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.start":
                add(times.of(scope["path"], message["status"]), perf_counter() - started)
            await send(message)

        await app(scope, receive, forward)

    return measure
