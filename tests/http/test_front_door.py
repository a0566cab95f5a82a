"""The front door answers as the routes do, byte for byte, and spares them the hot reads."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.board.board import front_door
from barograph.collector.judge import Judge
from barograph.history.records import KINDS
from barograph.kit.documents import HotKey, Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.timestamps import DAY
from barograph.signals.methods import METHODS
from barograph.venues.records import Liquidation, LongAccounts, Perpetual, Perpetuals
from support.clock import START
from support.markets import BTC, MARKET, NEXT_FUNDING, PEPE, changed, reading, shares
from support.service import MARKET_PATHS, Answer, Service, ask, fresh_service

BRIEFS = ["/api/agent/briefs", "/api/agent/briefs?limit=15", "/api/agent/briefs?limit=50"]
MARKET_READS = [*MARKET_PATHS, *(f"/api/agent/derivatives?symbol={each.base}" for each in MARKET)]
LAZY = [f"/api/v1/perpetuals{each}" for each in ("", ".csv", "?format=csv", "/BTC", "/1000PEPE")]
"""Market reads that the first request renders."""

STANDING = ["/api/agent", "/api/agent/guides", "/api/v1/accuracy"]
PAGES = [
    *("/", "/?days=30", "/markets", "/markets/BTC", "/signals", "/briefs", "/guides", "/record"),
    *("/guides/record-keeping", "/signals/funding-breadth", "/developers", "/docs", "/pricing"),
    *("/status", "/static/site.css"),
    *LAZY,
]
BADGES = [
    f"/badge/{name}.{form}{query}"
    for name in (
        *("record", "regime", "status", *(f"signal/{each.key}" for each in METHODS)),
        *(f"accuracy/{kind}" for kind in KINDS),
    )
    for form in ("svg", "json")
    for query in ("", "?style=flat", "?style=flat-square")
]
HOT = [*STANDING, *MARKET_READS, *BRIEFS, *BADGES]
SOME_HOT = [*STANDING, *MARKET_READS, *BRIEFS, *(each for each in BADGES if "flat" not in each)]
"""One of each kind, for tests that would take long with all of them."""

BASES = ("BTC", "ETH", "SOL", "XRP", "1000PEPE")


@pytest.fixture
def aging(market: Service) -> Iterator[Service]:
    """The same market, whose clock may be moved."""
    yield market
    market.clock.now = START


@pytest.fixture(scope="module")
def any_market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for one market after the other."""
    with fresh_service(tmp_path_factory.mktemp("any-market")) as service:
        yield service


def target(key: HotKey) -> bytes:
    path, query = key
    return path.encode() + (b"?" + query if query else b"")


def both(service: Service, asked: str | bytes, method: str = "GET", tag: str = "") -> Answer:
    """Ask with and without the front door, and insist on one answer."""
    fields = [("If-None-Match", tag)] if tag else []
    answer = ask(service.app, asked, method, fields)
    assert answer == ask(service.routes, asked, method, fields)
    return answer


async def nothing_behind(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']}?{scope['query_string']} went through the front door")


def test_the_hot_reads_are_what_stands_the_market_the_briefs_and_the_badges(
    service: Service,
) -> None:
    assert {target(key).decode() for key in service.board.hot} == set(HOT)


@pytest.mark.parametrize("asked", HOT)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_hot_read_is_answered_before_any_routing(
    market: Service, asked: str, method: str
) -> None:
    door = front_door(nothing_behind, market.board)

    answer = ask(door, asked, method)

    assert answer == market.ask(asked, method)
    assert ask(door, asked, method, [("If-None-Match", answer.headers["etag"])]).status == 304


@pytest.mark.parametrize("asked", PAGES)
def test_a_page_that_was_read_once_is_answered_before_any_routing_until_the_data_changes(
    service: Service, asked: str
) -> None:
    service.publish(reading(), shares())
    first = service.ask(asked)
    door = front_door(nothing_behind, service.board)

    assert first.status == 200
    assert ask(door, asked) == first
    assert ask(door, asked, "HEAD").fields == first.fields
    assert ask(door, asked, "GET", [("If-None-Match", first.headers["etag"])]).status == 304

    service.publish(reading(contracts=(changed(BTC, last_price=1.5),)), shares())
    with pytest.raises(AssertionError, match="went through the front door"):
        ask(door, asked)


@pytest.mark.parametrize("asked", ["/docs/swagger-ui-bundle.js", "/openapi.json"])
def test_a_long_body_goes_out_in_slices_with_and_without_the_front_door(
    market: Service, asked: str
) -> None:
    sizes: list[int] = []

    def watched(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            async def forward(message: Message) -> None:
                sizes.append(len(message.get("body", b"")))
                await send(message)

            await app(scope, receive, forward)

        return call

    for app in (market.routes, market.app, market.app):
        sizes.clear()
        answer = ask(watched(app), asked)
        assert sum(sizes) == len(answer.body) == int(answer.headers["content-length"]) > 65_536
        assert max(sizes) == 65_536
        assert ask(app, asked, "HEAD").fields == answer.fields


@pytest.mark.thorough
@pytest.mark.parametrize("asked", [*SOME_HOT, *LAZY])
def test_front_door_and_routes_give_one_answer_at_every_age(aging: Service, asked: str) -> None:
    for age_ms in (0, 1, 14_999, 15_000, 15_001, 20_500, 29_000, 29_001, 29_999):
        aging.clock.now = START + age_ms
        whole = both(aging, asked)
        assert whole.status == 200
        assert both(aging, asked, "HEAD").fields == whole.fields
        assert both(aging, asked, tag=whole.headers["etag"]).status == 304
        assert both(aging, asked, "HEAD", tag="*").status == 304
        assert both(aging, asked, tag='"x"') == whole


@pytest.mark.parametrize(
    "base",
    [
        *("BTC-29JAN27", "A_B", "kPEPE", "ABCDEFGHIJKLMNOP", "A%42", "X&symbol=Y"),
        *("币安人生", "\u017fol"),
    ],
)
def test_a_contract_whose_name_is_no_valid_symbol_opens_no_side_entrance(
    service: Service, base: str
) -> None:
    odd = changed(PEPE, contract=base + "USDT", base=base)
    service.publish(reading(contracts=(BTC, odd)))

    both(service, b"/api/agent/derivatives?symbol=" + base.encode())


PERPETUALS = st.lists(
    st.builds(
        Perpetual,
        contract=st.just(""),
        base=st.sampled_from(BASES),
        last_price=st.floats(1e-9, 1e7),
        funding_rate_pct=st.floats(-4, 4) | st.just(0.0),
        funding_interval_hours=st.sampled_from([1.0, 2.0, 4.0, 8.0]),
        next_funding_time=st.integers(NEXT_FUNDING, NEXT_FUNDING + DAY),
        open_interest_usd=st.floats(0, 1e12),
    ).map(lambda each: changed(each, contract=each.base + "USDT")),
    unique_by=lambda each: each.base,
)
SHARES = st.lists(
    st.builds(
        LongAccounts,
        contract=st.sampled_from([base + "USDT" for base in BASES]),
        long_account_pct=st.floats(0, 100),
        sampled_at=st.integers(START - 1_830_000, START),
    )
)
LIQUIDATIONS = st.lists(
    st.builds(
        Liquidation,
        at=st.integers(START - DAY - 1_000, START),
        contract=st.sampled_from(["BTCUSDT", "XRPUSDT", "GONEUSDT"]),
        side=st.sampled_from(["long", "short"]),
        size=st.floats(0, 1e6),
        price=st.floats(1e-6, 1e6),
    ),
    max_size=3,
)


PUBLISHED = st.tuples(PERPETUALS, st.text(min_size=1, max_size=20)).map(
    lambda drawn: Perpetuals(START, drawn[1], tuple(drawn[0]))
)


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(
    published=PUBLISHED,
    sampled=SHARES,
    watched=st.booleans(),
    liquidations=LIQUIDATIONS,
    age_ms=st.integers(-2_000, 31_000),
)
def test_front_door_and_routes_give_one_answer_for_any_market_at_any_time(
    any_market: Service,
    *,
    published: Perpetuals,
    sampled: list[LongAccounts],
    watched: bool,
    liquidations: list[Liquidation],
    age_ms: int,
) -> None:
    service = any_market
    service.clock.now = START
    service.judge = Judge(service.settings)
    if watched:
        service.watch_day(liquidations)
    service.publish(published, sampled)
    moving = {target(key) for key in service.board.hot if not key[0].startswith("/guides")}
    asked = {*moving, *(path.encode() for path in MARKET_PATHS)}
    service.clock.now = START + age_ms

    for each in sorted(asked):
        answer = both(service, each)
        assert answer.status in {200, 502}
        both(service, each, "HEAD", tag=answer.headers.get("etag", "*"))
