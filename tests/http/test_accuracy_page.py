"""`/accuracy` and its badges: as much as the numbers support, and nothing more."""

from xml.etree import ElementTree as ET

import pytest

from barograph.accuracy.records import Accuracy, Distribution, Finding, Measured
from barograph.board.feeds import Publication
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.site.templating import date_and_time
from barograph.stances.reveals import REVEALS, Announcement, Reveals
from support.clock import START
from support.pages import Checked, SiteService
from support.service import BASE_URL
from support.track_records import (
    DEFINITION,
    accuracy,
    kind_accuracy,
    measured,
    publish_accuracy,
    publish_snapshot,
)

PAGE = "/accuracy"
BADGE = "/badge/accuracy/rates-desk"
CAUTION = "not evidence of live-capital results"
ROW = ["constructive, 24\N{NO-BREAK SPACE}h"]


def look(site: SiteService, snapshot: Accuracy) -> Checked:
    publish_accuracy(site.service, snapshot)
    return site.look(PAGE)


def test_without_an_announcement_nothing_is_measured_and_no_figure_is_shown(
    site: SiteService,
) -> None:
    page = site.look(PAGE)

    assert "does not publish its stances after an embargo, so nothing can be measured" in page.text
    assert page.tables == []
    assert "Recompute" not in page.text


def test_an_announcement_without_figures_is_not_denied(site: SiteService) -> None:
    announced = Reveals((Announcement(START - DAY, 7),))
    publish_snapshot(site.service, Publication.of(REVEALS, announced))

    assert "We have not calculated any figures yet." in site.look(PAGE).text
    body = site.service.ask("/api/v1/accuracy").json()
    assert body["note"].startswith("The first figures have not been calculated yet")
    assert (body["after_days"], body["announced_at"]) == (7, iso_timestamp(START - DAY))


def test_before_the_first_stance_is_public_the_page_says_from_when(site: SiteService) -> None:
    begun = {"announced_at": START - 2 * DAY, "defined_at": START - DAY}
    page = look(site, accuracy(**begun))

    assert "No measured stance is public yet." in page.text
    assert f"at {date_and_time(START + 6 * DAY)} at the earliest" in page.text
    assert page.tables == []


BASELINE = (Distribution(40), Distribution(60), Distribution(29))


@pytest.mark.parametrize(
    ("row", "counted"),
    [
        (measured("constructive", 29, "too-few"), "constructive 29."),
        (
            Measured("constructive", "24h", "btc_return", "%", 49, 2, *BASELINE, "too-few"),
            "constructive 40 (a baseline has 29).",
        ),
    ],
)
def test_of_too_few_cases_only_their_number_is_shown(
    site: SiteService, row: Measured, counted: str
) -> None:
    page = look(site, accuracy(kind_accuracy(row)))

    too_few = "Too few cases that don't overlap in time (30 are needed)."
    assert f"{too_few} After 24 h: {counted}" in page.text
    assert page.tables == []


def test_a_row_shows_what_followed_beside_both_baselines(site: SiteService) -> None:
    page = look(site, accuracy(kind_accuracy(measured("constructive", 41))))
    numbers = "+0.20 (\N{MINUS SIGN}0.10 to +0.50)\N{MINUS SIGN}2.30 to +2.70"

    row = page.tables[0][1]
    assert row[:3] == [*ROW, "41 2 without outcome", numbers]
    assert [each[:5] for each in row[3:5]] == ["+0.10", "+0.05"]
    assert row[-1] == "No difference shown"
    assert "No skill shown." in page.text
    assert "Decided by the operator: 2. Withdrawn: 1. Late: 4." in page.text


@pytest.mark.parametrize(
    ("label", "finding", "words"),
    [
        ("constructive", "higher", "Higher than both baselines"),
        ("cautious", "lower", "Lower than both baselines"),
        ("neutral", "none", "Not tested"),
    ],
)
def test_only_a_label_that_claims_a_direction_has_a_finding(
    site: SiteService, label: str, finding: Finding, words: str
) -> None:
    rows = measured("cautious", 41), measured(label, 41, finding, median=2.0)

    assert look(site, accuracy(kind_accuracy(*rows))).tables[0][2][-1] == words


def test_a_table_without_claims_has_no_findings(site: SiteService) -> None:
    page = look(site, accuracy(kind_accuracy(measured("cautious", 41, metric="funding"))))

    assert page.tables[0][0][-1] == "Compared"


def test_anyone_can_recompute_the_figures(site: SiteService) -> None:
    page = look(site, accuracy(kind_accuracy(measured("constructive", 41))))

    assert f"/api/v1/events/{DEFINITION}" in page.targets
    assert {"/api/v1/accuracy", "/api/v1/stances/rates-desk"} <= set(page.targets)
    assert f"python3 recompute_accuracy.py {BASE_URL}" in page.text
    for said in ("No win rate.", CAUTION, "Confidence is not scored."):
        assert said in page.text


SAID = [
    (None, "not published"),
    (accuracy(), "too few cases (0 of 30)"),
    (accuracy(kind_accuracy(measured("cautious", 12, "too-few"))), "too few cases (12 of 30)"),
    (accuracy(kind_accuracy(measured("cautious", 31))), "no skill shown"),
    (accuracy(kind_accuracy(measured("neutral", 99))), "too few cases (0 of 30)"),
    (
        accuracy(kind_accuracy(measured("constructive", 41, "higher"))),
        "higher after constructive (24 h)",
    ),
    (
        accuracy(kind_accuracy(*2 * [measured("cautious", 41, "lower", horizon="7d")])),
        "lower after cautious (7 d) +1",
    ),
]


@pytest.mark.parametrize(("snapshot", "message"), SAID)
def test_the_badge_says_no_more_than_the_page(
    site: SiteService, snapshot: Accuracy | None, message: str
) -> None:
    if snapshot is not None:
        publish_accuracy(site.service, snapshot)
    twin, drawn = site.ask(f"{BADGE}.json").json(), ET.fromstring(site.ask(f"{BADGE}.svg").text)

    assert (twin["label"], twin["message"], twin["isError"]) == ("rates accuracy", message, False)
    assert twin["color"] == "#6e7781"
    assert CAUTION in str(drawn[0].text)
    assert CAUTION in str(drawn[1].text)


def test_a_badge_without_recent_figures_is_unknown(site: SiteService) -> None:
    publish_accuracy(site.service, accuracy())
    before = site.ask(f"{BADGE}.json").json()
    site.clock.now = START + 3 * HOUR
    after = site.ask(f"{BADGE}.json").json()

    assert [each["message"] for each in (before, after)] == ["too few cases (0 of 30)", "unknown"]
    assert after["isError"]
