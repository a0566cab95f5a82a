"""What holds for every page: it is valid, guarded, cached, and each link of it leads somewhere."""

import json
import re
from pathlib import Path

import pytest

from barograph import NOTICE
from barograph.guides.catalog import load_catalog
from barograph.signals.methods import METHODS
from support.markets import reading, shares
from support.node import run_script
from support.pages import BROWSER, FOUND, NOTE, POLICY, Checked, SiteService
from support.service import BASE_URL

PAGES = (
    *("/", "/markets", "/venues", "/signals", "/briefs", "/guides", "/record"),
    *(
        "/developers",
        "/pricing",
        "/status",
        "/heatmap",
        "/funding",
        "/open-interest",
        "/liquidations",
        "/accuracy",
    ),
)
PATHS = [
    *PAGES,
    *(f"/guides/{guide.slug}" for guide in load_catalog(None).guides),
    *(f"/signals/{method.key}" for method in METHODS),
    *(f"/briefs/{brief.slug}" for brief in (NOTE, FOUND)),
    *("/briefs/category/funding", "/briefs/coin/BTC"),
]


def test_every_page_is_valid_guarded_and_ends_with_the_notice(site: SiteService) -> None:
    for path in PATHS:
        response = site.ask(path)

        assert response.status_code == 200, path
        page = Checked(response)
        assert NOTICE in page.text[-200:]
        assert page.relations["canonical"] == f"https://barograph.example{path}", path
        assert "></time>" not in response.text
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "same-origin"
        # Rate-limit fields are one caller's own, so no shared cache may keep them.
        sharing = "private" if "ratelimit" in response.headers else "public"
        assert response.headers["cache-control"].startswith(f"{sharing}, max-age=")


@pytest.mark.thorough
def test_every_kind_of_page_passes_a_validator(site: SiteService) -> None:
    site.service.publish(reading(), shares())
    kinds = (
        *PAGES,
        "/markets/BTC",
        f"/signals/{METHODS[0].key}",
        "/record/rates-desk",
        "/not-there",
    )
    briefs = (f"/briefs/{each.slug}" for each in (NOTE, FOUND))
    pages = {path: site.ask(path, accept=BROWSER).text for path in (*kinds, *briefs)}

    assert run_script("validate.mjs", pages) == []


DATASET = {"name", "description", "license", "creator", "distribution", "isAccessibleForFree"}
ARTICLE = {"headline", "image", "datePublished", "dateModified", "author", "publisher"}


@pytest.mark.parametrize(
    ("path", "kind", "members"),
    [
        ("/", "WebSite", {"name", "description"}),
        ("/markets", "Dataset", DATASET),
        ("/liquidations", "Dataset", DATASET),
        (f"/briefs/{FOUND.slug}", "Article", ARTICLE),
    ],
)
def test_search_engines_find_what_they_require_and_recommend(
    site: SiteService, path: str, kind: str, members: set[str]
) -> None:
    (text,) = re.findall(r'<script type="application/ld\+json">([^<]+)<', site.ask(path).text)
    found = json.loads(text)
    assert (found["@context"], found["@type"]) == ("https://schema.org", kind)
    assert found["url"] == BASE_URL + path
    assert members <= {name for name, value in found.items() if value}
    for each in found.get("distribution", []):
        answer = site.ask(each["contentUrl"].removeprefix(BASE_URL))
        assert answer.headers["content-type"].startswith(each["encodingFormat"])
    if kind == "Dataset":
        assert 50 <= len(found["description"]) <= 5_000
        page, _, row = found["license"].removeprefix(BASE_URL).partition("#")
        assert f'<tr id="{row}">' in site.ask(page).text


@pytest.mark.parametrize(
    ("source", "is_told"), [("simulated exchange (demo data)", True), ("test venue", False)]
)
def test_every_page_tells_that_its_numbers_are_simulated(
    tmp_path: Path, source: str, is_told: bool
) -> None:
    site = SiteService(tmp_path, exchange_source=source)
    pages = [site.ask(path, accept=BROWSER).text for path in (*PAGES, "/docs", "/not-there")]
    site.close()

    assert {"<strong>Demo:</strong> all numbers are simulated." in each for each in pages} == {
        is_told
    }


def test_every_link_of_every_page_leads_somewhere(site: SiteService) -> None:
    site.service.publish(reading(), shares())
    pages = {path: Checked(site.ask(path)) for path in PATHS}
    targets = {
        (there or path, fragment)
        for path, page in pages.items()
        for there, _, fragment in (target.partition("#") for target in page.targets)
        # Other sites are not asked, and keys are made by POST only.
        if not there.startswith(("http", "/api/v1/keys"))
    }

    assert {path for path, _ in targets} >= {*PAGES, *(each for each in PATHS if "?" not in each)}
    for path, fragment in targets:
        assert path in pages or site.ask(path).status_code in {200, 303}, path
        assert not fragment or path not in pages or fragment in pages[path].ids, (path, fragment)


MISSING = [
    *("/nope", "/guides/nope", "/signals/nope", "/briefs/nope", "/briefs/a%00b"),
    *("/briefs/" + "a" * 300, "/static/nope.css", "/keys/a/b", "/signals/btc-funding-regime//"),
    *("/static/../site.py", "/static/..%2fsite.py", "/static/", "/briefs?page=2"),
]


@pytest.mark.parametrize("path", MISSING)
def test_people_get_a_page_and_programs_get_json_for_what_is_not_there(
    site: SiteService, path: str
) -> None:
    page = site.ask(path, accept=BROWSER)
    plain = site.ask(path)

    assert page.status_code == 404
    assert "There is no page at this address." in Checked(page).text
    assert page.headers["cache-control"] == "no-store"
    assert (plain.status_code, plain.text) == (404, '{"error":"not found"}')


MARKUP = "%3Cscript%3Ealert(1)%3C/script%3E%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E"


@pytest.mark.parametrize("path", [*PAGES, f"/signals/{METHODS[0].key}", f"/briefs/{NOTE.slug}"])
def test_markup_in_a_query_never_becomes_markup_of_the_page(site: SiteService, path: str) -> None:
    names = ("q", "sort", "days", MARKUP)
    together = "&".join(f"{name}={MARKUP}" for name in names)
    # Each of these alone may make it another list, which is not found.
    for query in (together, *(f"{name}={MARKUP}" for name in ("coin", "category", "page"))):
        answer = site.ask(f"{path}?{query}", accept=BROWSER)

        assert answer.status_code in {200, 404}
        assert "onerror" not in "".join(Checked(answer).targets)
        assert "<img src=x" not in answer.text
        assert "<script>alert" not in answer.text


def test_no_query_of_a_reader_stays_in_memory(site: SiteService) -> None:
    for path in PATHS:
        site.ask(f"{path}?x=1", accept=BROWSER)
        site.ask(f"{path}?q=btc", accept=BROWSER)

    assert not any(b"x=" in query or b"q=" in query for _, query in site.service.board.hot)


@pytest.mark.parametrize("root", ["", "/barograph"])
@pytest.mark.parametrize("path", ["/guides/nope", "/briefs/%3Cb%3E", "/status"])
def test_a_slash_too_many_leads_to_the_same_address_without_it(
    tmp_path: Path, path: str, root: str
) -> None:
    site = SiteService(tmp_path, base_url=f"https://example.com{root}")
    for query in ("", "?days=7&x=%C3%A4"):
        answer = site.ask(f"{path}/{query}")
        assert (answer.status_code, answer.headers["location"]) == (308, root + path + query)
    site.close()


def test_below_a_path_every_link_and_the_log_have_that_path(tmp_path: Path) -> None:
    site = SiteService(tmp_path, base_url="https://example.com/under")
    site.service.publish(reading(), shares())
    site.service.watch_day()
    paths = (*PAGES, "/markets/BTC", "/record/rates-desk", "/record/rates-desk/events")
    pages = {path: site.ask(path).text for path in paths}
    moved = site.ask("/markets/btc").headers["location"]
    site.close()

    for path, page in pages.items():
        targets = re.findall(r'(?:href|src|action)="(/[^"]*)"', page)
        assert targets
        assert [target for target in targets if not target.startswith("/under/")] == [], path
    assert "https://example.com/under/api/v1/signals" in pages["/developers"]
    assert ">example.com/under/history/events\n" in pages["/record"]
    assert moved == "/under/markets/BTC"


@pytest.mark.parametrize("path", ["/markets", "/markets/BTC", "/heatmap", "/liquidations"])
def test_every_part_that_a_script_renews_is_there_whatever_is_missing(
    site: SiteService, path: str
) -> None:
    def parts() -> set[str]:
        return set(re.findall(r'id="([\w-]+)"[^>]* data-part', site.ask(path).text))

    site.service.publish(reading(), shares())
    live = parts()
    site.rename("readings", "away")
    site.clock.pass_seconds(3_600)

    assert {"pill", "as-of"} <= live
    assert parts() == live
