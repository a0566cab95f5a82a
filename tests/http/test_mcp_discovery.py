"""How a program finds `/api/mcp` without connecting to it."""

import json
import re
import subprocess
import sys
from os import environ, pathsep
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from barograph import __version__
from barograph.discovery.mcp_description import PROTOCOLS, ai_catalog, server_card
from support.mcp_peer import CLIENT, HANDSHAKE, MODERN, Peer
from support.service import BASE_URL, Service, fresh_service

CARD = "/api/mcp/server-card"
REGISTRY = "/api/mcp/server.json"
CATALOG = "/.well-known/ai-catalog.json"
ICON = "/static/icon.svg"
CARD_TYPE = "application/mcp-server-card+json"
NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", re.ASCII)


def test_the_catalog_leads_to_the_card_and_the_card_to_the_server(market: Service) -> None:
    [entry] = market.ask(CATALOG).json()["entries"]
    assert (entry["type"], entry["displayName"]) == (CARD_TYPE, "Barograph")
    assert 2 <= len(entry["representativeQueries"]) <= 5  # else Lighthouse warns

    [remote] = market.ask(entry["url"].removeprefix(BASE_URL)).json()["remotes"]
    assert remote["type"] == "streamable-http"

    for revision in remote["supportedProtocolVersions"]:
        listed = Peer(market, revision).post("tools/list", path=remote["url"][len(BASE_URL) :])
        assert listed.status == 200


def test_the_card_agrees_with_what_the_server_says_of_itself(market: Service) -> None:
    card = market.ask(CARD).json()
    live = Peer(market, HANDSHAKE[0]).result(
        "initialize", protocolVersion=HANDSHAKE[0], capabilities={}, clientInfo=CLIENT
    )["serverInfo"]

    assert card["name"].endswith(f"/{live['name']}")
    for member in ("title", "version", "description", "websiteUrl", "icons"):
        assert card[member] == live[member]
    assert card["version"] == __version__
    [remote] = card["remotes"]
    assert remote["supportedProtocolVersions"] == list(PROTOCOLS) == [MODERN, *HANDSHAKE]


@pytest.mark.parametrize("path", [CARD, REGISTRY])
def test_card_and_registry_entry_match_their_schemas(market: Service, path: str) -> None:
    found = market.ask(path).json()

    assert NAME.fullmatch(found["name"])
    assert 1 <= len(found["description"]) <= 100
    assert found["$schema"].startswith("https://static.modelcontextprotocol.io/schemas/")
    assert found["websiteUrl"] == f"{BASE_URL}/"
    [header] = found["remotes"][0]["headers"]
    assert (header["name"], header["isRequired"], header["isSecret"]) == ("X-API-Key", False, True)


def test_the_registry_entry_names_the_repository_if_the_operator_set_it(tmp_path: Path) -> None:
    url = "https://github.com/name/barograph"
    with fresh_service(tmp_path, repository_url=url) as service:
        found = service.ask(REGISTRY).json()

    assert found["repository"] == {"url": url, "source": "github"}


def test_the_registry_entry_says_the_same_as_the_card(market: Service) -> None:
    def common(found: dict[str, Any]) -> dict[str, Any]:
        del found["$schema"]
        found["remotes"][0].pop("supportedProtocolVersions", None)
        return found

    assert common(market.ask(REGISTRY).json()) == common(market.ask(CARD).json())
    assert market.ask("/.well-known/mcp/server-card.json").body == market.ask(CARD).body


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        (CARD, CARD_TYPE),
        ("/.well-known/mcp/server-card.json", CARD_TYPE),
        (REGISTRY, "application/json"),
        (CATALOG, "application/ai-catalog+json"),
        (ICON, "image/svg+xml"),
    ],
)
def test_the_card_has_its_type_and_may_be_cached(
    market: Service, path: str, content_type: str
) -> None:
    answer = market.ask(path)

    assert answer.status == 200
    assert answer.headers["content-type"] == content_type
    assert answer.headers["cache-control"] == "public, max-age=3600"


def test_the_icon_is_an_svg_without_scripts(market: Service) -> None:
    [icon] = market.ask(CARD).json()["icons"]
    assert icon == {"src": BASE_URL + ICON, "mimeType": "image/svg+xml"}

    drawing = ET.fromstring(market.ask(ICON).body)

    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert {each.tag.rpartition("}")[2] for each in drawing} == {"rect", "path"}


@pytest.mark.parametrize(
    ("base_url", "name", "identifier"),
    [
        ("https://api.desk.example", "example.desk.api/barograph", "api.desk.example"),
        ("http://127.0.0.1:8080", "localhost/barograph", "localhost"),
        ("http://localhost:8080", "localhost/barograph", "localhost"),
        ("http://192.0.2.7", "localhost/barograph", "localhost"),
        ("http://[2001:db8::7]:8080", "localhost/barograph", "localhost"),
    ],
)
def test_the_name_comes_from_the_domain(base_url: str, name: str, identifier: str) -> None:
    assert json.loads(server_card(base_url))["name"] == name
    [entry] = json.loads(ai_catalog(base_url))["entries"]
    assert entry["identifier"] == f"urn:air:{identifier}:mcp:barograph"


@pytest.mark.thorough
def test_the_sdk_is_loaded_by_the_first_mcp_request(tmp_path: Path) -> None:
    environment = {**environ, "PYTHONPATH": pathsep.join(each for each in sys.path if each)}

    done = subprocess.run(
        [sys.executable, "-c", _READ_THEN_SPEAK, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.split() == ["200", "405", "421", "False", "200", "True"]


_READ_THEN_SPEAK = """
import sys
from pathlib import Path
from support.mcp_peer import MODERN, Peer
from support.service import fresh_service

with fresh_service(Path(sys.argv[1])) as service:
    print(service.ask("/api/agent/market-state").status, service.ask("/api/mcp").status)
    print(service.ask("/api/mcp", "POST").status)
    print(any(name.partition(".")[0] in ("mcp", "mcp_types") for name in sys.modules))
    print(Peer(service, MODERN).post("tools/list").status, "mcp.server" in sys.modules)
"""
