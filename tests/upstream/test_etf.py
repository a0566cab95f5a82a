"""Bitcoin funds: the issuer's holdings file and the operator's own."""

import asyncio
import io
import threading
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from barograph.errors import InvalidReply, Unreachable
from barograph.macro.records import OPERATOR_AUM, OPERATOR_BTC, OPERATOR_FLOW, Figure
from barograph.upstream.etf import (
    MAX_OPERATOR_BYTES,
    FileTooLarge,
    IssuerHoldings,
    OperatorFlows,
    decode_history,
    decode_holdings,
    decode_operator_flows,
)
from barograph.upstream.files import FileClient
from support.clock import START

SOURCE = "the issuer"
COLUMNS = "Ticker,Name,Asset Class,Market Value,Weight (%),Quantity,Price,Currency"
BITCOIN = '"BTC","BITCOIN","Alternative","99,000,000.00","99.00","990.12345","99,987.51","USD"'
CASH = '"USD","USD CASH","Cash","1,000,000.00","1.00","1,000,000.00","1.00","USD"'
SMALL_PRINT = '"Holdings are subject to change, and so on."'
PLAIN = {
    "Fund Holdings as of": "Nov 05, 2026",
    "Inception Date": "Jan 05, 2024",
    "Shares Outstanding": "2,000,000.00",
    "Stock": "-",
}
ADDRESS = "https://issuer.example/holdings?fileType=csv"


def file(
    preamble: dict[str, str] = PLAIN, *rows: str, columns: str = COLUMNS, blank: str = "\u00a0"
) -> bytes:
    lines = [
        "A Bitcoin Trust",
        *(f'{name},"{value}"' for name, value in preamble.items()),
        blank,
        columns,
        *(rows or (BITCOIN, CASH)),
        blank,
        SMALL_PRINT,
    ]
    return ("\ufeff" + "\n".join(lines) + "\n").encode()


def figures(shares: float, nav: float, btc: float, aum: float) -> list[Figure]:
    return [
        Figure(f"etf-ibit-{name}", "2026-11-05", value, SOURCE)
        for name, value in [("shares", shares), ("nav", nav), ("btc", btc), ("aum", aum)]
    ]


@pytest.mark.parametrize("blank", ["", "\u00a0", ",,"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_fund_is_read_whatever_the_order_of_its_preamble(blank: str, turned: bool) -> None:
    preamble = dict(reversed(PLAIN.items())) if turned else PLAIN

    assert decode_holdings(file(preamble, blank=blank), "IBIT", SOURCE) == figures(
        2_000_000.0, 50.0, 990.12345, 100_000_000.0
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no,such\nfile,really\n",
        file({name: value for name, value in PLAIN.items() if "Fund" not in name}),
        file({name: value for name, value in PLAIN.items() if "Shares" not in name}),
        file(PLAIN | {"Fund Holdings as of": "-"}),
        file(PLAIN | {"Fund Holdings as of": "2026-11-05"}),
        file(PLAIN | {"Fund Holdings as of": "Nov 31, 2026"}),
        file(PLAIN | {"Fund Holdings as of": "Nob 05, 2026"}),
        file(PLAIN | {"Shares Outstanding": "-"}),
        file(PLAIN | {"Shares Outstanding": "0.00"}),
        file(PLAIN | {"Shares Outstanding": "20,00,000.00"}),
        file(PLAIN | {"Shares Outstanding:": "3,000,000.00"}),
        file(PLAIN, CASH),
        file(PLAIN, BITCOIN, BITCOIN),
        file(PLAIN, BITCOIN.replace("990.12345", "-")),
        file(PLAIN, BITCOIN + ',"more"'),
        file(PLAIN, BITCOIN.replace("99,000,000.00", "-")),
        file(PLAIN, BITCOIN.replace("99,000,000.00", "-5.00")),
        file(PLAIN, columns=COLUMNS.replace("Quantity", "Amount")),
        file(PLAIN, columns=COLUMNS.replace("Price", "Quantity")),
        file(PLAIN, columns=COLUMNS.replace("Market Value", "Worth")),
        file()[:-30],
    ],
)
def test_a_file_that_cannot_be_what_it_means_is_an_invalid_reply(body: bytes) -> None:
    with pytest.raises(InvalidReply):
        decode_holdings(body, "ibit", SOURCE)


def read_twice(body: bytes) -> tuple[list[Figure], list[str]]:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(200, content=body, headers={"content-type": "text/csv"})

    async def work() -> list[Figure]:
        client = FileClient(seconds=5, clock=lambda: START, transport=httpx2.MockTransport(answer))
        source = IssuerHoldings(
            client, fund="IBIT", address=ADDRESS, source=SOURCE, clock=lambda: START
        )
        assert source.name == "etf-ibit"
        try:
            return await source.read() + await source.read()
        finally:
            await client.close()

    return asyncio.run(work()), asked


def test_a_reading_asks_once_and_takes_the_day_that_the_file_names() -> None:
    readings, asked = read_twice(file())

    assert [each.day for each in readings] == ["2026-11-05"] * 8
    assert asked == [ADDRESS] * 2


def test_a_day_to_come_is_an_invalid_reply() -> None:
    late = file(PLAIN | {"Fund Holdings as of": "Nov 09, 2026"})

    with pytest.raises(InvalidReply, match="in the future"):
        read_twice(late)


PRESENT = date(2026, 11, 6)
OPERATOR = "date,net_flow_usd,aum_usd,holdings_btc\n"


def test_the_operators_rows_are_read_oldest_day_first() -> None:
    text = (
        "\ufeffholdings_btc,date,note,aum_usd,net_flow_usd\n"
        '2,2026-11-05,,"1,000,000",-12.5\n'
        "\n"
        "1.5,2026-11-04,quiet,900000,0\n"
    )

    assert decode_operator_flows(text.encode(), "mine", PRESENT) == [
        Figure(OPERATOR_AUM, "2026-11-04", 900_000.0, "mine"),
        Figure(OPERATOR_BTC, "2026-11-04", 1.5, "mine"),
        Figure(OPERATOR_FLOW, "2026-11-04", 0.0, "mine"),
        Figure(OPERATOR_AUM, "2026-11-05", 1_000_000.0, "mine"),
        Figure(OPERATOR_BTC, "2026-11-05", 2.0, "mine"),
        Figure(OPERATOR_FLOW, "2026-11-05", -12.5, "mine"),
    ]


def test_a_flow_that_is_not_known_is_left_empty() -> None:
    readings = decode_operator_flows(f"{OPERATOR}2026-11-05,,100,2\n".encode(), "mine", PRESENT)

    assert [each.series for each in readings] == [OPERATOR_AUM, OPERATOR_BTC]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 columns named 'date'"),
        ("date,aum_usd,holdings_btc\n", "0 columns named 'net_flow_usd'"),
        ("2026-11-05,x,100,2\n", "line 2: net_flow_usd 'x' is not a number"),
        ("2026-11-04,1,100,2\n\n2026-11-05,1,,2\n", "line 4: aum_usd '' is not a number"),
        ("2026-11-05,1,100,0\n", "line 2: holdings_btc is 0.0, which is not positive"),
        ("2026-11-05,1,100\n", "line 2: 3 cells under 4 columns"),
        ("05.11.2026,1,100,2\n", "line 2: date '05.11.2026' is not written as YYYY-MM-DD"),
        ("2026-11-31,1,100,2\n", "line 2: day"),
        ("2026-11-07,1,100,2\n", "line 2: date 2026-11-07 is on a weekend"),
        (2 * "2026-11-05,1,100,2\n", "line 3: 2026-11-05 was given in line 2 already"),
        ('2026-11-05,1,100,"2\n', "cannot be read as CSV"),
    ],
)
@pytest.mark.outcome(
    "A line in the operator's file of fund flows is invalid",
    "The file is rejected, and the invalid line is named.",
)
def test_a_line_that_cannot_be_used_is_named(text: str, message: str) -> None:
    whole = text if text == "" or text.startswith("date") else OPERATOR + text

    with pytest.raises(InvalidReply) as failure:
        decode_operator_flows(whole.encode(), "mine", PRESENT)

    assert message in str(failure.value)


@pytest.mark.outcome(
    "A daily figure is out of range",
    "The collector rejects the file, and `/api/status` says why.",
)
@pytest.mark.parametrize(
    ("row", "series"),
    [
        ("1,100,21000001", "etf-operator-btc"),
        ("1,10000000000001,2", "etf-operator-aum"),
        ("-1000000000001,100,2", "etf-operator-flow"),
    ],
)
def test_a_figure_out_of_range_is_named_by_the_kind_of_failure(row: str, series: str) -> None:
    with pytest.raises(InvalidReply) as failure:
        decode_operator_flows(f"{OPERATOR}2026-11-05,{row}\n".encode(), "mine", PRESENT)
    with pytest.raises(InvalidReply) as of_issuer:
        decode_holdings(file(PLAIN, BITCOIN.replace("990.12345", "21000001")), "ibit", SOURCE)

    assert failure.value.kind == f"{series} out of range"
    assert of_issuer.value.kind == "etf-ibit-btc out of range"


DAY = "2026-11-05"
OF_SHARES = {"shares": 1_000.0, "nav": 50.0, "btc": 2.0, "aum": 50_000.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'date,shares_outstanding,holdings_btc,nav_usd\n{DAY},"1,000",2,50\n', OF_SHARES),
        (f"market_value_usd,date,shares_outstanding,holdings_btc\n50000,{DAY},1000,2\n", OF_SHARES),
        (f"{OPERATOR}{DAY},-5,50000,2\n", {"aum": 50_000.0, "btc": 2.0, "flow": -5.0}),
    ],
)
def test_a_history_of_one_fund_is_read_in_each_layout(
    text: str, expected: dict[str, float]
) -> None:
    assert decode_history(text.encode(), "IBIT", "mine", PRESENT) == [
        Figure(f"etf-ibit-{name}", DAY, value, "mine") for name, value in expected.items()
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,shares_outstanding,holdings_btc\n", "0 columns named 'nav_usd'"),
        ("date,holdings_btc\n", "0 columns named 'net_flow_usd'"),
        (OPERATOR, "no rows"),
        (f"{OPERATOR}{DAY},1,0,2\n", "line 2: aum_usd is 0.0"),
    ],
)
def test_a_history_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidReply, match=message):
        decode_history(text.encode(), "IBIT", "mine", PRESENT)


def operator(path: Path) -> list[Figure]:
    return asyncio.run(OperatorFlows(path, source="mine", clock=lambda: START).read())


def test_the_operators_file_is_read_from_its_place(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(f"{OPERATOR}2026-11-05,1,100,2\n")

    assert len(operator(path)) == 3

    path.write_text(f"{OPERATOR}2026-11-09,1,100,2\n")
    with pytest.raises(InvalidReply, match="in the future"):
        operator(path)


def test_a_file_that_is_not_there_is_unreachable_and_its_path_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(Unreachable) as failure:
        operator(tmp_path / "none.csv")

    assert str(failure.value) == "the operator's file cannot be opened: No such file or directory"


@pytest.mark.outcome(
    "The operator's file of fund flows is too large",
    "The collector rejects the file, and `/api/status` says why.",
)
def test_too_large_file_is_reported_and_one_at_the_limit_is_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "flows.csv"
    text = f"{OPERATOR}2026-11-05,1,100,2\n".encode()
    long = (text + (b" " * 1_000 + b"\n") * 1_100)[:MAX_OPERATOR_BYTES]
    path.write_bytes(long)
    assert (len(long), len(operator(path))) == (MAX_OPERATOR_BYTES, 3)

    path.write_bytes(long + b" ")
    with pytest.raises(FileTooLarge, match="larger") as failure:
        operator(path)
    assert failure.value.kind == "too large"


class Watched(bytes):
    """The content of a file, which notes by which thread it is decoded."""

    threads: ClassVar[list[int]] = []

    def decode(self, *how: str) -> str:
        self.threads.append(threading.get_ident())
        return super().decode(*how)


class WatchedFile(io.BytesIO):
    def read(self, *limit: Any) -> bytes:
        return Watched(super().read(*limit))


class WatchedPlace:
    def open(self, _mode: str) -> WatchedFile:
        return WatchedFile(f"{OPERATOR}2026-11-05,1,100,2\n".encode())


def test_the_operators_file_is_decoded_off_the_event_loop() -> None:
    assert len(operator(WatchedPlace())) == 3  # type: ignore[arg-type]

    assert Watched.threads
    assert threading.get_ident() not in Watched.threads
