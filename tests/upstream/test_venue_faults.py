"""Every fault of every venue ends in its documented outcome, and none in a wrong number."""

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.timestamps import HOUR
from barograph_demo.servers.registry import FAULTS_BY_SERVER
from support.venue_stack import NAMES, VenueStack, running_venues

pytestmark = pytest.mark.thorough

KINDS = {
    **dict.fromkeys(("502", "hang", "reset", "outage", "truncated", "10016"), "unreachable"),
    **dict.fromkeys(("empty-list", "stale-clock", "unequal-lists"), "invalid reply"),
    **dict.fromkeys(("429", "418", "10006", "403-json"), "throttled"),
    **dict.fromkeys(("geo-block", "403-html"), "refused"),
}
"""Faults that leave no reading, and the kind of failure that is named."""

WAITING = ("hang", "slow")
"""Faults that take their time; they are met all at once."""

HARMLESS = ("slow", "unknown-fields", "unknown-class")
LIST, CROSS = "/api/v1/perpetuals", "/api/v1/cross/BTC"
DATA_PATHS = (
    "/api/agent/derivatives?symbol=BTC",
    "/api/agent/market",
    "/api/agent/market-state",
)
LONG_PAUSE = 1200
"""Seconds, longer than any pause that a venue asks for."""

Seen = dict[str, Any]


def faults_of(venue: str, *chosen: str) -> list[tuple[str, str]]:
    return [(venue, fault) for fault in chosen if fault in list(FAULTS_BY_SERVER[venue])]


SILENCING = [each for venue in NAMES for each in faults_of(venue, *KINDS)]
ALONE = [fault for _, fault in faults_of("bybit", *KINDS, "delisting", "unknown-class")]
"""Faults of Bybit that also meet a service with no other venue."""

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
    for _ in range(1 if fault == "slow" else 2):
        await stack.take_readings(LONG_PAUSE)  # past the next reading of the listing
        await stack.take_readings()
    seen["later"] = await listed(stack, venue)
    stack.faults[venue].clear()
    for _ in range(2):
        await stack.take_readings(LONG_PAUSE)
        await stack.take_readings()
    return seen | {"after": await listed(stack, venue)}


async def break_alone(stack: VenueStack, fault: str) -> Seen:
    """Break the only venue; of the answers, the third are of the fault and the last without it."""
    seen: Seen = {"status": [], "answers": [], "SOL": [], "EURUSD": []}

    async def look(*pauses: float) -> None:
        for seconds in pauses:
            await stack.take_readings(seconds)
            seen["answers"].append([await stack.get(path) for path in DATA_PATHS])
            seen["status"].append((await stack.get("/api/status"))[1])
            for coin in ("SOL", "EURUSD"):
                seen[coin].append((await stack.get(f"/api/agent/derivatives?symbol={coin}"))[1])

    stack.faults["bybit"].turn_on(fault, stack.clock())
    # A changed listing is noticed at its next reading, and too old a reading after 30 seconds.
    await look(5, *((31, 31) if fault in KINDS else (LONG_PAUSE, 5)))
    stack.faults["bybit"].clear()
    await look(LONG_PAUSE, 5)
    return seen


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Seen]:
    async def of_venue(venue: str, faults: Collection[str]) -> dict[tuple[str, str], Seen]:
        found = {}
        async with running_venues(tmp_path_factory.mktemp(venue), seconds=4) as stack:
            for each in (*SILENCING, *OTHERS):
                if each[0] == venue and each[1] in faults:
                    work = silence if each in SILENCING else distort
                    found[each] = await work(stack, *each)
        return found

    async def of_one(faults: Collection[str]) -> dict[tuple[str, str], Seen]:
        folder = tmp_path_factory.mktemp("alone")
        async with running_venues(folder, seconds=4, venues="bybit") as stack:
            return {("alone", fault): await break_alone(stack, fault) for fault in faults}

    async def everything() -> dict[tuple[str, str], Seen]:
        each_alone = (of_venue(venue, [fault]) for venue in NAMES for fault in WAITING)
        parts = await asyncio.gather(*each_alone, of_one(["hang"]))
        others = [fault for _, fault in (*SILENCING, *OTHERS) if fault not in WAITING]
        rest = [fault for fault in ALONE if fault not in WAITING]
        parts += await asyncio.gather(*(of_venue(venue, others) for venue in NAMES), of_one(rest))
        return {each: result for part in parts for each, result in part.items()}

    return asyncio.run(everything())


@pytest.mark.outcome(
    "The exchange returns 502 or its own error 10016, hangs, resets connections, cuts its replies "
    "off or is unreachable",
    "502 after the freshness limit; status `down` (unreachable). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange returns an empty list or repeats old data",
    "502 after the freshness limit; status `down` (invalid reply). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange throttles the service (429 or 10006), or bans it for too many requests "
    "(403 JSON)",
    "502 after the freshness limit; status `down` (throttled). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange refuses the service's region (403 HTML)",
    "502 after the freshness limit; status `down` (refused). Both end when the exchange recovers.",
)
@pytest.mark.parametrize("fault", [fault for fault in ALONE if fault in KINDS])
def test_failing_exchange_leads_to_502_and_a_named_failure(
    seen: dict[tuple[str, str], Seen], fault: str
) -> None:
    found = seen["alone", fault]
    _, _, status, *_, after = found["status"]
    checks = {check["name"]: check for check in status["checks"]}
    assert (status["status"], status["feed"]["status"]) == ("down", "down")
    assert checks["exchange"]["status"] == "degraded"
    assert KINDS[fault] in checks["exchange"]["detail"]
    assert after["feed"]["status"] == "ok"
    assert {code for code, _ in found["answers"][2]} == {502}
    assert {code for code, _ in found["answers"][-1]} == {200}


@pytest.mark.parametrize("fault", ALONE)
def test_fault_never_yields_an_empty_success_or_an_undocumented_status(
    seen: dict[tuple[str, str], Seen], fault: str
) -> None:
    for bitcoin, market, state in seen["alone", fault]["answers"]:
        assert {code for code, _ in (bitcoin, market, state)} in ({200}, {502})
        if bitcoin[0] == 502:
            assert [list(body) for _, body in (bitcoin, market, state)] == [["error"]] * 3
        else:
            for record in (bitcoin[1], market[1]["assets"][0]):
                assert record["available"] is True
                assert record["lastPrice"] > 0


@pytest.mark.outcome(
    "The exchange delists a contract",
    "`available: false` with null numbers. Everything else goes on.",
)
def test_delisted_contract_becomes_unavailable_and_comes_back(
    seen: dict[tuple[str, str], Seen],
) -> None:
    found = seen["alone", "delisting"]
    record = found["SOL"][2]
    assert (record["available"], record["lastPrice"]) == (False, None)
    _, market = found["answers"][2][1]
    assert [asset["available"] for asset in market["assets"]] == [True, True, False]
    assert found["SOL"][-1]["available"] is True


@pytest.mark.outcome(
    "The exchange gives contracts a class that we don't know",
    "The collector leaves them out until a new version knows the class. `/api/status` names it.",
)
def test_contract_of_an_unknown_class_is_unavailable(seen: dict[tuple[str, str], Seen]) -> None:
    found = seen["alone", "unknown-class"]
    assert "prediction" in str(found["status"][2]["checks"])
    assert found["EURUSD"][2]["available"] is False


@pytest.mark.outcome(
    "One of several exchanges has no fresh reading",
    "Until it recovers, its own data returns 502. Totals and weighted rates of its coins are "
    "partial, and name the exchange with its last size. `/api/v1/venues` says how it fails.",
)
@pytest.mark.parametrize(("venue", "fault"), SILENCING)
def test_a_venue_without_a_reading_is_unavailable_and_named(
    seen: dict[tuple[str, str], Seen], venue: str, fault: str
) -> None:
    found = seen[venue, fault]
    assert (found["status"], found["after"]) == (502, 200)
    assert found["venue"]["failure"] == KINDS[fault]
    assert found["venue"]["state"] != "ok"
    cross = found["cross"]
    assert cross["totalOpenInterestUsd"] < cross["openInterestWithMissingUsd"]
    assert cross["weightedFundingRatePct8h"] is not None
    assert [each["venue"] for each in cross["openInterestMissing"]] == [venue]


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
async def test_an_announcement_is_quoted_and_degrades_nothing(tmp_path: Path) -> None:
    async with running_venues(tmp_path) as stack:
        for venue in ("bybit", "hyperliquid"):
            stack.faults[venue].turn_on("announcement", stack.clock())
        task = asyncio.create_task(stack.exchanges["bybit"].keep_up())
        async with asyncio.timeout(60):
            while "announces" not in await stack.check("exchange"):
                await stack.take_readings()
        task.cancel()
        checks = {each["name"]: each for each in (await stack.get("/api/status"))[1]["checks"]}
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
