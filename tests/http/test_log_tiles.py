"""The log as tlog-tiles: a reader rebuilds its tree from tiles alone."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256

import pytest

from barograph.history.checkpoint import open_checkpoint
from barograph.history.merkle import node_hash, tree_root
from barograph.history.tiles import Tile, parse_tile
from barograph_client.audit.notes import LOG_KEY, Key, parse_key
from support.events import add_events, change
from support.history import PublicHistory, delivered, proposal, tamper
from support.merkle_proofs import is_included

SIZE = 600
FOLDER = "/history/events"


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    """A log of more than two tiles, which the tests here only read."""
    history = PublicHistory(tmp_path_factory.mktemp("tiles"))
    history.record(SIZE)
    yield history
    history.close()


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
    tiled: PublicHistory,
) -> None:
    checkpoint = open_checkpoint(read(tiled, f"{FOLDER}/checkpoint").decode(), verifier_of(tiled))
    names = ["000", "001", f"002.p/{SIZE - 512}"]
    listed = [entry for name in names for entry in entries(read(tiled, tile("entries", name)))]
    leaves = [leaf for name in names for leaf in hashes(read(tiled, tile("0", name)))]

    assert checkpoint.size == len(listed) == SIZE
    assert tree_root(listed) == checkpoint.root
    assert leaves == [sha256(b"\0" + bytes.fromhex(entry)).digest() for entry in listed]
    level = leaves[:512]
    while len(level) > 2:
        level = [node_hash(*level[at : at + 2]) for at in range(0, len(level), 2)]
    assert hashes(read(tiled, tile("1", "000.p/2"))) == level


def tile(level: str, name: str) -> str:
    return f"{FOLDER}/tile/{level}/{name}"


def verifier_of(history: PublicHistory) -> Key:
    return parse_key(history.ask("/api/history/checkpoint").json()["verifier"], LOG_KEY)


def test_only_full_tiles_are_kept_and_no_cache_keeps_a_checkpoint_for_ever(
    tiled: PublicHistory,
) -> None:
    full, part = (tiled.ask(tile("0", name)) for name in ("000", "000.p/7"))
    note = tiled.ask(f"{FOLDER}/checkpoint")

    assert full.headers["content-type"] == "application/octet-stream"
    assert full.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert note.headers["content-type"] == "text/plain; charset=utf-8"
    assert "immutable" not in note.headers["cache-control"]
    assert part.status == 200
    hot = {path for path, _ in tiled.service.board.hot}
    assert (tile("0", "000") in hot, tile("0", "000.p/7") in hot) == (True, False)


@pytest.mark.parametrize(
    "path",
    [
        *(tile("0", name) for name in ("0", "002", f"002.p/{SIZE - 511}", "x000/000")),
        *(tile("0", f"000.p/{width}") for width in ("0", "07", "256", "257")),
        tile("0", f"{'x001/' * 1500}000"),
        *(tile("1", "000.p/3"), tile("00", "000"), tile("64", "000"), tile("entries", "003")),
        *("/history-0badf00d/events/checkpoint", "/history/other/checkpoint"),
        f"{FOLDER}/{'0' * 64}.tlog-proof",
    ],
)
def test_what_the_tree_does_not_have_is_404(tiled: PublicHistory, path: str) -> None:
    answer = tiled.ask(path)
    assert (answer.status, list(answer.json())) == (404, ["error"])


@pytest.mark.parametrize("number", [0, 255, 999, 1000, 1_234_067, 10**12])
def test_paths_of_tiles_can_be_read_back(number: int) -> None:
    for level, width in [(0, 256), (None, 1), (63, 255)]:
        address = Tile(level, number, width)
        assert parse_tile(address.path) == address
    assert Tile(0, 1_234_067, 256).path == "0/x001/x234/067"


def test_the_log_of_events_has_the_digest_of_each_published_text(history: PublicHistory) -> None:
    asyncio.run(add_events(history.service.database, [change(number) for number in range(3)]))
    history.service.refresh()
    listed = history.ask("/api/v1/events").json()["events"]
    note = read(history, f"{FOLDER}/checkpoint").decode()
    digests = entries(read(history, tile("entries", f"000.p/{len(listed)}")))
    texts = [read(history, f"/api/v1/events/{digest}") for digest in digests]

    assert [json.loads(text) for text in texts] == listed
    assert [sha256(text).hexdigest() for text in texts] == digests
    assert open_checkpoint(note, verifier_of(history)).root == tree_root(digests)
    assert history.ask("/api/history/checkpoint").json()["checkpoint"] == note


def test_a_changed_digest_is_not_served_as_a_tile(history: PublicHistory) -> None:
    history.record(300)
    read(history, f"{FOLDER}/checkpoint")
    change = f"UPDATE events SET digest = '{'0' * 64}' WHERE id = 7"
    asyncio.run(tamper(history.service.database, change))

    assert history.ask(tile("entries", "000")).status == 503


def test_a_buyer_checks_a_stance_with_its_proof_alone(tiled: PublicHistory) -> None:
    version = tiled.version(300)
    body = delivered(version)
    text = read(tiled, f"{FOLDER}/{body['history_digest']}.tlog-proof").decode()
    head, _, note = text.partition("\n\n")
    form, extra, index, *proof = head.split("\n")
    checkpoint = open_checkpoint(note, verifier_of(tiled))

    assert form == "c2sp.org/tlog-proof@v1"
    members = json.loads(b64decode(extra.removeprefix("extra ")))
    event = json.loads(members["event"])
    assert members["previous_digest"] == version.previous_digest
    assert (event["type"], event["sequence"]) == ("stance.recorded", 300)
    assert event["history_digest"] == body["history_digest"]
    number, entry = int(index.removeprefix("index ")), sha256(members["event"].encode())
    hashed = [b64decode(line) for line in proof]
    assert is_included(entry.hexdigest(), number, checkpoint.size, hashed, checkpoint.root)
    assert proposal(299).leg_id == body["leg_id"]


@pytest.mark.outcome(
    "The collector is killed between recording a version and logging it",
    "The version's proof says `pending`. The next leader appends its entry once.",
)
def test_version_without_an_entry_is_pending_until_the_leader_appends_it(
    history: PublicHistory,
) -> None:
    (version,) = history.record(1, is_logged=False)
    path = f"{FOLDER}/{version.history_digest}.tlog-proof"
    pending, page = history.ask(path), history.ask("/record/rates-desk").body.decode()
    record = history.ask("/record").body.decode()

    assert (pending.status, pending.json()["error"].partition(":")[0]) == (503, "pending")
    assert "(pending)" in page
    assert "1 of them pending" in record
    history.log()
    assert history.ask(path).status == 200
