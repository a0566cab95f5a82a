"""`/api/agent/guides`: the whole catalog, with every price."""

import json
from pathlib import Path
from typing import Any

import pytest

from barograph import NOTICE
from barograph.guides.catalog import load_catalog
from support.service import BASE_URL, Answer, Service, fresh_service

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
    guide = {"description": "One.", "tags": ["a"], "pages": 1, "price": 9.5}
    guides: list[dict[str, Any]] = [
        {"slug": f"guide-{n}", "title": f"Guide {n}", **guide} for n in range(27)
    ]
    for each in guides[1:]:
        each["url"] = f"https://shop.example/{each['slug']}"
    file = folder / "guides.json"
    file.write_text(json.dumps({"source": "Mine", "guides": guides}))
    return file


def test_the_link_is_the_guides_page_unless_the_operator_has_a_shop(tmp_path: Path) -> None:
    with fresh_service(tmp_path, guides_file=own_catalog(tmp_path)) as service:
        body = service.ask(PATH).json()
        page = service.ask("/guides/guide-0")

    assert body["source"] == "Mine"
    assert body["count"] == 27
    assert [guide["url"] for guide in body["guides"]] == [
        f"{BASE_URL}/guides/guide-0",
        *(f"https://shop.example/guide-{n}" for n in range(1, 27)),
    ]
    assert page.status == 200


@pytest.mark.contract("guides.local-and-whole")
def test_the_catalog_needs_neither_data_nor_a_database(
    empty_service: Service, answer: Answer
) -> None:
    empty_service.execute("ALTER TABLE snapshots RENAME TO away")
    empty_service.clock.pass_seconds(86_400)

    assert empty_service.ask(PATH) == answer


@pytest.mark.contract("guides.500", "guide.fields")
def test_the_interface_description_names_the_500_and_a_price_that_is_a_number(
    market: Service,
) -> None:
    schema = market.ask("/openapi.json").json()

    operation = schema["paths"][PATH]["get"]
    assert "500" in operation["responses"]
    price = schema["components"]["schemas"]["GuideEntry"]["properties"]["price"]
    assert (price["type"], price["exclusiveMinimum"]) == ("number", 0)
