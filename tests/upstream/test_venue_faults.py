"""Every fault of every venue ends in its documented outcome, and none in a wrong number."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.timestamps import HOUR
from barograph_demo.servers.faults import FAULTS_BY_SERVER
from support.venue_stack import NAMES, VenueStack, running_venues

pytestmark = pytest.mark.thorough

KINDS = {
    **dict.fromkeys(("502", "hang", "reset", "outage", "truncated", "10016"), "unreachable"),
    **dict.fromkeys(("empty-list", "stale-clock", "unequal-lists"), "invalid reply"),
    **dict.fromkeys(("429", "418", "10006", "403-json"), "throttled"),
    **dict.fromkeys(("geo-block", "403-html"), "refused"),
}
"""Faults that leave no reading, and the kind of failure that is named."""

HARMLESS = ("slow", "unknown-fields", "unknown-class")
LIST, CROSS = "/api/v1/perpetuals", "/api/v1/cross/BTC"
LONG_PAUSE = 1200
"""Seconds, longer than any pause that a venue asks for."""

Seen = dict[str, Any]


def faults_of(venue: str, *chosen: str) -> list[tuple[str, str]]:
    return [(venue, fault) for fault in chosen if fault in list(FAULTS_BY_SERVER[venue])]


SILENCING = [each for venue in NAMES for each in faults_of(venue, *KINDS)]
OTHERS = [each for v in NAMES for each in faults_of(v, *HARMLESS, "delisting", "interval-change")]


async def listed(stack: VenueStack, venue: str) -> dict[str, Any]:
    status, body = await stack.get(f"{LIST}?venue={venue}")
    assert status == 200, (venue, body)
    return {each["contract"]: each for each in body["perpetuals"]}


async def silence(stack: VenueStack, venue: str, fault: str) -> Seen:
    """Break a venue until its last reading is too old, and mend it."""
    stack.faults[venue].turn_on(fault, stack.clock())
    for _ in range(2):
        await stack.take_readings(31)
    _, rows = await stack.get("/api/v1/venues")
    seen = {
        "venue": next(each for each in rows["venues"] if each["venue"] == venue),
        "cross": (await stack.get(CROSS))[1],
        "status": (await stack.get(f"{LIST}?venue={venue}"))[0],
    }
    stack.faults[venue].clear()
    stack.clock.pass_seconds(LONG_PAUSE)
    await stack.take_readings(sweep=True)
    await stack.take_readings()
    return seen | {"after": (await stack.get(f"{LIST}?venue={venue}"))[0]}


async def distort(stack: VenueStack, venue: str, fault: str) -> Seen:
    """Read a venue without and with a fault, at the same time of the market."""
    if fault == "interval-change":  # after a settlement of both intervals, the next one differs
        stack.clock.now += 8 * HOUR - stack.clock.now % (8 * HOUR) + HOUR // 2
        await stack.take_readings()
        await stack.take_readings()
    before = await listed(stack, venue)
    stack.faults[venue].turn_on(fault, stack.clock())
    await stack.take_readings(0)
    seen = {"before": before, "at once": await listed(stack, venue)}
    for _ in range(2):
        await stack.take_readings(LONG_PAUSE)  # past the next reading of the listing
        await stack.take_readings()
    seen["later"] = await listed(stack, venue)
    stack.faults[venue].clear()
    for _ in range(2):
        await stack.take_readings(LONG_PAUSE)
        await stack.take_readings()
    return seen | {"after": await listed(stack, venue)}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Seen]:
    async def of_venue(venue: str) -> dict[tuple[str, str], Seen]:
        found = {}
        async with running_venues(tmp_path_factory.mktemp(venue), seconds=4) as stack:
            for each in (e for e in (*SILENCING, *OTHERS) if e[0] == venue):
                work = silence if each in SILENCING else distort
                found[each] = await work(stack, *each)
        return found

    async def everything() -> dict[tuple[str, str], Seen]:
        parts = await asyncio.gather(*(of_venue(venue) for venue in NAMES))
        return {each: result for part in parts for each, result in part.items()}

    return asyncio.run(everything())


@pytest.mark.outcome(
    "One of several exchanges has no fresh reading",
    "Until it recovers, its own data returns 502, and totals and weighted rates of its coins "
    "are null and name it. `/api/v1/venues` says how it fails.",
)
@pytest.mark.parametrize(("venue", "fault"), SILENCING)
def test_a_venue_without_a_reading_is_unavailable_and_named(
    seen: dict[tuple[str, str], Seen], venue: str, fault: str
) -> None:
    found = seen[venue, fault]
    assert (found["status"], found["after"]) == (502, 200)
    assert found["venue"]["failure"] == KINDS[fault]
    assert found["venue"]["state"] != "ok"
    assert found["cross"]["totalOpenInterestUsd"] is None
    assert found["cross"]["weightedFundingRatePct8h"] is None
    assert [each["venue"] for each in found["cross"]["openInterestMissing"]] == [venue]


@pytest.mark.outcome(
    "An exchange is slow within its time limit, or sends unknown fields or classes",
    "The numbers stay the same.",
)
@pytest.mark.parametrize(("venue", "fault"), [each for each in OTHERS if each[1] in HARMLESS])
def test_a_harmless_fault_changes_no_number(
    seen: dict[tuple[str, str], Seen], venue: str, fault: str
) -> None:
    found = seen[venue, fault]
    assert found["at once"] == found["before"]
    assert found["later"].keys() == found["before"].keys()


@pytest.mark.outcome(
    "An exchange announces maintenance (Bybit, Hyperliquid)",
    "`/api/status` quotes it. It degrades nothing by itself.",
)
def test_an_announcement_is_quoted_and_degrades_nothing(tmp_path: Path) -> None:
    async def work() -> list[dict[str, Any]]:
        async with running_venues(tmp_path) as stack:
            for venue in ("bybit", "hyperliquid"):
                stack.faults[venue].turn_on("announcement", stack.clock())
            task = asyncio.create_task(stack.exchanges["bybit"].keep_up())
            async with asyncio.timeout(60):
                while "announces" not in await stack.check("exchange"):
                    await stack.take_readings()
            task.cancel()
            return list((await stack.get("/api/status"))[1]["checks"])

    checks = {each["name"]: each for each in asyncio.run(work())}
    assert "; it announces: System upgrade (ongoing, 20" in checks["exchange"]["detail"]
    assert "; it announces: Network upgrade in progress" in checks["hyperliquid"]["detail"]
    assert {checks[name]["status"] for name in ("exchange", "hyperliquid", "binance")} == {"ok"}


@pytest.mark.parametrize("venue", NAMES)
@pytest.mark.outcome(
    "An exchange delists a contract",
    "It is left out, or `available: false` with null numbers, until it is listed again.",
)
def test_a_delisted_contract_is_left_out_until_it_is_back(
    seen: dict[tuple[str, str], Seen], venue: str
) -> None:
    found = seen[venue, "delisting"]
    gone = found["before"].keys() - found["later"].keys()
    assert {found["before"][name]["coin"] for name in gone} == {"SOL"}
    assert found["after"].keys() == found["before"].keys()


@pytest.mark.parametrize("venue", ["bybit", "binance"])
@pytest.mark.outcome(
    "An exchange changes the funding interval of a contract",
    "The rate per 8 hours goes on, or the contract is left out until the new interval is known.",
)
def test_a_changed_interval_gives_no_wrong_rate_per_eight_hours(
    seen: dict[tuple[str, str], Seen], venue: str
) -> None:
    found, name = seen[venue, "interval-change"], "SOLUSDT"
    before, at_once = found["before"][name], found["at once"].get(name)
    if at_once is not None:
        assert at_once["fundingRatePct8h"] == pytest.approx(
            before["fundingRatePct8h"], rel=0.01, abs=1e-5
        )
    later = found["later"][name]
    assert later["fundingIntervalHours"] != before["fundingIntervalHours"]
    assert later["fundingRatePct8h"] == pytest.approx(
        later["fundingRatePct"] * 8 / later["fundingIntervalHours"]
    )
