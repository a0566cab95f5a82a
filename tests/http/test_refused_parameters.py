"""A request that cannot be answered is told in one sentence what would be right."""

import pytest

from barograph.history.records import KINDS
from support.service import Service

PERPETUALS, CROSS = "/api/v1/perpetuals", "/api/v1/cross"
REFUSED = {
    "/api/v1/events": [
        *(("?after=-1", 400, "id of an event"), ("?after=x", 400, "id of an event")),
        *(("?after=1&after=2", 400, "given once"), ("?after=1&since=2026-11-06", 400, "not both")),
        *(("?since=yesterday", 400, "such as 2026-11-14"), ("?limit=0", 400, "from 1 to 1000")),
        *(("?afer=1", 400, "after, since, type"), ("?type=", 400, "with commas")),
        ("?type=price.changed", 400, "regime.changed"),
        ("?symbol=BTC,NOSUCH", 404, PERPETUALS),
        ("?after=999", 400, "beyond the newest event, which has the id "),
        *(("?since=2027-01-01", 400, "in the past"), ("?venue=mtgox", 404, "bybit")),
        ("/feed.json?symbol=BTC", 400, "/api/v1/events"),
    ],
    "/api/v1/stances/": [
        *((f"rates-desk?{query}", 400, "") for query in ("limit=0", "after=-1", "after=x")),
        *((f"rates-desk?{query}", 400, "") for query in ("after=1&after=2", "kind=x")),
        ("nope", 404, ", ".join(KINDS)),
    ],
    "/api/v1/incidents": [
        ("?from=2026-01-01", 400, "the earliest time is"),
        ("?limit=0", 400, "from 1 to 500; higher ones count as 500"),
        ("?cursor=x", 400, "cursor is not one of this list"),
        ("?offset=1", 400, "the parameters are from, to, check, venue, limit, cursor"),
        ("?check=nope", 404, "choose one of api, market-feed, "),
    ],
    "/api/v1/liquidations": [
        *(("?from=2020-01-01", 400, "retention"), ("?cursor=forged", 400, "cursor")),
        *(("?days=7", 400, "from, to, symbol"), ("?format=csv&limit=1", 400, "no pages")),
        *(("?side=buy", 400, "long, short"), ("?symbol=NOPE", 404, PERPETUALS)),
        ("?symbol=%00", 400, "letters"),
    ],
    PERPETUALS: [
        *(("/NOSUCH", 404, PERPETUALS), ("/a%20b", 400, "letters"), (f"/{'A' * 31}", 400, "30")),
        *(("/BTC?venue=okx", 404, "bybit"), ("?venue=okx", 404, "bybit")),
        *(("?format=xml", 400, "csv"), ("?limit=0", 400, "limit")),
        *((".csv?limit=1", 400, "no pages"), ("?offset=100", 400, "limit")),
        ("?sort=price", 400, "limit"),
    ],
    CROSS: [
        *(("/NOSUCH", 404, CROSS), ("/a%20b", 400, "coin must be")),
        *(
            ("/BTC?venue=okx", 400, "none"),
            ("?venue=okx", 400, "limit"),
            ("?limit=0", 400, "limit"),
        ),
        (".csv?limit=1", 400, "no pages"),
    ],
    "/api/v1/carry": [
        *(("?window=1y", 400, "8h, 24h, 7d, 30d"), ("?coin=NOSUCH", 404, CROSS)),
        *(("?sort=pair", 400, "window, coin, format, limit"), (".csv?limit=1", 400, "no pages")),
    ],
    "/api/v1/listings": [
        *(("?coin=NOSUCH", 404, CROSS), ("?venue=other", 404, "bybit")),
        *(("?at=yesterday", 400, "at must be"), ("?symbol=BTC", 400, "coin, venue, at")),
        ("?coin=a%20b", 400, "coin must be"),
    ],
    "/api/v1/venues": [("?limit=1", 400, "none")],
    "/api/v1/briefs/": [
        *((name, 404, "") for name in ("no-such", "a%00b", "-", "x" * 201, "no-such?version=1")),
        *((f"no-such?version={version}", 400, "") for version in ("0", "x", "1&version=1")),
        ("no-such?limit=1", 400, ""),
    ],
    "/api/v1/series/": [
        *(("turnover", 404, "us10y"), ("price?symbol=NOSUCH", 404, PERPETUALS)),
        *(("price?venue=other", 404, "bybit"), ("price?interval=week", 400, "4h")),
        ("signals?key=nothing", 404, "funding-breadth"),
        ("regime?symbol=BTC", 400, "does not apply to regime"),
        ("price?as_of=2026-01-01", 400, "does not apply to price"),
        ("us10y?as_of=2100-01-01", 400, "past"),
        ("us10y?as_of=0001-01-01T00:00:00%2B23:59", 400, "after the year 0"),
        ("us10y?as_of=0001-01-01T00:00:00%2B23:59&format=csv", 400, "after the year 0"),
        ("price?from=2026-11-05&to=2026-11-04", 400, "before"),
        *(("price?from=2100-01-01", 400, "past"), ("price?from=2020-01-01", 400, "retention")),
        ("price?from=2026-09-01&interval=minute", 400, "retention"),
        ("price?cursor=AAAA", 400, "cursor"),
        ("price?cursor=AAAA&from=0001-01-01T00:00%2B14:00", 400, "cursor"),
        ("us10y?cursor=%C3%A9&to=9999-12-31T23:59-14:00&as_of=9999-12-31T23:59-14:00", 400, "curs"),
        *(("price?symbol=a.b", 400, "letters"), ("price?limit=0", 400, "limit")),
        ("price?format=xml", 400, "csv"),
        ("price?from=1794000000", 400, "give milliseconds: 1794000000000"),
        ("price?format=csv&limit=5", 400, "pages"),
        ("liquidations?interval=minute", 400, "/api/v1/liquidations"),
    ],
}


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        pytest.param(path + rest, status, words, id=(path + rest)[:60])
        for path, rows in REFUSED.items()
        for rest, status, words in rows
    ],
)
def test_a_bad_request_is_told_what_would_be_right(
    market: Service, target: str, status: int, words: str
) -> None:
    answer = market.ask(target)

    assert (answer.status, list(answer.json())) == (status, ["error"])
    assert words in answer.json()["error"]


def test_the_earliest_time_that_an_error_names_is_accepted(service: Service) -> None:
    for target in ("/api/v1/series/price", "/api/v1/liquidations", "/api/v1/incidents"):
        refused = service.ask(f"{target}?from=2020-01-01").json()["error"]
        service.clock.pass_seconds(60)
        assert service.ask(f"{target}?from={refused.rpartition(' ')[2]}").status == 200
        assert service.ask(f"{target}?to=2100-01-01").status == 200
