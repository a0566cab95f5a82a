"""Carries the demo's past stances: daily figures as they came out, and what was concluded.

The simulated publishers answer in process, with the clock turned back; their files go through the
same adapters, store, rules and ledger as those of real ones.
"""

from urllib.parse import parse_qsl

import httpx

from barograph.demo.macro import MacroWorld
from barograph.demo.macro_files import answer
from barograph.demo.world import World
from barograph.duties import MacroDuty
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR
from barograph.settings import Settings
from barograph.stances.funding import KIND as FUNDING
from barograph.stances.issuing import StanceDesk
from barograph.stances.ledger import Ledger
from barograph.stances.revising import revision_of
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

    @property
    def at(self) -> int:
        """The instant that is being carried."""
        return self._at

    def is_due(self, since: int, at: int, now: int) -> bool:
        """Whether stances are to be issued at `at`, which comes after `since`."""
        if at < now - STANCE_DAYS * DAY:
            return False
        interval = SETTLEMENT_HOURS * HOUR
        settled = since // interval != at // interval
        return settled or not self._begun or bool(self._figures.releases(since, at))

    async def issue(self, since: int, at: int) -> None:
        """Read what came out since then and issue what follows from it."""
        self._at = at
        if not self._begun:
            await self._ledger.take(self._lease.token)
        if not self._begun or self._figures.releases(since, at):
            await self._duty.read_once(self._lease)
        self._begun = True
        await self._desk.issue(self._lease)
        await self._decide_anew()

    async def close(self) -> None:
        """Let the publishers go."""
        await self._files.close()

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
        query = dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
        found = answer(self._figures, request.url.path, query, self._past.at)
        fields = {"content-type": found.content_type}
        return httpx.Response(int(found.status), headers=fields, content=found.body)
