"""`/record` and its lists: what they show, what they never show, and when they cannot."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from barograph.history.checkpoint import open_checkpoint
from barograph.history.digest import leg_document
from barograph.history.records import KINDS, ChainEnd, Version, VersionEvent
from barograph.macro.records import NYFED_NOTICE, NYFED_TERMS
from barograph.site.record_pages import PAGE_SIZE
from barograph_client.audit.notes import LOG_KEY, parse_key
from support.history import RATES, PublicHistory
from support.pages import BROWSER
from support.service import BASE_URL, Answer

SIZE = 223
"""More than two pages."""

ETF = "btc-etf-stance"
RECORD = "/record"
LIST = f"/record/{RATES}"
EVENTS = f"{LIST}/events"
EVERY_PAGE = pytest.mark.parametrize("path", [RECORD, LIST, EVENTS])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    """A record that the tests here only read."""
    history = PublicHistory(tmp_path_factory.mktemp("history"))
    for size in (7, SIZE):
        history.withdraw(history.record(size)[-1])
    yield history
    history.close()


def text_of(answer: Answer, name: str) -> str:
    """The text of the element with this id."""
    found = re.search(rf'<(\w+)[^>]*\bid="{name}"[^>]*>(.*?)</\1>', answer.body.decode(), re.DOTALL)
    assert found is not None, name
    return unescape(found[2])


def places(answer: Answer) -> list[int]:
    """The numbers of the listed entries, from top to bottom."""
    found = re.findall(r'<th scope="row" class="number">([\d,]+)</th>', answer.body.decode())
    return [int(each.replace(",", "")) for each in found]


def links(answer: Answer) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', answer.body.decode())]


def digests(history: PublicHistory, path: str, member: str) -> list[str]:
    entries = history.ask(f"/api/history/{path}?limit=1000").json()["entries"]
    return [entry[member] for entry in entries]


def test_the_page_tells_of_every_kind_how_much_is_recorded_and_what_is_newest(
    recorded: PublicHistory,
) -> None:
    answer = recorded.ask(RECORD)
    page = answer.body.decode()
    newest, withdrawal = recorded.version(SIZE), recorded.events()[-1]

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "We record each version of three kinds of stance once and never change it." in page
    for retained in (
        "ETH and SOL) after 30",
        "contract after 730",
        "liquidations after 90",
    ):
        assert f"{retained}&nbsp;days" in page
    for kind in KINDS:
        assert f'href="/record/{kind}"' in page
    assert f'<a href="{LIST}">{SIZE} versions</a>' in page
    assert f'<a href="/record/{ETF}">0 versions</a>' in page
    assert f'<a href="{EVENTS}">2 events</a>' in page
    assert f"Newest: number {SIZE}, issued" in page
    assert newest.history_digest in page
    assert withdrawal.event_digest in page
    assert page.count(">0 events</a>") == 2
    assert "<details open" not in page


def test_the_new_york_feds_notice_is_where_its_rates_are_recorded(recorded: PublicHistory) -> None:
    for path in (RECORD, f"/record/{RATES}"):
        page = recorded.ask(path).body.decode()
        assert NYFED_NOTICE in page
        assert f'href="{NYFED_TERMS}"' in page
    assert NYFED_NOTICE not in recorded.ask(f"/record/{ETF}").body.decode()


def test_the_page_shows_the_checkpoint_as_it_is_to_be_kept_and_the_one_command(
    recorded: PublicHistory,
) -> None:
    page, published = recorded.ask(RECORD), recorded.ask("/api/history/checkpoint").json()
    kept = text_of(page, "checkpoint")

    assert kept == published["checkpoint"]
    verifier = parse_key(text_of(page, "verifier-key"), LOG_KEY)
    assert open_checkpoint(kept, verifier).size == published["size"]
    command = text_of(page, "audit-call")
    assert command.startswith("pip install 'barograph-client[audit] @ ")
    assert command.endswith("barograph-audit https://barograph.example --save kept.json")
    assert "record.js" not in page.body.decode()


def test_an_instance_under_a_path_links_and_names_its_logs_under_it(tmp_path: Path) -> None:
    history = PublicHistory(tmp_path, base_url="https://market.example/barograph")
    history.record(PAGE_SIZE + 1)
    pages = [history.ask(path) for path in (RECORD, LIST, EVENTS)]
    history.close()

    for page in pages:
        local = [link for link in links(page) if link.startswith("/")]
        assert local
        assert all(link.startswith("/barograph/") for link in local)
    assert text_of(pages[0], "checkpoint").startswith("market.example/barograph/history/events\n")


def test_a_list_goes_from_its_newest_entry_to_its_first(recorded: PublicHistory) -> None:
    page, seen = recorded.ask(LIST), [LIST]
    found = places(page)
    while older := [link for link in links(page) if link.startswith(f"{LIST}?before=")]:
        older = [link for link in older if link not in seen]
        if not older:
            break
        seen.append(older[0])
        page = recorded.ask(older[0])
        assert page.status == 200
        assert len(places(page)) <= PAGE_SIZE
        found += places(page)

    assert found == list(range(SIZE, 0, -1))
    assert len(seen) == 3
    listed = digests(recorded, RATES, "history_digest")
    shown = re.findall(r'<td class="digest">(\w+)</td>', page.body.decode())
    assert shown == listed[: len(shown)][::-1]


def test_newer_leads_back_to_the_newest_entries(recorded: PublicHistory) -> None:
    def newer(path: str) -> str:
        page = recorded.ask(path).body.decode()
        found = re.search(r'<a rel="prev" href="([^"]*)">Newer</a>', page)
        assert found is not None
        return found[1]

    assert newer(f"{LIST}?before=24") == f"{LIST}?before=124"
    assert newer(f"{LIST}?before=124") == LIST
    assert b'rel="prev"' not in recorded.ask(LIST).body
    assert b'rel="next"' not in recorded.ask(f"{LIST}?before=24").body


@pytest.mark.parametrize(
    ("query", "own"),
    [
        ("", ""),
        (f"?before={SIZE + 1}", ""),
        ("?before=24", "?before=24"),
        ("?before=9&x=1", "?before=9"),
    ],
)
def test_a_part_of_a_list_names_its_one_address(
    recorded: PublicHistory, query: str, own: str
) -> None:
    page = recorded.ask(LIST + query).body.decode()

    assert f'<link rel="canonical" href="{BASE_URL}{LIST}{own}">' in page


def test_the_address_of_older_entries_always_shows_the_same_ones(history: PublicHistory) -> None:
    history.record(30)
    before = places(history.ask(f"{LIST}?before=21"))
    history.record(60)

    assert before == list(range(20, 0, -1))
    assert places(history.ask(f"{LIST}?before=21")) == before


def test_each_page_of_a_list_names_the_api_call_for_the_same_entries(
    recorded: PublicHistory,
) -> None:
    for path in (LIST, f"{LIST}?before=24", EVENTS):
        page = recorded.ask(path)
        (call,) = {link for link in links(page) if link.startswith("/api/history/")}
        entries = recorded.ask(call).json()["entries"]
        assert [entry["sequence"] for entry in entries] == places(page)[::-1]


def test_events_have_a_list_of_their_own(recorded: PublicHistory) -> None:
    page = recorded.ask(EVENTS)

    assert places(page) == [2, 1]
    for digest in digests(recorded, f"{RATES}/events", "event_digest"):
        assert digest in page.body.decode()
    empty = recorded.ask(f"/record/{ETF}/events")
    assert (empty.status, places(empty)) == (200, [])
    assert b"No event is recorded yet." in empty.body


@pytest.mark.parametrize(
    "query",
    [
        *("before=0", "before=1", f"before={SIZE + 2}", "before=", "before=-5", "before=x"),
        *("before=007", "before=1.5", "before=%2B9", "before=9&before=9", "before=" + "9" * 5000),
        *("before=%D9%A3", "before=2%0A", "before=%3Cscript%3E"),
    ],
)
def test_a_page_that_the_list_does_not_have_is_not_found(
    recorded: PublicHistory, query: str
) -> None:
    answer = recorded.ask(f"{LIST}?{query}", accept="text/html")

    assert answer.status == 404
    assert b"<h1>Not found</h1>" in answer.body
    assert answer.headers["cache-control"] == "no-store"


def test_the_ends_of_a_list_are_pages_and_unknown_parameters_change_nothing(
    recorded: PublicHistory,
) -> None:
    assert places(recorded.ask(f"{LIST}?before=2")) == [1]
    whole = recorded.ask(LIST).body
    assert recorded.ask(f"{LIST}?before={SIZE + 1}").body == whole
    assert recorded.ask(f"{LIST}?page=2&q=%3Cscript%3E").body == whole


@pytest.mark.parametrize("kind", ["nope", "RATES-DESK", "rates-desk%20", "checkpoint", "%00"])
@pytest.mark.parametrize("rest", ["", "/events"])
def test_an_unknown_kind_has_no_page(recorded: PublicHistory, kind: str, rest: str) -> None:
    answer = recorded.ask(f"/record/{kind}{rest}", accept="text/html")

    assert answer.status == 404
    assert b"<h1>Not found</h1>" in answer.body


def test_nothing_that_is_paid_for_is_on_any_page(recorded: PublicHistory) -> None:
    paths = (RECORD, LIST, f"{LIST}?before={PAGE_SIZE}", f"{LIST}?before=200", EVENTS)
    shown = b"".join(recorded.ask(path).body for path in paths).decode()
    versions = [recorded.version(sequence) for sequence in range(1, SIZE + 1)]

    assert all(version.history_digest in shown for version in versions)
    for version in versions:
        for paid in _paid(version):
            assert paid not in shown
    for event in recorded.events():
        for kept in _kept_back(event):
            assert kept not in shown


def _paid(version: Version) -> list[str]:
    leg = leg_document(version.leg)
    decision = version.leg.decision
    inner = [str(each) for each in (*version.leg.levels, *version.leg.conditions)]
    return [
        *(version.salt, version.leg_id, version.leg.evidence.digest, str(leg["method"])),
        *(decision.label, decision.rationale, *inner),
    ]


def _kept_back(event: VersionEvent) -> list[str]:
    return [event.salt, event.evidence_digest, event.why]


def test_home_says_how_much_is_signed_or_that_it_cannot_be_confirmed(
    history: PublicHistory,
) -> None:
    history.withdraw(history.record(3)[-1])
    signed = b"4 entries, last signed checkpoint confirmed at "
    assert signed in history.ask("/").body

    history.service.lose_history()
    history.service.clock.pass_seconds(60)
    history.ask(RECORD)

    assert (
        b"We can't confirm the record: the history cannot be read or signed since"
        in history.ask("/").body
    )


@EVERY_PAGE
def test_a_page_may_be_cached_and_is_not_sent_twice(recorded: PublicHistory, path: str) -> None:
    answer = recorded.ask(path)
    again = recorded.ask(path, if_none_match=answer.headers["etag"])

    assert answer.headers["cache-control"].startswith("public, max-age=")
    assert (again.status, again.body) == (304, b"")


@EVERY_PAGE
def test_what_was_recorded_is_shown_although_nothing_else_changed(
    history: PublicHistory, path: str
) -> None:
    before = history.ask(path)
    history.withdraw(history.record(3)[-1])
    history.service.clock.pass_seconds(60)
    after = history.ask(path)

    assert (before.status, after.status) == (200, 200)
    assert before.body != after.body
    if path == RECORD:
        assert text_of(after, "checkpoint").splitlines()[1] == "4"


def test_only_the_newest_part_of_a_list_is_kept(recorded: PublicHistory) -> None:
    known = set(recorded.service.board.hot) - {(RECORD, b""), (LIST, b"")}
    for number in range(2, 7):
        assert recorded.ask(f"{LIST}?before={number}").status == 200
        assert recorded.ask(f"{LIST}?x={number}").status == 200
        assert recorded.ask(f"{RECORD}?x={number}").status == 200

    assert set(recorded.service.board.hot) - known == {(RECORD, b""), (LIST, b"")}


@EVERY_PAGE
def test_a_record_that_cannot_be_read_is_503_and_comes_back(
    history: PublicHistory, path: str
) -> None:
    history.record(3)
    history.execute(
        "ALTER TABLE stance_versions RENAME TO v; ALTER TABLE stance_events RENAME TO e"
    )
    answer, told = history.ask(path, accept=BROWSER), history.ask(path)
    history.execute(
        "ALTER TABLE v RENAME TO stance_versions; ALTER TABLE e RENAME TO stance_events"
    )

    assert (answer.status, told.status) == (503, 503)
    head = b"The record" if path == RECORD else b"Temporarily unavailable"
    assert b"<h1>%s</h1>" % head in answer.body
    assert b'href="/status"' in answer.body
    assert list(told.json()) == ["error"]
    assert (answer.headers["cache-control"], answer.headers["retry-after"]) == ("no-store", "5")
    assert history.ask(path).status == 200


def test_a_record_that_was_cut_is_called_lost(
    history: PublicHistory, caplog: pytest.LogCaptureFixture
) -> None:
    history.record(3)
    assert history.ask(RECORD).status == 200
    history.tamper("DELETE FROM stance_versions WHERE sequence > 2")
    history.service.clock.pass_seconds(60)
    answer = history.ask(RECORD, accept=BROWSER)

    assert answer.status == 503
    assert b"<h1>Record unavailable</h1>" in answer.body
    assert answer.headers["cache-control"] == "no-store"
    assert b"checkpoint-" not in answer.body
    assert "checkpoints are not signed" in caplog.text


@pytest.mark.outcome(
    "The history contains an invalid digest",
    "The service signs nothing. Record pages and checkpoints return 503.",
)
@pytest.mark.parametrize("damage", [f"'{'z':>64}'", f"'{'':>64}'", "upper(history_digest)"])
def test_history_with_an_invalid_digest_is_unavailable(
    history: PublicHistory, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.record(3)
    history.tamper(f"UPDATE stance_versions SET history_digest = {damage}")
    answer, told = history.ask(RECORD, accept=BROWSER), history.ask(RECORD)

    assert (answer.status, told.status) == (503, 503)
    assert b"<h1>Record unavailable</h1>" in answer.body
    assert list(told.json()) == ["error"]
    assert "checkpoints are not signed" in caplog.text
    assert history.ask("/api/history/checkpoint").status == 503


@pytest.mark.outcome(
    "The service starts with a different history from the one it published",
    "The service signs nothing. Record pages and checkpoints return 503.",
)
@EVERY_PAGE
def test_history_other_than_the_published_one_is_unavailable(
    history: PublicHistory, path: str
) -> None:
    history.record(3)
    history.publish_end(ChainEnd(sequence=3, history_digest="0" * 64))
    answer = history.ask(path, accept=BROWSER)

    assert answer.status == 503
    assert b"<h1>Record unavailable</h1>" in answer.body

    history.publish_end(ChainEnd(sequence=3, history_digest=history.version(3).history_digest))
    assert history.ask(path).status == 200


def test_while_the_record_is_away_its_page_says_what_it_is_and_how_to_check_it_offline(
    history: PublicHistory,
) -> None:
    shown = history.ask(RECORD, accept=BROWSER)
    history.service.clock.pass_seconds(60)
    history.execute("ALTER TABLE stance_versions RENAME TO v")
    away = history.ask(RECORD, accept=BROWSER)
    history.execute("ALTER TABLE v RENAME TO stance_versions")
    text = away.body.decode()

    assert away.status == 503
    assert "The record is temporarily unavailable" in text
    assert "Append-only." in text
    assert text_of(away, "audit-call") == text_of(shown, "audit-call")
    assert 'id="checkpoint"' not in text
