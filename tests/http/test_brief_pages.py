"""Briefs on the site: every recorded one, page by page, and where each comes from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.board.board import front_door
from barograph.board.feeds import Publication
from barograph.briefs.records import Brief
from barograph.kit.http import Receive, Scope, Send
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.store import ReadingRow
from barograph.markets.view import PERPETUALS
from barograph.venues.records import Perpetuals
from barograph.venues.registry import VENUES
from support.clock import START
from support.markets import BTC, reading
from support.pages import BROWSER, FOUND, NOTE, Checked, SiteService
from support.service import BASE_URL, Service, ask


def many(count: int) -> list[Brief]:
    """So many briefs, the first one the newest."""
    return [
        NOTE._replace(
            slug=f"brief-{number:03}",
            headline=f"Headline {number:03}.",
            published_at=START - number * 60_000,
            category="funding" if number % 2 else "rates",
            coins=("BTC",) if number % 3 else (),
        )
        for number in range(count)
    ]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[SiteService]:
    """More briefs than the newest, which the board has."""
    site = SiteService(tmp_path)
    site.service.keep_briefs(*many(70))
    yield site
    site.close()


def headlines(page: Checked) -> list[str]:
    return [word for word in "".join(page.words).splitlines() if word.startswith("Headline")]


def test_briefs_are_listed_at_once_newest_first_and_escaped(site: SiteService) -> None:
    site.look("/briefs")
    site.service.keep_briefs(NOTE._replace(slug="newer", published_at=START, headline="Newer"))

    text = site.look("/briefs").text

    assert text.index("Newer") < text.index("Funding is high") < text.index("Fees & <b>spreads</b>")
    assert "2026-11-06 21:19 UTC · Note · BTC, ETH" in text
    assert "A summary with <i>marks</i>." in text


def neighbours(page: Checked) -> tuple[str | None, str | None]:
    return page.relations.get("prev"), page.relations.get("next")


def test_lists_and_briefs_lead_to_the_newer_and_the_older_one(archive: SiteService) -> None:
    first, second, last = (archive.look(f"/briefs?page={number}") for number in (1, 2, 4))
    newest, middle, oldest = (archive.look(f"/briefs/brief-{number:03}") for number in (0, 30, 69))

    assert neighbours(first) == (None, "/briefs?page=2")
    assert neighbours(second) == ("/briefs", "/briefs?page=3")
    assert neighbours(last) == ("/briefs?page=3", None)
    assert first.relations["canonical"] == f"{BASE_URL}/briefs"
    assert second.relations["canonical"] == f"{BASE_URL}/briefs?page=2"
    assert first.relations["alternate"] == "/api/agent/briefs"
    # As in the list, which goes from the newest to the oldest.
    assert neighbours(newest) == (None, "/briefs/brief-001")
    assert neighbours(middle) == ("/briefs/brief-029", "/briefs/brief-031")
    assert neighbours(oldest) == ("/briefs/brief-068", None)


def test_a_category_and_a_coin_have_pages_of_their_own(archive: SiteService) -> None:
    rates = archive.look("/briefs/category/rates?page=2")
    coin = archive.look("/briefs/coin/BTC")
    both = archive.look("/briefs/coin/BTC?category=funding&page=2")
    archive.service.publish(reading())
    none = archive.look("/briefs/coin/SOL")

    assert headlines(rates) == [f"Headline {number:03}." for number in range(40, 70, 2)]
    assert rates.relations["prev"] == "/briefs/category/rates"
    assert "46 briefs about BTC · page 1 of 3" in coin.text
    assert coin.relations["next"] == "/briefs/coin/BTC?page=2"
    assert coin.relations["canonical"] == f"{BASE_URL}/briefs/coin/BTC"
    assert "23 briefs in Funding about BTC · page 2 of 2" in both.text
    assert len(headlines(both)) == 3
    assert "0 briefs about SOL" in none.text
    assert "No brief matches." in none.text
    shown = {each for each in coin.targets if "category=" in each}
    assert shown == {f"/briefs/coin/BTC?category={each}" for each in ("funding", "rates")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/briefs?category=funding", "/briefs/category/funding"),
        ("/briefs?coin=btc&page=2", "/briefs/coin/BTC?page=2"),
        ("/briefs?category=funding&coin=BTC", "/briefs/coin/BTC?category=funding"),
        ("/briefs/coin/btc", "/briefs/coin/BTC"),
        ("/briefs/category/funding?coin=BTC", "/briefs/coin/BTC?category=funding"),
    ],
)
def test_other_addresses_of_a_list_lead_to_its_page(site: SiteService, old: str, new: str) -> None:
    answer = site.ask(old)

    assert (answer.status_code, answer.headers["location"]) == (308, new)
    assert answer.headers["cache-control"] == "public, max-age=3600"


UPDATE = FOUND._replace(
    headline="Funding is higher",
    published_at=START,
    version=2,
    first_published_at=FOUND.published_at,
)


def test_an_updated_brief_keeps_its_address_and_its_earlier_text(site: SiteService) -> None:
    site.service.keep_briefs(UPDATE)
    site.service.keep_briefs(UPDATE)  # a write that is repeated

    now = site.look(f"/briefs/{FOUND.slug}")
    before = site.look(f"/briefs/{FOUND.slug}/1")
    (item,) = (
        each
        for each in site.ask("/briefs/feed.json").json()["items"]
        if each["title"] == UPDATE.headline
    )

    assert "Funding is higher Updated 2026-11-06 21:20 UTC, first published 2026-" in now.text
    assert "Earlier versions" in now.text
    assert f"/briefs/{FOUND.slug}/1" in now.targets
    assert "This is version 1 of 2." in before.text
    assert before.relations["canonical"] == f"{BASE_URL}/briefs/{FOUND.slug}"
    assert "Updated 2026-11-06 21:20 UTC · Funding" in site.look("/briefs").text
    dates = [iso_timestamp(each) for each in (FOUND.published_at, START)]
    assert [item["date_published"], item["date_modified"]] == dates
    for name, date in zip(("datePublished", "dateModified"), dates, strict=True):
        assert f'"{name}": "{date}"' in site.ask(f"/briefs/{FOUND.slug}").text


def test_a_daily_wrap_links_to_the_texts_of_its_day(site: SiteService) -> None:
    midnight = START // DAY * DAY
    wrap = NOTE._replace(
        slug="daily-wrap-2026-11-06",
        rule="daily-wrap",
        window_start=midnight,
        window_end=midnight + DAY,
    )
    site.service.keep_briefs(wrap, UPDATE._replace(published_at=midnight + DAY))

    page = site.look(f"/briefs/{wrap.slug}")

    assert {f"/briefs/{FOUND.slug}/1", f"/briefs/{NOTE.slug}/1", "/markets"} <= set(page.targets)
    assert f"/briefs/{wrap.slug}/1" not in page.targets


@pytest.mark.parametrize(
    ("source", "venue"),
    [
        (VENUES["hyperliquid"].source, "hyperliquid"),
        ("test venue, not Hyperliquid", "bybit"),
        (VENUES["binance"].source, None),
    ],
)
def test_a_chart_shows_the_venue_of_its_brief_whichever_is_in_use(
    tmp_path: Path, source: str, venue: str | None
) -> None:
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    rows = [ReadingRow("hour", "BTCUSDT", START // HOUR * HOUR, 60_000.0, 0.02, 8, 4e9, None)]
    for name, feed in (("hyperliquid", PERPETUALS), ("bybit", PERPETUALS.of("bybit"))):
        site.service.put(Publication.of(feed, Perpetuals(START, source, (BTC,), venue=name)))
        site.service.record_market(name, readings=rows)
    brief = FOUND._replace(rule="funding-flip", coins=("BTC",), source=source)
    old = brief._replace(slug="2026-09-01-funding", window_end=START - 40 * DAY)
    site.service.keep_briefs(old, brief)

    found, nothing = (
        [each for each in site.look(f"/briefs/{slug}").targets if "/series/" in each]
        for slug in (brief.slug, old.slug)
    )
    site.close()

    assert not nothing, "hours of that time are not recorded"
    assert len(found) == (0 if venue is None else 2)
    assert all(f"?venue={venue}&symbol=BTC&" in each for each in found)


@pytest.mark.parametrize(
    "path",
    [
        *("?page=0", "?page=-1", "?page=01", "?page=x", "?page=1.0", "?page=%D9%A1"),
        *("?page=9999999", "?page=1&page=1", "?category=nope", "?category=Funding"),
        *("?coin=B%25", "?coin=%22", "?coin=B_C", "?coin=BTC&coin=ETH", "?coin=BTC%00"),
        *("?coin=" + "A" * 16, "?coin=\u017fol", "?coin=%3Cscript%3E"),
        *("/category/nope", "/category/funding?category=rates", "/coin/NOPE", "/coin/B_C"),
        *(f"/{FOUND.slug}/{version}" for version in ("2", "0", "x")),
        "/nope/1",
    ],
)
def test_what_can_be_no_list_or_version_is_not_found(site: SiteService, path: str) -> None:
    answer = site.ask(f"/briefs{path}", accept=BROWSER)

    assert answer.status_code == 404
    assert "script&gt;" not in answer.text


def test_a_brief_shows_its_body_and_where_it_comes_from(site: SiteService) -> None:
    note = site.look(f"/briefs/{NOTE.slug}")
    found = site.look(f"/briefs/{FOUND.slug}")

    assert "Text with <script>alert(1)</script> and a link." in note.text
    assert "https://example.com/" in note.targets
    assert "Written by the operator of this instance" in note.text
    assert "Rule Funding extreme Measured period 2026-11-06 20:20 UTC" in found.text
    assert FOUND.inputs_digest in found.text
    assert {"/briefs/category/funding", "/briefs/coin/BTC", "/briefs/coin/ETH"} <= set(
        found.targets
    )


def test_a_brief_is_an_article_for_search_engines(site: SiteService) -> None:
    page = site.ask(f"/briefs/{NOTE.slug}").text
    data = re.search(r'<script type="application/ld\+json">(.*?)</script>', page)

    assert data is not None
    assert "<" not in data[1]
    article = json.loads(data[1])
    assert article["headline"] == NOTE.headline
    assert article["datePublished"] == iso_timestamp(NOTE.published_at)
    assert '<meta property="og:type" content="article">' in page
    assert f'article:published_time" content="{article["datePublished"]}"' in page
    assert [f'article:tag" content="{coin}"' in page for coin in NOTE.coins] == [True, True]


def test_a_brief_can_be_cited_with_its_time_its_source_and_the_notice(site: SiteService) -> None:
    page = site.look(f"/briefs/{FOUND.slug}")

    assert (
        f"“Funding is high”, Barograph, 2026-11-06 21:19 UTC. Source: test venue. "
        f"{BASE_URL}/briefs/{FOUND.slug} · Information only, not financial advice."
    ) in page.text
    assert {"citation", "address", "inputs"} == set(page.copied)


def test_a_newer_brief_is_linked_from_the_one_that_was_the_newest(site: SiteService) -> None:
    assert "prev" not in site.look(f"/briefs/{FOUND.slug}").relations

    site.service.keep_briefs(NOTE._replace(slug="newer", published_at=START))

    assert site.look(f"/briefs/{FOUND.slug}").relations["prev"] == "/briefs/newer"


MARKUP = "<img src=x onerror=alert(1)>\"'</title></p>{{ 7 * 7 }}"


def test_a_brief_full_of_markup_stays_text(site: SiteService) -> None:
    hostile = NOTE._replace(
        slug="hostile",
        published_at=START,
        headline=MARKUP,
        coins=("BTC",),
        summary=MARKUP,
        body=f"{MARKUP}\n\n[x](javascript:alert(1)) ![x](https://example.com/x.png)",
        source=MARKUP,
        rule=MARKUP,
        inputs=MARKUP,
        inputs_digest=MARKUP,
    )
    site.service.keep_briefs(hostile)

    for path in ("/briefs", "/briefs/hostile", f"/briefs/{FOUND.slug}"):
        page = site.look(path)
        assert not [each for each in page.targets if "javascript" in each or "onerror" in each]
        assert "<img" not in site.ask(path).text
        assert MARKUP in page.text
        assert "49" not in page.text


async def nothing_behind(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']} went through the front door")


def test_what_many_read_is_written_once_and_answered_before_routing(site: SiteService) -> None:
    door = front_door(nothing_behind, site.service.board)

    for path in ("/briefs", "/briefs/category/note", f"/briefs/{NOTE.slug}"):
        first = site.service.ask(path)
        assert ask(door, path).body == first.body


def test_lists_about_a_coin_and_far_pages_are_not_kept(archive: SiteService) -> None:
    archive.service.keep_briefs(*many(140))
    for path in ("/briefs/coin/BTC", "/briefs?page=6", "/briefs/brief-139", "/briefs?page=2"):
        archive.look(path)
    kept = {(path, query) for path, query in archive.service.board.hot if path.startswith("/brief")}

    assert kept == {("/briefs", b"page=2")}


def test_without_briefs_the_page_says_so(service: Service) -> None:
    assert b"No brief has been published yet." in service.ask("/briefs").body


@pytest.mark.outcome(
    "The database is unreadable when briefs are read",
    "A worker serves its copy until the freshness limit. Then the API returns 500 and the "
    "page 503.",
)
def test_unreadable_briefs_are_reported_on_the_page(site: SiteService) -> None:
    site.look("/briefs")
    site.rename("briefs", "away")
    assert site.ask("/briefs").status_code == 200

    site.clock.pass_seconds(60)

    for path in ("/briefs", f"/briefs/{NOTE.slug}"):
        answer = site.ask(path, accept=BROWSER)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["cache-control"] == "no-store"
        assert "We can't show this page right now" in Checked(answer).text
    assert site.ask("/guides").status_code == 200
