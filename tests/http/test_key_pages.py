"""The pages about personal keys: a form, a mailed link, a key that is shown once."""

import asyncio
import re
from pathlib import Path

import pytest

from barograph.site.keys import message_page, try_again_in
from barograph.site.templating import Templates
from support.pages import FORM, Checked, SiteService
from support.service import BASE_URL


def test_without_mail_there_is_no_form_and_no_link(tmp_path: Path) -> None:
    site = SiteService(tmp_path, mails=False)

    page = Checked(site.ask("/developers"))
    asked = site.register("name@example.com")
    link = site.ask("/keys/" + "a" * 43)
    site.close()

    assert "/keys" not in page.targets
    assert "Ask its operator for a key" in page.text
    assert asked.status_code == 503
    assert "Ask its operator for a key" in Checked(asked).text
    assert link.status_code == 410


@pytest.mark.contract("auth.key-registration")
def test_the_form_mails_a_link_whose_button_shows_the_key_once(site: SiteService) -> None:
    asked = site.register("name@example.com")
    assert asked.status_code == 202
    assert "If this mailbox was sent fewer than 3 links" in Checked(asked).text
    path = site.mailed_path()

    looked = Checked(site.ask(path))
    assert path in looked.targets
    shown = site.ask(path, "POST")

    assert shown.status_code == 200
    for answer in (asked, shown):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
    (key,) = set(re.findall("bg_[0-9a-f]{16}_[0-9a-f]{64}", Checked(shown).text))
    assert asyncio.run(site.keys.verify(key)) is not None
    for email in ("name@example.com", "unknown@example.com"):
        assert site.register(email).content == asked.content
    for method in ("GET", "POST"):
        again = site.ask(path, method)
        assert again.status_code == 410
        assert "Request a new one." in Checked(again).text
        assert "/developers#get-a-key" in Checked(again).targets


def test_a_program_gets_the_key_as_json(site: SiteService) -> None:
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
def test_a_link_that_never_was_is_a_page_that_repeats_nothing(
    site: SiteService, token: str
) -> None:
    for method in ("GET", "POST"):
        answer = site.ask(f"/keys/{token}", method)
        assert answer.status_code == 410
        assert "<script>" not in Checked(answer).text
        assert "Request a new one." in Checked(answer).text
    pages = Templates(BASE_URL)
    assert message_page(pages, "a", "b") is message_page(pages, "a", "b")  # rendered once


def test_a_link_ends_after_a_day(site: SiteService) -> None:
    site.register("name@example.com")
    site.clock.pass_seconds(24 * 3_600 - 0.001)
    assert site.ask(site.mailed_path()).status_code == 200

    site.clock.pass_seconds(0.001)
    for method in ("GET", "POST"):
        assert site.ask(site.mailed_path(), method).status_code == 410
    assert site.service.rows("SELECT * FROM api_keys") == []


@pytest.mark.parametrize(
    "body",
    [
        *("", "email=", "email=name", "mail=a%40example.com", "email=%ff%40example.com"),
        *("email=a%40example.com&email=b%40example.com", "email=a%40example.com&role=admin"),
        *("email=a%40example.com%0d%0aBcc:%20b%40example.com", "email=<script>@example.com"),
        '{"email": "a@example.com"}',
        b"email=\xff@example.com",
        "a=b&" * 1_000,
    ],
)
def test_a_form_that_is_not_one_address_is_refused_and_not_repeated(
    site: SiteService, body: str | bytes
) -> None:
    answer = site.ask("/keys", "POST", body, **FORM)

    assert answer.status_code == 400
    text = Checked(answer).text
    assert "Enter one plain e-mail address, such as name@example.com." in text
    assert "script" not in text
    assert site.service.rows("SELECT * FROM outbox") == []


def test_pages_of_another_site_cannot_request_or_create_a_key(site: SiteService) -> None:
    site.register("name@example.com")
    path = site.mailed_path()
    foreign = {"origin": "https://elsewhere.example"}

    for place in ("/keys", path):
        answer = site.ask(place, "POST", "email=other%40example.com", **FORM, **foreign)
        assert answer.status_code == 403
        assert "another website" in Checked(answer).text
    spoken = site.ask(path, "POST", accept="application/json", **foreign)
    assert (spoken.status_code, list(spoken.json())) == (403, ["error"])
    assert len(site.service.rows("SELECT * FROM outbox")) == 1
    assert site.ask(path, "POST", origin=BASE_URL).status_code == 200


def test_spaces_around_a_typed_address_do_no_harm(site: SiteService) -> None:
    assert site.register(" name@example.com ").status_code == 202
    assert site.service.rows("SELECT recipient FROM outbox") == [("name@example.com",)]


def test_one_network_may_ask_ten_times_an_hour(site: SiteService) -> None:
    codes = [site.register(f"name{number}@example.com").status_code for number in range(11)]
    refused = site.register("name@example.com")

    assert codes == [202] * 10 + [429]
    assert refused.headers["retry-after"] == "3600"
    assert refused.headers["ratelimit-policy"] == '"register";q=10;w=3600'
    assert "Try again in about an hour." in Checked(refused).text
    assert 'value="name@example.com"' in refused.text


def test_who_is_refused_finds_what_was_typed_in_the_form_unless_it_is_too_long(
    site: SiteService,
) -> None:
    answer, too_long = site.register('name"<b>@example'), site.register("a" * 3_000)

    assert (answer.status_code, too_long.status_code) == (400, 400)
    assert "/keys" in Checked(answer).targets
    assert 'value="name&#34;&lt;b&gt;@example"' in answer.text
    assert len(too_long.text) < 10_000
    assert "a" * 255 not in too_long.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((1, "1 second"), (119, "119 seconds"), (120, "about 2 minutes")),
        *((601, "about 11 minutes"), (3_240, "about 54 minutes"), (3_241, "about an hour")),
        *((3_567, "about an hour"), (7_200, "about 2 hours")),
    ],
)
def test_when_to_try_again_is_said_as_people_say_it(seconds: int, words: str) -> None:
    assert try_again_in(seconds) == f"Try again in {words}."


def test_a_demo_says_where_its_mails_are(tmp_path: Path, site: SiteService) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    demo = SiteService(folder, exchange_source="simulated exchange (demo data)")
    form, asked = demo.look("/developers").text, Checked(demo.register("name@example.com")).text
    demo.close()

    for text in (form, asked):
        assert "barograph demo mail" in text
    for path in ("/developers", "/keys"):
        answer = site.ask(path) if path != "/keys" else site.register("name@example.com")
        assert "demo mail" not in answer.text


def test_looking_at_a_link_does_not_use_it_up(site: SiteService) -> None:
    site.register("name@example.com")
    path = site.mailed_path()

    for place, status in ((path, 200), ("/keys", 303), ("/keys/" + "a" * 43, 410)):
        for _ in range(2):
            looked, read = site.ask(place, "HEAD"), site.ask(place)
            assert (looked.status_code, looked.content) == (status, b"")
            assert looked.headers == read.headers
            assert status == 303 or looked.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in looked.headers
    assert site.ask("/keys").headers["location"] == "/developers#get-a-key"
    assert site.service.rows("SELECT * FROM api_keys") == []
    assert site.ask(path, "POST").status_code == 200


@pytest.mark.outcome(
    "The database is unavailable while a visitor opens or uses a key link",
    "503 with `Retry-After`. A link still works afterwards.",
)
def test_links_survive_an_outage(site: SiteService) -> None:
    site.register("name@example.com")
    path = site.mailed_path()
    site.rename("registrations", "away")

    for method in ("GET", "POST"):
        answer = site.ask(path, method)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "We can't issue keys now." in Checked(answer).text
    spoken = site.ask(path, "POST", accept="application/json")
    assert (spoken.status_code, list(spoken.json())) == (503, ["error"])
    assert site.register("other@example.com").status_code == 503
    site.rename("away", "registrations")
    assert site.ask(path, "POST").status_code == 200
