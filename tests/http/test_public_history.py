"""`/api/history/…`: the lists of stances, and the checkpoint of the public log, over HTTP."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from unittest.mock import ANY

import pytest

from barograph import NOTICE
from barograph.history.checkpoint import LogKeys, open_checkpoint, verifier_of
from barograph.history.guards import CONTRADICTED, RESTORED, SignedHead, SignedHeads
from barograph.history.merkle import EMPTY_ROOT, TreeHead
from barograph.history.origins import hold_signing
from barograph.history.records import KINDS, Version
from barograph.history.signing import load_history_key
from barograph.kit.timestamps import iso_timestamp
from barograph_client.audit.notes import LOG_KEY, parse_key
from support.events import add_events, change
from support.history import RATES, PublicHistory, delivered, tamper

SIZE = 23
ETF = "btc-etf-stance"
LIST = f"/api/history/{RATES}"
CHECKPOINT = "/api/history/checkpoint"
PATHS = [LIST, f"{LIST}/events", CHECKPOINT]
EVERY_PATH = pytest.mark.parametrize("path", PATHS)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    """A history that the tests here only read."""
    history = PublicHistory(tmp_path_factory.mktemp("history"))
    for size in (7, SIZE):
        history.withdraw(history.record(size)[-1])
    yield history
    history.close()


def versions(history: PublicHistory) -> list[Version]:
    return [history.version(sequence) for sequence in range(1, SIZE + 1)]


def listed(history: PublicHistory, path: str = LIST, member: str = "history_digest") -> list[str]:
    entries = history.ask(f"{path}?limit=1000").json()["entries"]
    return [entry[member] for entry in entries]


def size_of(history: PublicHistory) -> int:
    return int(history.ask(CHECKPOINT).json()["size"])


def test_the_list_has_every_digest_in_the_order_of_recording(recorded: PublicHistory) -> None:
    answer = recorded.ask(LIST)

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "kind": RATES,
        "count": SIZE,
        "after": 0,
        "next": None,
        "entries": [
            {
                "sequence": place + 1,
                "history_digest": version.history_digest,
                "issued_at": delivered(version)["issued_at"],
            }
            for place, version in enumerate(versions(recorded))
        ],
        "notice": NOTICE,
    }


def test_following_next_gives_every_entry_once(recorded: PublicHistory) -> None:
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        page = recorded.ask(f"{LIST}?after={after}&limit=5").json()
        assert page["after"] == after
        found += [entry["sequence"] for entry in page["entries"]]
        after = page["next"]

    assert found == list(range(1, SIZE + 1))


@pytest.mark.parametrize(
    ("query", "first", "count"),
    [
        *(("limit=3", 1, 3), ("limit=0", 1, 1), ("limit=-5", 1, 1)),
        *((f"limit={text}", 1, SIZE) for text in ("1001", "9" * 5000, "abc", "", "%002")),
        *(("limit=2&limit=3", 1, SIZE), ("after=20", 21, 3), ("after=%2B20", 21, 3)),
        *((f"after={text}", 1, SIZE) for text in ("-3", "1.5", "+20")),
        *((f"after={text}", None, 0) for text in (SIZE, "9" * 5000, "9007199254740993")),
        ("unknown=1", 1, SIZE),
    ],
)
def test_after_and_limit_are_brought_into_range_and_never_refused(
    recorded: PublicHistory, query: str, first: int | None, count: int
) -> None:
    answer = recorded.ask(f"{LIST}?{query}")

    assert answer.status == 200
    entries = answer.json()["entries"]
    assert len(entries) == count
    assert first is None or entries[0]["sequence"] == first


def test_a_page_has_100_entries_unless_told_otherwise_and_1000_at_most(
    history: PublicHistory,
) -> None:
    history.record(1002)

    assert len(history.ask(LIST).json()["entries"]) == 100
    assert history.ask(LIST).json()["next"] == 100
    assert len(history.ask(f"{LIST}?limit=5000").json()["entries"]) == 1000
    assert size_of(history) == 1002


def test_events_are_listed_by_their_digests(recorded: PublicHistory) -> None:
    body = recorded.ask(f"{LIST}/events").json()

    assert (body["kind"], body["count"], body["next"]) == (RATES, 2, None)
    assert [entry["event_digest"] for entry in body["entries"]] == [
        event.event_digest for event in recorded.events()
    ]
    assert set(body["entries"][0]) == {"sequence", "event_digest", "at"}
    assert recorded.ask(f"{LIST}/events?limit=1").json()["next"] == 1
    for path in (f"/api/history/{ETF}", f"/api/history/{ETF}/events"):
        empty = recorded.ask(path).json()
        assert (empty["count"], empty["next"], empty["entries"]) == (0, None, [])


@pytest.mark.parametrize("kind", ["nope", "RATES-DESK", "rates-desk%20", ".", "%00"])
@pytest.mark.parametrize("rest", ["", "/events"])
def test_an_unknown_kind_is_not_found(recorded: PublicHistory, kind: str, rest: str) -> None:
    answer = recorded.ask(f"/api/history/{kind}{rest}")

    assert (answer.status, answer.headers["cache-control"]) == (404, "no-store")
    assert answer.json() == {"error": f"unknown kind; the kinds are {', '.join(KINDS)}"}


def test_checkpoint_of_the_log_is_signed_by_the_key_of_the_instance(
    recorded: PublicHistory,
) -> None:
    body = recorded.ask(CHECKPOINT).json()
    verifier = parse_key(body["verifier"], LOG_KEY)
    signed = open_checkpoint(body["checkpoint"], verifier)

    members = ["size", "root", "checkpoint", "verifier", "public_key", "previous_keys", "notice"]
    assert [*body] == members
    assert signed.origin == "barograph.example/history/events"
    assert (signed.size, signed.root.hex()) == (body["size"], body["root"]) == (SIZE + 2, ANY)
    assert verifier.public == b64decode(body["public_key"])
    assert verifier == verifier_of(load_history_key(recorded.service.settings), signed.origin)


def test_every_version_and_withdrawal_is_an_entry_with_its_digest_only(
    recorded: PublicHistory,
) -> None:
    recorded.service.refresh()
    events = recorded.ask("/api/v1/events?limit=1000").json()["events"]
    logged = [each for each in events if each["type"] == "stance.withdrawn"]

    assert [each["event_digest"] for each in logged] == listed(
        recorded, f"{LIST}/events", "event_digest"
    )
    assert [*logged[0]] == ["at", "event_digest", "id", "kind", "notice", "sequence", "type"]
    versions_logged = [each["history_digest"] for each in events if "history_digest" in each]
    assert versions_logged == listed(recorded)


@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_lists_and_checkpoints_are_charged(history: PublicHistory) -> None:
    history.record(2)
    paths = (LIST, f"{LIST}/events", CHECKPOINT) * 200
    left = [history.ask(path).headers["x-ratelimit-remaining"] for path in paths]
    refused = history.ask(CHECKPOINT)

    assert left == [str(each) for each in reversed(range(600))]
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert refused.headers["ratelimit-policy"] == '"render";q=600;w=60'
    assert history.ask(LIST).status == 429


def test_nothing_that_is_paid_for_is_in_any_answer(recorded: PublicHistory) -> None:
    queries = ["", "?limit=1000"]
    given = b"".join(recorded.ask(path + query).body for path in PATHS for query in queries)
    recorded_versions, events = versions(recorded), recorded.events()
    secrets = {
        *("secret", "cautious", "us10y", "levels", "salt", "curve", "a wrong file"),
        *(text for each in recorded_versions for text in (each.salt, each.leg_id)),
        *(version.leg.evidence.digest for version in recorded_versions),
        *(text for event in events for text in (event.salt, event.evidence_digest)),
    }

    assert all(version.history_digest.encode() in given for version in recorded_versions)
    assert not [secret for secret in secrets if secret.encode() in given]


@pytest.mark.outcome("The history database is unreadable", "Lists and checkpoints return 503.")
@EVERY_PATH
def test_unreadable_history_is_503_until_it_is_readable_again(
    history: PublicHistory, path: str
) -> None:
    history.record(3)
    history.service.lose_history()
    answer = history.ask(path)
    history.service.restore_history()

    assert (answer.status, answer.headers["cache-control"]) == (503, "no-store")
    assert answer.json() == {"error": "the history is unavailable; try again shortly"}
    assert history.ask(path).status == 200


def history_check(history: PublicHistory) -> tuple[str, str]:
    checks = {each["name"]: each for each in history.ask("/api/status").json()["checks"]}
    return checks["history"]["status"], checks["history"]["detail"]


@pytest.mark.parametrize("size", [None, 2, 4, 6])
def test_rewritten_history_is_not_signed_after_a_restart(
    history: PublicHistory, size: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    history.record(4)
    kept, copy = history.ask(CHECKPOINT), "CREATE TABLE kept AS SELECT * FROM stance_versions"
    assert (kept.status, history_check(history)[0]) == (200, "ok")
    if size is None:  # one digest in the middle is another
        history.tamper(copy, f"UPDATE stance_versions SET history_digest = '{'e' * 64}' {THIRD}")
    else:  # a whole chain of another content, by itself without a fault
        history.tamper(copy, "DELETE FROM stance_versions")
        history.record(size, is_logged=False)

    history.app = history.new_worker()
    assert [history.ask(path).status for path in (CHECKPOINT, CHECKPOINT, TILES)] == [503] * 3
    since = iso_timestamp(history.service.clock())
    assert history_check(history) == ("degraded", f"{CONTRADICTED} since {since}")
    assert caplog.text.count("checkpoints are not signed") == 1

    history.tamper("DELETE FROM stance_versions", "INSERT INTO stance_versions SELECT * FROM kept")
    history.app = history.new_worker()
    assert (history.ask(CHECKPOINT).body, history_check(history)[0]) == (kept.body, "ok")
    history.record(6)
    assert size_of(history) == 6


@pytest.mark.parametrize("renamed", [0, 1])
def test_rewritten_event_is_not_signed_after_a_restart(
    history: PublicHistory, renamed: int
) -> None:
    database = history.service.database
    asyncio.run(add_events(database, [change(number) for number in range(3)]))
    assert size_of(history) == 3
    rewrite = f"UPDATE events SET body = '{{}}', digest = '{sha256(b'{}').hexdigest()}' {SECOND}"
    rename = """UPDATE history_origin SET keys = replace(keys, '"name":""', '"name":"other"')"""
    asyncio.run(tamper(database, rewrite, *[rename][:renamed]))

    history.app = history.new_worker()
    assert history.ask(CHECKPOINT).status == 503
    assert history_check(history)[1].startswith(CONTRADICTED)


@pytest.mark.outcome(
    "`barograph restore` is interrupted",
    "Checkpoints and proofs return 503, and `/api/status` says what to do. The next run "
    "completes the restore.",
)
def test_restored_history_is_served_but_not_signed(history: PublicHistory) -> None:
    history.record(3)
    database = history.service.database
    asyncio.run(database.write(lambda tx: hold_signing(tx, history.service.clock())))
    answers = [history.ask(path) for path in (CHECKPOINT, TILES)]

    why = f"the history is not signed: {RESTORED}"
    assert [(each.status, each.json()) for each in answers] == [(503, {"error": why})] * 2
    assert (history.ask(LIST).status, history.ask("/record").status) == (200, 503)
    status, detail = history_check(history)
    assert (status, detail.partition(" since ")[0]) == ("degraded", why)


def test_checkpoint_lists_the_keys_that_signed_before(history: PublicHistory) -> None:
    history.record(2)
    before = history.ask(CHECKPOINT).json()
    history.rotate_key()
    after = history.ask(CHECKPOINT).json()  # the same worker, with the new file

    (previous,) = after["previous_keys"]
    assert previous["public_key"] == before["public_key"] != after["public_key"]
    (last,) = previous["checkpoints"]
    signed = open_checkpoint(last, parse_key(before["verifier"], LOG_KEY))
    assert signed == open_checkpoint(last, parse_key(after["verifier"], LOG_KEY))
    assert (signed.size, signed.root.hex()) == (before["size"], before["root"])
    assert last.splitlines()[3] == f"successor {after['verifier']}"


SECOND = "WHERE id = 2"
THIRD = "WHERE sequence = 3"
TILES = "/history/events/tile/0/000.p/1"


async def test_only_the_first_of_two_competing_heads_is_recorded(history: PublicHistory) -> None:
    service = history.service
    signed = SignedHeads(service.database, service.history, service.clock)
    heads = [TreeHead(0, EMPTY_ROOT)]
    heads += [TreeHead(size, root * 32) for size, root in ((1, b"a"), (1, b"b"), (2, b"c"))]

    async def advance(last: int, head: int) -> bool:
        before = SignedHead(LogKeys(), heads[last], is_stored=last > 0)
        return await signed.advance(before, heads[head])

    assert await advance(0, 1)
    assert not await advance(0, 2)
    assert not await advance(2, 3)
    assert await advance(0, 1)
    assert (await signed.last_signed()).head == heads[1]
