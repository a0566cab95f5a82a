"""Each rule speaks exactly when its docstring says, and says only what was measured."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from barograph.briefs.daily_wrap import DAILY_WRAP
from barograph.briefs.records import CATEGORIES, Brief, Draft
from barograph.briefs.rules import (
    MACRO_RULES,
    MARKET_RULES,
    funding_flip,
    liquidation_burst,
    liquidation_coverage,
    open_interest_move,
    outage,
    positioning_extreme,
    regime_change,
    volatility_extreme,
)
from barograph.briefs.texts import LABELS, write_brief
from barograph.kit.json import canonical
from barograph.kit.timestamps import DAY, HOUR, MINUTE, dated_text, iso_timestamp
from barograph.markets.evidence import (
    MarketEvidence,
    Outage,
    TrailingRecord,
)
from barograph.markets.regime import Label
from barograph.markets.settlements import SettledFunding
from barograph.signals.methods import btc_open_interest_trend
from barograph.venues.records import Frame, Perpetual
from support.clock import START
from support.evidence import (
    AT,
    FORTNIGHT,
    WEEK,
    Month,
    a_day_ago,
    add_hours,
    add_liquidations,
    closed,
    evidence,
    regime,
)
from support.markets import BTC, ETH, MARKET, SOL, SOURCE, changed

Rule = Callable[[MarketEvidence], Iterator[Draft]]

BY_ID = {rule.id: rule for rule in (*MARKET_RULES, DAILY_WRAP)}
CLAIMS = re.compile(
    r"\b(because|due to|caus\w+|led to|leads to|driv\w+|thanks to|therefore|hence|results? in"
    r"|should|ought|buy\w*|sell\w*|expect\w*|likely|unlikely|will|would|could|might|forecast\w*"
    r"|predict\w*|bullish|bearish|opportunit\w+|recommend\w*|consider\w*|target\w*|risky|signals?"
    r"|surg\w+|plung\w+|soar\w*|crash\w*|fear\w*|greed\w*|panic\w*)\b",
    re.IGNORECASE,
)


def spoken(drafts: Any) -> list[str]:
    return [draft.subject for draft in drafts]


def changing(before: Label, after: Label) -> MarketEvidence:
    return evidence(previous_regime=regime(before), regime=regime(after, 0.02))


def test_a_change_between_known_labels_is_told() -> None:
    (draft,) = regime_change(changing("neutral", "long-leaning"))

    assert draft.headline == "BTC funding turns long-leaning: +0.0200 % per 8 h"
    assert "+0.0200 % per 8 hours" in draft.sentence
    assert draft.coins == ["BTC"]
    assert draft.window == (AT - DAY, AT)


def settled(rate: float, contract: str = "BTCUSDT", at: int = AT) -> SettledFunding:
    return SettledFunding(contract, at, rate, 8, at - 5_000)


def flipping(
    before: float, after: float, contracts: tuple[Perpetual, ...] = MARKET
) -> MarketEvidence:
    trailing = TrailingRecord()
    trailing.settled["BTCUSDT"] = [settled(before, at=AT - 8 * HOUR)]
    return evidence(contracts, trailing=trailing, settlements=[settled(after)])


@pytest.mark.parametrize(
    ("before", "after", "sign"), [(-0.0001, 0.0001, "positive"), (0.01, -0.3, "negative")]
)
def test_a_settlement_with_the_other_sign_is_a_flip(before: float, after: float, sign: str) -> None:
    (draft,) = funding_flip(flipping(before, after))

    assert draft.headline == f"BTC funding turns {sign}: {after:+.4f} % per 8 h"
    assert draft.window == (AT - 8 * HOUR, AT)
    assert draft.subject == "btc"


@pytest.mark.parametrize(("last", "flips"), [(-0.02, True), (0.02, False), (0.0, False)])
def test_a_settlement_is_compared_with_the_last_that_had_a_sign(last: float, flips: bool) -> None:
    trailing = TrailingRecord()
    trailing.settled["BTCUSDT"] = [
        settled(rate, at=AT - (4 - number) * 8 * HOUR)
        for number, rate in enumerate((-0.3, 0.01, 0.0, 0.0))
    ]

    drafts = list(funding_flip(evidence(trailing=trailing, settlements=[settled(last)])))

    assert spoken(drafts) == (["btc"] if flips else [])
    assert [draft.window for draft in drafts] == [(AT - 24 * HOUR, AT)] * flips


def test_rates_of_other_intervals_are_told_at_eight_hours() -> None:
    trailing = TrailingRecord()
    before = settled(-0.01, at=AT - HOUR)._replace(funding_interval_hours=4)
    trailing.settled["BTCUSDT"] = [before]
    now = settled(0.01)._replace(funding_interval_hours=1)

    (draft,) = funding_flip(evidence(trailing=trailing, settlements=[now]))

    assert "+0.0800 % per 8 h" in draft.sentence
    assert "-0.0200 % per 8 h" in draft.sentence


def moving(coins: float, price: float, before: float = 1_000.0, **fields: Any) -> MarketEvidence:
    bitcoin = changed(BTC, last_price=price, open_interest_usd=coins * price)
    usual = {"day_ago": a_day_ago(before), "closed_hour": closed()}
    return evidence((bitcoin, ETH), **{**usual, **fields})


def test_the_way_of_open_interest_and_a_mark_price_in_usd_are_named() -> None:
    seen = moving(1_200, 100)
    (up,), (down,) = open_interest_move(seen), open_interest_move(moving(800, 100))
    assert up.headline.startswith("BTC open interest up 20.0 % in coins in 24 hours")
    assert down.headline.startswith("BTC open interest down 20.0 % in coins")
    elsewhere = changed(seen.majors["BTC"], price_kind="mark", quote="USD")
    (draft,) = open_interest_move(seen._replace(majors={"BTC": elsewhere}))
    assert "The mark price is unchanged at" in draft.sentence
    assert draft.sentence.endswith(" USD.")


def test_unknown_open_interest_is_neither_a_move_nor_a_trend() -> None:
    known = moving(1_200, 100)
    now = known._replace(majors={"BTC": changed(known.majors["BTC"], open_interest_usd=None)})

    for unknown in (now, moving(1_200, 100, day_ago=a_day_ago(None))):
        assert spoken(open_interest_move(unknown)) == []
        assert btc_open_interest_trend(unknown, None).label == "unknown"


def bursting(total: float, known: int = 200, **fields: Any) -> MarketEvidence:
    """Against hours of 0, 1, 2 … dollars."""
    usual = {
        "trailing": add_liquidations(TrailingRecord(), known),
        "closed_hour": closed(total),
        "closed_hour_assets": [("BTC", 3.0), ("ETH", 2.0), ("SOL", 1.0), ("XRP", 0.5)],
    }
    return evidence(**{**usual, **fields})


def test_a_burst_names_the_three_largest_assets_and_the_share_of_longs() -> None:
    (draft,) = liquidation_burst(bursting(1e6))

    assert draft.headline == "$1.00M liquidated in an hour, 75 % longs, led by BTC"
    assert (
        "This hour is the largest in 8 days, higher than in all of the past 8 days, "
        in draft.sentence
    )
    assert draft.coins == ["BTC", "ETH", "SOL"]
    assert "$1.00M was liquidated on " in draft.sentence
    assert "75 % of it longs" in draft.sentence
    assert "and one of 3 hours in 7 days at or above the 99th percentile." in draft.sentence
    assert draft.window == (AT - HOUR, AT)
    assert draft.inputs["largest_usd"] == {"BTC": 3.0, "ETH": 2.0, "SOL": 1.0}

    disputed = bursting(1e6)
    disputed.trailing.disputed_sides.add(AT - HOUR // 2, AT)
    assert spoken(liquidation_burst(disputed)) == []


def positioned(share: float, hours: int = 400, base: str = "BTC", **fields: Any) -> MarketEvidence:
    """Against hourly shares of 0, 0.1, 0.2 …"""
    trailing = add_hours(TrailingRecord(), hours, base, share=lambda number: number / 10)
    usual = {"trailing": trailing, "long_account_pct": {base: share}, "closed_hour": closed()}
    return evidence(**{**usual, **fields})


@pytest.mark.parametrize(
    ("share", "hours", "how", "days"),
    [
        (99.0, FORTNIGHT, "highest", 14),
        (0.0, FORTNIGHT + 22, "lowest", 14),
        (99.0, FORTNIGHT + 24, "highest", 15),
        (99.0, 40 * 24, "highest", 30),
    ],
)
def test_positioning_says_with_how_many_days(share: float, hours: int, how: str, days: int) -> None:
    (draft,) = positioning_extreme(positioned(share, hours))

    assert draft.headline == f"{share} % of BTC accounts are long, the {how} in {days} days"
    assert f" of the past {days} days. In that time it ranged from " in draft.sentence
    assert draft.inputs["hours_compared"] == min(hours, 30 * 24)


def swinging(last_moves: int, hours: int = FORTNIGHT + 24, base: str = "BTC") -> TrailingRecord:
    """A price that stands still, but for the last hours."""

    def price(number: int) -> float:
        moves = number >= hours - last_moves
        return 110.0 if moves and number % 2 else 100.0

    return add_hours(TrailingRecord(), hours, base, price=price)


def test_volatility_at_the_high_of_its_past_is_told() -> None:
    (draft,) = volatility_extreme(evidence(trailing=swinging(5), closed_hour=closed()))

    assert draft.subject == "btc"
    assert draft.window == (AT - HOUR - DAY, AT - HOUR)
    assert "the highest of the past 14 days" in draft.sentence
    assert draft.headline.endswith(" % annualised, the highest in 14 days")


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        (positioning_extreme, positioned(100.0)),
        (volatility_extreme, evidence(trailing=swinging(5), closed_hour=closed())),
    ],
)
def test_a_brief_says_that_hours_were_backfilled(rule: Rule, seen: MarketEvidence) -> None:
    trailing = TrailingRecord()
    for hour in seen.trailing.hours("BTC"):
        trailing.add_hour("BTC", hour._replace(is_backfilled=True))

    (measured,) = rule(seen)
    (filled,) = rule(seen._replace(trailing=trailing))

    said = filled.sentence.removeprefix(f"{measured.sentence} ")
    assert re.fullmatch(
        r"(The hour|All \d+ hours) it is compared with comes? from the exchange's own history\.",
        said,
    )
    assert filled.inputs == measured.inputs


def volatile(trailing: TrailingRecord, **fields: Any) -> MarketEvidence:
    return evidence(**{"trailing": trailing, "closed_hour": closed(), **fields})


def covered(watched_pct: float, trailing: TrailingRecord) -> MarketEvidence:
    return evidence(closed_hour=closed(1.0, watched_pct), trailing=trailing)


WATCHED = add_liquidations(TrailingRecord(), 1)
NEVER_WATCHED = add_liquidations(TrailingRecord(), 5, watched_pct=94.0)
UNWATCHED_WEEKS = add_liquidations(TrailingRecord(), 2 * WEEK, watched_pct=94.99)
QUIET_WEEK = add_liquidations(TrailingRecord(), WEEK, total=lambda _: 0.0)
DAY_WITH_A_GAP = add_hours(TrailingRecord(), 23)
NO_SHARES = add_hours(TrailingRecord(), 2 * FORTNIGHT)
SAME_SHARES = add_hours(TrailingRecord(), FORTNIGHT, share=lambda _: 0.0)
FLIP = flipping(0.01, 0.02)
MOVE = moving(1_200, 100)

SPOKEN: dict[Rule, list[tuple[MarketEvidence, list[str]]]] = {
    regime_change: [
        (changing("neutral", "neutral"), []),
        (changing("unknown", "neutral"), []),
        (changing("neutral", "unknown"), []),
        (evidence(previous_regime=None), []),
    ],
    funding_flip: [
        *((flipping(before, after), []) for before, after in [(0.01, 0.02), (-0.01, -0.02)]),
        *((flipping(before, after), []) for before, after in [(0, 0.01), (0.01, 0), (0, 0)]),
        (evidence(settlements=[settled(-0.01)]), []),
        (FLIP._replace(settlements=[settled(-0.01, "ETHUSDT")]), []),
    ],
    # 8 % within a day, at a price within 1 %
    open_interest_move: [
        *((moving(coins, 100), ["btc"]) for coins in (1_080, 920, 0)),
        *((moving(coins, 100), []) for coins in (1_079, 921, 1_000)),
        *((moving(1_080, price), ["btc"]) for price in (101, 99)),
        *((moving(1_080, price), []) for price in (101.01, 98.99)),
        (moving(1_200, 100, closed_hour=None), []),
        (moving(1_200, 100, before=0.0), []),
        (moving(1_200, 100, day_ago=Frame()), []),
        (MOVE._replace(majors={"ETH": ETH}), []),
    ],
    # from the 99th percentile of at least seven days that were watched
    liquidation_burst: [
        *((bursting(total), ["market"]) for total in (197.5, 198.0, 1e9)),
        *((bursting(total), []) for total in (197.0, 0.0)),
        (bursting(0.0, trailing=QUIET_WEEK), []),
        (bursting(0.01, trailing=QUIET_WEEK), ["market"]),
        (bursting(1e9, closed_hour=None), []),
        (bursting(1e9, lacks_liquidations=True), []),
        (bursting(1e9, closed_hour=closed(1e9, 94.99)), []),
        (bursting(1e9, closed_hour=closed(1e9, 95.0)), ["market"]),
        (bursting(1e9, known=WEEK - 1), []),
        (bursting(1e9, known=WEEK), ["market"]),
        (bursting(1e9, trailing=UNWATCHED_WEEKS), []),
    ],
    # in the outer 2.5 % of at least 14 days
    positioning_extreme: [
        *((positioned(share), ["btc-low"]) for share in (0.0, 0.95)),
        *((positioned(share), []) for share in (1.05, 20.0, 38.85)),
        *((positioned(share), ["btc-high"]) for share in (38.95, 100.0)),
        (positioned(99.0, base="SOL"), ["sol-high"]),
        (positioned(99.0, long_account_pct={}), []),
        (positioned(99.0, long_account_pct={"ETH": 99.0}), []),
        (positioned(99.0, FORTNIGHT), ["btc-high"]),
        (positioned(99.0, FORTNIGHT - 1), []),
        (positioned(99.0, closed_hour=None), []),
        (positioned(99.0, trailing=NO_SHARES), []),
        (positioned(0.0, trailing=SAME_SHARES), []),
    ],
    volatility_extreme: [
        (volatile(swinging(5)), ["btc"]),
        (volatile(swinging(0)), []),
        (volatile(swinging(5, FORTNIGHT + 23)), []),
        (volatile(swinging(5), closed_hour=None), []),
        (volatile(swinging(5, base="SOL")), ["sol"]),
        (volatile(swinging(5), as_of=AT + HOUR + 1), []),
    ],
    outage: [(evidence(), [])],
    # only once hours were watched before
    liquidation_coverage: [
        *((covered(watched_pct, WATCHED), ["liquidations"]) for watched_pct in (94.99, 0.0)),
        (covered(95.0, WATCHED), []),
        (covered(0.0, TrailingRecord()), []),
        (covered(0.0, NEVER_WATCHED), []),
        (evidence(trailing=WATCHED), []),
    ],
}


@pytest.mark.parametrize("rule", SPOKEN, ids=lambda rule: rule.__name__)
def test_a_rule_speaks_only_when_its_thresholds_are_met(rule: Rule) -> None:
    for number, (seen, subjects) in enumerate(SPOKEN[rule]):
        assert spoken(rule(seen)) == subjects, f"case {number}"


@pytest.mark.parametrize(
    ("kind", "why"),
    [("throttled", "Bybit: throttled"), (None, "no failure of Bybit was recorded")],
)
def test_an_outage_is_told_with_its_span_and_how_it_came(kind: str | None, why: str) -> None:
    (draft,) = outage(evidence(outage=Outage(AT - 5 * MINUTE, AT, kind)))

    assert draft.headline == "No data of Bybit for 5.0 minutes"
    assert draft.sentence.startswith(
        "No usable reading of Bybit was stored on 6 November, 20:55\N{EN DASH}21:00 UTC "
    )
    assert f"(300 s; {why})" in draft.sentence
    assert draft.window == (AT - 5 * MINUTE, AT)
    assert draft.coins == []


def test_a_market_in_which_nothing_happens_or_that_is_empty_has_no_brief() -> None:
    full = add_liquidations(
        add_hours(TrailingRecord(), 800, share=lambda _: 50.0), 720, lambda _: 1.0
    )
    for contracts in (MARKET, (SOL,), ()):
        for trailing in (TrailingRecord(), full):
            seen = evidence(contracts, trailing=trailing, closed_hour=closed(1.0))
            assert [spoken(rule.drafts(seen)) for rule in MARKET_RULES] == [[]] * len(MARKET_RULES)


def golden() -> Brief:
    (draft,) = funding_flip(flipping(0.01, -0.0025))
    return write_brief(BY_ID["funding-flip"], draft, flipping(0.01, -0.0025))


def test_the_inputs_of_a_brief_are_canonical_json_and_their_digest_never_changes() -> None:
    brief = golden()

    assert brief.inputs == (
        '{"as_of":"2026-11-06T21:00:00.000Z","before_funding_interval_hours":8,'
        '"before_funding_rate_pct":0.01,'
        '"before_settled_at":"2026-11-06T13:00:00.000Z","contract":"BTCUSDT",'
        '"funding_interval_hours":8,"funding_rate_pct":-0.0025,'
        '"read_at":"2026-11-06T20:59:55.000Z","settled_at":"2026-11-06T21:00:00.000Z",'
        '"source":"test venue"}'
    )
    assert brief.inputs_digest == "549f8b6b13826928092e3c485bb7208680183c1284765e101d8dc742c0f42de7"


def test_a_brief_says_where_it_comes_from() -> None:
    brief = golden()

    assert brief.slug == "2026-11-06-2100-funding-flip-btc"
    assert (brief.rule, brief.category, brief.source) == ("funding-flip", "funding", SOURCE)
    assert (brief.published_at, brief.cooldown_key) == (AT, "funding-flip:btc")
    assert (brief.window_start, brief.window_end) == (AT - 8 * HOUR, AT)
    assert brief.summary == (
        "BTC funding was -0.0025 % per 8 h at the settlement of 6 November, 21:00 UTC, after "
        "+0.0100 % per 8 h at the settlement of 6 November, 13:00 UTC. Source: test venue, as of "
        "6 November 2026, 21:00 UTC."
    )
    assert "\n| Rate at the settlement, per interval | -0.0025 % |\n" in brief.body
    how = "\n## How it was found\n\nThe settled funding of BTC, ETH or SOL changed its sign"
    assert how in brief.body


def test_a_brief_has_its_minute_in_its_address_and_a_dash_for_what_is_unknown() -> None:
    seen = evidence(as_of=START + 59_999, outage=Outage(AT - MINUTE, AT, None))
    (draft,) = outage(seen)

    brief = write_brief(BY_ID["outage"], draft, seen)

    assert brief.slug.startswith("2026-11-06-2120-outage-")
    assert "\n| Failure of the exchange | \N{EN DASH} |\n" in brief.body


def test_rules_have_unique_ids_known_categories_and_are_explained() -> None:
    rules = (*MARKET_RULES, *MACRO_RULES, DAILY_WRAP)

    assert len({rule.id for rule in rules}) == len(rules)
    assert {rule.category for rule in rules} <= set(CATEGORIES)
    assert all(len(rule.explanation) > 40 for rule in rules)


@pytest.fixture(scope="module")
def month() -> list[Brief]:
    return [brief for conclusion in Month().conclusions() for brief in conclusion.briefs]


def test_in_a_month_in_which_everything_happens_every_rule_speaks(month: list[Brief]) -> None:
    counts = Counter(brief.rule for brief in month)

    assert set(counts) == set(BY_ID) - {
        *("venue-switch", "funding-spread"),  # they need two venues
        "funding-flip",  # it needs the exchange's reports
    }
    assert (counts["outage"], counts["daily-wrap"]) == (2, 34)
    assert counts["open-interest-move"] == counts["liquidation-coverage"] == 1


def test_every_input_has_a_name_in_words_and_every_time_is_for_people(month: list[Brief]) -> None:
    for brief in month:
        inputs = set(json.loads(brief.inputs)) - {"source", "as_of"}
        assert brief.rule == "daily-wrap" or inputs <= set(LABELS)
        names = re.findall(r"^\| ([^|]+) \|", brief.body, re.MULTILINE)
        assert all(name[0].isupper() for name in names)
        assert not re.search(r"_|\b(pct|usd)\b", "\n".join(names))
        assert not re.search(r"\d{4}-\d\d-\d\d|`", brief.headline + brief.body)


def test_no_brief_says_why_what_follows_or_what_to_do(month: list[Brief]) -> None:
    texts = (f"{each.headline}\n{each.summary}\n{each.body}" for each in month)

    assert {found[0] for text in texts if (found := CLAIMS.search(text))} == set()


def test_every_summary_and_all_inputs_name_source_and_time(month: list[Brief]) -> None:
    for brief in month:
        time = dated_text(brief.published_at)
        assert brief.summary.endswith(f" Source: {SOURCE}, as of {time}.")
        assert len(brief.summary) < 500
        assert len(brief.headline) < 120
        assert not re.search(r"\bnan\b|\binf\b|None", brief.summary + brief.headline)
        assert sha256(brief.inputs.encode()).hexdigest() == brief.inputs_digest
        inputs = json.loads(brief.inputs)
        assert inputs["source"] == SOURCE
        assert inputs["as_of"] == iso_timestamp(brief.published_at)
        assert canonical(inputs) == brief.inputs


def test_addresses_are_unique_words_and_windows_end_before_the_brief(month: list[Brief]) -> None:
    slugs = [brief.slug for brief in month if brief.version == 1]

    assert len(set(slugs)) == len(slugs) < len(month)
    assert len({(brief.slug, brief.version) for brief in month}) == len(month)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug, re.ASCII) for slug in slugs)
    assert all(each.window_start < each.window_end <= each.published_at for each in month)


def test_no_rule_speaks_in_its_cooldown_and_no_reading_makes_a_crowd(month: list[Brief]) -> None:
    last: dict[str, int] = {}
    for brief in month:
        before = last.get(brief.cooldown_key)
        cooldown = BY_ID[brief.rule].cooldown
        assert before is None or brief.published_at - before >= cooldown
        last[brief.cooldown_key] = brief.published_at
    assert max(Counter(brief.published_at for brief in month).values()) <= 4
