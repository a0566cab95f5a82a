"""The direct stance reads: whoever has Feed reads the stance that stands now."""

from typing import Any

from fastapi import APIRouter, Request
from msgspec.json import encode
from starlette.responses import Response

from barograph.access.feed_door import FeedDoor, bounded
from barograph.errors import PrivateError
from barograph.kit.clock import Clock
from barograph.kit.http import private_response
from barograph.kit.wire import CodedErrorBody
from barograph.stances.delivery import stance_body
from barograph.stances.reading import StanceReader

STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}


class StanceUnavailable(PrivateError):
    """Identity, entitlement or the stance itself cannot be looked up now."""

    status = 503
    code = "stance_unavailable"

    def __init__(self) -> None:
        super().__init__("the stance cannot be read at the moment; try again shortly")


class NoStance(PrivateError):
    """Nothing of this kind was ever issued here."""

    status = 404
    code = "no_stance"

    def __init__(self) -> None:
        super().__init__("no stance of this kind has been issued yet; /api/status says why")


def stance_routes(door: FeedDoor, reader: StanceReader, clock: Clock, seconds: float) -> APIRouter:
    """The three direct reads, each within a budget of `seconds`."""
    router = APIRouter(tags=["entitled"])
    for kind, path in STANCE_PATHS.items():
        _route(router, path, kind, door=door, reader=reader, clock=clock, seconds=seconds)
    return router


def _route(
    router: APIRouter,
    path: str,
    kind: str,
    *,
    door: FeedDoor,
    reader: StanceReader,
    clock: Clock,
    seconds: float,
) -> None:
    @router.get(path, summary=f"The newest stance of {kind}", responses=_ERRORS)
    async def read_stance(request: Request) -> Response:
        async with bounded(seconds, StanceUnavailable):
            await door.admit(request.scope["headers"])
            stance = await reader.now(kind)
            if stance is None:
                raise NoStance
        return private_response(200, encode(stance_body(stance, clock())))


_ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": CodedErrorBody, "description": "The identity cannot be verified."},
    402: {"description": "No active Feed entitlement; the Feed entry resource."},
    404: {"model": CodedErrorBody, "description": "Feed x402 is disabled, or nothing was issued."},
    503: {"model": CodedErrorBody, "description": "It cannot be told at the moment."},
}
