"""Reference rates of the New York Fed: strict about what is taken."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from barograph.errors import InvalidReply
from barograph.macro.records import EFFR, EFFR_HIGH, EFFR_LOW, SOFR, Figure, MacroSource
from barograph.upstream.files import FileClient
from barograph.upstream.interest_rates import Rate, ReferenceRate, decode_effr, decode_sofr
from support.clock import START

SOURCE = "New York Fed"


def sofr(day: str = "2026-11-05", **changes: Any) -> dict[str, Any]:
    row = {
        "effectiveDate": day,
        "type": "SOFR",
        "percentRate": 3.91,
        "percentPercentile1": 3.85,
        "volumeInBillions": 3001,
        "revisionIndicator": "",
    }
    return row | changes


def effr(day: str = "2026-11-05", **changes: Any) -> dict[str, Any]:
    target = {"targetRateFrom": 3.75, "targetRateTo": 4}
    return sofr(day, type="EFFR", percentRate=3.88) | target | changes


def reply(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"refRates": rows}).encode()


def test_rates_are_read_oldest_day_first() -> None:
    body = reply(sofr("2026-11-05"), sofr("2026-11-04", percentRate=4))

    assert decode_sofr(body, SOURCE) == [
        Figure(SOFR, "2026-11-04", 4.0, SOURCE),
        Figure(SOFR, "2026-11-05", 3.91, SOURCE),
    ]


def test_the_federal_funds_rate_comes_with_its_target_range() -> None:
    assert decode_effr(reply(effr()), SOURCE) == [
        Figure(EFFR, "2026-11-05", 3.88, SOURCE),
        Figure(EFFR_LOW, "2026-11-05", 3.75, SOURCE),
        Figure(EFFR_HIGH, "2026-11-05", 4.0, SOURCE),
    ]


@pytest.mark.parametrize(
    "ends",
    [
        {"targetRateFrom": None, "targetRateTo": None},
        {"targetRateFrom": None},
        {"targetRateTo": None},
        {"targetRateFrom": "NA"},
        {"targetRateFrom": "N/A", "targetRateTo": ""},
    ],
)
def test_a_rate_whose_range_has_an_unknown_end_is_read_without_the_range(
    ends: dict[str, Any],
) -> None:
    assert decode_effr(reply(effr(**ends)), SOURCE) == [Figure(EFFR, "2026-11-05", 3.88, SOURCE)]


def test_a_range_is_read_although_its_rate_is_not_available() -> None:
    readings = decode_effr(reply(effr(percentRate="NA"), effr("2026-11-04")), SOURCE)

    assert [each.series for each in readings if each.day == "2026-11-05"] == [EFFR_LOW, EFFR_HIGH]


@pytest.mark.parametrize("order", [1, -1])
def test_a_revised_rate_takes_the_place_of_what_it_revises(order: int) -> None:
    rows = [sofr(percentRate=3.95, revisionIndicator="[r]"), sofr()][::order]

    assert decode_sofr(reply(*rows), SOURCE) == [Figure(SOFR, "2026-11-05", 3.95, SOURCE)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"refRates": [',
        b'{"refRates": null}',
        reply(),
        reply(sofr(percentRate="3.91")),
        reply(sofr(percentRate=None)),
        reply(sofr(percentRate="NA"), sofr("2026-11-04", percentRate="NA")),
        reply(sofr(percentRate="about 4")),
        reply(sofr(percentRate=True)),
        reply(sofr(percentRate=391)),
        b'{"refRates":[{"effectiveDate":"2026-11-05","type":"SOFR","percentRate":NaN}]}',
        reply({"effectiveDate": "2026-11-05", "type": "SOFR"}),
        reply(sofr("11/05/2026")),
        reply(sofr("2026-11-31")),
        reply(sofr("2026-11-05T00:00")),
        reply(sofr("2026-11-05\n")),
        reply(sofr(type="BGCR")),
        reply(sofr(), sofr()),
        reply(sofr(revisionIndicator=1)),
    ],
)
def test_a_reply_that_cannot_be_what_it_means_is_an_invalid_reply(body: bytes) -> None:
    with pytest.raises(InvalidReply):
        decode_sofr(body, SOURCE)


@pytest.mark.parametrize(
    "changes",
    [
        {"targetRateFrom": 4.25},
        {"targetRateFrom": "3.75"},
        {"type": "SOFR"},
    ],
)
def test_a_range_that_cannot_be_one_is_an_invalid_reply(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidReply):
        decode_effr(reply(effr(**changes)), SOURCE)


def read(rate: Rate, body: bytes) -> tuple[list[Figure], str, str]:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(200, content=body, headers={"content-type": "application/json"})

    async def work() -> tuple[list[Figure], str]:
        client = FileClient(seconds=5, clock=lambda: START, transport=httpx2.MockTransport(answer))
        source: MacroSource = ReferenceRate(
            rate,
            client,
            base_url="https://rates.example",
            source=SOURCE,
            clock=lambda: START,
        )
        try:
            return await source.read(), source.name
        finally:
            await client.close()

    return *asyncio.run(work()), asked[0]


def test_each_rate_is_a_source_of_its_own() -> None:
    assert read("sofr", reply(sofr())) == (
        [Figure(SOFR, "2026-11-05", 3.91, SOURCE)],
        "sofr",
        "https://rates.example/api/rates/secured/sofr/last/60.json",
    )
    readings, name, address = read("effr", reply(effr()))
    assert (len(readings), name) == (3, "effr")
    assert address == "https://rates.example/api/rates/unsecured/effr/last/60.json"


def test_a_rate_of_a_day_to_come_is_an_invalid_reply() -> None:
    with pytest.raises(InvalidReply, match="in the future"):
        read("sofr", reply(sofr("2026-11-09")))
