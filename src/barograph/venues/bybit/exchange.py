"""Bybit as the markets' `Exchange`: https://bybit-exchange.github.io/docs/v5/intro ."""

from contextlib import suppress

from barograph.errors import InvalidReply, UpstreamError
from barograph.kit.http_client import HttpReply, TimeBudget
from barograph.venues.bybit import decode
from barograph.venues.bybit.decode import InstrumentPage
from barograph.venues.bybit.facts import VENUE
from barograph.venues.bybit.history import PAST
from barograph.venues.bybit.rest import Envelope, open_envelope
from barograph.venues.bybit.stream import LiquidationStream
from barograph.venues.kit.adapter import Reading, VenueAdapter
from barograph.venues.kit.contract_cache import ListedContracts

_PAGES = 20
_TICKERS = "/v5/market/tickers"

ANNOUNCEMENT_SECONDS = 300.0


class BybitExchange(VenueAdapter):
    """Bybit's public data of USDT perpetuals."""

    venue = VENUE
    past = PAST
    history_weight = 1200.0
    """Calls: the exchange allows 7,200 per minute in total."""
    time_path = "/v5/market/time"
    stream = LiquidationStream

    def body_of(self, reply: HttpReply) -> bytes:
        """The result of a reply whose time is right, or raise an `UpstreamError`."""
        return self._timed(reply).result

    async def keep_up(self) -> None:
        """Read what the exchange announces, until cancelled. If that fails, the last one counts."""
        while True:
            with suppress(UpstreamError):
                path, read = "/v5/system/status", decode.decode_announcement
                self._announcement = await self.ask(path, {}, read)
            await self._sleep(ANNOUNCEMENT_SECONDS)

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""

        def read(reply: HttpReply) -> int:
            return decode.decode_time(open_envelope(reply, self._clock()).result)

        return await self._rest.call(self.time_path, self.time_path, read, self._rest.budget())

    async def _list(self, budget: TimeBudget) -> ListedContracts:
        pages: list[InstrumentPage] = []
        cursor: dict[str, str] = {}
        for _ in range(_PAGES):
            params = {"category": "linear", "limit": "1000", **cursor}
            path, read = "/v5/market/instruments-info", decode.decode_instruments
            pages.append(await self.ask(path, params, read, budget, "reading"))
            if not pages[0].symbols:
                raise InvalidReply("the list of contracts is empty")
            if not pages[-1].cursor:
                return decode.contracts_of(pages)
            cursor = {"cursor": pages[-1].cursor}
        raise InvalidReply(f"the list of contracts has more than {_PAGES} pages")

    async def _read(self, listing: ListedContracts, budget: TimeBudget) -> Reading:
        def read(reply: HttpReply) -> Reading:
            envelope = self._timed(reply)
            return decode.decode_tickers(envelope.result, listing.kept, envelope.time)

        address = f"{_TICKERS}?category=linear"
        return await self._rest.call(_TICKERS, address, read, budget, purpose="reading")

    def _timed(self, reply: HttpReply) -> Envelope:
        envelope = open_envelope(reply, self._clock())
        self._times.check(envelope.time)
        return envelope


ADAPTER = BybitExchange
