"""The log as tlog-tiles: a reader rebuilds its tree from tiles alone."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from barograph.history.checkpoint import open_checkpoint
from barograph.history.merkle import is_included, node_hash, tree_root
from barograph.history.tiles import Tile, parse_tile
from barograph_client.audit.notes import LOG_KEY, Key, parse_key
from support.events import add_events, change
from support.history import PublicHistory, delivered, proposal, tamper

SIZE = 600
FOLDER = "/history/events"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    found = PublicHistory(tmp_path_factory.mktemp("tiles"))
    found.record(SIZE)
    yield found
    found.close()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[PublicHistory]:
    found = PublicHistory(tmp_path)
    yield found
    found.close()


def read(history: PublicHistory, path: str) -> bytes:
    answer = history.ask(path)
    assert answer.status == 200, path
    return answer.body


def entries(body: bytes) -> list[str]:
    assert len(body) % 34 == 0
    parts = [body[at : at + 34] for at in range(0, len(body), 34)]
    assert {part[:2] for part in parts} <= {b"\x00\x20"}
    return [part[2:].hex() for part in parts]


def hashes(body: bytes) -> list[bytes]:
    return [body[at : at + 32] for at in range(0, len(body), 32)]


def test_a_reader_rebuilds_the_signed_root_from_entries_and_from_tiles(
    history: PublicHistory,
) -> None:
    verifier = verifier_of(history)
    checkpoint = open_checkpoint(read(history, f"{FOLDER}/checkpoint").decode(), verifier)
    names = ["000", "001", f"002.p/{SIZE - 512}"]
    listed = [each for name in names for each in entries(read(history, tile("entries", name)))]
    leaves = [each for name in names for each in hashes(read(history, tile("0", name)))]

    assert checkpoint.size == len(listed) == SIZE
    assert tree_root(listed) == checkpoint.root
    assert leaves == [sha256(b"\0" + bytes.fromhex(each)).digest() for each in listed]
    level = leaves[:512]
    while len(level) > 2:
        level = [node_hash(*level[at : at + 2]) for at in range(0, len(level), 2)]
    assert hashes(read(history, tile("1", "000.p/2"))) == level


def tile(level: str, name: str) -> str:
    return f"{FOLDER}/tile/{level}/{name}"


def verifier_of(history: PublicHistory) -> Key:
    return parse_key(history.ask("/api/history/checkpoint").json()["verifier"], LOG_KEY)


def test_tiles_are_immutable_and_checkpoints_are_cached_for_seconds(history: PublicHistory) -> None:
    full = history.ask(tile("0", "000"))
    note = history.ask(f"{FOLDER}/checkpoint")

    assert full.headers["content-type"] == "application/octet-stream"
    assert full.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert note.headers["content-type"] == "text/plain; charset=utf-8"
    assert "immutable" not in note.headers["cache-control"]
    assert note.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "path",
    [
        tile("0", f"002.p/{SIZE - 511}"),
        tile("0", "002"),
        tile("0", "0"),
        tile("0", "x000/000"),
        tile("00", "000"),
        tile("0", "000.p/0"),
        tile("0", "000.p/256"),
        tile("0", "000.p/257"),
        tile("0", f"{'x001/' * 1500}000"),
        tile("0", "000.p/07"),
        tile("64", "000"),
        tile("1", "000.p/3"),
        tile("entries", "003"),
        "/history-0badf00d/events/checkpoint",
        "/history/other/checkpoint",
        f"{FOLDER}/{'0' * 64}.tlog-proof",
    ],
)
def test_what_the_tree_does_not_have_is_404(history: PublicHistory, path: str) -> None:
    answer = history.ask(path)
    assert answer.status == 404
    assert set(answer.json()) == {"error"}


def test_partial_tiles_are_not_kept_for_the_front_door(history: PublicHistory) -> None:
    for name in ("000", "000.p/7"):
        assert history.ask(tile("0", name)).status == 200
    hot = {path for path, _ in history.service.board.hot}
    assert (tile("0", "000") in hot, tile("0", "000.p/7") in hot) == (True, False)


@pytest.mark.parametrize("number", [0, 255, 999, 1000, 1_234_067, 10**12])
def test_paths_of_tiles_can_be_read_back(number: int) -> None:
    for level, width in [(0, 256), (None, 1), (63, 255)]:
        address = Tile(level, number, width)
        assert parse_tile(address.path) == address
    assert Tile(0, 1_234_067, 256).path == "0/x001/x234/067"


def test_the_log_of_events_has_the_digest_of_each_published_text(empty: PublicHistory) -> None:
    history = empty
    asyncio.run(add_events(history.service.database, [change(number) for number in range(3)]))
    history.service.refresh()
    listed = history.ask("/api/v1/events").json()["events"]
    note = read(history, "/history/events/checkpoint").decode()
    digests = entries(read(history, f"/history/events/tile/entries/000.p/{len(listed)}"))
    published = history.ask("/api/history/checkpoint").json()

    assert [json.loads(read(history, f"/api/v1/events/{each}")) for each in digests] == listed
    assert [sha256(read(history, f"/api/v1/events/{each}")).hexdigest() for each in digests] == (
        digests
    )
    verifier = parse_key(published["verifier"], LOG_KEY)
    assert open_checkpoint(note, verifier).root == tree_root(digests)
    assert published["checkpoint"] == note


def test_a_changed_digest_is_not_served_as_a_tile(empty: PublicHistory) -> None:
    history = empty
    history.record(300)
    read(history, f"{FOLDER}/checkpoint")
    change = f"UPDATE events SET digest = '{'0' * 64}' WHERE id = 7"
    asyncio.run(tamper(history.service.database, change))

    assert history.ask(tile("entries", "000")).status == 503


def test_a_buyer_checks_a_stance_with_its_proof_alone(history: PublicHistory) -> None:
    version = history.version(300)
    body = delivered(version)
    text = read(history, f"{FOLDER}/{body['history_digest']}.tlog-proof").decode()
    head, _, note = text.partition("\n\n")
    form, extra, index, *proof = head.split("\n")
    checkpoint = open_checkpoint(note, verifier_of(history))

    assert form == "c2sp.org/tlog-proof@v1"
    members = json.loads(b64decode(extra.removeprefix("extra ")))
    event = json.loads(members["event"])
    assert members["previous_digest"] == version.previous_digest
    assert (event["type"], event["sequence"]) == ("stance.recorded", 300)
    assert event["history_digest"] == body["history_digest"]
    number, entry = int(index.removeprefix("index ")), sha256(members["event"].encode())
    hashed = [b64decode(each) for each in proof]
    assert is_included(entry.hexdigest(), number, checkpoint.size, hashed, checkpoint.root)
    assert proposal(299).leg_id == body["leg_id"]


@pytest.mark.outcome(
    "The collector is killed between recording a version and logging it",
    "The version's proof says `pending`. The next leader appends its entry once.",
)
def test_version_without_an_entry_is_pending_until_the_leader_appends_it(
    empty: PublicHistory,
) -> None:
    (version,) = empty.record(1, is_logged=False)
    path = f"{FOLDER}/{version.history_digest}.tlog-proof"
    pending, page = empty.ask(path), empty.ask("/record/rates-desk").body.decode()
    record = empty.ask("/record").body.decode()

    assert (pending.status, pending.json()["error"].partition(":")[0]) == (503, "pending")
    assert "(pending)" in page
    assert "1 of them pending" in record
    empty.log()
    assert empty.ask(path).status == 200
