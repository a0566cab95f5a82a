"""Static files: named by their content, kept for ever by that name, and nothing else is served."""

import re
import struct
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree as ET
from zipfile import ZipFile

import pytest

import barograph_client
from barograph.guides.catalog import load_catalog
from barograph.kit.timestamps import iso_timestamp
from barograph.signals.methods import METHODS
from barograph.site.static_files import packaged_files, read_static_files
from support.markets import reading, shares
from support.pages import FOUND, NOTE, SiteService
from support.service import BASE_URL

FOR_EVER = "public, max-age=31536000, immutable"
AN_HOUR = "public, max-age=3600"
SOURCE = Path(barograph_client.__file__).parent


def test_pages_name_their_files_by_content_and_those_are_kept_for_ever(site: SiteService) -> None:
    named = [each for each in site.look("/guides").targets if each.startswith("/static/site.")]

    assert [re.sub(r"\?v=[0-9a-f]{12}$", "", each) for each in named] == [
        "/static/site.css",
        "/static/site.js",
    ]
    for each in named:
        for asked in (each, f"{each}&x=1"):
            answer = site.ask(asked)
            assert answer.headers["cache-control"] == FOR_EVER
            assert sha256(answer.content).hexdigest().startswith(each.rpartition("=")[2])
            packed = site.ask(asked, accept_encoding="gzip")
            assert packed.headers["cache-control"] == FOR_EVER


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        *(("", AN_HOUR), ("?x=1", AN_HOUR)),
        *((f"?v={version}", "no-cache") for version in ("", "000000000000", "%3Cb%3E")),
    ],
)
def test_without_a_version_a_file_is_kept_for_an_hour_and_by_another_one_not_at_all(
    site: SiteService, query: str, kept: str
) -> None:
    answer = site.ask(f"/static/site.css{query}")

    assert answer.headers["cache-control"] == kept
    assert answer.content == site.ask("/static/site.css").content
    assert site.ask("/static/site.css", if_none_match=answer.headers["etag"]).status_code == 304


def test_versions_that_nobody_counts_fill_no_memory(site: SiteService) -> None:
    for number in range(20):
        site.ask(f"/static/site.css?v={number}&x={number}")

    kept = [query for path, query in site.service.board.hot if path == "/static/site.css"]
    assert kept == [b"v="]


def test_a_file_stays_what_it_was_when_the_worker_began(tmp_path: Path) -> None:
    for name in ("site.css", "site.css~", "notes.txt"):
        (tmp_path / name).write_bytes(b"old")
    files = read_static_files(tmp_path)
    (tmp_path / "site.css").write_bytes(b"new")
    file = files["site.css"]

    assert list(files) == ["site.css"]  # the others have no type
    assert {page.body for page in file.pages.values()} == {b"old"}
    assert sha256(b"old").hexdigest().startswith(file.version)
    assert read_static_files(tmp_path)["site.css"].version != file.version


TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "ico": "image/x-icon",
    "svg": "image/svg+xml",
    "py": "text/plain; charset=utf-8",
    "whl": "application/zip",
}


def test_every_static_file_is_served_with_its_type(site: SiteService) -> None:
    for name in packaged_files():
        answer = site.ask(f"/static/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == TYPES[name.rpartition(".")[2]]


def test_pip_installs_the_client_that_the_pages_name(site: SiteService, tmp_path: Path) -> None:
    texts = [site.look(path).text for path in ("/record", "/developers")]
    (named,) = {name for text in texts for name in re.findall(rf"{BASE_URL}(/\S+\.whl)", text)}
    wheel, target = tmp_path / Path(named).name, tmp_path / "installed"
    wheel.write_bytes(site.ask(named).content)
    with ZipFile(wheel) as packed:  # every worker serves the same bytes
        assert {each.date_time for each in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}

    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", target, wheel], check=True, capture_output=True)

    ran = [sys.executable, str(target / "bin" / "barograph-audit"), "--help"]
    shown = subprocess.run(
        ran, env={"PYTHONPATH": str(target)}, check=True, capture_output=True, text=True
    )
    assert "barograph-audit" in shown.stdout
    own = {each.relative_to(SOURCE) for each in SOURCE.rglob("*.py")}
    installed = target / "barograph_client"
    assert {each.relative_to(installed) for each in installed.rglob("*.py")} == own
    assert all((installed / name).read_bytes() == (SOURCE / name).read_bytes() for name in own)


def test_the_stylesheet_knows_the_dark_and_loads_nothing(site: SiteService) -> None:
    text = site.ask("/static/site.css").text

    assert "color-scheme: light dark;" in text
    assert "url(" not in text
    assert "@import" not in text


def test_browsers_find_an_icon_where_they_look_for_it(site: SiteService) -> None:
    answer = site.ask("/favicon.ico")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/x-icon")
    reserved, kind, count = struct.unpack("<HHH", answer.content[:6])
    assert (reserved, kind, count) == (0, 1, 1)
    assert answer.content[22:30] == b"\x89PNG\r\n\x1a\n"
    assert site.ask("/static/icon.svg").headers["content-type"].startswith("image/svg+xml")


def test_the_social_picture_has_the_size_that_previews_expect(site: SiteService) -> None:
    picture = site.ask("/static/social.png").content

    assert struct.unpack(">II", picture[16:24]) == (1_200, 630)
    assert len(picture) <= 60_000
    assert f'content="{BASE_URL}/static/social.png"' in site.ask("/guides").text


def test_the_sitemap_names_every_page_by_its_whole_address(site: SiteService) -> None:
    site.service.publish(reading(), shares())
    answer = site.ask("/sitemap.xml")
    found = [each.text for each in ET.fromstring(answer.text).iterfind(".//{*}loc")]

    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    assert len(set(found)) == len(found)
    assert {
        *(f"{BASE_URL}/{name}" for name in ("", "markets", "signals", "briefs", "guides")),
        *(f"{BASE_URL}/{name}" for name in ("record", "accuracy", "developers", "pricing")),
        f"{BASE_URL}/status",
        *(f"{BASE_URL}/guides/{guide.slug}" for guide in load_catalog(None).guides),
        *(f"{BASE_URL}/signals/{method.key}" for method in METHODS),
        *(f"{BASE_URL}/briefs/{brief.slug}" for brief in (NOTE, FOUND)),
        *(f"{BASE_URL}/markets/{each.base}" for each in reading().contracts),
    } <= set(found)
    changed = {
        each.findtext("{*}loc"): each.findtext("{*}lastmod")
        for each in ET.fromstring(answer.text).iterfind("{*}url")
    }
    published = iso_timestamp(NOTE.published_at)
    assert changed[f"{BASE_URL}/briefs/{NOTE.slug}"] == published == changed[f"{BASE_URL}/briefs"]
    assert changed[f"{BASE_URL}/markets/BTC"] == iso_timestamp(reading().as_of)
    assert changed[f"{BASE_URL}/pricing"] is None
    for each in found:
        assert each is not None
        assert site.ask(each.removeprefix(BASE_URL)).status_code == 200
