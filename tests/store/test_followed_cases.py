"""What followed earlier briefs is calculated from the recorded briefs and hourly prices."""

import json

import pytest

from barograph.briefs.records import Brief, cooldown_key
from barograph.briefs.rules import MARKET_RULES
from barograph.briefs.store import record_briefs
from barograph.briefs.texts import write_brief
from barograph.briefs.writer import BriefWriter
from barograph.kit.database import Database, Transaction
from barograph.kit.json import digest
from barograph.kit.timestamps import DAY
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import MarketEvidence
from barograph.markets.store import ReadingRow, recent_record, record_rows
from support.evidence import AT, evidence, regime

RULE = MARKET_RULES[0]


def turning(at: int = AT) -> MarketEvidence:
    return evidence(as_of=at, previous_regime=regime("neutral"), regime=regime("long-leaning"))


def earlier_brief(at: int) -> Brief:
    (draft,) = RULE.drafts(turning())
    assert cooldown_key(RULE.id, draft) == "regime-change:long-leaning"
    return write_brief(RULE, draft, turning(at))


async def written_after(database: Database, cases: int) -> Brief:
    """The brief of a new writer; in the day after the earlier case `n` the price rose by n %."""
    starts = [AT - 2 * DAY * (cases - number) for number in range(cases)]
    prices = dict.fromkeys(starts, 100.0)
    prices |= {at + DAY: 100.0 + number for number, at in enumerate(starts)}
    rows = [ReadingRow("hour", "BTCUSDT", *each, None, None, None, None) for each in prices.items()]

    async def work(tx: Transaction) -> Brief:
        await record_rows(tx, "bybit", readings=rows)
        await record_briefs(tx, [earlier_brief(at) for at in starts])
        writer = BriefWriter()
        await writer.load(tx)
        trailing = await recent_record(tx, "bybit", {"BTCUSDT": "BTC"}, AT)
        (brief,) = writer.conclude(turning()._replace(trailing=trailing), NO_FIGURES)
        return brief

    return await database.write(work)


@pytest.mark.both_engines
async def test_after_enough_cases_a_brief_says_what_followed(database: Database) -> None:
    brief = await written_after(database, 35)

    assert json.loads(brief.inputs)["followed"] == {
        "symbol": "BTC",
        "horizon_hours": 24,
        "cases": 35,
        "median_pct": 17.0,
        "lowest_pct": 0.0,
        "highest_pct": 34.0,
    }
    assert brief.inputs_digest == digest(brief.inputs)
    assert (
        "In the 24 hours after 35 earlier cases of this rule and subject, the BTC price changed by "
        "+17.0 % (median), and by +0.0 % to +34.0 % (lowest to highest)." in brief.body
    )


@pytest.mark.parametrize(("cases", "speaks"), [(29, False), (30, True)])
async def test_29_cases_say_nothing(database: Database, cases: int, speaks: bool) -> None:
    brief = await written_after(database, cases)

    assert ("followed" in json.loads(brief.inputs)) is speaks
    assert ("earlier cases" in brief.body) is speaks
