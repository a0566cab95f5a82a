"""ETags, conditional requests, and caches that never outlive the data."""

import re
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from support.clock import START
from support.markets import BTC, ETH, changed, reading, shares
from support.service import MARKET_PATHS, Answer, Service, ask, fresh_service

EVERY_MARKET_PATH = pytest.mark.parametrize("path", MARKET_PATHS)


def seconds_kept(answer: Answer) -> int:
    """How long a cache may show an answer: fresh, and stale while it asks again."""
    found = re.fullmatch(
        r"public, max-age=(\d+), stale-while-revalidate=(\d+)(, stale-if-error=0)?",
        answer.headers["cache-control"],
    )
    assert found, answer.headers["cache-control"]
    return int(found[1]) + int(found[2])


def last_modified(answer: Answer) -> int:
    return int(parsedate_to_datetime(answer.headers["last-modified"]).timestamp()) * 1000


@EVERY_MARKET_PATH
def test_new_data_has_a_new_etag_and_the_old_one_gets_the_new_bytes(
    service: Service, path: str
) -> None:
    old = service.ask(path)
    service.publish(reading(contracts=(changed(BTC, last_price=67_001.0), ETH)))

    new = service.ask(path, if_none_match=old.headers["etag"])

    assert new.status == 200
    assert new.headers["etag"] != old.headers["etag"]
    assert b"67001.0" in new.body


@pytest.mark.parametrize("path", ["/api/agent/derivatives", "/api/agent/market"])
def test_the_same_values_read_again_keep_their_etag_and_get_a_new_time(
    service: Service, path: str
) -> None:
    old = service.ask(path)
    service.clock.pass_seconds(5)
    service.publish(reading(START + 5_000))

    new = service.ask(path)

    assert (new.body, new.headers["etag"]) == (old.body, old.headers["etag"])
    assert last_modified(new) == last_modified(old) + 5_000


def test_an_if_none_match_on_several_lines_is_one_list(market: Service) -> None:
    etag = market.ask("/api/agent/market").headers["etag"]
    lines = [("If-None-Match", '"x"'), ("If-None-Match", etag)]

    assert ask(market.app, "/api/agent/market", fields=lines).status == 304
    assert ask(market.routes, "/api/agent/market", fields=lines).status == 304


@EVERY_MARKET_PATH
def test_a_cache_shows_nothing_that_the_service_itself_would_not_show_any_more(
    tmp_path: Path, path: str
) -> None:
    with fresh_service(tmp_path, feed_max_age_seconds=120) as service:
        service.publish(reading(), shares(START - 1_790_500))
        answers = []
        for second in range(100):
            service.clock.now = START + second * 1000
            answers.append(service.ask(path))

    assert len({answer.body for answer in answers}) == (3 if path.endswith("state") else 2)
    assert all(answer.headers["cache-control"].endswith("stale-if-error=0") for answer in answers)
    for second, answer in enumerate(answers):
        while_kept = answers[second : second + seconds_kept(answer)]
        assert {later.body for later in while_kept} <= {answer.body}


@pytest.mark.parametrize(("feed_bound", "longest"), [(5, 4), (8, 7), (16, 15), (3600, 15)])
def test_a_configured_bound_bounds_the_caches_too(
    tmp_path: Path, feed_bound: float, longest: int
) -> None:
    settings = {"feed_max_age_seconds": feed_bound, "poll_seconds": 0.1}
    with fresh_service(tmp_path, **settings) as service:
        for path in MARKET_PATHS:
            assert seconds_kept(service.ask(path)) == longest


def test_what_does_not_age_may_be_kept_at_any_time_and_a_status_for_two_seconds(
    service: Service,
) -> None:
    service.clock.pass_seconds(86_400)

    for path in ("/", "/api/agent", "/openapi.json"):
        assert seconds_kept(service.ask(path)) > 0
    assert seconds_kept(service.ask("/api/status")) <= 2


@EVERY_MARKET_PATH
def test_last_modified_is_the_time_of_the_data_and_not_of_the_answer(
    service: Service, path: str
) -> None:
    service.publish(reading(START - 3_456))
    service.clock.pass_seconds(20)

    assert last_modified(service.ask(path)) == START - 4_000
    assert last_modified(service.ask(path + "?x")) == START - 4_000
