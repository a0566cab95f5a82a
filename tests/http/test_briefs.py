"""`/api/agent/briefs`: the newest briefs, as long as it is known that they are."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from barograph import NOTICE
from barograph.briefs.records import Brief, Category
from barograph.errors import UpstreamError
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import MINUTE
from support.clock import START
from support.markets import BTC, ETH, SOL, changed, reading, shares
from support.pages import NOTE
from support.service import BASE_URL, Answer, Service, fresh_service

PATH = "/api/agent/briefs"
BOUND_MS = 60_000
UNREADABLE = b'{"error":"the record cannot be read at the moment; try again shortly"}'
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
DECIDED = {
    *("funding", "positioning", "liquidations", "open-interest", "etf-flows", "rates"),
    *("market", "data-quality", "note"),
}


def brief(number: int, **members: Any) -> Brief:
    """A brief that was published `number` minutes ago."""
    return NOTE._replace(
        **{
            "slug": f"brief-{number:03}",
            "published_at": START - number * MINUTE,
            "category": "funding",
            "headline": f"Headline {number}",
            "coins": ("BTC", "1000PEPE"),
            "summary": f"Summary {number}.",
            **members,
        }
    )


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market with 60 briefs that the tests here only read."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        service.keep_briefs(*(brief(number) for number in range(60)))
        yield service


def slugs(answer: Answer) -> list[str]:
    return [each["url"].rpartition("/")[2] for each in answer.json()["briefs"]]


@pytest.mark.contract(
    "endpoints.briefs",
    "free.analysis-feed",
    "briefs.envelope",
    "notice.briefs-guides-signals",
    "brief.headline",
    "brief.category",
    "brief.coins",
    "brief.summary",
    "brief.url",
    "brief.published-at",
    "timestamps.published-at",
)
def test_envelope_and_briefs_have_exactly_the_contracts_members_in_order(market: Service) -> None:
    answer = market.ask(PATH)
    body = answer.json()

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["last-modified"] == "Fri, 06 Nov 2026 21:20:00 GMT"
    assert list(body) == ["source", "notice", "count", "briefs"]
    assert "test venue" in body["source"]
    assert body["notice"] == NOTICE
    assert type(body["count"]) is int
    assert body["count"] == len(body["briefs"]) == 15
    assert body["briefs"][0] == {
        "headline": "Headline 0",
        "category": "funding",
        "coins": ["BTC", "1000PEPE"],
        "summary": "Summary 0.",
        "url": f"{BASE_URL}/briefs/brief-000",
        "publishedAt": "2026-11-06T21:20:00.000Z",
    }
    for listed in body["briefs"]:
        assert list(listed) == ["headline", "category", "coins", "summary", "url", "publishedAt"]
        assert STAMP.fullmatch(listed["publishedAt"])


@pytest.mark.contract("brief.url", "service.base-address")
def test_every_url_is_absolute_and_leads_to_the_page_of_that_brief(market: Service) -> None:
    for each in market.ask(f"{PATH}?limit=50").json()["briefs"]:
        assert each["url"].startswith(f"{BASE_URL}/briefs/")
        page = market.ask(each["url"].removeprefix(BASE_URL))
        assert page.status == 200
        assert page.headers["content-type"].startswith("text/html")
        assert each["headline"].encode() in page.body


@pytest.mark.contract("brief.category-values")
def test_the_categories_are_those_that_were_decided(service: Service) -> None:
    assert set(get_args(Category)) == DECIDED
    service.keep_briefs(
        *(brief(n, category=category) for n, category in enumerate(sorted(DECIDED)))
    )

    listed = service.ask(PATH).json()["briefs"]

    assert {each["category"] for each in listed} == DECIDED


@pytest.mark.contract("free.analysis-feed", "brief.category")
def test_what_the_market_does_becomes_a_brief_by_itself(service: Service) -> None:
    crowded = (changed(BTC, funding_rate_pct=0.2), ETH, SOL)
    service.publish(reading(), shares())
    for minute in range(1, 20):
        service.clock.now = START + minute * MINUTE
        service.publish(reading(service.clock.now, crowded), shares(service.clock.now))

    (found,) = service.ask(PATH).json()["briefs"]

    assert found["category"] in DECIDED
    assert found["coins"] == ["BTC"]
    assert "test venue" in found["summary"]
    assert service.ask(found["url"].removeprefix(BASE_URL)).status == 200


def test_the_newest_come_first_and_those_of_one_instant_by_slug(service: Service) -> None:
    order = ["b", "c", "a"]
    service.keep_briefs(brief(5, slug="older"), *(brief(3, slug=slug) for slug in order))
    service.keep_briefs(brief(1, slug="newest"), brief(9, slug="oldest"))

    assert slugs(service.ask(PATH)) == ["newest", "a", "b", "c", "older", "oldest"]


@pytest.mark.contract("briefs.limit.default", "limits.briefs")
@pytest.mark.parametrize(
    "query",
    [
        *("", "?", "?limit", "?limit=", "?limit=abc", "?limit=1.5", "?limit=1e1", "?limit=0x5"),
        *("?limit=%D9%A3", "?limit=5&limit=5", "?limit=5,6", "?limit=1_0", "?limit=--5", "?x=5"),
        *("?Limit=5", "?limit=%205", "?limit=5%0a", "?limit=%ff", "?limit=None", "?limit=15"),
        *("?limit=+5", "?limit=5%20", "?limit=5;limit=6", "?limit=-", "?limit=%", "?limit=%zz"),
        *("?limit=5%00", "?limit=\uff15", "?limit=%C2%B2", "?limit=NaN", "?limit=inf", "?limits=3"),
        *("?limit=5&limit=", "?limit=5&%6Cimit=6", "?&"),
    ],
)
def test_without_one_integer_the_newest_15_are_listed(market: Service, query: str) -> None:
    answer = market.ask(PATH + query)

    assert answer.status == 200
    assert slugs(answer) == [f"brief-{number:03}" for number in range(15)]


@pytest.mark.contract("briefs.limit.clamped", "limits.briefs")
@pytest.mark.parametrize(
    ("limit", "count"),
    [
        *(("1", 1), ("2", 2), ("14", 14), ("16", 16), ("49", 49), ("50", 50)),
        *(("0", 1), ("-0", 1), ("-1", 1), ("-99999999999999999999", 1)),
        *(("51", 50), ("100", 50), ("9" * 5_000, 50), ("0" * 5_000 + "7", 7)),
        *(("%2B3", 3), ("007", 7), ("000", 1), ("00051", 50), ("%35", 5), ("%2D5", 1)),
        ("3&coin=BTC&offset=9", 3),
        *(("1" + "0" * 5_000, 50), ("-" + "9" * 5_000, 1), ("0" * 5_000, 1)),
    ],
)
def test_any_integer_is_brought_into_the_range(market: Service, limit: str, count: int) -> None:
    answer = market.ask(f"{PATH}?limit={limit}")

    assert answer.status == 200
    assert answer.json()["count"] == count
    assert slugs(answer) == [f"brief-{number:03}" for number in range(count)]


@pytest.mark.contract("briefs.envelope")
def test_before_the_first_brief_the_list_is_empty_and_not_an_error(service: Service) -> None:
    answer = service.ask(PATH)

    assert answer.status == 200
    assert (answer.json()["count"], answer.json()["briefs"]) == (0, [])
    assert answer.json()["notice"] == NOTICE


@pytest.mark.contract("briefs.500", "errors.500", "errors.body")
@pytest.mark.outcome(
    "The database is unreadable when briefs are read",
    "A worker serves its copy until the freshness limit. Then the API returns 500 and the "
    "page 503.",
)
@pytest.mark.parametrize("query", ["", "?limit=50", "?limit=7", "?limit=abc"])
def test_unreadable_database_is_500_exactly_from_the_freshness_limit(
    service: Service, query: str
) -> None:
    service.keep_briefs(brief(0))
    whole = service.ask(PATH + query)
    service.execute("ALTER TABLE snapshots RENAME TO away")
    service.clock.now = START + BOUND_MS - 1
    with pytest.raises(DatabaseUnavailable):
        service.refresh()
    assert service.ask(PATH + query).body == whole.body

    service.clock.now = START + BOUND_MS
    for tag in ("", "*", whole.headers["etag"]):
        answer = service.ask(PATH + query, if_none_match=tag)
        assert (answer.status, answer.body) == (500, UNREADABLE)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["access-control-allow-origin"] == "*"
    assert service.ask(PATH + query, "HEAD").status == 500
    for passed, status in ((-BOUND_MS, 200), (-BOUND_MS - 1, 500)):  # the clock is set back
        service.clock.now = START + passed
        assert service.ask(PATH + query).status == status

    service.execute("ALTER TABLE away RENAME TO snapshots")
    service.refresh()
    assert service.ask(PATH + query).body == whole.body


@pytest.mark.contract("briefs.500")
def test_a_worker_that_never_read_its_database_says_500_and_not_that_there_are_none(
    empty_service: Service,
) -> None:
    answer = empty_service.ask(PATH)

    assert (answer.status, answer.body) == (500, UNREADABLE)


@pytest.mark.contract("briefs.500")
def test_a_stale_market_takes_no_brief_away(service: Service) -> None:
    service.keep_briefs(brief(0))
    whole = service.ask(PATH)
    service.publish_failure(UpstreamError("gone"))
    service.clock.pass_seconds(86_400)
    service.refresh()

    assert service.ask("/api/agent/market").status == 502
    answer = service.ask(PATH)
    assert (answer.status, answer.body) == (200, whole.body)
