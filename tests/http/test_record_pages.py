"""`/record` and its lists: what they show, what they never show, and when they cannot."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from barograph.history.checkpoint import open_checkpoint
from barograph.history.digest import leg_document
from barograph.history.records import KINDS, ChainEnd, Version
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
CHECKPOINT = "/api/history/checkpoint"
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


def test_the_page_tells_of_every_kind_how_much_is_recorded_and_what_is_newest(
    recorded: PublicHistory,
) -> None:
    answer = recorded.ask(RECORD)
    page = answer.body.decode()

    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for words in (
        "We record each version of three kinds of stance once and never change it.",
        *(f'href="/record/{kind}"' for kind in KINDS),
        f'<a href="{LIST}">{SIZE} versions</a>',
        f'<a href="/record/{ETF}">0 versions</a>',
        f'<a href="{EVENTS}">2 events</a>',
        f"Newest: number {SIZE}, issued",
        recorded.version(SIZE).history_digest,
        recorded.events()[-1].event_digest,
    ):
        assert words in page
    assert page.count(">0 events</a>") == 2
    assert "<details open" not in page
    details = recorded.ask("/record/details").body.decode()
    for words in ("ETH and SOL) after 30&nbsp;days", "contract after 730&nbsp;days"):
        assert words in details
    assert "liquidations after 90&nbsp;days" in details


def test_the_new_york_feds_notice_is_where_its_rates_are_recorded(recorded: PublicHistory) -> None:
    for path in (RECORD, f"/record/{RATES}"):
        page = recorded.ask(path).body.decode()
        assert NYFED_NOTICE in page
        assert f'href="{NYFED_TERMS}"' in page
    assert NYFED_NOTICE not in recorded.ask(f"/record/{ETF}").body.decode()


def test_the_page_shows_the_checkpoint_as_it_is_to_be_kept_and_the_one_command(
    recorded: PublicHistory,
) -> None:
    page, published = recorded.ask(RECORD), recorded.ask(CHECKPOINT).json()
    kept = text_of(page, "checkpoint")

    assert kept == published["checkpoint"]
    verifier = parse_key(text_of(page, "verifier-key"), LOG_KEY)
    assert open_checkpoint(kept, verifier).size == published["size"]
    command = text_of(page, "audit-call")
    assert command.startswith("pip install 'barograph-client[audit] @ ")
    assert command.endswith("barograph-audit https://barograph.example --save kept.json")
    assert "record.js" not in page.body.decode()


def walked(history: PublicHistory, path: str, relation: str) -> list[tuple[str, list[int]]]:
    """The addresses and entries that the links of this relation lead through."""
    pages = [(path, history.ask(path))]
    while link := re.search(rf'<a rel="{relation}" href="([^"]*)">', pages[-1][1].body.decode()):
        pages.append((link[1], history.ask(link[1])))
    return [(address, places(page)) for address, page in pages]


def test_older_and_newer_lead_through_a_list_and_back(recorded: PublicHistory) -> None:
    older = walked(recorded, LIST, "next")

    assert [address for address, _ in older] == [LIST, f"{LIST}?before=124", f"{LIST}?before=24"]
    assert [place for _, page in older for place in page] == [*range(SIZE, 0, -1)]
    assert walked(recorded, f"{LIST}?before=24", "prev") == older[::-1]
    assert places(recorded.ask(f"{LIST}?before=2")) == [1]
    assert recorded.ask(f"{LIST}?before={SIZE + 1}").body == recorded.ask(LIST).body


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
        assert [entry["sequence"] for entry in entries] == places(page)[::-1] != []
        member = "event_digest" if path == EVENTS else "history_digest"
        shown = re.findall(r'<td class="digest">(\w+)</td>', page.body.decode())
        assert shown == [entry[member] for entry in entries][::-1]
    empty = recorded.ask(f"/record/{ETF}/events")
    assert (empty.status, places(empty)) == (200, [])
    assert b"No event is recorded yet." in empty.body


@pytest.mark.parametrize(
    "target",
    [
        *(f"{LIST}?before={number}" for number in ("0", "1", SIZE + 2, "", "-5", "x", "007")),
        *(f"{LIST}?before={number}" for number in ("1.5", "%2B9", "9&before=9", "9" * 5000)),
        *(f"{LIST}?before={number}" for number in ("%D9%A3", "2%0A", "%3Cscript%3E")),
        *(f"/record/{kind}" for kind in ("nope", "RATES-DESK", "rates-desk%20", "checkpoint")),
        *("/record/%00", "/record/nope/events", "/record/%00/events"),
    ],
)
def test_a_page_that_the_record_does_not_have_is_not_found(
    recorded: PublicHistory, target: str
) -> None:
    answer = recorded.ask(target, accept="text/html")

    assert (answer.status, answer.headers["cache-control"]) == (404, "no-store")
    assert b"<h1>Not found</h1>" in answer.body


def test_nothing_that_is_paid_for_is_on_any_page(recorded: PublicHistory) -> None:
    paths = (RECORD, LIST, f"{LIST}?before={PAGE_SIZE}", f"{LIST}?before=200", EVENTS)
    shown = b"".join(recorded.ask(path).body for path in paths).decode()
    versions = [recorded.version(sequence) for sequence in range(1, SIZE + 1)]
    withdrawals = [(each.salt, each.evidence_digest, each.why) for each in recorded.events()]

    assert all(version.history_digest in shown for version in versions)
    for secrets in (*map(_paid, versions), *withdrawals):
        assert not any(secret in shown for secret in secrets)


def _paid(version: Version) -> list[str]:
    leg = leg_document(version.leg)
    decision = version.leg.decision
    inner = [str(each) for each in (*version.leg.levels, *version.leg.conditions)]
    return [
        *(version.salt, version.leg_id, version.leg.evidence.digest, str(leg["method"])),
        *(decision.label, decision.rationale, *inner),
    ]


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
    recorded.ask(LIST)
    known = set(recorded.service.board.hot)
    for number in range(2, 7):
        assert recorded.ask(f"{LIST}?before={number}").status == 200

    assert set(recorded.service.board.hot) == known
    assert (LIST, b"") in known


@EVERY_PAGE
def test_a_record_that_cannot_be_read_is_503_and_comes_back(
    history: PublicHistory, path: str
) -> None:
    shown = history.ask(RECORD)
    history.record(3)
    history.execute(
        "ALTER TABLE stance_versions RENAME TO v; ALTER TABLE stance_events RENAME TO e"
    )
    history.service.clock.pass_seconds(60)
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
    if path == RECORD:  # it still says what the record is and how to check a kept copy
        assert b"The record is temporarily unavailable" in answer.body
        assert text_of(answer, "audit-call") == text_of(shown, "audit-call")
        assert b'id="checkpoint"' not in answer.body
    assert history.ask(path).status == 200


@pytest.mark.outcome(
    "The history contains an invalid digest",
    "The service signs nothing. Record pages and checkpoints return 503.",
)
@pytest.mark.parametrize(
    "damage",
    [
        *(f"UPDATE stance_versions SET history_digest = '{text:>64}'" for text in ("z", "")),
        "UPDATE stance_versions SET history_digest = upper(history_digest)",
        f"UPDATE stance_versions SET history_digest = '{'e' * 64}' WHERE sequence = 2",
        "UPDATE stance_versions SET document = replace(document, 'secret', 'x') WHERE sequence = 2",
        "DELETE FROM stance_versions WHERE sequence = 2",
        pytest.param(
            "DELETE FROM stance_versions WHERE sequence > 2",
            marks=pytest.mark.outcome(
                "The history is replaced by an older copy while the service runs",
                "The service signs nothing. Record pages and checkpoints return 503.",
            ),
        ),
    ],
)
def test_damaged_history_is_unavailable(
    history: PublicHistory, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.record(3)
    if "sequence > 2" in damage:
        assert history.ask(RECORD).status == 200
        history.service.clock.pass_seconds(60)
    history.tamper(damage)
    answer, told = history.ask(RECORD, accept=BROWSER), history.ask(RECORD)

    assert (answer.status, told.status) == (503, 503)
    assert b"<h1>Record unavailable</h1>" in answer.body
    assert answer.headers["cache-control"] == "no-store"
    assert b"checkpoint-" not in answer.body
    assert list(told.json()) == ["error"]
    assert "checkpoints are not signed" in caplog.text
    assert history.ask(CHECKPOINT).status == 503


@pytest.mark.outcome(
    "The service starts with a different history from the one it published",
    "The service signs nothing. Record pages and checkpoints return 503.",
)
@EVERY_PAGE
def test_history_other_than_the_published_one_is_unavailable(
    history: PublicHistory, path: str
) -> None:
    (*_, newest) = history.record(3)
    history.publish_end(ChainEnd(sequence=3, history_digest="0" * 64))
    answer = history.ask(path, accept=BROWSER)

    assert answer.status == 503
    assert b"<h1>Record unavailable</h1>" in answer.body
    assert history.ask(CHECKPOINT).status == 503

    history.publish_end(ChainEnd(sequence=3, history_digest=newest.history_digest))
    assert (history.ask(path).status, history.ask(CHECKPOINT).status) == (200, 200)
