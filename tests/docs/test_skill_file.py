"""SKILL.md: short, and every statement of it that can be checked is true."""

import re
from pathlib import Path
from typing import get_args

import yaml

from barograph.briefs.documents import DEFAULT_BRIEFS, MAX_BRIEFS, MIN_BRIEFS
from barograph.cli.watch import watch
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import ANONYMOUS, PERSONAL
from barograph.markets.regime import Label
from barograph.material_change.query import PARAMETERS
from support.service import BASE_URL
from support.stances import FUNDING
from support.subscribers import FEED_NOW, SubscriberService, comparison_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SKILL.md").read_text("utf-8")
_, HEAD, BODY = TEXT.split("---\n", 2)
MOST_TOKENS = 1_000
BYTES_A_TOKEN = 4
ADDRESS = re.compile(r"/(?:api|badge|openapi)[\w/.?=&{}-]*")
ENTITLED = {FEED_NOW, "/api/agents/material-change"}


def addresses() -> list[str]:
    return [found.rstrip(".") for found in ADDRESS.findall(BODY)]


def test_it_is_small_enough_to_be_read_every_time() -> None:
    assert len(TEXT.encode()) / BYTES_A_TOKEN < MOST_TOKENS


def test_its_front_matter_names_it_and_says_when_to_use_it() -> None:
    head = yaml.safe_load(HEAD)
    assert list(head) == ["name", "description"]
    assert re.fullmatch("[a-z][a-z0-9-]{0,63}", head["name"])
    assert 0 < len(head["description"]) <= 1_024


def test_every_path_of_it_is_described_by_the_service(service: SubscriberService) -> None:
    described = service.ask("/openapi.json").json()["paths"]
    known = re.compile(
        "|".join(re.sub(r"\\{\w+\\}", r"\\w+", re.escape(each)) for each in described)
    )
    paths = {address.partition("?")[0] for address in addresses()}
    assert len(paths) >= 13
    assert [path for path in paths if known.fullmatch(path) is None] == []
    assert set(described["/api/v1/keys"]) == {"post"}


def test_every_free_address_of_it_answers_as_it_is_written(service: SubscriberService) -> None:
    free = {each for each in addresses() if each not in ENTITLED | {"/api/v1/keys"}}
    assert {each: service.ask(each).status for each in free} == dict.fromkeys(free, 200)


def test_its_figures_and_words_are_those_of_the_service() -> None:
    assert f"{ANONYMOUS.requests} requests per hour, or {PERSONAL.requests:,} with" in BODY
    assert {ANONYMOUS.window, PERSONAL.window} == {HOUR}
    assert f"limit={DEFAULT_BRIEFS}` ({MIN_BRIEFS} to {MAX_BRIEFS})" in BODY
    labels = re.search(r"`regime.label` is (.*)\.", BODY)
    assert labels is not None
    assert set(re.findall("`([a-z-]+)`", labels.group(1))) == set(get_args(Label))
    asked = re.search(r"with exactly (.*)\.", BODY)
    assert asked is not None
    assert re.findall("`([a-z_]+)`", asked.group(1)) == list(PARAMETERS)


def test_a_subscriber_gets_what_it_says(service: SubscriberService) -> None:
    before, after = service.two_versions()
    (entry,) = service.read(FEED_NOW).json()["tape"]["stance_tape"]
    for member in ("leg_id", "revision", "history_digest", "issued_at", "history_durable"):
        assert f"`{member}" in BODY
        assert member in entry
    assert service.compare(before, after).status == 200
    refused = service.compare(after, before)
    assert (refused.status, refused.json()["error"]) == (404, "comparison_reference_unavailable")
    assert service.ask(comparison_of(before, after), authorization="Bearer wrong").status == 401
    assert entry["kind"] == FUNDING


def test_the_command_it_names_exists() -> None:
    options = {name for option in watch.params for name in option.opts}
    assert {"--once", "--json"} <= options
    assert "barograph watch --once --json" in BODY


def test_it_names_no_instance_but_a_demo_on_this_machine() -> None:
    hosts = set(re.findall(r"https?://[^\s`'/]+", BODY))
    assert hosts == {"http://127.0.0.1:8080"}
    assert BASE_URL not in TEXT
