"""The catalog of guides by program and on the site: every price, the sample said to be one."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barograph import NOTICE
from barograph.guides.catalog import load_catalog
from barograph.site.templating import price_usd
from support.pages import SiteService
from support.service import BASE_URL, Answer, Service

PATH = "/api/agent/guides"
MEMBERS = ["slug", "title", "description", "tags", "pages", "price", "url"]


@pytest.fixture(scope="module")
def answer(market: Service) -> Answer:
    return market.ask(PATH)


@pytest.mark.contract(
    "endpoints.guides",
    "free.guide-catalog",
    "guides.envelope",
    "guides.count",
    "guides.local-and-whole",
    "limits.guides",
    "notice.briefs-guides-signals",
)
def test_all_27_guides_are_in_an_envelope_of_exactly_the_contracts_members(answer: Answer) -> None:
    body = answer.json()

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert list(body) == ["source", "notice", "count", "guides"]
    assert (body["notice"], body["count"], type(body["count"])) == (NOTICE, 27, int)
    assert "sample" in body["source"]
    assert [guide["slug"] for guide in body["guides"]] == [
        guide.slug for guide in load_catalog(None).guides
    ]


@pytest.mark.contract("guide.fields", "guides.paid", "service.base-address")
def test_a_guide_has_exactly_the_contracts_members_a_price_and_a_page(
    market: Service, answer: Answer
) -> None:
    for guide in answer.json()["guides"]:
        assert list(guide) == MEMBERS
        for name in ("slug", "title", "description", "url"):
            assert isinstance(guide[name], str)
            assert guide[name]
        assert guide["tags"]
        assert all(isinstance(tag, str) for tag in guide["tags"])
        assert type(guide["pages"]) is int
        assert type(guide["price"]) in {int, float}
        assert guide["price"] > 0
        assert guide["url"] == f"{BASE_URL}/guides/{guide['slug']}"
        page = market.ask(guide["url"].removeprefix(BASE_URL))
        assert (page.status, page.headers["content-type"][:9]) == (200, "text/html")
    assert b'"price":29,' in answer.body
    assert b'"price":44.5,' in answer.body


def own_catalog(folder: Path) -> Path:
    """An operator's file: the first guide has no shop, the others have."""
    guide = {"description": "About & so on.", "tags": ["a"], "pages": 1, "price": 9.5}
    guides: list[dict[str, Any]] = [
        {"slug": f"guide-{n}", "title": f"Guide <{n}>", **guide} for n in range(27)
    ]
    for each in guides[1:]:
        each["url"] = f"https://shop.example/?a={each['slug']}&b"
    file = folder / "guides.json"
    file.write_text(json.dumps({"source": 'A "publisher"', "guides": guides}))
    return file


def test_an_operators_guides_link_to_the_shop_or_to_their_pages(tmp_path: Path) -> None:
    with closing(SiteService(tmp_path, guides_file=own_catalog(tmp_path))) as site:
        body = site.ask(PATH).json()
        unsold, page = site.look("/guides/guide-0"), site.look("/guides/guide-1")
        header = site.ask("/guides").text.partition("<main")[0]

    assert (body["source"], body["count"]) == ('A "publisher"', 27)
    assert [guide["url"] for guide in body["guides"]] == [
        f"{BASE_URL}/guides/guide-0",
        *(f"https://shop.example/?a=guide-{n}&b" for n in range(1, 27)),
    ]
    assert "Guide <0>" in unsold.text
    assert '<a href="/guides" aria-current="page">Guides</a>' in header
    assert "https://shop.example/?a=guide-1&b" in page.targets
    for shown in ("Guide <1>", "1 page ", "Buy this guide for 9.50 USD", 'Source: A "publisher"'):
        assert shown in page.text
    assert "paid once" in page.text
    assert "cannot be bought" not in page.text
    assert "sample" not in page.text


@pytest.mark.contract("guides.local-and-whole")
def test_the_catalog_needs_neither_data_nor_a_database(
    empty_service: Service, answer: Answer
) -> None:
    empty_service.execute("ALTER TABLE snapshots RENAME TO away")
    empty_service.clock.pass_seconds(86_400)

    assert empty_service.ask(PATH) == answer


@pytest.mark.contract("guides.paid")
def test_every_guide_is_listed_with_its_price_and_the_sample_is_labelled(site: SiteService) -> None:
    text = site.look("/guides").text

    assert ">Guides</a>" not in site.ask("/guides").text
    assert "27 paid trading guides" in text
    assert "sample, not for sale" in text
    assert "You cannot buy these guides" in text
    for guide in load_catalog(None).guides:
        assert guide.title in text
        page = site.look(f"/guides/{guide.slug}")
        assert f"Price {price_usd(guide.price)}" in page.text
        assert f"{guide.pages} pages" in page.text
        topics = ", ".join(guide.tags).replace("-", " ").replace("etf", "ETF")
        assert topics in page.text
        assert "sample, not for sale" in page.text
        assert "part of a sample catalog and cannot be bought" in page.text
        assert "paid once" not in page.text
        assert page.relations["alternate"] == "/api/agent/guides"
