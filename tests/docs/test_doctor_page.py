"""docs/doctor.md explains every line that `doctor` prints."""

import re
from pathlib import Path

from barograph.cli.diagnosis import _CERTIFICATES, _CONNECTIONS, _UNKNOWN_AUTHORITY
from barograph.cli.doctor_local import CHECKS as LOCAL
from barograph.cli.doctor_upstreams import CHECKS as UPSTREAMS

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")


def test_the_page_has_every_check_in_the_order_of_the_lines() -> None:
    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = [name for row in rows for name in re.findall("[a-z]+", row)]
    assert named == [*LOCAL, "terms", *UPSTREAMS]


def test_the_page_has_every_cause_of_a_failed_connection() -> None:
    known = [*_CONNECTIONS.values(), *_CERTIFICATES.values(), _UNKNOWN_AUTHORITY]
    for each in known:
        assert f"| {each.detail.format(host='…')} |" in PAGE
