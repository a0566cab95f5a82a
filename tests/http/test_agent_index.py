"""`/api/agent`: the index of the free endpoints."""

import pytest

from barograph import NOTICE
from support.service import BASE_URL, Service

KEYS = ["briefs", "derivatives", "market", "market_state", "guides"]


@pytest.mark.contract(
    "endpoints.index",
    "index.name",
    "index.description",
    "index.site",
    "index.mcp",
    "index.notice",
    "index.endpoints.keys",
    "index.endpoints.values",
    "service.base-address",
)
def test_the_index_has_exactly_the_contracts_members_in_order(service: Service) -> None:
    body = service.ask("/api/agent").json()

    assert list(body) == ["name", "description", "site", "mcp", "endpoints", "notice"]
    assert (body["name"], body["notice"]) == ("Barograph", NOTICE)
    assert (body["site"], body["mcp"]) == (f"{BASE_URL}/", f"{BASE_URL}/api/mcp")
    assert list(body["endpoints"]) == KEYS
    for entry in body["endpoints"].values():
        assert list(entry) == ["method", "path", "description"]
        assert entry["method"] == "GET"
        assert service.ask(entry["path"]).status == 200
    for described in (body, *body["endpoints"].values()):
        assert isinstance(described["description"], str)
        assert described["description"]


@pytest.mark.contract("endpoints.index")
def test_the_index_needs_no_data_and_ignores_every_parameter(empty_service: Service) -> None:
    bare = empty_service.ask("/api/agent")

    assert bare.status == 200
    assert empty_service.ask("/api/agent?symbol=%ff&limit=x") == bare
