"""Calls Bybit's REST endpoints, and unwraps the envelope of each reply."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from barograph.upstream.bybit.wire import Envelope, open_envelope
from barograph.upstream.http import TimeBudget
from barograph.upstream.venue_client import Purpose, VenueClient, VenueReply

T = TypeVar("T")
_IN_QUERIES: Final = "%=+/:;,?@!$'()*"


class RestClient(VenueClient):
    """Calls Bybit's public REST API; every failure is an `UpstreamError`."""

    async def ask(
        self,
        endpoint: str,
        params: Mapping[str, str],
        read: Callable[[Envelope], T],
        budget: TimeBudget,
        purpose: Purpose = "side",
    ) -> T:
        """Call an endpoint as `call` does; `read` takes the envelope of the reply."""

        def unwrap(reply: VenueReply) -> T:
            return read(open_envelope(reply, self._clock()))

        path = endpoint if endpoint.startswith("/") else f"/v5/market/{endpoint}"
        address = f"{path}?{_query(params)}"
        return await self.call(endpoint, address, unwrap, budget, purpose=purpose)


def _query(params: Mapping[str, str]) -> str:
    """The query string. A cursor is sent back unchanged, because it is already percent-encoded."""
    query = urlencode({name: value for name, value in params.items() if name != "cursor"})
    cursor = params.get("cursor")
    return query if cursor is None else f"{query}&cursor={quote(cursor, safe=_IN_QUERIES)}"
