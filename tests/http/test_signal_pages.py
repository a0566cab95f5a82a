"""Signals on the site: what they say, since when, what they said, and never more than is known."""

import re
from collections.abc import Sequence

import pytest

from barograph.board.feeds import Publication
from barograph.history.records import NotIssuedYet, Stances
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.signals.methods import MACRO_METHODS, MARKET_METHODS, METHODS, Method
from barograph.signals.reader import FIGURES
from barograph.signals.records import SIGNALS, Signal, SignalChange, Signals
from barograph.stances.reader import STANCES
from support.clock import START
from support.markets import reading, shares
from support.pages import SiteService
from support.service import BASE_URL

KEY = "btc-funding-regime"
PAGE = f"/signals/{KEY}"


def change(days_ago: float, label: str, value: str = "+0.0100 % per 8 h") -> SignalChange:
    return SignalChange(KEY, START - int(days_ago * DAY), label, value)


_HOW_FRESH = (
    "live As of 2026-11-06 21:20 UTC .",
    "daily Based on the newest daily figures, as of 2026-11-06 21:20 UTC.",
)
_SOURCES = ("test venue", FIGURES)
"""Of the market, and of what comes once a day."""


def test_signals_are_shown_with_their_method_and_badge(site: SiteService) -> None:
    answer = site.ask("/signals")
    heads = re.findall(r'<th scope="col">(.+?)</th>', answer.text)
    assert heads == ["Signal", "Label", "Value", "Since"]
    listed = site.look("/signals")
    for method in METHODS:
        sentence, rules = method.explanation
        assert f"{method.name}{sentence} calm & quiet value of {method.key}" in listed.text
        page = site.look(f"/signals/{method.key}")
        said = _HOW_FRESH[method in MACRO_METHODS]
        assert f"{said} Source: {_SOURCES[method in MACRO_METHODS]}" in page.text
        assert sentence in page.text
        assert rules in page.text
        assert f"/badge/signal/{method.key}.svg" in page.targets
        assert {"badge-markdown", "badge-html", "badge-address"} == set(page.copied)
        assert page.relations["alternate"] == "/api/v1/signals"


def test_a_badge_is_offered_as_markdown_html_and_address(site: SiteService) -> None:
    text = site.look(PAGE).text

    badge, there = f"{BASE_URL}/badge/signal/{KEY}.svg", f"{BASE_URL}{PAGE}"
    assert f"[![BTC funding regime]({badge})]({there})" in text
    assert f'<a href="{there}"><img src="{badge}" height="20" alt="BTC funding regime"></a>' in text
    assert f"URL Copy {badge}" in text


def test_a_signal_says_since_when_it_has_its_label_and_what_it_said_before(
    site: SiteService,
) -> None:
    site.record_changes(
        change(20, "neutral"), change(7, "long-leaning"), change(0.5, "calm & quiet")
    )

    text = site.look(PAGE).text

    for words in (
        "since 2026-11-06 09:20 UTC",
        "Now calm & quiet",
        "Yesterday long-leaning since 2026-10-30 21:20 UTC",
        "7 days ago long-leaning since 2026-10-30 21:20 UTC",
        "30 days ago — not recorded",
    ):
        assert words in text
    assert "2026-11-06 09:20 UTC" in site.look("/signals").text
    assert "start unknown" in site.look("/signals/us-rates").text


def test_the_last_changes_are_listed(site: SiteService) -> None:
    changes = [change(30 - number, f"label-{number}", f"value {number}") for number in range(20)]
    site.record_changes(*changes, change(1, "calm & quiet"))

    text = site.look(PAGE).text

    assert "21 in the last 60 days; the 15 most recent are shown." in text
    assert "2026-11-05 21:20 UTC calm & quiet +0.0100 % per 8 h 2026-10-26" in text
    assert "2026-10-26 21:20 UTC label-19 value 19" in text
    assert "value 5 " not in text


def test_the_history_shows_how_much_of_the_time_each_label_had(site: SiteService) -> None:
    text = site.look(PAGE).text
    assert "No change has been recorded yet." in text
    assert "not recorded 100 %" in text

    site.record_changes(change(90, "neutral"), change(45, "long-leaning"), change(15, "neutral"))
    site.clock.pass_seconds(6)
    site.judged("neutral")
    text = site.look(PAGE).text

    assert "long-leaning 50 %" in text
    assert "neutral 50 %" in text
    assert re.search(r"not recorded \d", text) is None


@pytest.mark.outcome(
    "The market feed is stale when signals are read",
    "Signals that depend on it say `unknown` in a 200, never 502 or their last label.",
)
@pytest.mark.parametrize(
    ("seconds", "stale", "fresh"), [(30, MARKET_METHODS, MACRO_METHODS), (150, METHODS, ())]
)
def test_stale_signals_are_unknown(
    site: SiteService, seconds: int, stale: Sequence[Method], fresh: Sequence[Method]
) -> None:
    site.clock.pass_seconds(seconds)

    for path in ("/signals", PAGE):
        kept = site.ask(path).headers["cache-control"]
        assert kept.startswith("public, max-age=4, stale-while-revalidate=0,")
    listed, single = site.look("/signals").text, site.look(PAGE).text
    assert listed.count("unknown n/a unknown") == len(stale)
    assert listed.count("calm & quiet") == len(fresh)
    assert "calm & quiet" not in single
    assert "Now unknown n/a" in single
    assert ("No signal is up to date." in listed) == (not fresh)
    assert "live" not in listed
    assert ("partly stale 7 of 9 signals are not up to date" in listed) == bool(fresh)
    for text in (listed, single) if fresh else ():
        assert "We last read the exchange at 2026-11-06 21:20 UTC" in text
    assert "/status" in site.look("/signals").targets
    assert "stale This signal is not up to date." in single


def test_a_script_is_told_when_a_signal_is_no_longer_of_now(site: SiteService) -> None:
    site.judged()
    listed, single = site.ask("/signals").text, site.ask(PAGE).text

    ends = re.findall(r'<tr data-bound="(\d+)"', listed)
    by_market, by_figures = str(START + 30_000), str(START + 150_000)
    assert ends == [by_market] * len(MARKET_METHODS) + [by_figures] * len(MACRO_METHODS)
    assert f'data-bound="{by_market}"><span class="pill ok" data-pill' in listed
    assert f'data-bound="{by_market}"><span class="pill ok" data-pill' in single
    assert 'data-past="unknown">calm &amp; quiet</strong>' in listed


def test_what_was_not_judged_is_no_part_of_a_labels_time(site: SiteService) -> None:
    site.record_changes(change(90, "calm & quiet"))
    site.clock.pass_seconds(30 * 24 * 3_600)

    text = site.look(PAGE).text

    assert "calm & quiet 50 %" in text
    assert "not recorded 50 %" in text
    for words in ("Yesterday", "7 days ago"):
        assert f"{words} — not recorded" in text
    assert "30 days ago calm & quiet since" in text


def test_a_young_instance_says_when_its_unknown_signals_will_be_known(site: SiteService) -> None:
    site.service.judge.of("bybit").watched(START - HOUR, START)
    site.service.publish(reading(), shares())
    key, why = "liquidation-pressure", "Unavailable while this venue is in use."
    listed, single = site.look("/signals").text, site.look(f"/signals/{key}").text

    told = (
        "It needs 168 hours that we watched ourselves, and we have 0. Expected by about "
        "2026-11-13 21:20 UTC."
    )
    assert f"unknown n/a{told}" in listed
    assert told in single
    assert "unknown n/aIt needs 336 hours, and we have 0." in listed

    lacking = Signal(key, "Liquidation pressure", "unknown", "n/a", START, why)
    site.service.put(Publication.of(SIGNALS, Signals(START, "test venue", (lacking,))))
    for path in ("/signals", f"/signals/{key}"):
        assert why in site.look(path).text
        assert "Expected by" not in site.look(path).text


def test_page_and_status_expect_the_first_etf_stance_at_the_same_minute(site: SiteService) -> None:
    waiting = {"btc-etf-stance": NotIssuedYet("1 of 20 days are known", START + DAY - SECOND)}
    note = Publication.of(STANCES, Stances(START, (), {}, waiting=waiting))
    site.service.put(note)
    site.judged("unknown")

    told = "1 of 20 days are known. Expected by about 2026-11-07 21:20 UTC."
    assert told in site.look("/signals").text
    assert "warming up until 2026-11-07T21:20:00.000Z" in site.ask("/api/status").text


@pytest.mark.outcome(
    "Stored signals are unreadable while a visitor reads the signal pages",
    "The pages show current labels from memory and say that history is unavailable.",
)
def test_signals_are_shown_while_their_history_is_unreadable(site: SiteService) -> None:
    site.rename("signal_changes", "away")

    page, listed = site.look(PAGE).text, site.look("/signals").text
    site.rename("away", "signal_changes")
    site.clock.pass_seconds(6)

    assert "Now calm & quiet" in page
    assert "The history is temporarily unavailable." in page
    assert "calm & quiet" in listed
    assert "temporarily unavailable" in listed
    assert "temporarily unavailable" not in site.look(PAGE).text
    assert "temporarily unavailable" not in site.look("/signals").text


def test_a_new_label_is_on_the_page_with_the_next_data(site: SiteService) -> None:
    site.record_changes(change(2, "calm & quiet"))
    assert "since 2026-11-04 21:20 UTC" in site.look(PAGE).text

    site.record_changes(SignalChange(KEY, START + HOUR, "neutral", "+0.0100 % per 8 h"))
    site.clock.pass_seconds(3_600)
    site.judged("neutral", START + HOUR)

    assert "Now neutral" in site.look(PAGE).text
    assert "since 2026-11-06 22:20 UTC" in site.look(PAGE).text
