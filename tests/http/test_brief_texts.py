"""`/api/v1/briefs/{slug}`: the text whose digest is in the brief's event."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barograph.cli.briefs import briefs
from barograph.kit.timestamps import HOUR
from support.clock import START
from support.databases import server_settings
from support.markets import reading, shares
from support.service import BASE_URL, Service

OPERATORS = """\
---
headline: Wartung — “Sonntag”
summary: The service is away for an hour.
coins: [BTC, eth]
publishedAt: 2026-11-06T09:00:00Z
---
From 09:00 to 10:00 UTC: \N{SNOWMAN}
"""


def events_of_briefs(service: Service) -> list[dict[str, Any]]:
    service.refresh()
    found = service.ask("/api/v1/events?type=brief.published,brief.updated").json()["events"]
    return list(found)


def recomputed(document: dict[str, Any]) -> str:
    """The digest as anyone can compute it: the members are texts, integers and lists of texts."""
    text = json.dumps(document["text"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def test_the_digest_of_each_text_of_an_updated_brief_is_in_its_event(service: Service) -> None:
    for hours in (1, 26):  # hours without coverage of liquidations
        service.clock.now = START + hours * HOUR
        service.publish(reading(service.clock.now), shares(service.clock.now))

    first, update = events_of_briefs(service)
    path = f"/api/v1/briefs/{first['slug']}"
    texts = [service.ask(f"{path}?version={number}").json() for number in (1, 2)]

    assert [each["type"] for each in (first, update)] == ["brief.published", "brief.updated"]
    assert [recomputed(each) for each in texts] == [first["text_sha256"], update["text_sha256"]]
    assert [each["text_sha256"] for each in texts] == [recomputed(each) for each in texts]
    assert [each["text"]["version"] for each in texts] == [1, 2]
    assert texts[0]["text_sha256"] != texts[1]["text_sha256"]
    assert service.ask(path).json() == texts[1]
    assert (texts[1]["venue"], texts[1]["followed"]) == ("bybit", None)


@pytest.mark.contract("free.analysis-feed", "brief.coins")
def test_an_operators_brief_is_listed_at_once_and_its_digest_is_in_its_event(
    service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "brief.md"
    file.write_text(OPERATORS, "utf-8")
    address = {f"BAROGRAPH_{name}".upper(): url for name, url in server_settings(tmp_path).items()}
    published = CliRunner().invoke(
        briefs, ["publish", str(file), "--json", "--data", str(tmp_path)], env=address
    )

    (event,) = events_of_briefs(service)
    document = service.ask(f"/api/v1/briefs/{json.loads(published.stdout)['slug']}").json()

    assert recomputed(document) == event["text_sha256"]
    assert document["text"]["headline"] == event["headline"] == "Wartung — “Sonntag”"
    assert (document["text"]["rule"], document["venue"]) == ("operator", None)
    (listed,) = service.ask("/api/agent/briefs").json()["briefs"]
    assert listed == {
        "headline": "Wartung — “Sonntag”",
        "category": "note",
        "coins": ["BTC", "ETH"],
        "summary": "The service is away for an hour.",
        "url": f"{BASE_URL}/briefs/{document['text']['slug']}",
        "publishedAt": "2026-11-06T09:00:00.000Z",
    }
    page = service.ask(listed["url"].removeprefix(BASE_URL)).body.decode()
    assert "From 09:00 to 10:00\N{NO-BREAK SPACE}UTC: \N{SNOWMAN}" in page
