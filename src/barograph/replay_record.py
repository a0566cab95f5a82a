"""Carries the demo's past stances: what they rest on as it came out, and what was concluded.

The simulated publishers and the exchange answer in process, with the clock turned back; what they
say goes through the same adapters, store, rules and ledger as the word of real ones.
"""

from urllib.parse import parse_qsl

import httpx

from barograph.demo.funding import corrections
from barograph.demo.macro import MacroWorld
from barograph.demo.macro_files import answer as answer_publisher
from barograph.demo.rest import answer as answer_exchange
from barograph.demo.world import World
from barograph.duties import MacroDuty, SettlementDuty
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.settled import STANDS_AFTER
from barograph.settings import Settings
from barograph.stances.funding import KIND as FUNDING
from barograph.stances.issuing import StanceDesk
from barograph.stances.ledger import Ledger
from barograph.stances.revising import revision_of
from barograph.upstream.bybit import BybitExchange
from barograph.upstream.files import FileClient
from barograph.upstream.macro import macro_sources

STANCE_DAYS = 31
"""Stances are carried for so many days, figures for as long as they need before that."""

SETTLEMENT_HOURS = 8
FILE_SECONDS = 20.0
REVISED_EVERY = 25
"""Of so many funding stances a simulated operator decides one anew."""


class PastRecord:
    """Figures and stances of the past, at the instants at which something changed."""

    def __init__(
        self, settings: Settings, world: World, database: Database, history: Database, lease: Lease
    ) -> None:
        self._world = world
        self._figures = MacroWorld(world)
        self._lease = lease
        self._at = 0
        self._begun = False
        files = FileClient(
            seconds=FILE_SECONDS, clock=self._clock, transport=_Publishers(self._figures, self)
        )
        sources = macro_sources(settings, files, clock=self._clock)
        self._ledger = Ledger(history, self._clock)
        self._duty = MacroDuty(sources, database, seconds=1, clock=self._clock)
        self._desk = StanceDesk(settings, database, self._ledger, self._clock)
        self._files = files
        self._exchange = BybitExchange(
            settings, clock=self._clock, transport=_Exchange(world, self)
        )
        self._settlements = SettlementDuty(self._exchange, database, clock=self._clock)

    @property
    def at(self) -> int:
        """The instant that is being carried."""
        return self._at

    def is_due(self, since: int, at: int, now: int) -> bool:
        """Whether stances are to be issued at `at`, which comes after `since`."""
        if at < now - STANCE_DAYS * DAY:
            return False
        if not self._begun or self._figures.releases(since, at):
            return True
        stood = corrections(self._world.seed, since - STANDS_AFTER, at - STANDS_AFTER)
        return bool(stood) or self._is_reported(since, at)

    async def issue(self, since: int, at: int) -> None:
        """Read what came out since then and issue what follows from it."""
        self._at = at
        if not self._begun:
            await self._ledger.take(self._lease.token)
        if not self._begun or self._figures.releases(since, at):
            await self._duty.read_once(self._lease)
        if not self._begun or self._is_reported(since, at):
            await self._settlements.read_once(self._lease)
        self._begun = True
        await self._desk.issue(self._lease)
        await self._decide_anew()

    async def close(self) -> None:
        """Let the publishers and the exchange go."""
        await self._files.close()
        await self._exchange.close()

    def _is_reported(self, since: int, at: int) -> bool:
        """Whether the exchange reports a new settlement since then, or an old one anew."""
        interval = SETTLEMENT_HOURS * HOUR
        return since // interval != at // interval or bool(corrections(self._world.seed, since, at))

    async def _decide_anew(self) -> None:
        """Now and then somebody decides otherwise on the same evidence, as an operator would."""
        newest = await self._ledger.newest(FUNDING, 1)
        if newest and newest[0].sequence % REVISED_EVERY == 0 and newest[0].revision == 1:
            proposal = revision_of(
                newest,
                FUNDING,
                label="stand-aside",
                why="A simulated operator stands aside until the next settlement.",
                by="operator (demo)",
                now=self._at,
            )
            await self._ledger.append(proposal, expected_head=newest[0].history_digest)

    def _clock(self) -> int:
        return self._at


class _Publishers(httpx.AsyncBaseTransport):
    """The simulated publishers without a network between."""

    def __init__(self, figures: MacroWorld, past: PastRecord) -> None:
        self._figures = figures
        self._past = past

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        found = answer_publisher(self._figures, request.url.path, _query(request), self._past.at)
        fields = {"content-type": found.content_type}
        return httpx.Response(int(found.status), headers=fields, content=found.body)


class _Exchange(httpx.AsyncBaseTransport):
    """The simulated exchange without a network between."""

    def __init__(self, world: World, past: PastRecord) -> None:
        self._world = world
        self._past = past

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        status, body = answer_exchange(
            self._world, request.url.path, _query(request), self._past.at
        )
        return httpx.Response(status, headers={"content-type": "application/json"}, content=body)


def _query(request: httpx.Request) -> dict[str, str]:
    return dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
