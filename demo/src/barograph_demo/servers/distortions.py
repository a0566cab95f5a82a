"""Distorts the tickers and specifications of Bybit, whose other answers stay right."""

from typing import Any, Final

import msgspec

from barograph.kit.timestamps import HOUR
from barograph_demo.servers.faults import SQUEEZED, ExchangeFaults, VenueFault
from barograph_demo.servers.faulty_market import PERCENT, other_interval
from barograph_demo.servers.tickers import decimal

_PATHS: Final = ("/v5/market/tickers", "/v5/market/instruments-info")
_FAULTS: Final = (
    VenueFault.UNKNOWN_FIELDS,
    VenueFault.INTERVAL_CHANGE,
    VenueFault.DOUBLED_OPEN_INTEREST,
    VenueFault.WRONG_UNIT,
    VenueFault.WRONG_INTERVAL,
    VenueFault.SQUEEZE,
)
_OPEN_INTEREST: Final = (
    *("openInterest", "openInterestValue"),
    *("singleOpenInterest", "singleOpenInterestValue"),
)


def distorted(body: bytes, path: str, faults: ExchangeFaults, now: int) -> bytes:
    """An answer with the distortions that are on."""
    if path not in _PATHS or not any(faults.is_anywhere(fault) for fault in _FAULTS):
        return body
    message = msgspec.json.decode(body)
    for row in message["result"].get("list", []):
        active = {fault for fault in _FAULTS if faults.is_on(fault, row["symbol"])}
        if row.get("fundingRate") or row.get("fundingInterval"):  # a perpetual
            _distort(row, active, now)
    return msgspec.json.encode(message)


def _distort(row: dict[str, Any], active: set[VenueFault], now: int) -> None:
    if VenueFault.SQUEEZE in active and row["symbol"] == "BTCUSDT" and "fundingRate" in row:
        row["fundingRate"] = decimal(SQUEEZED * float(row["fundingIntervalHour"]))
    if VenueFault.INTERVAL_CHANGE in active:
        before, hours = _restate_interval(row)
        if "fundingRate" in row:
            row["fundingRate"] = decimal(float(row["fundingRate"]) * hours / before)
            row["nextFundingTime"] = str(now - now % (hours * HOUR) + hours * HOUR)
    if VenueFault.WRONG_INTERVAL in active:
        _restate_interval(row)
    if VenueFault.WRONG_UNIT in active and "fundingRate" in row:
        row["fundingRate"] = decimal(float(row["fundingRate"]) * PERCENT)
    if VenueFault.DOUBLED_OPEN_INTEREST in active:
        row |= {name: decimal(2 * float(row[name])) for name in _OPEN_INTEREST if name in row}
    if VenueFault.UNKNOWN_FIELDS in active:
        row["unheardOf"] = {"values": [1, None]}


def _restate_interval(row: dict[str, Any]) -> tuple[int, int]:
    """Replace the stated interval of a row; return both, in hours."""
    if "fundingInterval" in row:
        before = row["fundingInterval"] // 60
        row["fundingInterval"] = other_interval(before) * 60
    else:
        before = int(row["fundingIntervalHour"])
        row["fundingIntervalHour"] = str(other_interval(before))
    return before, other_interval(before)
