"""The status page, and what becomes of a fault outside in the whole application."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from barograph.identity.provider import NoIdentityProvider
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.dependency_health import DependencyHealth, MonitoredDependency
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import MINUTE
from barograph.settings import Settings
from barograph.status.incidents import INCIDENT_RULE, check_results
from barograph.status.recorder import record_results
from barograph.status.rules import ServiceStatus
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity_providers import identity_provider
from barograph.web.app import create_app
from barograph_demo.configuration import payment_settings
from barograph_demo.servers.identity import API_KEY
from support.clock import HandClock
from support.identities import identity_settings
from support.markets import reading, shares
from support.service import Answer, Service, ask, asked
from support.tokens import key, key_set

PAGE = "/status"
PLACE = "127.0.0.1:1"
"""Where nobody listens; nobody is asked there either."""


class Outside:
    """An identity provider and a facilitator that can be switched off, behind one transport."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.path)
        if self.is_away:
            raise httpx2.ConnectError("no route to secret-host.example")
        if request.url.path.endswith("/supported"):
            return httpx2.Response(200, json={"kinds": []})
        return httpx2.Response(200, content=key_set(key("EC", 0)))


class Watch:
    """A service with both parts outside, of which nobody asks anything but the minute's probe."""

    def __init__(self, folder: Path) -> None:
        self.outside = Outside()
        transport = httpx2.MockTransport(self.outside)
        clock = HandClock()
        self.identity = identity_provider(identity_settings(), clock, transport)
        settings = Settings.model_validate(payment_settings(PLACE))
        self.facilitator = HttpFacilitator(settings, clock=clock, transport=transport)
        self.service = Service(
            folder, identity=self.identity, facilitator=self.facilitator, **payment_settings(PLACE)
        )
        self.clock = clock
        self.service.watch_day()
        self.service.publish(reading(), shares())

    def pass_minute(self) -> None:
        """A minute later, with fresh data and a probe of everybody outside."""
        self.service.clock.pass_seconds(60)
        self.clock.now = self.service.clock.now
        self.service.watch_day()
        self.service.publish(reading(self.clock()), shares(self.clock()))
        assert isinstance(self.identity, MonitoredDependency)
        assert isinstance(self.facilitator, MonitoredDependency)
        asyncio.run(self.identity.probe())
        asyncio.run(self.facilitator.probe())

    def check(self, name: str) -> tuple[str, str]:
        checks = self.service.ask("/api/status").json()["checks"]
        (found,) = [each for each in checks if each["name"] == name]
        return found["status"], found["detail"]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path)
    yield watch
    watch.service.close()


def page(service: Service) -> str:
    answer = service.ask(PAGE)
    assert answer.status == 200
    return answer.body.decode().replace("\N{NO-BREAK SPACE}", " ")


def part(text: str, name: str) -> str:
    """What the page shows of one part."""
    found = re.search(rf'<tr id="part-{name}" data-part>(.*?)</tr>', text, re.DOTALL)
    assert found is not None
    return found[1]


def recorded(service: Service, *minutes: int) -> None:
    """Record the status of the service as it is, in each of these minutes before now."""
    now = service.clock.now // MINUTE * MINUTE
    status = ServiceStatus.model_validate_json(service.ask("/api/status").body)

    async def work(tx: Any) -> None:
        for minute in minutes:
            await record_results(tx, check_results(status), now - minute * MINUTE)

    asyncio.run(service.database.write(work))


@pytest.mark.outcome(
    "The identity provider or the facilitator stops answering",
    "Within a minute, `/api/status` reports the outage and its start, even without traffic.",
)
@pytest.mark.parametrize("name", ["identity", "payments"])
def test_outage_and_recovery_of_a_dependency_show_without_traffic(watch: Watch, name: str) -> None:
    assert watch.check(name) == ("ok", "not called yet")
    watch.pass_minute()
    assert watch.check(name) == ("ok", "answered at 2026-11-06T21:21:00.000Z")

    watch.outside.is_away = True
    watch.pass_minute()
    watch.pass_minute()
    since, asked = "2026-11-06T21:22:00.000Z", "2026-11-06T21:23:00.000Z"
    away = f"unreachable since {since}, last tried at {asked}"
    assert watch.check(name) == ("degraded", away)
    shown = part(page(watch.service), name)
    assert '<span class="pill degraded">degraded</span>' in shown
    assert f'unreachable since <time datetime="{since}">21:22:00 UTC</time>' in shown
    assert f'last tried at <time datetime="{asked}">21:23:00 UTC</time></td>' in shown

    watch.outside.is_away = False
    watch.pass_minute()
    assert watch.check(name) == ("ok", "answered at 2026-11-06T21:24:00.000Z")
    assert '<span class="pill ok">ok</span>' in part(page(watch.service), name)


def test_no_reader_of_the_status_asks_those_outside_or_learns_about_them(watch: Watch) -> None:
    for path in ("/api/status", PAGE) * 3:
        watch.service.ask(path)
    assert watch.outside.asked == []

    watch.outside.is_away = True
    watch.pass_minute()
    secrets = ("secret-host", "id.example", PLACE, API_KEY, "ConnectError")
    for path in ("/api/status", PAGE):
        text = watch.service.ask(path).body.decode()
        assert not [each for each in (*secrets, str(watch.service.settings.data)) if each in text]


def test_the_page_shows_what_the_api_says_and_links_to_it(service: Service) -> None:
    text = page(service)

    assert '<div id="overall" data-part class="banner ok">' in text
    assert 'href="/api/status"' in text
    for check in service.ask("/api/status").json()["checks"]:
        assert f'<span class="pill {check["status"]}">' in part(text, check["name"])
    feed = part(text, "market-feed")
    assert "freshness limit 30 s; last reading" in feed
    assert '<time datetime="2026-11-06T21:20:00.000Z">' in feed
    assert "s old" not in feed
    assert '<td data-head="Details">readable</td>' in part(text, "database")
    assert "not configured" in part(text, "identity")
    assert "this instance does not sell Feed by x402" in part(text, "payments")


def test_before_anything_was_recorded_the_page_says_so_and_shows_no_percentage(
    service: Service,
) -> None:
    text = page(service)

    used = text.count('<tr id="part-') - text.count('"pill not_configured">not configured<')
    assert text.count("nothing recorded</span>") == used == 14
    assert "No check has been recorded yet." in text
    assert INCIDENT_RULE in text
    for words in ("No incident", "ok for 100 %"):
        assert words not in text


def test_recorded_minutes_become_strips_with_a_text_for_each_cell(service: Service) -> None:
    recorded(service, 2, 1, 0)
    text = page(service)
    shown = part(text, "api")

    assert shown.count("<rect ") == shown.count("<title>") == 24
    assert "21:00\N{EN DASH}22:00 UTC: 3 min ok" in shown
    assert '<td data-head="Last 24 hours">' in shown
    assert ">ok in 3 of 3 recorded minutes</span></td>\n<td></td>" in shown
    assert "style=" not in text


def test_an_incident_is_shown_as_it_was_recorded(service: Service) -> None:
    service.clock.pass_seconds(31)  # past the bound of the feed
    service.refresh()
    recorded(service, 3, 2)
    text = page(service)

    assert "<h3>Market feed</h3>" in text
    assert "still open." in text
    assert "At the start: 31 s old, older than its limit of 30 s." in text
    assert INCIDENT_RULE in text

    service.watch_day()
    service.publish(reading(service.clock()), shares(service.clock()))
    recorded(service, 1, 0)
    service.clock.pass_seconds(61)
    service.refresh()
    assert re.search(r"From <time [^>]*>[^<]*</time> to <time [^<]*</time>, 2 min\.", page(service))


def test_a_failure_of_one_look_is_no_incident_and_the_page_says_why_there_is_none(
    service: Service,
) -> None:
    service.clock.pass_seconds(31)  # past the bound of the feed
    service.refresh()
    recorded(service, 1)
    assert "No incident in the 1 minute recorded so far. " in page(service)  # it may still last
    service.clock.pass_seconds(60)
    service.watch_day()
    service.publish(reading(service.clock()), shares(service.clock()))
    recorded(service, 0)
    text = page(service)

    assert "ok in 1 of 2 recorded minutes" in part(text, "market-feed")
    no_incident = "No incident in the 2 minutes recorded so far. Each failure in the strips ended"
    assert no_incident in text
    assert INCIDENT_RULE in text


def test_the_page_is_kept_for_moments_and_the_record_for_a_minute(service: Service) -> None:
    first = service.ask(PAGE)
    recorded(service, 0)
    assert service.ask(PAGE).body == first.body
    assert "max-age=2" in first.headers["cache-control"]
    assert service.ask(PAGE, if_none_match=first.headers["etag"]).status == 304

    service.clock.pass_seconds(3)
    assert "recorded minute" not in page(service)
    service.clock.pass_seconds(57)
    assert "1 recorded minute" in page(service)


@pytest.mark.outcome(
    "The database is unreadable while a visitor reads the status page",
    "The page shows the live checks and says that past checks are unavailable.",
)
def test_status_page_without_its_database_shows_live_checks_and_what_is_missing(
    service: Service, tmp_path: Path
) -> None:
    database = SQLiteDatabase(tmp_path / "no such folder" / "secret.sqlite3")
    # Limits in memory, because nothing ends this application.
    settings = service.settings.model_copy(update={"limits_url": SecretStr("")})
    app, _, board = create_app(settings, database, service.history, clock=HandClock())
    with pytest.raises(DatabaseUnavailable):
        asyncio.run(board.refresh())

    answer, status = ask(app, PAGE), ask(app, "/api/status")
    asyncio.run(database.close())
    text = answer.body.decode()

    assert (answer.status, status.status) == (200, 200)
    conditions = [status.json()[name]["status"] for name in ("feed", "api")]
    assert (status.json()["status"], *conditions) == ("down", "down", "degraded")
    assert b"secret" not in status.body
    assert '<div id="overall" data-part class="banner down">' in text
    assert "The recorded checks are temporarily unavailable" in text
    assert not re.search("<rect |secret", text)


def test_the_record_is_read_again_soon_after_the_database_is_back(service: Service) -> None:
    service.execute("ALTER TABLE status_counts RENAME TO lost")
    assert "temporarily unavailable" in page(service)

    service.execute("ALTER TABLE lost RENAME TO status_counts")
    service.clock.pass_seconds(5)
    service.refresh()
    assert "temporarily unavailable" not in page(service)


class ProbedIdentity(NoIdentityProvider):
    """Vouches for nobody, and tells when it was probed."""

    def __init__(self) -> None:
        self.health = (DependencyHealth(HandClock()),)
        self.probed = asyncio.Event()

    async def probe(self) -> None:
        self.health[0].answered()
        self.probed.set()


def test_a_worker_that_starts_asks_those_outside_by_itself(tmp_path: Path) -> None:
    identity = ProbedIdentity()
    service = Service(tmp_path, identity=identity)

    async def live() -> Answer:
        received: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        sent: asyncio.Queue[Any] = asyncio.Queue()
        running = asyncio.ensure_future(service.app({"type": "lifespan"}, received.get, sent.put))
        await received.put({"type": "lifespan.startup"})
        await identity.probed.wait()
        answer = await asked(service.app, "/api/status")
        await received.put({"type": "lifespan.shutdown"})
        await running
        ends = [sent.get_nowait()["type"] for _ in range(2)]
        assert ends == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        return answer

    checks = {each["name"]: each["detail"] for each in asyncio.run(live()).json()["checks"]}
    assert checks["identity"] == "answered at 2026-11-06T21:20:00.000Z"
