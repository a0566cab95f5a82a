"""Three simulated venues: each can be blocked, stopped or corrupted, and readers get the truth."""

import re
import threading
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from html import unescape
from itertools import cycle, pairwise, product
from math import log
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import httpx2
import pytest

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY, MINUTE, SECOND
from barograph.markets.failover import HEALTHY, REFUSALS
from barograph.markets.frames import FRAME_STEP
from barograph.venues.registry import VENUES
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.control import send_command
from support.processes import HOST, Process, eventually, get, running, unused_port
from support.venue_stack import NAMES, VenueStack, running_venues

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

LIMIT_SECONDS = 12
STATE, BITCOIN = "/api/agent/market-state", "/api/agent/derivatives?symbol=BTC"
LIST, STATUS = "/api/v1/perpetuals", "/api/status"
DATA = (STATE, BITCOIN, LIST)
BY_SOURCE = {venue.source: venue for venue in VENUES.values()}
TICKERS = "/v5/market/tickers"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The venues, which run for all tests."""
    folder = tmp_path_factory.mktemp("world")
    load_or_create_anchor(folder, 3, system_clock())
    found = {venue: unused_port() for venue in NAMES}
    others = [f"--{venue}-port={found[venue]}" for venue in NAMES[1:]]
    command = ("demo", "world", "--port", str(found["bybit"]), *others, "--data", str(folder))
    with running(*command, log=folder / "world.log"):
        for port in found.values():
            eventually(lambda port=port: get(f"http://{HOST}:{port}/"), "a venue")  # type: ignore[misc]
        yield found


class Live(NamedTuple):
    base_url: str
    ports: dict[str, int]
    environment: dict[str, str]
    collector: Process

    def command(self, venue: str, **command: object) -> dict[str, Any]:
        return dict(send_command(f"{HOST}:{self.ports[venue]}", command))

    def fault(self, venue: str, name: str) -> None:
        assert self.command(venue, fault=name, on=True)["ok"]

    def check(self, name: str) -> str:
        found = get(self.base_url + STATUS)
        assert found is not None
        return str(next(e["detail"] for e in found.json()["checks"] if e["name"] == name))

    def statuses(self) -> set[int]:
        found = [get(self.base_url + path) for path in DATA]
        return {each.status_code for each in found if each is not None}

    def is_in_use(self, venue: str) -> bool:
        return self.check("venue").startswith(f"{VENUES[venue].title} ")

    def until(self, status: int) -> None:
        eventually(lambda: self.statuses() == {status}, f"{status} everywhere")


@pytest.fixture
def live(ports: dict[str, int], tmp_path: Path) -> Iterator[Live]:
    """`serve` and `collect` with an empty database, while all venues answer."""
    urls = {venue: f"http://{HOST}:{port}" for venue, port in ports.items()}
    environment = {
        "BAROGRAPH_DATA": str(tmp_path / "data"),
        "BAROGRAPH_PORT": str(unused_port()),
        "BAROGRAPH_VENUES": ",".join(NAMES),
        "BAROGRAPH_ACCEPT_TERMS": ",".join(NAMES),
        "BAROGRAPH_EXCHANGE_REST_URL": urls["bybit"],
        "BAROGRAPH_HYPERLIQUID_URL": urls["hyperliquid"],
        "BAROGRAPH_BINANCE_REST_URL": urls["binance"],
        "BAROGRAPH_VENUE_URLS": ",".join(f"{name}={urls[name]}" for name in NAMES[3:]),
        "BAROGRAPH_POLL_SECONDS": "1",
        "BAROGRAPH_FEED_MAX_AGE_SECONDS": str(LIMIT_SECONDS),
    }
    base_url = f"http://{HOST}:{environment['BAROGRAPH_PORT']}"
    with (
        running("serve", log=tmp_path / "web.log", **environment),
        running("collect", log=tmp_path / "collector.log", **environment) as collector,
    ):
        found = Live(base_url, ports, environment, collector)
        eventually(lambda: get(base_url + STATUS), "the web side")
        found.until(200)
        for venue in NAMES[1:]:
            eventually(lambda name=venue: "recorded" in found.check(name), "a standby's data")  # type: ignore[misc]
        yield found
    for venue in NAMES:
        found.command(venue, off="all")


class Answer(NamedTuple):
    path: str
    asked_at: float
    response: httpx2.Response

    @property
    def is_data(self) -> bool:
        return self.path != STATUS and self.response.status_code == 200

    @property
    def source(self) -> str:
        body = self.response.json()
        return str((body["feed"] if self.path == STATUS else body)["source"])

    @property
    def age(self) -> float:
        """In seconds when it was asked for. `Last-Modified` has whole seconds."""
        body = self.response.json()
        if "as_of" in body:
            return self.asked_at - datetime.fromisoformat(body["as_of"]).timestamp()
        modified = parsedate_to_datetime(self.response.headers["last-modified"]).timestamp()
        return self.asked_at - modified - 1


class Readers:
    """Threads that read at full speed, one per path."""

    def __init__(self, base_url: str) -> None:
        self.answers: list[Answer] = []
        self._base_url = base_url
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(path,)) for path in (*DATA, STATUS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _read(self, path: str) -> None:
        with httpx2.Client(trust_env=False, verify=False, timeout=30) as client:
            while not self._end.is_set():
                asked_at = system_clock() / 1000
                self.answers.append(Answer(path, asked_at, client.get(self._base_url + path)))


def require_one_venue(answer: Answer) -> None:
    """Check that source, names, price kind, quote and what a venue lacks fit together."""
    body, venue = answer.response.json(), BY_SOURCE[answer.source]
    if answer.path == STATUS:
        checks = {each["name"]: each["detail"] for each in body["checks"]}
        assert checks["venue"].startswith(f"{venue.title} "), body
        assert venue.name not in checks
    elif answer.path == STATE:
        assert f"Source: {venue.source}. " in body["citation"]
        assert {each["source"] for each in body["assets"]} == {venue.source}
        assert all(each["available"] for each in body["assets"])
    elif answer.path == LIST:
        kinds = {(e["venue"], e["quote"], e["priceKind"]) for e in body["perpetuals"]}
        assert (body["venue"], kinds) == (
            venue.name,
            {(venue.name, venue.quote, venue.price_kind)},
        )
        assert {each["price_as_of"] for each in body["perpetuals"]} == {body["as_of"]}
        assert body["perpetuals"][0]["contract"] == venue.contract("BTC")


def require_truth(answers: list[Answer]) -> list[str]:
    """Check all answers; return the venues in the order in which readers saw them."""
    data = [each for each in answers if each.is_data]
    assert {each.response.status_code for each in answers} <= {200, 502}
    prices: dict[float, set[str]] = {}
    for each in answers:
        if each.response.status_code == 200 and each.source in BY_SOURCE:
            require_one_venue(each)
    for each in data:
        assert each.age < LIMIT_SECONDS, (each.path, each.age)
        if each.path == LIST:
            price = each.response.json()["perpetuals"][0]["lastPrice"]
            prices.setdefault(price, set()).add(each.source)
    for each in data:
        if each.path == BITCOIN:  # it has no names, but the price is one of the venue's
            known = prices.get(each.response.json()["lastPrice"])
            assert known is None or each.source in known
    ordered = [BY_SOURCE[each.source].name for each in data if each.path == STATE]
    return list(dict.fromkeys(ordered))


@pytest.mark.outcome(
    "The primary venue refuses this address (geo-block)",
    "After three refused readings, the next venue takes its place in all single-venue data. "
    "An event, a brief and the status page say so.",
)
def test_a_geo_block_switches_everything_within_three_readings(live: Live, tmp_path: Path) -> None:
    with Readers(live.base_url) as readers:
        before = _tickers(live)
        live.fault("bybit", "geo-block")
        eventually(lambda: live.is_in_use("hyperliquid"), "the standby")
        readings = _tickers(live) - before
        eventually(lambda: _saw(readers, "hyperliquid"), "answers of the standby")
    assert require_truth(readers.answers) == ["bybit", "hyperliquid"]
    assert {each.response.status_code for each in readers.answers} == {200}
    # One reading may begin before the fault, and one before we see the switch.
    assert readings <= REFUSALS + 2
    assert "refused 3 readings in a row" in live.check("venue")
    live.command("bybit", off="all")
    live.collector.stop()
    with running("collect", log=tmp_path / "second.log", **live.environment):
        eventually(lambda: "recorded" in live.check("bybit"), "the primary's data")
        assert live.is_in_use("hyperliquid")


def test_an_outage_switches_at_the_freshness_limit_and_all_outages_are_502(live: Live) -> None:
    with Readers(live.base_url) as readers:
        live.fault("bybit", "outage")
        eventually(lambda: _saw(readers, "hyperliquid"), "the standby")
    assert require_truth(readers.answers) == ["bybit", "hyperliquid"]
    assert "no reading within the freshness limit" in live.check("venue")
    with Readers(live.base_url) as readers:
        for venue in NAMES[1:]:
            live.fault(venue, "outage")
        live.until(502)
        live.command("binance", off="all")
        live.until(200)
        eventually(lambda: _saw(readers, "binance"), "the last venue")
    assert require_truth(readers.answers)[-1] == "binance"


def test_throttling_alone_is_502_and_no_switch(live: Live) -> None:
    with Readers(live.base_url) as readers:
        live.fault("bybit", "429")
        live.until(502)
    assert require_truth(readers.answers) == ["bybit"]
    assert live.is_in_use("bybit")
    assert "recorded, not in use" in live.check("hyperliquid")


def _tickers(live: Live) -> int:
    return cast("dict[str, int]", live.command("bybit", count=True)["requests"]).get(TICKERS, 0)


def _saw(readers: Readers, venue: str) -> bool:
    return any(e.is_data and e.source == VENUES[venue].source for e in readers.answers[-200:])


DISTORTIONS = {
    "doubled-open-interest": "open-interest",
    "wrong-unit": "funding",
    "wrong-interval": "funding",
    "inverted-side": "liquidation-side",
}


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(list(zip(cycle(NAMES[:3]), DISTORTIONS, strict=False))[::-1], id="each once"),
        pytest.param(list(product(NAMES, DISTORTIONS)), id="at each venue", marks=pytest.mark.long),
    ],
)
async def test_a_distortion_is_named_within_ten_minutes_of_the_market(
    tmp_path: Path, cases: list[tuple[str, str]]
) -> None:
    found = {}
    async with running_venues(tmp_path, 11) as stack:
        for venue, fault in cases:
            await stack.restart()  # nothing is disputed, and levels are new
            for _ in range(12):
                await stack.minute()
            stack.faults[venue].turn_on(fault, stack.clock())
            for _ in range(10):
                await stack.minute()
                found[venue, fault] = await stack.check("cross-venue")
                if "disputed since" in found[venue, fault]:
                    break
            stack.faults[venue].clear()
            await stack.minute()  # a restart begins with the last readings
    for (venue, fault), said in found.items():
        # Hyperliquid publishes no liquidations, so its rates get the other sign.
        inverted = fault == "inverted-side" and venue == "hyperliquid"
        measure = "funding" if inverted else DISTORTIONS[fault]
        title = VENUES[venue].title
        assert f"{title}: {measure} disputed since" in said, (fault, said)
        disputed = {part.split(":")[0] for part in said.split("; ") if " disputed since " in part}
        assert disputed == {title}, (fault, said)


async def test_the_primary_is_used_again_after_fifteen_minutes(tmp_path: Path) -> None:
    seen = []
    async with running_venues(tmp_path) as stack:
        for _ in range(2):  # the others must last before one can take over
            await stack.take_readings(16)
        stack.faults["bybit"].turn_on("geo-block", stack.clock())
        for _ in range(REFUSALS):
            await stack.take_readings()
        stack.faults["bybit"].clear()
        await stack.restart()
        while "recorded" not in await stack.check("bybit"):  # the breaker waits a minute
            await stack.take_readings(20)
        for _ in range(HEALTHY // 20_000):
            seen.append((await stack.get(LIST))[1]["venue"])
            await stack.take_readings(20)
        seen.append((await stack.get(LIST))[1]["venue"])
    assert seen == ["hyperliquid"] * (len(seen) - 1) + ["bybit"]


AWAY = ("gate", "binance")
"""The venues that are switched off and on, one after the other; Binance is the largest."""

PAGES = ("/", "/markets", "/open-interest")
SIGNED = re.compile(r"([+-][\d.]+) (?:%|pp)")
MARKET_RATE = re.compile(r"Market \d+ coins ([+-][\d.]+) %")


class Moment(NamedTuple):
    """What readers see of the whole market at one time."""

    coins: dict[str, dict[str, Any]]
    pages: dict[str, str]

    def values(self, coin: str) -> dict[str, float]:
        """What may not step; ratios and percentages as fractions."""
        found = self.coins[coin]
        change = found["openInterestChange24h"]
        return {
            "total": log(found["openInterestWithMissingUsd"]),
            "coins": change["coinsChangePct"] / 100,
            "usd": change["changePct"] / 100,
            "price": change["priceChangePct"] / 100,
            "rate": found["weightedFundingWithMissingPct8h"] / 100,
        }

    def at_venue(self, coin: str, venue: str) -> dict[str, float]:
        (row,) = [each for each in self.coins[coin]["venues"] if each["venue"] == venue]
        usd, price = log(row["openInterestUsd"]), log(row["pricePerCoin"])
        moved = {"total": usd, "coins": usd - price, "usd": usd, "price": price}
        return moved | {"rate": row["fundingRatePct8h"] / 100}

    def shown(self) -> list[float]:
        """Every change on the home page, in order: the market, the coins and the movers."""
        return [float(each) for each in SIGNED.findall(shown_text(self.pages["/"]))]

    def market_rate(self) -> float:
        """The weighted rate of all coins on the home page."""
        (rate,) = MARKET_RATE.findall(shown_text(self.pages["/"]))
        return float(rate)

    def missing(self, coin: str) -> set[str]:
        found = self.coins[coin]
        names = ("openInterestMissing", "volumeMissing", "fundingMissing")
        (lacks,) = {tuple(each["venue"] for each in found[name]) for name in names}
        assert found["openInterestComplete"] == (not lacks)
        return {*lacks}


async def look(stack: VenueStack) -> Moment:
    cross = (await stack.get("/api/v1/cross?limit=12"))[1]["cross"]
    texts = {path: (await stack.client.get(path)).text for path in PAGES}
    return Moment({each["coin"]: each for each in cross}, texts)


def shown_text(page: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", " ", page)).replace("\xa0", " ").split())


@pytest.mark.outcome(
    "One of several exchanges goes away and comes back",
    "No total with the missing values, no weighted rate, no change, no rank and no series of all "
    "venues steps by more than three times what the others moved. Each names the missing exchange.",
)
async def test_nothing_steps_when_a_venue_goes_away_and_comes_back(tmp_path: Path) -> None:
    async with running_venues(tmp_path, 11) as stack:
        await stack.take_readings(FRAME_STEP / SECOND)  # all changes compare with this one
        stack.clock.now += DAY - 3 * MINUTE
        await stack.minute()
        since = stack.clock()
        seen = {venue: await switched_off_and_on(stack, venue) for venue in AWAY}
        target = f"/api/v1/series/open-interest?venue=all&interval=minute&from={since}"
        points = (await stack.get(target))[1]["points"]
    for venue, moments in seen.items():
        first, last = moments[0], moments[-1]
        assert not first.missing("BTC") | last.missing("BTC")
        for coin in first.coins:
            require_no_step(moments, coin, venue)
        for before, after in pairwise(moments):
            assert [*after.coins] == [*before.coins]
            assert after.shown() == pytest.approx(before.shown(), abs=0.11)
            assert after.market_rate() == pytest.approx(before.market_rate(), abs=5e-4)
        for moment in moments[2:6]:
            require_named(moment, venue)
    known = [each["with_missing"] for each in points if each["with_missing"] is not None]
    assert max(known) / min(known) < 1.01
    assert {each["venue"] for point in points for each in point["missing"]} == {*AWAY}


async def switched_off_and_on(stack: VenueStack, venue: str) -> list[Moment]:
    """A venue that is away for 100 seconds, of which one minute is whole, and then back."""
    seen = [await look(stack)]
    stack.faults[venue].turn_on("outage", stack.clock())
    for number in range(6):
        if number == 5:
            stack.faults[venue].clear()
        await stack.take_readings(20)
        seen.append(await look(stack))
    return seen


def require_no_step(moments: list[Moment], coin: str, venue: str) -> None:
    """No step is larger than three times what the other venues moved in the whole time."""
    others = [e["venue"] for e in moments[0].coins[coin]["venues"] if e["venue"] != venue]
    values = [each.values(coin) for each in moments]
    for name in values[0]:
        own = [[each.at_venue(coin, other)[name] for each in moments] for other in others]
        moved = max(max(each) - min(each) for each in own)
        steps = [abs(b[name] - a[name]) for a, b in pairwise(values)]
        floor = 1e-6 if name == "rate" else 1e-4
        assert max(steps) <= 3 * moved + floor, (venue, coin, name, max(steps), moved)


def require_named(moment: Moment, venue: str) -> None:
    """Every total says that a venue is missing."""
    title = VENUES[venue].title
    for coin, found in moment.coins.items():
        lists = venue in {each["venue"] for each in found["venues"]}
        assert moment.missing(coin) == ({venue} if lists else set()), coin
    home = shown_text(moment.pages["/"])
    assert f"Partial: without {title}, last open interest $" in home
    assert f"with the last rates of {title} $" in home
    assert f"with the last values of {title}" in shown_text(moment.pages["/open-interest"])
    assert f"Partial: without {title}" in shown_text(moment.pages["/markets"])
