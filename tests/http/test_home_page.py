"""The home page: the market at a glance, and what is missing is said."""

import asyncio
import re

import pytest

from barograph.board.feeds import Publication
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.frames import stored
from barograph.markets.store import ReadingRow
from barograph.markets.view import BACKFILL, OLDER_SAMPLES
from barograph.signals.methods import METHODS
from barograph.venues.records import BackfillProgress, Frame, Liquidation, PastValues
from support.clock import START
from support.events import add_events, change
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading, shares
from support.pages import FOUND, NOTE, Checked
from support.service import Service

PARTS = ["market", "figures", "movers", "charts", "signals-now", "briefs-now"]
UNREAD = "Recorded data is temporarily unavailable."


def look(service: Service, path: str = "/") -> Checked:
    answer = service.get(path)
    assert answer.status_code == 200
    return Checked(answer)


def renewed(service: Service) -> list[str]:
    """The parts that the script renews: it looks for each by its name."""
    return re.findall(r'id="([\w-]+)"[^>]* data-part', service.get("/").text)


def kept_seconds(service: Service) -> int:
    found = re.match(r"public, max-age=(\d+)", service.get("/").headers["cache-control"])
    assert found is not None
    return int(found[1])


def record_past(
    service: Service, days: int, rate: float, hours: float = 8, origin: str = "measured"
) -> None:
    """Record the hour that was so many days ago."""
    service.execute(
        "INSERT INTO readings VALUES ('bybit', 'hour', 'BTCUSDT', $1, 1.5, $2, $3, 2.5, NULL, "
        "NULL, $4, '', NULL, NULL, NULL, NULL)",
        *((START - days * DAY) // HOUR * HOUR, rate, hours, origin),
    )


def record_label(service: Service, days: int, label: str) -> None:
    """Take a label so many days ago, by a rate that no later day had."""
    sql = "INSERT INTO regime_changes VALUES ('bybit', $1, $2, 9.75, 'measured')"
    service.execute(sql, START - days * DAY, label)


def test_the_market_is_told_at_a_glance(service: Service) -> None:
    page = look(service)
    top, _, rest = page.text.partition("BTC is at 67,000.5 USDT at Bybit.")

    assert top.startswith("Barograph: the state of the crypto market, measured Skip")
    assert "Free here and by API. Paid: stances, our dated conclusions" in top
    for words in (
        "At Bybit, longs pay shorts 0.0100 % per 8 h (regime: neutral).",
        "live Source: test venue. As of 2026-11-06 21:20 UTC",
        "Totals of Bybit. Asset Price Funding per 8 h Open interest (change in coins) Volume",
        "Market 4 coins +0.0026 % $7.59B — — by coin BTC 67,000.5 — USDT at Bybit +0.0100 %",
        "$5.00B — — 61.5 % ETH 3,500.25 — USDT at Bybit -0.0125 % $2.50B — — 55.0 %",
        "SOL 180.100 — USDT at Bybit — $0 — — 0.0 %",
        "Long accounts at Bybit: share of the accounts with a position, not of money.",
        "Next BTC settlement at Bybit: 22:20 UTC",
        "Hatched: less than 95 % covered, or still in progress.",
        "Information only, not financial advice.",
    ):
        assert words in rest
    assert "undrawn" not in service.get("/").text


def test_liquidations_are_told_by_side_with_what_was_watched(service: Service) -> None:
    long = Liquidation(START - HOUR, "ETHUSDT", "long", 3.0, 100.0)
    short = Liquidation(START - HOUR, "BTCUSDT", "short", 1.0, 100.0)
    service.watch_day([long, short])
    service.publish(reading(), shares())

    text = look(service).text

    assert (
        "Liquidated in 24 hours at Bybit $400 all contracts, most in ETH; 100 % of the day" in text
    )
    assert "Longs liquidated $300 75.0 % of the 24-hour total" in text
    assert "Shorts liquidated $100 25.0 % of the 24-hour total" in text


@pytest.mark.outcome(
    "An instance has tracked liquidations for less than a day",
    "`/api/status` shows `warming_up` and until when, the home page a countdown. That is no "
    "failure.",
)
def test_a_countdown_takes_the_place_of_the_first_days_total(empty_service: Service) -> None:
    empty_service.judge.of("bybit").watched(START - DAY // 2, START)
    empty_service.publish(reading(), shares())

    text = look(empty_service).text

    assert (
        "Liquidated in 24 hours at Bybit in 10 h 48 min The 24-hour total appears at about "
        "2026-11-07 08:08 UTC. We have covered 12 h of the last 24 hours, and began on 2026-11-06 "
        "09:20 UTC." in text
    )
    assert (
        "We have tracked liquidations since 2026-11-06 09:20 UTC. The exchange publishes no" in text
    )
    assert "Longs liquidated" not in text


def test_changes_lines_and_movers_come_from_the_record(service: Service) -> None:
    yesterday = (START - DAY) // HOUR * HOUR
    hours = [
        ReadingRow("hour", "BTCUSDT", at, 60_000.0 + n, 0.02, 4, 4e9, None, 40.0)
        for n, at in enumerate((yesterday - HOUR, yesterday - 5 * HOUR, yesterday))
    ]
    past = {"BTCUSDT": PastValues(60_002.0, 4e9, 40.0, 0.04)}
    frames = [stored(Frame(START - DAY, past))]
    service.record_market(readings=hours, frames=frames)
    asyncio.run(service.judge.load(service.database, START))
    service.watch_day([Liquidation(START - HOUR // 2, "SOLUSDT", "long", 2.0, 50.0)])
    btc = changed(BTC, open_interest_coins=50.0)
    service.publish(reading(contracts=(btc, *MARKET[1:])), shares())

    page = look(service)

    assert "BTC 67,000.5 +11.7 % USDT at Bybit +0.0100 % $5.00B +25.0 % — 61.5 %" in page.text
    assert "Movers Price BTC +11.7 % 67,000.5 Open interest (change in coins)" in page.text
    assert "(change in coins) BTC +25.0 % $5.00B" in page.text
    assert (
        "Funding per 8 h BTC -0.0300 pp +0.0100 % Liquidated, last hour SOL $100 100 % longs"
        in page.text
    )
    assert "Liquidations at Bybit: 20:20\N{EN DASH}21:20 UTC, 100 % covered." in page.text
    assert (
        "pp means percentage points. Changes compare the same venues then and now. "
        "An amount after “last” is the last known size of a missing venue. "
        "Changes are measured from our readings at 2026-11-05 21:20" in page.text
    )
    lines = re.findall(r'class="spark (\w+)"', service.get("/").text)
    assert lines == ["down", "flat", "flat"]


def test_the_reasons_to_trust_it_are_live(service: Service) -> None:
    text = look(service).text

    ((entries,),) = service.rows("SELECT count(*) FROM events")
    said = f"Signed record {entries} entries, last signed checkpoint confirmed at 21:20 UTC."
    assert said in text
    assert "Prices and funding older than 30 s are marked stale, never shown as current." in text
    service.clock.pass_seconds(30)
    assert "Status down Market data has been stale since 21:20 UTC." in look(service).text


def test_home_and_status_name_the_same_failing_parts(empty_service: Service) -> None:
    empty_service.publish(reading())
    empty_service.lose_history()
    empty_service.get("/api/history/checkpoint")
    pages = [look(empty_service, path).text for path in ("/", "/status")]

    (at_home,), (there,) = (re.findall(r"degraded (Affected: .*?\.)", each) for each in pages)
    assert at_home == there == "Affected: Long-account shares, History."


def test_a_past_day_has_the_rate_that_was_measured_then_not_that_of_its_label(
    service: Service,
) -> None:
    record_label(service, 20, "long-leaning")
    record_past(service, 1, 0.0075, hours=4)
    record_past(service, 30, -0.02)

    text = look(service).text

    assert "Yesterday long-leaning +0.0150 % per 8 h, 21:00 UTC" in text
    assert "7 days ago not recorded funding unknown" in text
    assert "30 days ago not recorded -0.0200 % per 8 h, 21:00 UTC" in text
    assert "9.75" not in text


def test_a_backfilled_past_says_where_it_comes_from(service: Service) -> None:
    record_label(service, 20, "long-leaning")
    for days in (1, 7):
        record_past(service, days, 0.0075, origin="backfilled")
    record_past(service, 0, 0.01)

    text = look(service).text

    assert "Yesterday not classified +0.0075 % per 8 h, settled rate as of 21:00 UTC" in text
    source = "come from the exchange's own history (the last settled rate); we measured the rest."
    assert f"Dashed: values before 2026-11-06 21:00 UTC {source}" in text


FILLING = (
    "We are back-filling missing hours from the exchange's own history, BTC, ETH and SOL first. "
    "120 of 1,467 contracts are done"
)


@pytest.mark.outcome(
    "A visitor reads a page during the back-fill",
    "The page shows what is known, how much is done and when the rest is expected.",
)
@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (None, "We have not started to back-fill missing hours from the exchange's own history."),
        (BackfillProgress(START, 1_467, 1_467), None),
        (BackfillProgress(START, 1_467, 120, START + HOUR), f"{FILLING}, all by about 22:20 UTC."),
        (
            BackfillProgress(START, 1_467, 120, START + HOUR, "throttled", START),
            f"{FILLING}. The last request failed (throttled); we are retrying.",
        ),
    ],
)
def test_pages_show_the_progress_of_the_backfill(
    service: Service, progress: BackfillProgress | None, told: str | None
) -> None:
    notes = [] if progress is None else [Publication.of(BACKFILL, progress)]
    service.put(*notes)

    for path in ("/", "/markets/BTC", "/signals"):
        text = look(service, path).text
        assert ("back-fill" in text) == (told is not None)
        assert told is None or told in text


def test_pages_of_a_demo_say_while_older_samples_follow(service: Service) -> None:
    done = BackfillProgress(START, 9, 9)
    for older, is_told in ((BackfillProgress(START, 9, 0), True), (done, False)):
        service.put(Publication.of(BACKFILL, done), Publication.of(OLDER_SAMPLES, older))
        for path in ("/", "/markets/BTC", "/signals"):
            assert ("Older samples of this demo" in look(service, path).text) == is_told


@pytest.mark.parametrize("days", [1, 7, 30, 60])
def test_charts_go_over_the_days_that_are_chosen(service: Service, days: int) -> None:
    page = look(service, f"/?days={days}")

    for measure in ("funding", "open-interest", "liquidations"):
        for end in ("?", ".csv?"):
            folder = f"/api/v1/series/{measure}{end}"
            (shown,) = (target for target in page.targets if target.startswith(folder))
            assert f"from={iso_timestamp(START - days * DAY)[:10]}" in shown
            assert service.ask(shown).status == 200
    text = service.get(f"/?days={days}").text
    assert f'href="/?days={days}#recorded" aria-current="true"' in text
    for unknown in ("", "days=8", "days=07", "days=", "other=1"):
        assert (service.get(f"/?{unknown}").text == text) == (days == 7)


@pytest.mark.outcome(
    "The market feed is stale while a visitor reads the home page or a market page",
    "The page shows charts, when the exchange was last read, and no old number as current.",
)
def test_stale_numbers_are_not_shown(service: Service) -> None:
    fresh = renewed(service)
    service.clock.pass_seconds(30)

    text = look(service).text

    assert renewed(service) == fresh == PARTS
    assert "We don't have a current market reading." in text
    assert "stale We last read the exchange at 2026-11-06 21:20 UTC." in text
    assert '<a href="/status">Status</a></span></p>' in service.get("/").text
    for gone in ("67,000.5", "Longs pay", "live", "Liquidated in 24 hours"):
        assert gone not in text
    assert kept_seconds(service) <= 2


def test_numbers_have_a_bound_for_the_script_and_signals_their_own_time(service: Service) -> None:
    service.publish(reading(START - 1_000), shares())
    text = service.get("/").text
    bound = r'(?:class="hero"|id="figures"|id="movers")[^>]* data-bound="(\d+)"'
    assert set(re.findall(bound, text)) == {str(START + 29_000)}
    assert 'market reading.">BTC is at' in text

    signal = "25 % clearly negative funding, 21:20:00 UTC"
    for later in (0, 10_000):
        service.clock.now = START + later
        service.publish(reading(START + later), shares())
        assert signal in look(service).text


def test_every_signal_is_there_also_when_it_is_too_old(service: Service) -> None:
    for seconds in (0, 30, 200):
        service.clock.pass_seconds(seconds)
        text = look(service).text
        for method in METHODS[1:]:  # the page begins with the regime
            assert f"{method.name} " in text
    assert text.count(" unknown n/a") == len(METHODS) - 1


def test_before_the_first_reading_nothing_is_recorded_yet(empty_service: Service) -> None:
    empty_service.refresh()

    page = look(empty_service)

    assert renewed(empty_service) == PARTS
    assert "stale We have not read the exchange yet." in page.text
    assert UNREAD not in page.text
    assert page.text.count("no data recorded") >= 3
    assert "Yesterday not recorded" in page.text
    assert "No brief has been published yet." in page.text


def test_the_charts_stay_while_btc_is_not_listed(service: Service) -> None:
    record_past(service, 1, 0.01)
    service.publish(reading(contracts=(ETH, SOL, PEPE)), shares())

    text = look(service).text

    assert "BTC — — — — — ETH 3,500.25" in text
    assert "Next BTC settlement" not in text
    assert UNREAD not in text
    assert "BTCUSDT, % per 8 h. From " in text
    assert "Yesterday not recorded +0.0100 % per 8 h" in text


@pytest.mark.outcome(
    "Stored readings are unreadable while a visitor reads the home page or a market page",
    "The page shows current numbers from memory and says that history is unavailable.",
)
def test_current_market_is_shown_while_stored_readings_are_unreadable(service: Service) -> None:
    service.execute("ALTER TABLE readings RENAME TO away")
    text = look(service).text
    kept = kept_seconds(service)
    service.execute("ALTER TABLE away RENAME TO readings")
    service.clock.pass_seconds(3)

    assert "BTC is at 67,000.5 USDT at Bybit." in text
    assert UNREAD in text
    assert "Yesterday unavailable" in text
    assert kept <= 2
    assert UNREAD not in look(service).text


def test_the_newest_briefs_are_shown_as_text_while_they_are_known_to_be_the_newest(
    service: Service,
) -> None:
    assert "No brief has been published yet." in look(service).text

    service.keep_briefs(NOTE, FOUND)
    page = look(service)
    assert "Fees & <b>spreads</b>" in page.text
    assert f"/briefs/{FOUND.slug}" in page.targets

    service.clock.pass_seconds(60)
    text = look(service).text
    assert "Briefs are temporarily unavailable." in text
    assert NOTE.summary not in text


def test_what_changed_is_there_for_those_who_come_back(service: Service) -> None:
    listed = change(1, "contract.listed", contract="NEWUSDT", symbol="NEW", venue="bybit")
    asyncio.run(add_events(service.database, [listed]))
    service.refresh()
    last = len(service.rows("SELECT id FROM events"))

    page = service.get("/").text

    assert f'data-last="{last}" data-events="/api/v1/events" hidden>' in page
    row = rf'<li data-id="{last}">.* <a href="/markets/NEW">NEW perpetual listed on Bybit</a></li>'
    assert re.search(row, page)
