"""deploy/nginx.conf answers some errors itself; its texts are the service's own."""

import re

import pytest

from barograph.badges.endpoints import refused_badge
from barograph.discovery.files import DISCOVERY_PATHS, FEEDS
from barograph.errors import BodyTooLong, PrivateError
from barograph.feed.documents import FeedUnavailable
from barograph.keys.endpoints import KEYS_ALLOW
from barograph.kit.documents import CORS
from barograph.kit.http import ALLOW
from barograph.kit.request_limits import MAX_BODY_BYTES, QUERY_TOO_LONG
from barograph.kit.wire import CodedErrorBody
from barograph.material_change.query import ComparisonUnavailable
from barograph.payments.offers import PaymentPending, PaymentUnavailable
from barograph.site.paths import PAGES
from barograph.stances.documents import StanceUnavailable
from barograph.web.monitoring import HEALTH_PATHS
from support.nginx import CONFIGURATION

TEXT = CONFIGURATION.read_text().replace("\\'", "'")


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("503 comparison ", ComparisonUnavailable()),
        ("503 feed ", FeedUnavailable()),
        ("503 stance ", StanceUnavailable()),
        ("503 purchase ", PaymentUnavailable()),
        ("503 (stance|purchase) sent", PaymentPending()),
    ],
)
def test_nginx_uses_the_codes_and_messages_of_the_service(key: str, error: PrivateError) -> None:
    body = CodedErrorBody(error=error.code, message=error.message).encode().decode()
    (line,) = (each for each in TEXT.splitlines() if f'"~^{key}"' in each)
    assert f"'{body}';" in line


@pytest.mark.parametrize("status", [414, 502])
@pytest.mark.parametrize("path", ["/badge/regime.svg", "/badge/regime.json"])
def test_nginx_sends_the_error_badges_of_the_service(path: str, status: int) -> None:
    badge = refused_badge(path, status)
    fields = dict(badge.raw_headers)
    assert f"'{bytes(badge.body).decode()}'" in TEXT
    assert f'"~^(414|502|504)$"  "{fields[b"cache-control"].decode()}";' in TEXT
    assert fields[b"content-type"].decode() in TEXT


def test_nginx_uses_the_limits_and_header_fields_of_the_service() -> None:
    not_allowed = CodedErrorBody(error="method_not_allowed", message="only GET is supported")
    allowed = (f'"{each.decode()}";' for each in (ALLOW, KEYS_ALLOW, CORS[1][1]))
    limits = (BodyTooLong(MAX_BODY_BYTES).message, QUERY_TOO_LONG)
    for each in (*allowed, *limits, not_allowed.encode().decode()):
        assert each in TEXT
    assert f"client_max_body_size {MAX_BODY_BYTES // 1024}k;" in TEXT


@pytest.mark.parametrize("path", [*PAGES[1:], *FEEDS, *DISCOVERY_PATHS, *HEALTH_PATHS])
def test_nginx_logs_the_paths_of_the_service(path: str) -> None:
    known = re.findall(r'"~(\^\(\?<barograph_(?:plain|file)>.+?)"  \$', TEXT)
    found = [re.match(each.replace("?<b", "?P<b"), path) for each in known]
    assert [each[1] for each in found if each is not None] == [path]
