"""`/api/agent`: the index of the free endpoints."""

from pathlib import Path

import pytest

from barograph import NOTICE
from support.service import BASE_URL, Service, fresh_service

KEYS = ["briefs", "derivatives", "market", "market_state", "guides"]


@pytest.mark.contract("endpoints.index", "index.name", "index.description", "index.notice")
def test_the_index_has_exactly_the_contracts_members_in_order(service: Service) -> None:
    answer = service.ask("/api/agent")

    assert answer.status == 200
    body = answer.json()
    assert list(body) == ["name", "description", "site", "mcp", "endpoints", "notice"]
    assert body["name"] == "Barograph"
    assert isinstance(body["description"], str)
    assert body["description"]
    assert body["notice"] == NOTICE


@pytest.mark.contract("index.site", "index.mcp", "service.base-address")
def test_the_links_of_the_index_are_absolute_and_below_the_base_address(service: Service) -> None:
    body = service.ask("/api/agent").json()

    assert body["site"] == BASE_URL + "/"
    assert body["mcp"] == BASE_URL + "/api/mcp"


@pytest.mark.contract("index.site", "index.mcp", "service.base-address")
def test_another_base_address_is_in_every_link(tmp_path: Path) -> None:
    with fresh_service(tmp_path, base_url="http://10.0.0.9:8080/barograph") as service:
        body = service.ask("/api/agent").json()

    assert body["site"] == "http://10.0.0.9:8080/barograph/"
    assert body["mcp"] == "http://10.0.0.9:8080/barograph/api/mcp"


@pytest.mark.contract("index.site")
def test_the_site_address_is_a_page(service: Service) -> None:
    site = service.ask("/api/agent").json()["site"]

    answer = service.ask(site.removeprefix(BASE_URL))

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.contract("index.endpoints.keys", "index.endpoints.values")
def test_the_index_maps_five_endpoints_to_method_path_and_description(service: Service) -> None:
    endpoints = service.ask("/api/agent").json()["endpoints"]

    assert list(endpoints) == KEYS
    for entry in endpoints.values():
        assert list(entry) == ["method", "path", "description"]
        assert entry["method"] == "GET"
        assert entry["path"].startswith("/api/agent/")
        assert isinstance(entry["description"], str)
        assert entry["description"]


@pytest.mark.contract("index.endpoints.values", "endpoints.get")
@pytest.mark.parametrize("key", KEYS)
def test_an_endpoint_of_the_index_answers_to_its_own_method_and_path(
    service: Service, key: str
) -> None:
    entry = service.ask("/api/agent").json()["endpoints"][key]

    assert service.ask(entry["path"], entry["method"]).status == 200


@pytest.mark.contract("endpoints.index")
def test_the_index_needs_no_data_and_ignores_every_parameter(empty_service: Service) -> None:
    bare = empty_service.ask("/api/agent")

    assert bare.status == 200
    assert empty_service.ask("/api/agent?symbol=%ff&limit=x") == bare
