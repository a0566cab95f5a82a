"""Earlier days of a fund: each is asked for until it is known, and none hides the others."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import httpx2
import pytest

from barograph.kit.business_days import trading_days
from barograph.kit.timestamps import DAY
from barograph.macro.records import RemembersDays
from barograph.upstream.etf import BACKFILL, IssuerHoldings
from barograph.upstream.files import FileClient
from support.clock import START, HandClock

TODAY = date(2026, 11, 6)
EARLIER = list(trading_days(TODAY - BACKFILL, TODAY - timedelta(days=1)))
COLUMNS = "Ticker,Name,Asset Class,Market Value,Weight (%),Quantity,Price,Currency"
BITCOIN = '"BTC","BITCOIN","Alternative","100.00","100.00","10.0","10.00","USD"'
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

Issuer = Callable[[date], httpx2.Response]


def holdings(day: date | None) -> httpx2.Response:
    said = "-" if day is None else f"{MONTHS[day.month - 1]} {day.day:02d}, {day.year}"
    preamble = f'A Trust\nFund Holdings as of,"{said}"\nShares Outstanding,"2.00"\n'
    text = f"{preamble}\n{COLUMNS}\n{BITCOIN}\n\n"
    return httpx2.Response(200, text=text, headers={"content-type": "text/csv"})


async def no_pause(_seconds: float) -> None:
    return


class Fund:
    """A fund whose issuer answers as told, read round after round."""

    def __init__(self, issuer: Issuer, newest: date = EARLIER[-1]) -> None:
        self.issuer = issuer
        self.newest = newest
        self.clock = HandClock(START)
        self.asked: list[date] = []
        client = FileClient(
            seconds=5,
            clock=self.clock,
            transport=httpx2.MockTransport(self._answer),
            sleep=no_pause,
        )
        self._source = IssuerHoldings(
            client, fund="IBIT", address="https://issuer.example/f", source="s", clock=self.clock
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        asked = request.url.params.get("asOfDate")
        if asked is None:
            return holdings(self.newest)
        day = datetime.strptime(asked, "%Y%m%d").replace(tzinfo=UTC).date()
        if day not in self.asked:
            self.asked.append(day)
        return self.issuer(day)

    def read(self, *, is_stored: bool = True) -> list[date]:
        """The days that one round gave."""
        self.asked = []
        readings = asyncio.run(self._source.read())
        remembering: RemembersDays = self._source
        if is_stored:
            remembering.kept(readings)
        return sorted({date.fromisoformat(each.day) for each in readings})


def test_the_first_round_brings_the_last_weeks_and_the_next_only_the_newest() -> None:
    fund = Fund(holdings)

    assert fund.read() == EARLIER
    assert fund.read() == EARLIER[-1:]
    assert fund.asked == []


def test_days_that_could_not_be_stored_are_asked_for_again() -> None:
    fund = Fund(holdings)

    assert fund.read(is_stored=False) == EARLIER
    assert fund.read() == EARLIER
    assert fund.read() == EARLIER[-1:]
    assert fund.asked == []


def test_the_newest_day_is_asked_for_by_name_once_another_is_newest_and_it_was_not_stored() -> None:
    fund = Fund(holdings, newest=EARLIER[-2])
    fund.issuer = lambda day: holdings(day if day < EARLIER[-1] else None)
    assert fund.read(is_stored=False) == EARLIER[:-1]
    assert EARLIER[-2] not in fund.asked

    fund.newest = EARLIER[-1]
    assert fund.read() == EARLIER
    assert EARLIER[-2] in fund.asked


@pytest.mark.parametrize(
    "oddity",
    [
        lambda _day: holdings(TODAY),
        lambda _day: httpx2.Response(404),
        lambda _day: httpx2.Response(200, text="<html>", headers={"content-type": "text/html"}),
        lambda _day: holdings(None),
    ],
    ids=["another day's file", "not found", "no file", "without figures"],
)
def test_a_day_that_the_issuer_does_not_have_hides_no_other(oddity: Issuer) -> None:
    fund = Fund(lambda day: oddity(day) if day == EARLIER[0] else holdings(day))

    assert fund.read() == EARLIER[1:]


def test_an_issuer_that_stops_answering_is_asked_for_the_rest_the_next_time() -> None:
    fund = Fund(lambda day: httpx2.Response(503) if day >= EARLIER[5] else holdings(day))

    assert fund.read() == [*EARLIER[:5], EARLIER[-1]]
    assert fund.asked == EARLIER[:6]
    fund.issuer = holdings
    assert fund.read() == EARLIER[5:]


def test_a_recent_day_that_is_not_out_yet_is_asked_for_again_and_an_old_one_is_not() -> None:
    missing = {EARLIER[0], EARLIER[-2]}
    fund = Fund(lambda day: holdings(None if day in missing else day))
    fund.read()
    fund.read()

    assert fund.asked == [EARLIER[-2]]
    fund.clock.now += 7 * DAY
    fund.read()
    fund.read()
    assert EARLIER[-2] not in fund.asked


@pytest.mark.outcome(
    "An ETF issuer returns a web page instead of its files",
    "The collector requests those days again later.",
)
def test_days_answered_with_a_web_page_are_requested_again() -> None:
    fund = Fund(
        lambda _day: httpx2.Response(200, text="<html>", headers={"content-type": "text/html"})
    )
    assert fund.read() == EARLIER[-1:]

    fund.issuer = holdings
    assert fund.read() == EARLIER
