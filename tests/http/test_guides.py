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
    "endpoints.guides", "free.guide-catalog", "guides.envelope", "notice.briefs-guides-signals"
)
def test_the_envelope_has_exactly_the_contracts_members_in_order(answer: Answer) -> None:
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["source", "notice", "count", "guides"]
    assert body["notice"] == NOTICE
    assert "sample" in body["source"]


@pytest.mark.contract("guides.count", "guides.local-and-whole", "limits.guides")
def test_all_27_guides_are_returned_and_counted(answer: Answer) -> None:
    body = answer.json()

    assert body["count"] == 27
    assert type(body["count"]) is int
    assert len(body["guides"]) == 27
    assert [guide["slug"] for guide in body["guides"]] == [
        guide.slug for guide in load_catalog(None).guides
    ]


@pytest.mark.contract("guide.fields")
def test_a_guide_has_exactly_the_contracts_members_and_types(answer: Answer) -> None:
    for guide in answer.json()["guides"]:
        assert list(guide) == MEMBERS
        for name in ("slug", "title", "description", "url"):
            assert isinstance(guide[name], str)
            assert guide[name]
        assert guide["tags"]
        assert all(isinstance(tag, str) for tag in guide["tags"])
        assert type(guide["pages"]) is int


@pytest.mark.contract("guides.paid")
def test_every_price_is_disclosed_as_a_number_above_zero(answer: Answer) -> None:
    prices = [guide["price"] for guide in answer.json()["guides"]]

    assert all(type(price) in {int, float} and price > 0 for price in prices)
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


@pytest.mark.contract("guide.fields", "service.base-address")
def test_every_link_leads_to_a_page(market: Service, answer: Answer) -> None:
    for guide in answer.json()["guides"]:
        assert guide["url"] == f"{BASE_URL}/guides/{guide['slug']}"
        page = market.ask(guide["url"].removeprefix(BASE_URL))
        assert page.status == 200
        assert page.headers["content-type"].startswith("text/html")


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
