"""Two web hosts over the same databases: neither keeps in memory what the other must know."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import ASGIApp
from support.databases import bring_back, take_away
from support.history import PublicHistory
from support.markets import reading
from support.pages import FOUND, MAIL, NOTE
from support.payments import FEED, PAYMENTS, HandFacilitator, header, payload, proof
from support.service import BADGE_PATHS, FREE_PATHS, Answer, Service, ask, asked, fresh_service
from support.subscribers import FEED_ENTRY, SubscriberService

OWN = {"/api/status", "/badge/status.svg", "/badge/status.json"}
"""What tells of one worker."""

MARKET = "/api/agent/market-state"

Two = tuple[ASGIApp, ASGIApp]


def two_hosts(service: Service) -> Two:
    """The service's own host, and one that starts and reads the snapshots later."""
    service.refresh()
    service.clock.pass_seconds(2)
    other = service.new_worker()
    asyncio.run(other.board.refresh())
    return service.app, other.app


def cached(answer: Answer) -> tuple[int, bytes, str | None, str | None]:
    fields = answer.headers
    return answer.status, answer.body, fields.get("etag"), fields.get("last-modified")


def test_both_hosts_give_the_same_bytes_under_the_same_etag(service: Service) -> None:
    service.keep_briefs(NOTE, FOUND)
    one, other = two_hosts(service)
    for path in {*FREE_PATHS, *BADGE_PATHS} - OWN:
        assert cached(ask(one, path)) == cached(ask(other, path)), path


def test_requests_without_a_key_are_counted_over_both_hosts(tmp_path: Path) -> None:
    with fresh_service(tmp_path, workers=2) as service:
        hosts = two_hosts(service)
        answers = [ask(hosts[number % 2], "/api/v1/signals") for number in range(122)]
        left = [int(each.headers["x-ratelimit-remaining"]) for each in answers]
    assert [each.status for each in answers] == [200] * 120 + [429] * 2
    assert left == [*range(119, -1, -1), 0, 0]


def test_a_key_link_of_one_host_is_used_up_at_the_other(tmp_path: Path) -> None:
    mail: dict[str, Any] = {**MAIL}
    service = Service(tmp_path, **mail)
    one, other = two_hosts(service)
    wanted = {"fields": [("content-type", "application/json")], "body": b'{"email":"a@b.example"}'}
    assert ask(one, "/api/v1/keys", "POST", **wanted).status == 202
    ((body,),) = service.rows("SELECT body FROM outbox")
    link = next(line for line in body.splitlines() if "://" in line)
    path = "/" + link.split("/", 3)[3]

    made = ask(other, path, "POST", [("accept", "application/json")])
    assert made.status in {200, 201}
    key = [("x-api-key", made.json()["key"])]
    left = [ask(each, "/api/v1/signals", fields=key).headers for each in (one, other)]
    assert [each["x-ratelimit-limit"] for each in left] == ["1000", "1000"]
    assert ask(one, path, "POST", [("accept", "application/json")]).status == 410
    service.close()


def test_a_proof_is_charged_once_whichever_host_it_is_shown_to(tmp_path: Path) -> None:
    facilitator = HandFacilitator()
    service = SubscriberService(tmp_path, facilitator=facilitator, **PAYMENTS)
    one, other = two_hosts(service)
    now_seconds = service.clock() // 1_000
    shown = [("payment-signature", header(payload(proof(offer=FEED, now_seconds=now_seconds))))]
    meanwhile: list[Answer] = []

    async def ask_the_other() -> None:
        meanwhile.append(await asked(other, FEED_ENTRY, fields=shown))

    facilitator.before_settling = ask_the_other
    bought = ask(one, FEED_ENTRY, fields=shown)
    facilitator.before_settling = None

    assert [each.json()["error"] for each in meanwhile] == ["payment_pending"]
    assert (bought.status, len(facilitator.charged)) == (200, 1)
    assert ask(other, FEED_ENTRY, fields=shown).status != 402
    assert len(facilitator.charged) == 1
    service.close()


def test_both_hosts_sign_the_same_checkpoint_while_the_record_grows(history: PublicHistory) -> None:
    one, other = two_hosts(history.service)
    for size in (1, 2, 3):
        history.record(size)
        ahead, behind = (one, other) if size % 2 else (other, one)
        notes = [ask(host, "/api/history/checkpoint") for host in (ahead, behind, ahead)]
        assert len({note.body for note in notes}) == 1
        assert notes[0].json()["size"] == size


@pytest.mark.parametrize("versions", ["lower", "the same"])
def test_hosts_show_the_snapshots_of_a_restored_database(service: Service, versions: str) -> None:
    backup = service.rows("SELECT payload, version, feed FROM snapshots")
    shown = service.ask(MARKET).headers["last-modified"]
    service.clock.pass_seconds(3)
    service.publish(reading(service.clock()))
    assert service.ask(MARKET).headers["last-modified"] != shown

    take_away(service.settings.database_path)
    with pytest.raises(DatabaseUnavailable):
        service.refresh()
    bring_back(service.settings.database_path)
    for text, version, feed in backup:
        service.execute("UPDATE snapshots SET payload = $1 WHERE feed = $2", text, feed)
        if versions == "lower":
            service.execute("UPDATE snapshots SET version = $1 WHERE feed = $2", version, feed)
    service.refresh()
    assert service.ask(MARKET).headers["last-modified"] == shown
