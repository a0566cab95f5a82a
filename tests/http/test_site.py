"""The pages: what they show, what they link to, and what they let happen."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from barograph.board.snapshots import Publication, publish
from barograph.briefs.reader import BriefsReader
from barograph.briefs.records import Brief
from barograph.guides.files import load_catalog
from barograph.kit.database import Transaction
from barograph.markets.feeds import PERPETUALS
from barograph.notice import NOTICE
from barograph.signals.catalog import MACRO_METHODS, MARKET_METHODS, METHODS, Method
from barograph.signals.feeds import SIGNALS
from barograph.signals.reader import SignalsReader
from barograph.signals.records import Signal, Signals
from barograph.site.endpoints import PAGE_PATHS, page_routes
from barograph.site.pages import Pages, usd
from support.clock import START
from support.markets import reading, shares
from support.service import BASE_URL, PEER, Service, ask

MAIL = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "barograph@example.com"}
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
FORM = {"content-type": "application/x-www-form-urlencoded"}
VOID = {"meta", "link", "img", "input", "br", "hr"}
NOTE = Brief(
    slug="2026-11-06-note",
    published_at=START - 60_000,
    category="note",
    headline="Fees & <b>spreads</b>",
    coins=("BTC", "ETH"),
    summary="A summary with <i>marks</i>.",
    body="# First\n\nText with <script>alert(1)</script> and [a link](https://example.com/).",
    source="test venue",
    rule="operator",
    window_start=START - 3_600_000,
    window_end=START,
    inputs="{}",
    inputs_digest="ab" * 32,
    cooldown_key="operator:note",
)
FOUND = NOTE._replace(slug="2026-11-06-funding", rule="funding-extreme", headline="Funding is high")


class Site:
    """The pages of a service, with a clock held by hand."""

    def __init__(self, folder: Path, *, mails: bool = True, **settings: Any) -> None:
        given: dict[str, Any] = {**(MAIL if mails else {}), **settings}
        self.service = Service(folder, **given)
        self.clock = self.service.clock
        self.keys = self.service.keys
        self.service.refresh()

    def ask(
        self, path: str, method: str = "GET", body: bytes | str = b"", **headers: str
    ) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.service.app, client=(PEER, 4_000))
            async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
                return await client.request(method, path, content=body, headers=names)

        return asyncio.run(call())

    def register(self, email: str) -> httpx.Response:
        return self.ask("/keys", "POST", str(httpx.QueryParams({"email": email})), **FORM)

    def mailed_path(self) -> str:
        mails = self.service.rows("SELECT body FROM outbox ORDER BY created_at DESC")
        return str(re.findall(rf"{BASE_URL}(/keys/[\w-]+)", mails[0][0])[0])

    def judged(self) -> None:
        signals = [
            Signal(method.key, method.name, "calm & quiet", f"value of {method.key}", START)
            for method in METHODS
        ]
        record = Signals(START, "test venue", tuple(signals))

        async def work(tx: Transaction) -> None:
            market = Publication.of(PERPETUALS, reading())
            await publish(tx, [Publication.of(SIGNALS, record), market])

        asyncio.run(self.service.database.write(work))
        self.service.refresh()

    def rename(self, old: str, new: str) -> None:
        self.service.execute(f"ALTER TABLE {old} RENAME TO {new}")

    def close(self) -> None:
        self.service.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Every page, with signals and two briefs."""
    found = Site(tmp_path)
    found.judged()
    found.service.keep_briefs(NOTE, FOUND)
    yield found
    found.close()


class Checked(HTMLParser):
    """A page, read strictly: what is opened is closed, in order, and nothing acts."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.labels: list[str | None] = []
        self.inputs: list[str | None] = []
        self.headings: list[int] = []
        self.words: list[str] = []
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert response.text.startswith('<!doctype html>\n<html lang="en">\n')
        self.feed(response.text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.inputs) <= set(self.labels)
        assert self.headings[0] == 1
        assert self.headings.count(1) == 1
        steps = zip(self.headings, self.headings[1:], strict=False)
        assert all(later <= earlier + 1 for earlier, later in steps)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        assert len(given) == len(attributes)
        assert tag not in {"script", "style", "iframe", "object", "base"}
        assert not any(name.startswith("on") or name == "style" for name in given)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            assert given["alt"]
        if tag == "th":
            assert given["scope"] in {"row", "col"}
        if tag == "label":
            self.labels.append(given["for"])
        if tag == "input":
            self.inputs.append(given["id"])
        if given.get("id"):
            self.ids.append(str(given["id"]))
        self.targets += [str(given[name]) for name in ("href", "src", "action") if name in given]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


PATHS = [
    *PAGE_PATHS,
    *(f"/guides/{guide.slug}" for guide in load_catalog(None).guides),
    *(f"/signals/{method.key}" for method in METHODS),
    *(f"/briefs/{brief.slug}" for brief in (NOTE, FOUND)),
]


def test_every_page_is_valid_guarded_and_ends_with_the_notice(site: Site) -> None:
    for path in PATHS:
        response = site.ask(path)

        assert response.status_code == 200
        assert Checked(response).text.endswith(NOTICE)
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"].startswith("public, max-age=5")


def test_every_link_of_every_page_leads_somewhere(site: Site) -> None:
    site.service.publish(reading(), shares())
    pages = {path: Checked(site.ask(path)) for path in PATHS}
    targets = {
        (there or path, fragment)
        for path, page in pages.items()
        for there, _, fragment in (target.partition("#") for target in page.targets)
        # Other sites are not asked, and keys are made by POST only.
        if not there.startswith(("http", "/api/v1/keys"))
    }

    assert {path for path, _ in targets} >= set(PATHS)
    for path, fragment in targets:
        assert path in pages or site.ask(path).status_code in {200, 303}, path
        assert not fragment or fragment in pages[path].ids


def test_the_first_page_leads_to_every_page_and_endpoint(site: Site) -> None:
    targets = Checked(site.ask("/")).targets

    assert {"/signals", "/briefs", "/guides", "/developers"} <= set(targets)
    assert {
        *("/api/agent", "/api/agent/market-state", "/api/agent/market", "/api/status"),
        *("/api/agent/derivatives?symbol=ETH", "/openapi.json", "/api/agent/guides"),
        *("/api/agent/briefs", "/api/v1/signals"),
    } <= set(targets)


def test_the_stylesheet_knows_the_dark_and_is_named_by_its_content(site: Site) -> None:
    (link,) = [each for each in Checked(site.ask("/")).targets if "site.css" in each]

    answer = site.ask(link)

    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert "prefers-color-scheme: dark" in answer.text
    assert "url(" not in answer.text
    assert "@import" not in answer.text


@pytest.mark.contract("guides.paid")
def test_every_guide_is_listed_with_its_price_and_the_sample_is_labelled(site: Site) -> None:
    text = Checked(site.ask("/guides")).text

    assert "27 paid trading guides" in text
    assert "sample, not for sale" in text
    for guide in load_catalog(None).guides:
        assert guide.title in text
        page = Checked(site.ask(f"/guides/{guide.slug}")).text
        assert f"Price {usd(guide.price)}" in page
        assert "sample, not for sale" in page
        assert "cannot be bought here" in page


def test_an_operators_guide_links_to_the_shop(tmp_path: Path) -> None:
    guide: dict[str, Any] = {"description": "About & so on.", "tags": ["a"], "pages": 1}
    guide |= {"title": "One <1>", "price": 9.5, "url": "https://shop.example/?a=1&b"}
    guides = [{"slug": slug, **guide} for slug in ("one", *(f"other-{n}" for n in range(26)))]
    file = tmp_path / "guides.json"
    file.write_text(json.dumps({"source": 'A "publisher"', "guides": guides}))
    site = Site(tmp_path, guides_file=file)

    page = site.ask("/guides/one")
    site.close()

    assert "https://shop.example/?a=1&b" in Checked(page).targets
    assert "One <1>" in Checked(page).text
    assert "1 page " in Checked(page).text
    assert "cannot be bought" not in page.text


def test_signals_are_shown_with_their_method_and_badge(site: Site) -> None:
    answer = site.ask("/signals")
    assert re.findall(r'<th scope="col">(.+?)</th>', answer.text) == ["Signal", "Says", "Measured"]
    listed = Checked(answer)
    for method in METHODS:
        assert f"{method.name} calm & quiet value of {method.key}" in listed.text
        page = Checked(site.ask(f"/signals/{method.key}"))
        assert "As of 2026-11-06 21:20 UTC. Source: test venue" in page.text
        assert " ".join(method.explanation.split()) in page.text
        assert f"/badge/signal/{method.key}.svg" in page.targets


@pytest.mark.outcome(
    "signals, or the market that they were judged by, are older than their bound",
    "their pages say unknown, never the last label; daily figures do not rest on the market",
)
@pytest.mark.parametrize(
    ("seconds", "stale", "fresh"), [(30, MARKET_METHODS, MACRO_METHODS), (150, METHODS, ())]
)
def test_stale_signals_are_unknown(
    site: Site, seconds: int, stale: Sequence[Method], fresh: Sequence[Method]
) -> None:
    site.clock.pass_seconds(seconds)

    answers = {path: site.ask(path) for path in ("/signals", "/signals/btc-funding-regime")}
    listed, single = (Checked(answer).text for answer in answers.values())

    for answer in answers.values():
        kept = answer.headers["cache-control"]
        assert kept == "public, max-age=5, stale-while-revalidate=0"
    assert all(f"{each.name} unknown n/a" in listed for each in stale)
    assert all(f"{each.name} calm & quiet" in listed for each in fresh)
    assert listed.count("calm & quiet") == len(fresh)
    assert "calm & quiet" not in single
    assert "unknown (n/a)" in single
    assert ("judged recently" in listed) == (not fresh)


def test_no_cache_keeps_a_signal_past_its_bound(site: Site) -> None:
    site.clock.pass_seconds(28)

    kept = site.ask("/signals").headers["cache-control"]

    assert kept == "public, max-age=2, stale-while-revalidate=0"


def test_briefs_are_listed_newest_first_and_escaped(site: Site) -> None:
    site.service.keep_briefs(NOTE._replace(slug="newer", published_at=START, headline="Newer"))

    text = Checked(site.ask("/briefs")).text

    assert text.index("Newer") < text.index("Funding is high") < text.index("Fees & <b>spreads</b>")
    assert "2026-11-06 21:19 UTC · note · BTC, ETH" in text


def test_a_brief_shows_its_body_and_where_it_comes_from(site: Site) -> None:
    note = Checked(site.ask(f"/briefs/{NOTE.slug}"))
    found = Checked(site.ask(f"/briefs/{FOUND.slug}"))

    assert "Text with <script>alert(1)</script> and a link." in note.text
    assert "https://example.com/" in note.targets
    assert "Written by the operator of this instance" in note.text
    assert "Rule funding-extreme Data from 2026-11-06 20:20 UTC" in found.text
    assert NOTE.inputs_digest in found.text


class CountedPages(Pages):
    """Pages that remember which briefs were written."""

    written: list[str]

    def brief(self, brief: Brief) -> bytes:
        self.written.append(brief.slug)
        return super().brief(brief)


def test_a_brief_is_rendered_once_for_all_its_readers(site: Site) -> None:
    pages = CountedPages(BASE_URL)
    pages.written = []
    service = site.service
    routes = FastAPI()
    routes.include_router(
        page_routes(
            pages,
            {},
            service.board,
            service.database,
            briefs=BriefsReader(service.settings),
            signals=SignalsReader(service.settings),
        )
    )

    first, again = (ask(routes, f"/briefs/{NOTE.slug}") for _ in range(2))
    other = ask(routes, f"/briefs/{FOUND.slug}")

    assert (first.status, again.status, other.status) == (200, 200, 200)
    assert first.body == again.body != other.body
    assert pages.written == [NOTE.slug, FOUND.slug]


def test_without_briefs_the_page_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path)

    text = Checked(site.ask("/briefs")).text
    site.close()

    assert "Nothing has been published yet." in text


@pytest.mark.outcome(
    "the database cannot be read while somebody looks at briefs",
    "the page says so with 503 once the worker's copy is too old; the other pages are still there",
)
def test_briefs_that_cannot_be_read_are_a_page_that_says_so(site: Site) -> None:
    site.rename("briefs", "away")
    site.clock.pass_seconds(60)

    for path in ("/briefs", f"/briefs/{NOTE.slug}"):
        answer = site.ask(path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["cache-control"] == "no-store"
        assert "cannot be read right now" in Checked(answer).text
    assert site.ask("/guides").status_code == 200


MISSING = [
    *("/nope", "/guides/nope", "/guides/", "/signals/nope", "/briefs/nope", "/briefs/a%00b"),
    *("/briefs/" + "a" * 300, "/static/nope.css", "/keys/a/b", "/signals/btc-funding-regime/"),
]


@pytest.mark.parametrize("path", MISSING)
def test_people_get_a_page_and_programs_get_json_for_what_is_not_there(
    site: Site, path: str
) -> None:
    page = site.ask(path, accept="text/html,application/xhtml+xml,*/*;q=0.8")
    plain = site.ask(path)

    assert page.status_code == 404
    assert "There is no page at this address." in Checked(page).text
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-security-policy"] == POLICY
    assert (plain.status_code, plain.text) == (404, '{"error":"not found"}')


@pytest.mark.parametrize("path", ["/api/nope", "/api/agent/nope", "/api/v1/nope", "/api"])
def test_paths_of_programs_are_json_for_everyone(site: Site, path: str) -> None:
    assert site.ask(path, accept="text/html").text == '{"error":"not found"}'


def test_pages_answer_head_and_conditional_requests(site: Site) -> None:
    for path in ("/", "/guides", "/signals", "/briefs", "/developers", "/static/site.css"):
        whole = site.ask(path)
        head = site.ask(path, "HEAD")
        known = site.ask(path, if_none_match=whole.headers["etag"])
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == whole.headers
        assert (known.status_code, known.content) == (304, b"")


@pytest.mark.contract("signals.docs")
def test_the_developer_page_tells_how_to_use_the_service(site: Site) -> None:
    page = Checked(site.ask("/developers"))

    assert BASE_URL in page.text
    assert "120 per hour" in page.text
    assert "1,000 per hour" in page.text
    for words in (
        "X-API-Key",
        "RateLimit-Policy",
        "Retry-After",
        "long-crowded",
        "+0.03 % or more",
    ):
        assert words in page.text
    assert {"/openapi.json", "/badge/record.svg", "/badge/funding/BTC.svg"} <= set(page.targets)
    assert {*("limits", "get-a-key", "send-a-key", "errors", "badges", "regime")} <= set(page.ids)
    assert "/keys" in page.targets


def test_without_mail_there_is_no_form_and_no_link(tmp_path: Path) -> None:
    site = Site(tmp_path, mails=False)

    page = Checked(site.ask("/developers"))
    asked = site.register("name@example.com")
    link = site.ask("/keys/" + "a" * 43)
    site.close()

    assert "/keys" not in page.targets
    assert "keys come from its operator" in page.text
    assert asked.status_code == 503
    assert "keys come from its operator" in Checked(asked).text
    assert link.status_code == 410


@pytest.mark.contract("auth.key-registration")
def test_the_form_mails_a_link_whose_button_shows_the_key_once(site: Site) -> None:
    asked = site.register("name@example.com")
    assert asked.status_code == 202
    assert "If this mailbox was sent fewer than 3 links" in Checked(asked).text
    path = site.mailed_path()

    looked = Checked(site.ask(path))
    assert path in looked.targets
    shown = site.ask(path, "POST")

    assert shown.status_code == 200
    assert shown.headers["cache-control"] == "no-store"
    (key,) = set(re.findall("bg_[0-9a-f]{16}_[0-9a-f]{64}", Checked(shown).text))
    assert asyncio.run(site.keys.verify(key)) is not None
    for method in ("GET", "POST"):
        again = site.ask(path, method)
        assert again.status_code == 410
        assert "Ask for a new one." in Checked(again).text
        assert "/developers#get-a-key" in Checked(again).targets


def test_looking_at_a_link_any_number_of_times_does_not_use_it_up(site: Site) -> None:
    site.register("name@example.com")
    path = site.mailed_path()

    for _ in range(3):
        looked = site.ask(path)
        assert looked.status_code == 200
        assert looked.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in looked.headers
    assert site.service.rows("SELECT * FROM api_keys") == []


def test_a_program_gets_the_key_as_json(site: Site) -> None:
    site.register("name@example.com")
    path = site.mailed_path()

    shown = site.ask(path, "POST", accept="application/json")
    again = site.ask(path, "POST", accept="application/json")

    assert shown.headers["content-type"] == "application/json"
    assert shown.headers["cache-control"] == "no-store"
    assert list(shown.json()) == ["key"]
    assert asyncio.run(site.keys.verify(shown.json()["key"])) is not None
    assert again.status_code == 410
    assert list(again.json()) == ["error"]


@pytest.mark.parametrize("token", ["nope", "a" * 43, "a" * 500, "%3Cscript%3E", "a%00b", "é"])
def test_a_link_that_never_was_is_a_page_that_repeats_nothing(site: Site, token: str) -> None:
    for method in ("GET", "POST"):
        answer = site.ask(f"/keys/{token}", method)
        assert answer.status_code == 410
        assert "<script>" not in Checked(answer).text
        assert "Ask for a new one." in Checked(answer).text


def test_a_link_ends_after_a_day(site: Site) -> None:
    site.register("name@example.com")
    site.clock.pass_seconds(24 * 3_600)

    assert site.ask(site.mailed_path()).status_code == 410


def test_the_answer_is_the_same_for_every_address(site: Site) -> None:
    first = site.register("name@example.com")
    site.ask(site.mailed_path(), "POST")

    known = site.register("name@example.com")
    unknown = site.register("other@example.com")

    assert first.content == known.content == unknown.content
    assert {first.status_code, known.status_code, unknown.status_code} == {202}
    assert first.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "email=",
        "email=name",
        "email=a%40example.com&email=b%40example.com",
        "email=a%40example.com&role=admin",
        "mail=a%40example.com",
        "email=a%40example.com%0d%0aBcc:%20b%40example.com",
        "email=%ff%40example.com",
        "email=<script>@example.com",
        '{"email": "a@example.com"}',
        "email=" + "a" * 5_000,
        b"email=\xff@example.com",
        "a=b&" * 1_000,
    ],
)
def test_a_form_that_is_not_one_address_is_refused_and_not_repeated(
    site: Site, body: str | bytes
) -> None:
    answer = site.ask("/keys", "POST", body, **FORM)

    assert answer.status_code == 400
    text = Checked(answer).text
    assert "That is not one plain e-mail address such as name@example.com." in text
    assert "script" not in text
    assert site.service.rows("SELECT * FROM outbox") == []


def test_spaces_around_a_typed_address_do_no_harm(site: Site) -> None:
    assert site.register(" name@example.com ").status_code == 202
    assert site.service.rows("SELECT recipient FROM outbox") == [("name@example.com",)]


def test_one_network_may_ask_ten_times_an_hour(site: Site) -> None:
    codes = [site.register(f"name{number}@example.com").status_code for number in range(11)]
    refused = site.register("name@example.com")

    assert codes == [202] * 10 + [429]
    assert refused.headers["retry-after"] == "3600"
    assert refused.headers["ratelimit-policy"] == '"register";q=10;w=3600'
    assert "Try again in 3600 seconds." in Checked(refused).text


@pytest.mark.outcome(
    "the database is away while somebody opens or uses a link on the site",
    "a page says so with 503 and `Retry-After`; the link still works afterwards",
)
def test_links_survive_an_outage(site: Site) -> None:
    site.register("name@example.com")
    path = site.mailed_path()
    site.rename("registrations", "away")

    for method in ("GET", "POST"):
        answer = site.ask(path, method)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "Keys cannot be handed out now." in Checked(answer).text
    spoken = site.ask(path, "POST", accept="application/json")
    assert (spoken.status_code, list(spoken.json())) == (503, ["error"])
    assert site.register("other@example.com").status_code == 503
    site.rename("away", "registrations")
    assert site.ask(path, "POST").status_code == 200


def test_who_only_looks_at_keys_is_sent_to_the_form(site: Site) -> None:
    answer = site.ask("/keys")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/developers#get-a-key"


@pytest.mark.contract("tiers.feed-price")
@pytest.mark.contract("tiers.reserve-price")
def test_pricing_names_both_tiers_with_their_price(service: Service) -> None:
    page = service.ask("/pricing").body.decode()
    assert re.search(r"<h2>Feed</h2>.*?<strong>25 USD</strong>", page, re.DOTALL)
    assert re.search(r"<h2>Reserve</h2>.*?<strong>149 USD</strong>", page, re.DOTALL)
    assert "Reserve alone does not open what Feed opens" in page


def test_pricing_says_what_is_really_asked_for(tmp_path: Path) -> None:
    service = Service(tmp_path, feed_price_usd="29.50")
    assert "<strong>29.50 USD</strong>" in service.ask("/pricing").body.decode()
    service.close()
