"""An audit of honest and tampered services: what it says, and its exit code."""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from io import BytesIO, TextIOWrapper
from math import inf
from operator import setitem
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph_client.audit.command import main
from barograph_client.clients import AsyncBarograph
from support.static_logs import (
    ORIGIN,
    START,
    URL,
    StaticList,
    StaticLog,
    StaticService,
    bundles,
    digests,
    event_text,
    private_key,
    root_of,
    tiles,
    verifier,
)

EVIL = b"\xee" * 32
WITNESSES = {"first.example/w2": 0, "second.example/w3": 0, "third.example/w4": 0}
POLICY = "# two of three\n" + "".join(
    f"witness {name} {verifier(private_key(int(name[-1])), name, 4)} https://{name}\n"
    for name in WITNESSES
)
POLICY += f"group two-of-three 2 {' '.join(WITNESSES)}\nquorum two-of-three\n"

NO_TEXT = "event 9 in /api/v1/events has the SHA-256 digest of no text ("
AGAIN = "even when asked again after a minute, but the log in the signed checkpoint of 600 "

Tamper = Callable[[StaticService], object]


class Auditor:
    """A user of the command, with files in a folder, and the service to audit."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.service = StaticService()
        self.folder = folder
        self._capsys = capsys

    def file(self, name: str, text: str) -> str:
        file = self.folder / name
        file.write_text(text, "utf-8")
        return str(file)

    def run(self, *options: str, service: StaticService | None = None) -> tuple[int, str]:
        """The exit code, and everything that is printed."""
        service = service or self.service
        connect = partial(AsyncBarograph, transport=service.transport, sleep=service.wait)
        code = main([URL, *options], connect=connect)
        return code, "".join(self._capsys.readouterr())

    def expect(self, code: int, said: str, *options: str) -> None:
        """Audit the service, which ends with this exit code and prints these words."""
        found, printed = self.run(*options)
        assert (found, said in printed) == (code, True), printed

    def report(self, *options: str) -> dict[str, Any]:
        code, printed = self.run("--json", *options)
        assert code == 0, printed
        found: dict[str, Any] = json.loads(printed)
        return found


@pytest.fixture
def auditor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Auditor:
    return Auditor(tmp_path, capsys)


def test_an_honest_service_passes_and_the_audit_says_whose_key_it_trusted(auditor: Auditor) -> None:
    code, printed = auditor.run()

    assert code == 0
    log, verdict, key, witnesses, limits = printed.splitlines()
    assert log.startswith("size 600, root ")
    assert "texts: 600 match, 0 removed" in log
    # 2 checkpoints, 3 bundles, 4 tiles, the events, and each list until it is empty
    assert log.endswith("tiles 4, requests 18")
    assert verdict.startswith("No contradiction found (")
    assert "You named no key" in key
    assert "Cosignatures were not checked" in witnesses
    assert f"{URL}/record" in limits


def test_a_terminal_without_unicode_gets_the_result(
    auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(printed, "ascii", write_through=True))

    assert auditor.run()[0] == 0
    assert b"\\u2026, newest entry at " in printed.getvalue()


def test_entries_that_wait_for_witnesses_are_not_yet_part_of_the_log(auditor: Auditor) -> None:
    wait_for_witnesses(auditor.service)
    kept = auditor.file("kept.json", auditor.service.checkpoint())

    assert auditor.report()["log"]["size"] == 599
    auditor.expect(2, "fewer than the 600 that you kept", "--kept", kept)


def test_empty_log_passes(auditor: Auditor) -> None:
    service = auditor.service
    service.texts, service.log = [], StaticLog("events", [])
    service.versions.listed, service.withdrawals.listed = [], []

    assert auditor.report()["log"]["size"] == 0


def rewrite_entry_and_tiles(service: StaticService) -> None:
    service.log.entries[7] = service.log.tiled[7] = EVIL


def reorder(service: StaticService) -> None:
    for shown in (service.log.entries, service.log.tiled):
        shown[3], shown[4] = shown[4], shown[3]


def drop_entry(service: StaticService) -> None:
    del service.log.entries[-1]
    service.files["/history/events/tile/entries/002.p/88"] = bundles(service.log.entries)[
        "tile/entries/002.p/87"
    ]


def break_signature(service: StaticService) -> None:
    changed = service.log.note.replace("\n600\n", "\n601\n")
    service.files["/history/events/checkpoint"] = changed.encode()


def sign_with_another_key(service: StaticService) -> None:
    published = service.checkpoint()
    service.log.key = private_key(9)
    service.files["/history/events/checkpoint"] = service.log.note.encode()
    service.replies["/api/history/checkpoint"] = [httpx2.Response(200, text=published)]


def equivocate(service: StaticService) -> None:
    other = service.log.sign([*service.log.signed[:-1], EVIL])
    service.files["/history/events/checkpoint"] = other.encode()


def back_date(service: StaticService) -> None:
    service.versions.times[1] -= 3600
    service.record(1, 2, 3)


def merge(service: StaticService, root: bytes) -> None:
    """Log the end of a log that the kind had of its own."""
    log = {"kind": "rates-desk", "origin": f"{ORIGIN}rates-desk", "root": root.hex(), "size": 2}
    event = {"at": "2026-05-28T20:26:40Z", "id": 30, "logs": [log], "type": "history.merged"}
    service.texts[29] = json.dumps(event, separators=(",", ":")).encode()
    service.record(1, 2, 3)


def state_another_root(service: StaticService) -> None:
    stated = {**json.loads(service.checkpoint()), "size": 600, "root": EVIL.hex()}
    service.replies["/api/history/checkpoint"] = [httpx2.Response(200, json=stated)]


def list_more_members(service: StaticService) -> None:
    page = service.withdrawals.page(0, 1000, 0)
    page["entries"][0]["why"] = "nobody logged this"
    service.replies["/api/history/rates-desk/events"] = [httpx2.Response(200, json=page)]


def list_both(service: StaticService) -> None:
    true = [json.loads(each) for each in service.texts]
    page = {"entries": true, "events": [{**each, "symbol": "FORGED"} for each in true]}
    service.replies["/api/v1/events"] = [httpx2.Response(200, json=page)]


def list_no_text(service: StaticService) -> None:
    page = service.versions.page(0, 1000, 0)
    page["entries"][1]["history_digest"] = "\ud800"
    service.replies["/api/history/rates-desk"] = [httpx2.Response(200, text=json.dumps(page))]


def wait_for_witnesses(service: StaticService) -> None:
    """Serve the checkpoint of 599 entries, and list that of 600."""
    service.files["/history/events/checkpoint"] = service.log.sign(
        service.log.entries[:599]
    ).encode()


def fork_while_waiting(service: StaticService) -> None:
    wait_for_witnesses(service)
    service.log.signed[-1] = EVIL


def show_text(number: int, text: bytes) -> Tamper:
    """Show another text of an event than the one that was logged."""
    return lambda service: setitem(service.texts, number - 1, text)


def show_id(shown: bytes) -> Tamper:
    return show_text(9, event_text(9).replace(b'"id":9', b'"id":' + shown))


def hide_newest(path: str) -> Tamper:
    return lambda service: setitem(service.late, path, inf)


STANCE_REMOVED = event_text(5, notice="n", removed="r").replace(
    b"regime.changed", b"stance.recorded"
)
LIST = "/api/history/rates-desk"
OTHER_ROOT = "the first 600 entries give the root "
OTHER_VERSION = "event 6 says that version 2 of rates-desk is "

TAMPERED: dict[str, tuple[Tamper, str]] = {
    "two lists": (list_both, "/api/v1/events?after=0&limit=1000 has both members, entries and"),
    "no text": (list_no_text, OTHER_VERSION),
    "a huge id": (show_id(b"1152921504606846976"), NO_TEXT),
    "an infinite id": (show_id(b"1e999"), NO_TEXT),
    "an id of no text": (show_id(rb'"\ud800"'), NO_TEXT),
    "a fork while waiting": (fork_while_waiting, OTHER_ROOT),
    "an entry": (lambda service: setitem(service.log.entries, 7, EVIL), "entry 7 gives the hash "),
    "an entry and its tiles": (rewrite_entry_and_tiles, OTHER_ROOT),
    "the order": (reorder, OTHER_ROOT),
    "no last entry": (drop_entry, "tile/entries/002.p/88 has 2958 bytes, which are not the 88 "),
    "a tile of level 1": (
        lambda service: setitem(service.files, "/history/events/tile/1/000.p/2", bytes(64)),
        "tile/0/000 gives the hash ",
    ),
    "a signature": (break_signature, "the signature of barograph.example/history/events+"),
    "another key": (sign_with_another_key, "a served checkpoint of 600 entries is not signed by"),
    "two roots": (equivocate, "two signed checkpoints of 600 entries have different roots: "),
    "another digest": (lambda service: setitem(service.versions.listed, 1, EVIL), OTHER_VERSION),
    "back-dated": (back_date, f"{LIST}: number 2 has the time 2026-05-28T19:27:40+00:00, "),
    "no second version": (
        lambda service: service.versions.listed.pop(1),
        f"{LIST} lacks number 3, {AGAIN}entries has 3",
    ),
    "no newest version": (hide_newest(LIST), f"{LIST} lacks number 3, {AGAIN}entries has 3"),
    "no withdrawal": (
        hide_newest(f"{LIST}/events"),
        f"{LIST}/events lacks number 1, {AGAIN}entries has 1",
    ),
    "no newest event": (
        hide_newest("/api/v1/events"),
        f"/api/v1/events lacks number 600, {AGAIN}entries has 600",
    ),
    "another time": (
        lambda service: setitem(service.versions.times, 1, service.versions.times[1] + 1),
        OTHER_VERSION,
    ),
    "recorded twice": (
        lambda service: service.record(1, 2, 3, 2),
        f"{LIST} lacks number 4, {AGAIN}entries has 4",
    ),
    "never recorded": (
        lambda service: service.record(1, 3, 3),
        "event 6 says that version 3 of rates-desk is ",
    ),
    "another text": (
        show_text(9, event_text(9, START + 1)),
        "event 9 in /api/v1/events has the SHA-256 digest ",
    ),
    "a text in a removed event": (
        show_text(9, event_text(9, notice="n", removed="r", symbol="BTC")),
        "event 9 in /api/v1/events is marked as removed",
    ),
    "a removed stance": (
        show_text(5, STANCE_REMOVED),
        "event 5 in /api/v1/events is marked as removed",
    ),
    "another stated root": (
        state_another_root,
        "/api/history/checkpoint says size 600 and root eeee",
    ),
    "another merged head": (
        partial(merge, root=EVIL),
        f"{LIST}: its first 2 entries give the root ",
    ),
    "more members": (list_more_members, f"{LIST}/events has withdrawal 1 as number 1, with "),
    "other numbers": (
        lambda service: setattr(service.versions, "first", 2),
        f"{LIST} has version 2 as number 1, with the members ",
    ),
}


@pytest.mark.parametrize(("tamper", "said"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_a_contradiction(auditor: Auditor, tamper: Tamper, said: str) -> None:
    tamper(auditor.service)
    code, printed = auditor.run()

    assert code == 1
    assert printed.startswith(f"contradiction: {said}")


def test_both_checkpoints_of_an_equivocation_are_printed(auditor: Auditor) -> None:
    service = auditor.service
    honest = service.log.note
    equivocate(service)
    code, verdict = auditor.run("--json")
    assert (code, json.loads(verdict)["verdict"]) == (1, "contradiction")

    _, printed = auditor.run()
    assert honest in printed
    assert service.files["/history/events/checkpoint"].decode() in printed


def cut(service: StaticService, size: int) -> None:
    """Sign and serve only the first entries."""
    for shown in (service.log.entries, service.log.tiled, service.log.signed):
        del shown[size:]


@pytest.fixture
def kept(auditor: Auditor) -> str:
    """The file of an audit at 500 entries."""
    younger = StaticService()
    cut(younger, 500)
    file = str(auditor.folder / "kept.json")
    assert auditor.run("--save", file, service=younger)[0] == 0
    return file


def test_a_log_that_only_grew_agrees_with_any_kept_file(auditor: Auditor, kept: str) -> None:
    younger = StaticService()
    cut(younger, 500)
    text = auditor.file("kept.txt", younger.log.note)
    edited = auditor.file("edited.txt", younger.log.note.rstrip().replace("\n", "\r\n"))
    copied = auditor.file("copied.json", younger.checkpoint())

    for file in (kept, text, edited, copied):
        log = auditor.report("--kept", file)["log"]
        assert (log["kept_size"], log["key_from"]) == (500, "your kept file")


def test_saving_replaces_what_was_kept(auditor: Auditor, kept: str) -> None:
    auditor.report("--kept", kept, "--save", kept)
    saved = json.loads(Path(kept).read_text("utf-8"))

    assert saved == auditor.service.log.published()


def old_file(service: StaticService) -> str:
    """What a service with several logs served as its checkpoints."""
    old = StaticLog("rates-desk", service.versions.listed[:2])
    withdrawals = StaticLog("rates-desk/events", service.withdrawals.listed)
    checkpoints = [old.published(), withdrawals.published()]
    return json.dumps({"checkpoints": checkpoints, "event_log": service.log.published()})


def test_kept_checkpoints_of_earlier_logs_are_recomputed_from_the_lists(auditor: Auditor) -> None:
    service = auditor.service
    merge(service, root_of(service.versions.listed[:2]))
    kept = auditor.file("kept.json", old_file(service))
    log = auditor.report("--kept", kept)["log"]
    assert (log["kept_size"], log["kept_lists"]["rates-desk"]) == (600, 2)

    service.versions.listed[0] = EVIL
    kept = auditor.file("kept.json", old_file(service))
    service.versions.listed[0] = digests(1)[0]
    auditor.expect(1, "/api/history/rates-desk: its first 2 entries give the root ", "--kept", kept)


def shrink_below_an_invented_head(service: StaticService) -> None:
    cut(service, 400)
    service.files["/history/events/checkpoint"] = service.log.note.encode()
    service.log.signed = [EVIL] * 1000


def fork(service: StaticService) -> None:
    log = service.log
    log.entries[3] = log.tiled[3] = log.signed[3] = EVIL


def fork_at_kept_size(service: StaticService) -> None:
    fork(service)
    cut(service, 500)


SHORTER = "the log has 400 entries, but the checkpoint"
OTHER_KEY = "the service signs with barograph.example/history/events+"
FORKED: dict[str, tuple[Tamper, str]] = {
    "shorter": (partial(cut, size=400), f"{SHORTER} that you kept has 500"),
    "shorter than an invented head": (shrink_below_an_invented_head, SHORTER),
    "a fork": (fork, "the first 500 entries give the root "),
    "a fork at the kept size": (
        fork_at_kept_size,
        "two signed checkpoints of 500 entries have different",
    ),
    "another key": (lambda service: setattr(service.log, "key", private_key(9)), OTHER_KEY),
    "a key that named itself": (
        lambda service: service.rotate(private_key(9), signer=private_key(9)),
        OTHER_KEY,
    ),
}


@pytest.mark.parametrize(("tamper", "said"), FORKED.values(), ids=FORKED)
def test_a_service_that_does_not_continue_what_was_kept_is_found(
    auditor: Auditor, kept: str, tamper: Tamper, said: str
) -> None:
    tamper(auditor.service)
    auditor.expect(1, said, "--kept", kept)


def test_a_successor_that_the_kept_key_named_is_trusted(auditor: Auditor, kept: str) -> None:
    auditor.service.rotate(private_key(8))
    auditor.service.rotate(private_key(9))

    assert auditor.run("--kept", kept)[0] == 0
    text = auditor.file("kept.txt", StaticService().log.note)
    assert auditor.run("--kept", text)[0] == 0


@pytest.mark.parametrize(("folder", "code"), [("history-between", 0), ("history", 1)])
def test_a_last_checkpoint_binds_only_its_log(auditor: Auditor, folder: str, code: int) -> None:
    old = StaticLog("events", [EVIL] * 5, folder="barograph.example/history-old/")
    named = verifier(private_key(8), f"barograph.example/{folder}/events")
    public = b64encode(old.key.public_key().public_bytes_raw()).decode()
    last = old.sign(old.signed, f"successor {named}\n")
    auditor.service.previous_keys = [{"public_key": public, "checkpoints": [last]}]
    auditor.service.log.key = private_key(8)

    assert auditor.run()[0] == code


def test_a_cached_checkpoint_of_a_replaced_key_is_no_contradiction(auditor: Auditor) -> None:
    service = auditor.service
    service.files["/history/events/checkpoint"] = service.log.note.encode()
    service.rotate(private_key(9))
    auditor.expect(2, "run the audit again")


@pytest.mark.parametrize("option", ["--key", "--policy"])
def test_a_named_key_decides(auditor: Auditor, option: str) -> None:
    service = auditor.service
    pair = service.log.key, private_key(9)
    right, wrong = (verifier(each, service.log.origin) for each in pair)
    if option == "--policy":
        right = auditor.file("right", f"log {right}\nquorum none\n")
        wrong = auditor.file("wrong", f"log {wrong}\nquorum none\n")
    log = auditor.report(option, right)["log"]
    assert log["key_from"] == "you"
    public = service.log.key.public_key().public_bytes_raw()
    assert b64encode(b"\1" + public).decode() in log["key"]
    assert auditor.run(option, wrong)[0] == 1


@pytest.mark.parametrize(
    ("folder", "trust", "code", "said"),
    [
        ("other.example/history/", "--key", 1, "which is not the log and the key from you"),
        ("other.example/history/", "--policy", 1, "which is not the log and the key from you"),
        ("other.example/history/", "--kept", 1, "not the log and the key from your kept file"),
        ("other.example/history/", None, 2, "a log of other.example, but you audit barograph.exa"),
        ("barograph.example/history-b/", "--key", 1, "which is not the log and the key from you"),
        ("barograph.example/history-b/", None, 0, "; origin barograph.example/history-b/events; "),
    ],
)
def test_a_second_log_with_the_same_key_and_witnesses_is_another_log(
    auditor: Auditor, folder: str, trust: str | None, code: int, said: str
) -> None:
    honest, service = StaticService(), auditor.service
    service.texts[0] = event_text(1, START + 1)
    service.record(1, 2, 3)
    service.log.folder = folder
    service.log.witnesses = dict.fromkeys(WITNESSES, 1_790_000_000)
    key = verifier(honest.log.key, honest.log.origin)
    policy = auditor.file("policy", f"log {key}\n{POLICY}")
    kept = auditor.file("kept.txt", honest.log.note)
    trusted = {"--key": key, "--policy": policy, "--kept": kept}
    auditor.expect(code, said, *([trust, trusted[trust]] if trust else []))


def test_a_key_of_an_earlier_log_of_the_service_counts(auditor: Auditor) -> None:
    assert auditor.run("--key", verifier(auditor.service.log.key, f"{ORIGIN}rates-desk"))[0] == 0


@pytest.mark.parametrize("path", ["/api/history/rates-desk", "/api/v1/events"])
def test_a_repeated_member_is_not_read(auditor: Auditor, path: str) -> None:
    request = httpx2.Request("GET", f"{URL}{path}?after=0&limit=999")
    forged = auditor.service.transport.handle_request(request).text
    for name in ("sequence", "id"):
        forged = forged.replace(f'"{name}":', f'"{name}":9,"{name}":')
    auditor.service.replies[path] = [httpx2.Response(200, text=forged)]
    auditor.expect(2, "a member is repeated")


def test_a_kept_file_that_was_changed_is_no_contradiction(auditor: Auditor, kept: str) -> None:
    changed = Path(kept).read_text("utf-8").replace("\\n500\\n", "\\n501\\n")
    text = auditor.service.log.note.replace("\n600\n", "\n599\n")
    old = StaticLog("rates-desk", auditor.service.versions.listed[:2]).note
    old = old.replace("\n2\n", "\n1\n")

    texts = {"changed.json": changed, "changed.txt": text, "old.txt": old}
    for file in (auditor.file(*each) for each in texts.items()):
        code, printed = auditor.run("--kept", file)
        assert (code, printed.startswith("not finished: ")) == (2, True)


@pytest.mark.parametrize("cosigners", [3, 2])
def test_cosignatures_of_a_quorum_are_shown_with_times(auditor: Auditor, cosigners: int) -> None:
    policy = auditor.file("policy", POLICY)
    auditor.service.log.witnesses = dict.fromkeys([*WITNESSES][:cosigners], 1_790_000_000)
    shown = f"cosigned by {cosigners} of 3 (first.example/w2 2026-09-21T14:13:20Z, second.example"
    auditor.expect(0, shown, "--policy", policy)


def test_cosignatures_below_the_quorum_are_a_contradiction(auditor: Auditor) -> None:
    auditor.service.log.witnesses = {"first.example/w2": 1_790_000_000, "stranger.example/w5": 0}
    policy = auditor.file("policy", POLICY)
    said = "1 of 3 witnesses cosigned the checkpoint of 600 entries"
    auditor.expect(1, said, "--policy", policy)


def test_a_cosignature_that_does_not_match_is_a_contradiction(auditor: Auditor) -> None:
    service = auditor.service
    service.log.witnesses = dict.fromkeys(WITNESSES, 1_790_000_000)
    other = StaticService().log
    other.witnesses = dict.fromkeys(WITNESSES, 1_790_000_001)
    other.signed[0] = EVIL
    lines = service.log.note.splitlines(keepends=True)
    lines[5] = other.note.splitlines(keepends=True)[5]
    service.files["/history/events/checkpoint"] = "".join(lines).encode()
    policy = auditor.file("policy", POLICY)
    auditor.expect(1, "the signature of first.example/w2+", "--policy", policy)


def test_an_entry_dated_before_witnesses_saw_no_such_entry_is_back_dated(auditor: Auditor) -> None:
    policy = auditor.file("policy", POLICY)
    younger, latest = StaticService(), auditor.service.versions.times[2]
    cut(younger, 6)
    for delay, code in ((600, 0), (601, 1)):
        for log in (younger.log, auditor.service.log):
            log.witnesses = dict.fromkeys(WITNESSES, latest + delay)
        file = auditor.file("kept.json", younger.checkpoint())
        found, printed = auditor.run("--kept", file, "--policy", policy)
        assert found == code, printed
    assert "event 7 records a version of rates-desk with the time" in printed


def test_a_removed_text_is_counted_and_named(auditor: Auditor) -> None:
    auditor.service.texts[8] = event_text(9, notice="n", removed="a court order")
    log = auditor.report()["log"]

    assert (log["texts"], log["removed"]) == (599, [9])
    assert "texts: 599 match, 1 removed; removed: events 9; " in auditor.run()[1]


OF_ANOTHER_KIND = StaticList("us-desk", digests(64)).event(8, 64)
SOON, LATE = (event_text(8, START + 120 + seconds) for seconds in (3600, 3601))


@pytest.mark.parametrize(
    ("later", "code", "said"),
    [
        (SOON, 2, ", and the text of event 7 was removed, so it may be hidden there"),
        (LATE, 2, ", of 2026-05-28T20:28:40+00:00. Unless the collector is down"),
        (OF_ANOTHER_KIND, 1, ", of 2026-05-28T20:28:40+00:00, but events record later"),
    ],
)
def test_only_a_new_version_lacks_its_event(
    auditor: Auditor, later: bytes, code: int, said: str
) -> None:
    """The event of the third version is shown as another one, whose text was removed."""
    service = auditor.service
    service.texts[7] = later
    service.record(1, 2, 3)
    service.texts[6] = event_text(7, notice="n", removed="r")

    auditor.expect(code, f"no event records version 3 of rates-desk{said}")


@pytest.mark.parametrize("is_empty", [True, False])
def test_versions_without_any_event_are_not_called_fine(auditor: Auditor, is_empty: bool) -> None:
    service = auditor.service
    service.texts = [event_text(n, START + 7200, notice="n", removed="r") for n in range(1, 601)]
    if is_empty:
        service.log, service.texts = StaticLog("events", []), []

    assert auditor.run()[0] == 2


def test_what_was_not_compared_is_said(auditor: Auditor) -> None:
    kept = auditor.file("kept.txt", StaticLog("rates-desk", auditor.service.versions.listed).note)
    policy = auditor.file("policy", "quorum none\n")
    code, printed = auditor.run("--kept", kept, "--policy", policy)

    assert code == 0
    size = len(auditor.service.versions.listed)
    assert "; not in your kept file; earlier logs that you kept, unchanged " in printed
    assert f"up to their sizes: rates-desk {size}; " in printed
    assert "Cosignatures were not checked" in printed


LOGIN_PAGE = httpx2.Response(200, html="<p>Please log in.</p>")


@pytest.mark.parametrize(
    "path",
    [
        *("/api/history/checkpoint", "/api/history/rates-desk", "/api/v1/events"),
        *("/history/events/checkpoint", "/history/events/tile/entries/001"),
        "/history/events/tile/0/001",
    ],
)
@pytest.mark.parametrize("reply", [httpx2.Response(404), httpx2.Response(500), LOGIN_PAGE])
def test_what_is_not_served_is_neither_tampering_nor_fine(
    auditor: Auditor, path: str, reply: httpx2.Response
) -> None:
    auditor.service.replies[path] = [reply]
    code, printed = auditor.run()

    assert code == 2
    assert printed.startswith("not finished: ")


@pytest.mark.parametrize("path", ["/api/history/rates-desk", "/api/v1/events"])
def test_a_list_that_lacks_a_signed_entry_is_read_again(auditor: Auditor, path: str) -> None:
    service = auditor.service
    service.late[path] = 15  # as long as a cache may keep a page

    assert auditor.run()[0] == 0
    assert service.waited >= 15
    assert len(service.asked) == len(set(service.asked))  # no cache has an answer to these


def test_the_audit_waits_when_the_service_asks_for_it(auditor: Auditor) -> None:
    for status in (429, 503):
        later = httpx2.Response(status, headers={"Retry-After": "0"})
        auditor.service.replies["/history/events/tile/0/001"] = [later]
        assert auditor.run()[0] == 0


def test_a_partial_tile_that_became_full_is_read_from_the_full_one(auditor: Auditor) -> None:
    service = auditor.service
    longer = [*service.log.entries, *digests(200)]
    full = {**tiles(longer), **bundles(longer)}
    for kind in ("0", "entries"):
        path = f"/history/events/tile/{kind}/002"
        service.files[path] = full[f"tile/{kind}/002"]
        service.replies[f"{path}.p/88"] = [httpx2.Response(404)]

    assert auditor.run()[0] == 0


def test_a_policy_that_can_not_be_read_stops_the_audit(auditor: Auditor) -> None:
    policy = auditor.file("policy", "quorum nobody\n")
    auditor.expect(2, "line 1 of the policy: no earlier line", "--policy", policy)
