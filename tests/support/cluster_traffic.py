"""Readers, subscribers, payers and an operator of a cluster, and what they hold it to.

Every request is judged by what was true between its sending and its answer, so that a slow machine
makes nothing wrong. What contradicts the documentation is noted in `wrong`.
"""

import asyncio
import json
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import count, cycle
from secrets import token_hex
from typing import Any, NamedTuple

import httpx2

from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.entitlements.store import Entitlements, Holder
from barograph.errors import BarographError
from barograph.history.ledger import Ledger
from barograph.history.records import LABELS, Version
from barograph.kit.clock import system_clock
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY, SECOND
from barograph.payments.proof import wire_requirements
from barograph.settings import Settings
from barograph.stances.revise import revision_of
from barograph_demo.configuration import payment_settings
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.identity import DEMO_USERS, demo_token
from barograph_demo.servers.tickers import ticker_json
from barograph_demo.servers.wallets import demo_proof
from barograph_demo.world.world import World
from support.cluster import FRESH_SECONDS, WEB, Cluster, Link
from support.processes import HOST

KIND = "rates-desk"
STANCE_PATH, FEED_PATH = f"/api/x402/{KIND}", "/api/x402/feed"
MARKET, PERPETUAL, SIGNALS = "market-state", "derivatives", "signals"
FEED_NOW, COMPARISON, STANCE_SALE, FEED_SALE = "feed/now", "comparison", "stance sale", "Feed sale"
ALL = (MARKET, PERPETUAL, SIGNALS, FEED_NOW, COMPARISON, STANCE_SALE)
"""What works everywhere while nothing is broken. A sale of Feed may wait for an earlier one."""

FEED_BUYERS = (("reserve", *WEB), ("feed", *reversed(WEB)))
"""The wallets that buy Feed, and where they go first. The wallet "none" buys stances."""

UNKNOWN = "outcome is unknown"
"""What an error says after which the operator has to look at the record."""

PATIENCE = 90.0
"""Longer than a paid request may take."""

PAUSE = 0.3
TRIES = 2
AT_ONCE = 8
FRESH = int(FRESH_SECONDS * SECOND)
SIGNALS_FRESH = 150 * SECOND
PROOF_LIFE = 60 * SECOND

_callers = count(1)


def new_caller() -> dict[str, str]:
    """The header of a caller that nobody else is."""
    number = next(_callers)
    return {"x-forwarded-for": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}


class Answer(NamedTuple):
    """A response, and the moment before its request was sent."""

    sent: int
    status: int
    headers: httpx2.Headers
    body: Any


class Recorded(NamedTuple):
    """A version that was acknowledged to the operator, and the one before it."""

    before: Version
    after: Version


class Seen(NamedTuple):
    """A durable version in a response."""

    where: str
    digest: str
    at_least: int
    """The sequence that was acknowledged before the request was sent."""


class Purchase:
    """One intention to buy: a proof that is sent until its outcome is known."""

    def __init__(self, path: str, proof: str, at_least: int) -> None:
        authorization = json.loads(b64decode(proof))["payload"]["authorization"]
        self.path = path
        self.transfer = authorization["from"].lower(), authorization["nonce"].lower()
        self.at_least = at_least
        self.made_at = system_clock()
        self.headers = {"payment-signature": proof, "idempotency-key": token_hex(16)}
        self.outcome: int | None = None


@contextmanager
def running_traffic(cluster: Cluster) -> Iterator["Traffic"]:
    """Use a cluster that has its first stance."""
    traffic = Traffic(cluster)
    cluster.background.start(traffic.run())
    try:
        yield traffic
    finally:
        traffic.finish()
        cluster.background.run(traffic.close())


class Traffic:
    """Everybody who uses the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wrong: list[str] = []
        self.statuses: Counter[tuple[str, str, int]] = Counter()
        self.recorded: list[Recorded] = []
        self.refused: list[str] = []
        """The reasons of the revisions that the operator was told are not recorded."""

        self.seen: list[Seen] = []
        self.purchases: list[Purchase] = []
        self.link = Link(cluster.network, cluster.postgresql.port)
        self._worked: dict[tuple[str, str], int] = defaultdict(int)
        self._impaired: dict[str, list[list[int]]] = defaultdict(list)
        self._is_over = False
        anchor = load_or_create_anchor(cluster.world, 0, system_clock())
        self._world = World(anchor.seed, anchor.epoch)
        self._perpetuals = {each.symbol: each for each in self._world.contracts(system_clock())}
        place = f"{HOST}:{cluster.ports['facilitator']}"
        self._prices = Settings.model_validate(
            {**payment_settings(place), "feed_price_usd": 1, "base_url": "http://barograph.example"}
        )
        identity = f"http://{HOST}:{cluster.ports['identity']}"
        token = demo_token(cluster.world, "feed", system_clock(), identity)
        self._bearer = {"authorization": f"Bearer {token}"}
        self._numbers = count(1)
        self._database, self._history = (open_database(self._url(each)) for each in (0, 1))
        self._ledger = Ledger(self._history, system_clock)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        # Certificates take long to read, and no address here has one.
        self._client = httpx2.AsyncClient(
            limits=limits, timeout=PATIENCE, trust_env=False, verify=False
        )

    def works_since(self, moment: int, hosts: Sequence[str] = WEB) -> bool:
        """Whether every kind of request was answered in full with nothing from before a moment."""
        return all(self._worked[who, host] > moment for who in ALL for host in hosts)

    def count(self, who: str, host: str, status: int) -> int:
        return self.statuses[who, host, status]

    @contextmanager
    def impaired(self, hosts: Sequence[str]) -> Iterator[None]:
        """Expect lost connections to these hosts, and slow answers."""
        spans = [[system_clock(), 1 << 62] for _ in hosts]
        for host, span in zip(hosts, spans, strict=True):
            self._impaired[host].append(span)
        yield
        for span in spans:
            span[1] = system_clock()

    def newest(self) -> int:
        """The highest sequence that was acknowledged."""
        return self.recorded[-1].after.sequence if self.recorded else 0

    def summary(self) -> str:
        """How much was asked and answered."""
        by_kind: dict[str, Counter[int]] = defaultdict(Counter)
        for (who, _, status), number in self.statuses.items():
            by_kind[who][status] += number
        lines = [f"{who:<12} {dict(sorted(found.items()))}" for who, found in by_kind.items()]
        return "\n".join([*lines, f"versions acknowledged {len(self.recorded)}"])

    async def burst(self, requests: int) -> Counter[int]:
        """How a new caller's requests for signals, on both hosts at once, are answered."""
        caller, places = new_caller(), asyncio.Semaphore(AT_ONCE)

        async def one(host: str) -> int:
            async with places:
                answer = await self._ask("burst", host, "/api/v1/signals", {200, 429}, caller)
                return 0 if answer is None else answer.status

        hosts = [host for _, host in zip(range(requests), cycle(WEB), strict=False)]
        return Counter(await asyncio.gather(*(one(host) for host in hosts)))

    async def run(self) -> None:
        """Use the cluster until `finish`."""
        await Entitlements(self._database, system_clock).add_period(
            Holder("user", DEMO_USERS["feed"]),
            "feed",
            period_ms=30 * DAY,
            source="test",
            by="test",
            why="a subscriber",
        )
        steps = (
            self._read_market,
            self._read_perpetual,
            self._read_signals,
            self._read_feed,
            self._compare,
            self._buy_stance,
        )
        loops = [self._repeat(step, host) for step in steps for host in WEB]
        loops += [self._repeat(self._buy_feed, *each) for each in FEED_BUYERS]
        await asyncio.gather(*loops, self._repeat(self._revise))

    def finish(self) -> None:
        self._is_over = True

    async def close(self) -> None:
        await self._client.aclose()
        await self._database.close()
        await self._history.close()

    async def settle_all(self) -> bool:
        """Send each proof whose outcome is open again; return whether none is left."""
        left = [each for each in self.purchases if each.outcome is None]
        for each in left:
            for host in WEB:
                if each.outcome is None:
                    await self._pay(each, host)
        return not any(each.outcome is None for each in left)

    async def _repeat(self, step: Callable[..., Awaitable[None]], *given: str) -> None:
        while not self._is_over:
            try:
                await step(*given)
            except Exception as error:  # noqa: BLE001 - the test shows it
                self.wrong.append(f"{step.__name__} {given}: {error!r}")
            await asyncio.sleep(PAUSE)

    async def _ask(
        self, who: str, host: str, path: str, allowed: set[int], headers: dict[str, str]
    ) -> Answer | None:
        sent = system_clock()
        try:
            response = await self._client.get(f"{self.cluster.web(host)}{path}", headers=headers)
        except httpx2.TransportError as error:
            self._require(self._is_impaired(host, sent), f"{who} on {host}: {error!r}")
            return None
        status = response.status_code
        self.statuses[who, host, status] += 1
        self._require(status in allowed, f"{who} on {host}: {status} {response.text[:300]}")
        return Answer(sent, status, response.headers, response.json())

    async def _read(
        self, who: str, host: str, path: str, allowed: set[int], headers: dict[str, str]
    ) -> Answer | None:
        """Ask for something; None unless it was answered in full."""
        answer = await self._ask(who, host, path, allowed, headers)
        return answer if answer is not None and answer.status == 200 else None

    async def _read_market(self, host: str) -> None:
        answer = await self._read(MARKET, host, "/api/agent/market-state", {200, 502}, {})
        if answer is None:
            return
        as_of = _milliseconds(answer.body["as_of"])
        self._require(as_of > answer.sent - FRESH, f"{MARKET} on {host} is stale: {answer}")
        for asset in answer.body["assets"]:
            price = self._price(f"{asset['symbol']}USDT", as_of)
            self._require(asset["lastPrice"] == price, f"{MARKET} on {host}, not {price}: {asset}")
        self._worked[MARKET, host] = as_of

    async def _read_perpetual(self, host: str) -> None:
        path = "/api/agent/derivatives?symbol=eth"
        answer = await self._read(PERPETUAL, host, path, {200, 502}, {})
        if answer is None:
            return
        second = parsedate_to_datetime(answer.headers["last-modified"]).timestamp()
        is_fresh = (second + 1) * SECOND > answer.sent - FRESH
        self._require(is_fresh, f"{PERPETUAL} on {host} is stale: {answer}")
        self._require(answer.body["symbol"] == "ETH", f"{PERPETUAL} on {host}: {answer.body}")
        self._worked[PERPETUAL, host] = answer.sent

    async def _read_signals(self, host: str) -> None:
        answer = await self._read(SIGNALS, host, "/api/v1/signals", {200}, new_caller())
        if answer is None:
            return
        is_known = any(each["label"] != "unknown" for each in answer.body["signals"])
        age = answer.sent - _milliseconds(answer.body["updatedAt"])
        is_right = not is_known or age < SIGNALS_FRESH
        self._require(is_right, f"{SIGNALS} on {host} are stale: {answer}")
        self._worked[SIGNALS, host] = answer.sent

    async def _read_feed(self, host: str) -> None:
        at_least = self.newest()
        answer = await self._read(FEED_NOW, host, "/api/feed/now", {200, 503}, self._bearer)
        if answer is None:
            return
        state = answer.body["market_state"]
        is_fresh = state is None or _milliseconds(state["as_of"]) > answer.sent - FRESH
        self._require(is_fresh, f"{FEED_NOW} on {host} is stale: {answer}")
        for each in answer.body["tape"]["stance_tape"]:
            if each["kind"] == KIND and each["history_durable"]:
                self.seen.append(Seen(f"{FEED_NOW} {host}", each["history_digest"], at_least))
                self._worked[FEED_NOW, host] = answer.sent

    async def _compare(self, host: str) -> None:
        if len(self.recorded) < 2:
            return
        # A version was acknowledged after the older pair, so that pair is never compared again.
        older, newer = self.recorded[-2:]
        await self._ask("older pair", host, _comparison(older), {404, 503}, self._bearer)
        older, newer = self.recorded[-2:]
        path = _comparison(newer)
        answer = await self._read(COMPARISON, host, path, {200, 404, 503}, self._bearer)
        if answer is None:
            return
        digests = [answer.body[each]["history_digest"] for each in ("before", "after")]
        decisions = answer.body["assessment"]["recorded_decisions"]
        self._require(
            digests == [each.history_digest for each in newer]
            and decisions["after"]["rationale"] == newer.after.leg.decision.rationale,
            f"{COMPARISON} on {host}: {answer.body}",
        )
        self._worked[COMPARISON, host] = answer.sent

    async def _buy_stance(self, host: str) -> None:
        terms = wire_requirements(stance_requirements(self._prices))
        purchase = self._new_purchase(STANCE_PATH, "none", terms)
        for _ in range(TRIES):
            if purchase.outcome is None:
                await self._pay(purchase, host)
        await asyncio.sleep(PAUSE)

    async def _buy_feed(self, wallet: str, *hosts: str) -> None:
        """Buy a period; a wallet buys the next one only when the outcome of the last is known."""
        terms = wire_requirements(feed_requirements(self._prices))
        purchase = self._new_purchase(FEED_PATH, wallet, terms)
        for host in cycle(hosts):
            if purchase.outcome is None and not self._is_over:
                await self._pay(purchase, host)
                await asyncio.sleep(PAUSE)
            else:
                return

    def _new_purchase(self, path: str, wallet: str, terms: dict[str, Any]) -> Purchase:
        proof = demo_proof(self.cluster.world, wallet, terms, system_clock())
        purchase = Purchase(path, proof, self.newest())
        self.purchases.append(purchase)
        return purchase

    async def _pay(self, purchase: Purchase, host: str) -> None:
        who = STANCE_SALE if purchase.path == STANCE_PATH else FEED_SALE
        headers = {**purchase.headers, **new_caller()}
        answer = await self._ask(who, host, purchase.path, {200, 402, 503}, headers)
        if answer is None or answer.status == 503:
            return
        purchase.outcome = answer.status
        if answer.status == 402:
            is_late = answer.sent > purchase.made_at + PROOF_LIFE // 2
            self._require(is_late, f"{who} on {host} refused: {answer.body}")
            return
        self._worked[who, host] = answer.sent
        if who == STANCE_SALE:
            digest = answer.body["history_digest"]
            self.seen.append(Seen(f"{who} {host}", digest, purchase.at_least))

    async def _revise(self) -> None:
        number = next(self._numbers)
        why = f"revision {number}"
        try:
            newest = await self._ledger.newest_versions(KIND, 1)
            proposal = revision_of(
                newest,
                KIND,
                label=LABELS[number % len(LABELS)],
                why=why,
                by="operator",
                now=system_clock(),
            )
            head = newest[0].history_digest
            version, _ = await self._ledger.append(proposal, expected_head=head)
        except BarographError as error:
            if UNKNOWN not in str(error):
                self.refused.append(why)
            return
        self.recorded.append(Recorded(newest[0], version))

    def _price(self, symbol: str, moment: int) -> float:
        return float(
            json.loads(ticker_json(self._world, self._perpetuals[symbol], moment))["lastPrice"]
        )

    def _url(self, database: int) -> str:
        return self.cluster.url(self.cluster.urls[database], self.link.port, "operator")

    def _is_impaired(self, host: str, sent: int) -> bool:
        now = system_clock()
        return any(start <= now and sent <= end for start, end in self._impaired[host])

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


def _comparison(pair: Recorded) -> str:
    query: dict[str, str | int] = {"kind": KIND}
    for name, version in pair._asdict().items():
        query[f"{name}_leg"] = version.leg_id
        query[f"{name}_revision"] = version.revision
        query[f"{name}_digest"] = version.history_digest
    return f"/api/agents/material-change?{httpx2.QueryParams(query)}"
