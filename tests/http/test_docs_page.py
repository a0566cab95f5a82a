"""`/docs`: Swagger UI from the installed package, in the frame of our pages."""

import gzip
import re
from importlib.metadata import version
from importlib.resources import files

import pytest

from support.pages import POLICY
from support.service import BASE_URL, Service

FILES = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
CURRENT = f"v={version('fastapi-offline')}"


def test_the_page_is_made_of_what_this_instance_has(service: Service) -> None:
    answer = service.ask("/docs")
    page = answer.body.decode()
    made_of = re.findall(r'<(?:script[^>]* src|link rel="stylesheet" href)="([^"]+)"', page)
    (without_scripts,) = re.findall(r"<noscript>(.*?)</noscript>", page, re.DOTALL)

    made_of += re.findall(r'data-(?:style|script)="([^"]+)"', page)
    assert len(made_of) == 7
    for path in made_of:
        assert service.ask(path).status == 200, path
    assert 'data-openapi="/openapi.json"' in page
    assert f'data-base="{BASE_URL}" data-root=""' in page
    assert "<style" not in page
    assert re.findall(r"<script[^>]*>[^<]", page) == []
    assert re.findall(r'href="(https?:[^"]*)"', page) == [f"{BASE_URL}/docs"]
    linked = re.findall('href="([^"]+)"', without_scripts)
    assert linked == ["/developers/endpoints", "/openapi.json"]
    # The stylesheet of Swagger UI holds pictures.
    policy = POLICY.replace("img-src 'self'", "img-src 'self' data:")
    assert answer.headers["content-security-policy"] == policy


@pytest.mark.parametrize("name", FILES)
def test_a_file_comes_from_the_package_and_may_be_kept_long(service: Service, name: str) -> None:
    installed = (files("fastapi_offline") / "static" / name).read_bytes()
    named = service.ask(f"/docs/{name}?{CURRENT}")
    packed = service.ask(f"/docs/{name}?{CURRENT}", accept_encoding="gzip")

    assert named.body == installed == gzip.decompress(packed.body)
    assert len(packed.body) < len(installed) / 3
    assert named.headers["content-type"] == packed.headers["content-type"] == FILES[name]
    assert packed.headers["content-encoding"] == "gzip"
    assert named.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert named.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    ("query", "kept"),
    [("", "public, max-age=3600"), ("?a=b", "public, max-age=3600"), ("?v=0", "no-cache")],
)
def test_another_address_of_a_file_may_not_be_kept_long(
    service: Service, query: str, kept: str
) -> None:
    answer = service.ask(f"/docs/swagger-ui.css{query}")

    assert answer.headers["cache-control"] == kept


@pytest.mark.parametrize(
    "name", ["favicon.png", "redoc.standalone.js", "..%2fcore.py", "core.py", "/"]
)
def test_nothing_else_of_the_package_is_given_away(service: Service, name: str) -> None:
    assert service.ask(f"/docs/{name}").status == 404
