"""`/api/v1/stances/{kind}`: recorded stances become public when it was announced, never before."""

from typing import Any

import pytest

from barograph.history.digest import withdrawal_digest
from barograph.history.records import ChainEnd
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from support.clock import START
from support.descriptions import operations
from support.history import RATES, PublicHistory
from support.lists import pages
from support.reveals import announce
from support.service import FREE_PATHS

PATH = f"/api/v1/stances/{RATES}"


def sequences(history: PublicHistory, now: int) -> list[int]:
    history.service.clock.now = now
    return [each["sequence"] for each in history.ask(PATH).json()["stances"]]


def recomputed(document: dict[str, Any], *others: str) -> str:
    """The digest of a document without the members that are not hashed."""
    return digest(canonical({name: document[name] for name in document if name not in others}))


def test_versions_are_public_at_their_time_and_not_a_millisecond_before(
    history: PublicHistory,
) -> None:
    history.record(3)
    announce(history.service, 7, START + HOUR)

    first = START + HOUR + 7 * DAY
    times = (first - 1, first, first + HOUR - 1, first + HOUR, first + 1000 * DAY)
    assert [sequences(history, at) for at in times] == [[], [2], [2], [2, 3], [2, 3]]
    body = history.ask(PATH).json()
    assert (body["private"], body["count"], body["after_days"]) == (1, 2, 7)
    assert body["stances"][0]["revealed_at"] == iso_timestamp(first)


def test_nothing_is_public_without_an_announcement(history: PublicHistory) -> None:
    history.record(3)
    announce(history.service, 0, START)
    history.service.clock.now = START + 1000 * DAY

    body = history.ask(PATH).json()
    shown = {name: body[name] for name in ("stances", "announced", "after_days", "private")}
    assert shown == {"stances": [], "announced": [], "after_days": 0, "private": 3}
    assert (body["venue"], body["next"]) == (None, None)


@pytest.mark.outcome(
    "The operator turns off the publication of stances",
    "Versions issued under the announcement still become public. Later ones stay private.",
)
def test_turning_it_off_binds_only_later_versions(history: PublicHistory) -> None:
    history.record(3)
    announce(history.service, 7, START)
    announce(history.service, 0, START + 2 * HOUR)

    assert sequences(history, START + 1000 * DAY) == [1, 2]
    body = history.ask(PATH).json()
    assert [each["after_days"] for each in body["announced"]] == [7, 0]
    assert body["after_days"] == 0


def test_anyone_can_recompute_the_digests_of_a_version_and_its_withdrawal(
    history: PublicHistory,
) -> None:
    announce(history.service, 1, START)
    (version,) = history.record(1)
    event = history.withdraw(version)
    history.record(2)
    history.service.clock.now = START + 2 * DAY

    withdrawn, kept = history.ask(PATH).json()["stances"]
    shown = withdrawn["withdrawal"]
    not_hashed = ("history_digest", "revealed_at", "withdrawal")
    assert recomputed(withdrawn, *not_hashed) == withdrawn["history_digest"]
    assert withdrawn["history_digest"] == version.history_digest
    assert recomputed(shown, "event_digest") == shown["event_digest"] == event.event_digest
    words = {name: shown[name] for name in ("why", "by", "salt")}
    assert shown["evidence_digest"] == withdrawal_digest(version.history_digest, **words)
    assert kept["withdrawal"] is None
    assert kept["previous_digest"] == withdrawn["history_digest"]


def test_following_next_shows_every_public_version_once(history: PublicHistory) -> None:
    announce(history.service, 1, START)
    history.record(5)
    history.service.clock.now = START + 2 * DAY

    listed = [page["stances"] for page in pages(history.service, f"{PATH}?limit=2")]
    assert [[each["sequence"] for each in part] for part in listed] == [[1, 2], [3, 4], [5]]
    assert len(history.ask(f"{PATH}?limit=1000").json()["stances"]) == 5


@pytest.mark.parametrize("damage", ["lost", "changed", "replaced"])
def test_a_record_that_cannot_be_trusted_is_503(history: PublicHistory, damage: str) -> None:
    announce(history.service, 1, START)
    history.record(2)
    history.service.clock.now = START + 2 * DAY
    if damage == "lost":
        history.service.lose_history()
    elif damage == "changed":
        history.tamper("UPDATE stance_versions SET document = replace(document, 'secret', 'x')")
    else:
        history.publish_end(ChainEnd(2, "0" * 64))
    answer = history.ask(PATH)

    assert answer.status == 503
    assert [*answer.json()] == ["error"]
    if damage == "lost":
        history.service.restore_history()


def test_no_free_path_shows_a_word_of_a_version_before_its_time(history: PublicHistory) -> None:
    announce(history.service, 7, START)
    history.withdraw(history.record(1)[0])
    history.service.clock.now = START + 7 * DAY - 1
    described = history.ask("/openapi.json").json()
    free = [path for path, each in operations(described) if "304" in each["responses"]]
    targets = {path.replace("{kind}", RATES) for path in free} | {*FREE_PATHS, f"/record/{RATES}"}

    assert {PATH, f"/api/history/{RATES}", "/api/v1/events"} <= targets
    secrets = (b"yields moved", b"secret 0", b"a wrong file", history.version(1).salt.encode())
    for target in targets:
        body = history.ask(target).body
        assert not any(each in body for each in secrets), target
    history.service.clock.now += 1
    assert all(each in history.ask(PATH).body for each in secrets)


def test_the_pricing_page_says_what_was_announced(history: PublicHistory) -> None:
    def page() -> str:
        return history.ask("/pricing").body.decode()

    assert "become public" not in page()
    announce(history.service, 7, START)
    assert "Recorded versions become public 7 days after they are issued." in page()
    assert f'href="{PATH}"' in page()
    announce(history.service, 0, START + HOUR)
    assert "New versions stay private." in page()
