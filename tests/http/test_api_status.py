"""`/api/status`: health of the feed and of the API, always 200."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from barograph import NOTICE, __version__
from barograph.board.feeds import Publication
from barograph.collector.judge import Judge
from barograph.errors import Forbidden, InvalidReply, Throttled, Unreachable, UpstreamError
from barograph.history.records import NotIssuedYet, Stances
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import DAY, HOUR
from barograph.stances.reader import STANCES
from barograph.venues.records import Perpetual
from support.clock import START
from support.markets import BTC, ETH, PEPE, reading, shares
from support.service import CHECKS, Answer, Service, fresh_service

CONDITIONS = {"ok", "degraded", "down"}
NO_FAILURE = {"ok", "not_configured", "warming_up"}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def well_formed(answer: Answer, service: Service) -> dict[str, Any]:
    """The body of a status answer, which has one shape whatever it says, and leaks nothing."""
    assert answer.status == 200
    body: dict[str, Any] = answer.json()
    assert list(body) == ["status", "as_of", "feed", "api", "checks", "notice"]
    assert list(body["feed"]) == [
        *("status", "source", "last_update", "age_seconds", "max_age_seconds"),
        "liquidation_coverage_pct",
    ]
    assert list(body["api"]) == ["status", "version", "started_at", "uptime_seconds"]
    assert [check["name"] for check in body["checks"]] == CHECKS
    for check in body["checks"]:
        assert list(check) == ["name", "status", "detail"]
        assert isinstance(check["detail"], str)
    assert STAMP.fullmatch(body["as_of"])
    assert STAMP.fullmatch(body["api"]["started_at"])
    assert body["notice"] == NOTICE
    assert set(conditions(body)) <= CONDITIONS
    assert {check["status"] for check in body["checks"]} <= CONDITIONS | NO_FAILURE
    text = answer.body.decode()
    assert str(service.settings.data) not in text
    assert not re.search(r"(?i)https?:|wss?:|sqlite|apsw|traceback|error|secret|/[a-z]+/", text)
    return body


def conditions(body: dict[str, Any]) -> tuple[str, str, str]:
    """Of the whole service, of the feed and of the API."""
    return body["status"], body["feed"]["status"], body["api"]["status"]


def status(service: Service) -> dict[str, Any]:
    return well_formed(service.ask("/api/status"), service)


def bad_checks(body: dict[str, Any]) -> dict[str, str]:
    found = {check["name"]: check["status"] for check in body["checks"]}
    return {name: status for name, status in found.items() if status not in NO_FAILURE}


def detail(body: dict[str, Any], name: str) -> str:
    found: str = next(check["detail"] for check in body["checks"] if check["name"] == name)
    return found


@pytest.mark.contract("endpoints.status", "free.status", "status.body")
def test_with_a_fresh_market_everything_is_ok(service: Service) -> None:
    service.clock.pass_seconds(4.25)
    service.refresh()

    body = status(service)

    assert (body["status"], body["as_of"]) == ("ok", "2026-11-06T21:20:04.250Z")
    assert bad_checks(body) == {}
    assert body["feed"] == {
        "status": "ok",
        "source": "test venue",
        "last_update": "2026-11-06T21:20:00.000Z",
        "age_seconds": 4.2,
        "max_age_seconds": 30.0,
        "liquidation_coverage_pct": 100.0,
    }
    assert body["api"] == {
        "status": "ok",
        "version": __version__,
        "started_at": "2026-11-06T21:20:00.000Z",
        "uptime_seconds": 4.2,
    }


@pytest.mark.contract("endpoints.status", "free.status")
def test_before_the_first_reading_the_feed_is_down_and_nothing_is_made_up(
    empty_service: Service,
) -> None:
    empty_service.refresh()

    body = status(empty_service)

    assert conditions(body) == ("down", "down", "ok")
    assert body["feed"] == {
        "status": "down",
        "source": None,
        "last_update": None,
        "age_seconds": None,
        "max_age_seconds": 30.0,
        "liquidation_coverage_pct": None,
    }
    assert bad_checks(body) == {
        "market-feed": "down",
        **dict.fromkeys(("exchange", "collector", "long-accounts", "liquidations"), "degraded"),
    }


@pytest.mark.contract("free.status")
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Unreachable("no answer from 10.1.2.3"), "unreachable"),
        (InvalidReply("<html> /srv/secret"), "invalid reply"),
        (Throttled("slow down", retry_after=1.0), "throttled"),
        (Forbidden("https://exchange.example refuses"), "refused"),
    ],
)
def test_an_exchange_that_fails_while_data_is_fresh_is_degraded_and_named_by_kind(
    service: Service, failure: UpstreamError, kind: str
) -> None:
    service.clock.pass_seconds(5)
    service.publish_failure(failure)
    service.clock.pass_seconds(3)
    service.publish_failure(failure)

    body = status(service)

    assert conditions(body) == ("degraded", "degraded", "ok")
    assert bad_checks(body) == {"exchange": "degraded"}
    since = f"{kind} since 2026-11-06T21:20:05.000Z"
    geo_block = ": probably a geo-block; the operator can run `barograph doctor`"
    assert detail(body, "exchange") == since + geo_block * (kind == "refused")
    assert str(failure) not in str(body)
    assert service.ask("/api/agent/market-state").status == 200


@pytest.mark.contract("free.status")
@pytest.mark.parametrize(("seconds", "feed"), [(0, "degraded"), (300, "down")])
def test_after_the_next_good_reading_everything_is_ok_again(
    service: Service, seconds: int, feed: str
) -> None:
    service.clock.pass_seconds(seconds)
    service.publish_failure(Unreachable("gone"))
    body = status(service)
    assert (body["feed"]["status"], bad_checks(body)["exchange"]) == (feed, "degraded")

    service.clock.pass_seconds(5)
    service.watch_day()
    service.publish(reading(service.clock.now))

    assert status(service)["status"] == "ok"


@pytest.mark.contract("endpoints.status", "free.status", "status.body")
def test_a_feed_past_its_bound_is_down_and_the_answer_is_still_200(service: Service) -> None:
    service.clock.pass_seconds(29.999)
    service.refresh()
    assert status(service)["feed"]["status"] == "ok"

    service.clock.pass_seconds(0.001)
    service.refresh()
    body = status(service)

    assert conditions(body) == ("down", "down", "ok")
    assert body["feed"]["age_seconds"] == 30
    assert body["feed"]["last_update"] == "2026-11-06T21:20:00.000Z"
    late = {"exchange": "degraded", "collector": "degraded"}
    assert bad_checks(body) == {"market-feed": "down", **late}
    assert b"<title>status: down</title>" in service.ask("/badge/status.svg").body
    assert detail(body, "exchange") == "not called for 30 s"
    assert service.ask("/api/agent/market").status == 502

    service.publish(reading(START + DAY))  # from far in the future
    assert status(service)["feed"]["status"] == "down"


def test_missing_coverage_of_liquidations_is_shown_and_degrades(service: Service) -> None:
    service.clock.pass_seconds(12 * 3600)
    service.judge.of("bybit").watched(service.clock(), service.clock())
    service.publish(reading(service.clock()), shares(service.clock()))

    body = status(service)

    assert conditions(body) == ("degraded", "ok", "ok")
    assert body["feed"]["liquidation_coverage_pct"] == 50
    assert bad_checks(body) == {"liquidations": "degraded"}
    assert "50 %" in detail(body, "liquidations")


def test_a_default_instance_is_ok_on_its_first_day_and_after_a_restart(
    empty_service: Service,
) -> None:
    service = empty_service
    service.publish(reading(), shares())
    stances = Stances(START, (), {}, waiting={"btc-etf-stance": NotIssuedYet("no source")})
    service.put(Publication.of(STANCES, stances))
    service.clock.pass_seconds(3600)
    service.judge = Judge(service.settings)  # as another collector loads it
    asyncio.run(service.judge.load(service.database, service.clock()))
    service.judge.of("bybit").watched(START + HOUR // 2, service.clock())
    service.publish(reading(service.clock()), shares(service.clock()))
    body = status(service)

    assert (body["status"], bad_checks(body)) == ("ok", {})
    found = {check["name"]: check["status"] for check in body["checks"]}
    absent = ("cross-venue", "etf-flows", "identity", "payments")
    assert {name: each for name, each in found.items() if each != "ok"} == {
        **dict.fromkeys(("liquidations", "backfill"), "warming_up"),
        **dict.fromkeys(absent, "not_configured"),
    }
    assert detail(body, "liquidations").startswith("warming up until 2026-11-07T20:38:00.000Z: 2 %")
    page = service.ask("/status").body.decode()
    assert '<span class="pill warming_up">warming up</span>' in page
    assert "2026-11-07 20:38:00 UTC</time>: 2\N{NO-BREAK SPACE}% of" in page


def test_unwatched_liquidations_are_zero_and_a_major_without_a_fresh_share_is_named(
    empty_service: Service,
) -> None:
    bitcoin, _, solana = shares()
    empty_service.publish(reading(), [bitcoin, solana])

    body = status(empty_service)

    assert body["feed"]["liquidation_coverage_pct"] == 0
    assert bad_checks(body) == {"long-accounts": "degraded"}
    assert "ETH" in detail(body, "long-accounts")
    assert "BTC" not in detail(body, "long-accounts")


@pytest.mark.parametrize(
    ("contracts", "condition", "missing", "market"),
    [((BTC, ETH), "degraded", "SOL", 200), ((PEPE,), "down", "BTC, ETH, SOL", 502)],
)
def test_a_missing_major_is_named_and_without_any_the_feed_is_down(
    service: Service, contracts: tuple[Perpetual, ...], condition: str, missing: str, market: int
) -> None:
    service.publish(reading(contracts=contracts))

    body = status(service)

    assert conditions(body) == (condition, condition, "ok")
    assert detail(body, "market-feed") == f"the last reading has no {missing}"
    assert service.ask("/api/agent/market").status == market


def test_a_database_not_read_for_five_seconds_degrades_the_api(service: Service) -> None:
    service.clock.pass_seconds(4.999)
    assert status(service)["api"]["status"] == "ok"

    service.clock.pass_seconds(0.001)
    body = status(service)

    assert conditions(body) == ("down", "ok", "degraded")
    assert bad_checks(body) == {"database": "down"}

    service.clock.pass_seconds(25)
    assert status(service)["feed"]["status"] == "down"


@pytest.mark.outcome(
    "A web host or worker can't reach the database",
    "It serves from memory until the freshness limit, then returns 502; subscribers and "
    "payers get 503. `/api/status` shows the database as `down`.",
)
def test_broken_database_is_reported_while_memory_serves_to_the_limit(service: Service) -> None:
    service.execute("ALTER TABLE snapshots RENAME TO lost")
    service.clock.pass_seconds(6)
    with pytest.raises(DatabaseUnavailable):
        service.refresh()
    assert bad_checks(status(service)) == {"database": "down"}
    assert service.ask("/api/agent/market-state").status == 200

    service.execute("ALTER TABLE lost RENAME TO snapshots")
    service.refresh()
    assert status(service)["status"] == "ok"


@pytest.mark.not_on_servers("rate limits are in a SQLite file here")
def test_allowances_that_are_not_counted_together_are_noticed_and_signals_go_on(
    tmp_path: Path,
) -> None:
    with fresh_service(tmp_path, workers=2) as service:
        service.settings.limits_path.mkdir()
        service.clock.pass_seconds(2)
        service.refresh()

        assert service.ask("/api/v1/signals").headers["x-ratelimit-remaining"] == "119"
        body = status(service)
        service.settings.limits_path.rmdir()
        service.clock.pass_seconds(2)
        service.refresh()
        assert service.ask("/api/v1/signals").headers["x-ratelimit-remaining"] == "119"

        assert bad_checks(body) == {"limits": "degraded"}
        assert conditions(body) == ("degraded", "ok", "ok")
        assert "since 2026-11-06T21:20:02.000Z" in detail(body, "limits")
        assert bad_checks(status(service)) == {}
