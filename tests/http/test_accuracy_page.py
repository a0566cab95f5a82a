"""`/accuracy` and its badges: as much as the numbers support, and nothing more."""

from xml.etree import ElementTree as ET

import pytest

from barograph.accuracy.records import Accuracy, Finding
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


@pytest.mark.parametrize(("count", "episodes"), [(29, 12), (41, 9)])
def test_of_too_few_cases_or_episodes_only_their_number_is_shown(
    site: SiteService, count: int, episodes: int
) -> None:
    row = measured("constructive", count, "too-few", episodes=episodes)
    page = look(site, accuracy(kind_accuracy(row)))

    assert "Too few cases or episodes (30 cases with the label" in page.text
    assert f"After 24 h: constructive {count} in {episodes} episodes." in page.text
    assert page.tables == []


def test_a_row_shows_what_followed_beside_the_others_and_what_could_have_been_seen(
    site: SiteService,
) -> None:
    page = look(site, accuracy(kind_accuracy(measured("constructive", 41))))

    row = page.tables[0][1]
    numbers = "+0.20\N{MINUS SIGN}2.30 to +2.70"
    assert row[:3] == [*ROW, "41 in 12 episodes 2 without outcome", numbers]
    assert [each[:5] for each in row[3:5]] == ["+0.10", "+0.05"]
    assert row[-2:] == [
        "+0.10 (\N{MINUS SIGN}0.50 to +0.70)we would probably have seen 0.90 or more",
        "We could not tell",
    ]
    assert "47 versions of 40 legs measured" in page.text
    assert "Decided by the operator: 2. Withdrawn: 1. Late: 4." in page.text
    blind = look(site, accuracy(kind_accuracy(measured("constructive", 41, detectable=None))))
    assert "we could not have seen any" in blind.tables[0][1][-2]


@pytest.mark.parametrize(
    ("label", "finding", "words"),
    [
        ("constructive", "higher", "Higher than after other labels"),
        ("cautious", "lower", "Lower than after other labels"),
        ("cautious", "no-difference", "No difference that would matter"),
        ("neutral", "not-tested", "Not tested"),
    ],
)
def test_only_a_label_that_claims_a_direction_has_a_finding(
    site: SiteService, label: str, finding: Finding, words: str
) -> None:
    rows = measured("cautious", 41), measured(label, 41, finding, mean=2.0)

    assert look(site, accuracy(kind_accuracy(*rows))).tables[0][2][-1] == words


def test_a_table_without_claims_has_no_findings(site: SiteService) -> None:
    page = look(
        site, accuracy(kind_accuracy(measured("cautious", 41, "not-tested", metric="funding")))
    )

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
    (
        accuracy(kind_accuracy(measured("cautious", 41, "too-few", episodes=9))),
        "too few episodes (9 of 10)",
    ),
    (accuracy(kind_accuracy(measured("cautious", 31))), "could not tell"),
    (
        accuracy(kind_accuracy(measured("cautious", 31, "no-difference"))),
        "no difference that would matter",
    ),
    (accuracy(kind_accuracy(measured("neutral", 99, "not-tested"))), "too few cases (0 of 30)"),
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
