"""What the client makes of an answer: zero is a number, and what is unknown or missing is None."""

import json
import sys
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import fields

from barograph.events.documents import EventList, EventRecord
from barograph.markets.carry import CarryCoin, CarryList, CarryVenue
from barograph.markets.cross_bodies import CrossBody, CrossList, CrossVenueBody
from barograph.markets.documents import PerpetualRecord
from barograph.markets.liquidation_endpoints import (
    LiquidationFile,
    LiquidationFiles,
    LiquidationList,
)
from barograph.markets.liquidation_files import LiquidationRecord
from barograph.markets.perpetuals import PerpetualBody, PerpetualList
from barograph.markets.venue_documents import VenueEntry, VenueList
from barograph.material_change.documents import Comparison as ComparisonBody
from barograph.series.endpoints import MeasureSeries
from barograph.series.query import MARKET_SERIES, TOTAL_MEMBERS, macro_series
from barograph.settings import Settings
from barograph.stances.documents import RevealedStance, RevealedStances
from barograph.status.endpoints import IncidentBody, IncidentList
from barograph.status.rules import ServiceStatus as StatusBody
from barograph_client import records, to_frame
from barograph_client.decode import decode_json
from barograph_client.records import Assessment, Comparison, Derivatives, Guide, Reference, Stance

BASE = {"source": "venue", "notice": "Information only.", "symbol": "BTC", "available": True}
ABSTAINED: dict[str, Any] = {
    "status": "abstained",
    "reasons": ["method_changed"],
    "change": None,
    "same_source_evidence": None,
    "numeric_changes": [],
    "conditions": "unevaluated",
    "recorded_decisions": None,
    "ready_for_paid_delivery": False,
}


def read(answer: type[Any], body: object) -> Any:
    return decode_json(answer, json.dumps(body).encode())


def test_a_time_is_the_service_s_text_or_number_and_a_datetime() -> None:
    soon = read(Derivatives, {**BASE, "nextFundingTime": 1_780_000_000_000}).nextFundingTime
    assert (soon, soon.datetime) == (1_780_000_000_000, datetime(2026, 5, 28, 20, 26, 40, 0, UTC))
    for text, expected in (
        ("2026-11-14T08:00:00.5Z", datetime(2026, 11, 14, 8, 0, 0, 500_000, UTC)),
        ("2026-11-14", datetime(2026, 11, 14, tzinfo=UTC)),
    ):
        at = read(records.Point, {"at": text, "value": None}).at
        assert (at, json.dumps(at), at.datetime) == (text, f'"{text}"', expected)


@pytest.mark.parametrize("installed", [["pandas", "polars"], ["polars"], []])
def test_records_become_a_table_of_the_library_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, installed: list[str]
) -> None:
    for name in ("pandas", "polars"):
        table = SimpleNamespace(DataFrame=partial(lambda of, columns: (of, columns), name))
        monkeypatch.setitem(sys.modules, name, table if name in installed else None)
    points = [read(records.Point, {"at": "2026-11-14", "value": each}) for each in (0, None)]
    if not installed:
        with pytest.raises(ImportError, match="pandas or polars"):
            to_frame([])
        return
    library, columns = to_frame(iter(points))
    assert (library, columns["value"]) == (installed[0], [0.0, None])
    assert columns["at"] == [datetime(2026, 11, 14, tzinfo=UTC)] * 2
    assert to_frame([]) == (installed[0], {})


def test_missing_presence_is_not_an_empty_one() -> None:
    nothing = read(Assessment, ABSTAINED)
    assert nothing.evidence_field_presence is None
    assert nothing.conditions == "unevaluated"
    empty = {**ABSTAINED, "evidence_field_presence": {"added": [], "absent_in_after": []}}
    assert read(Assessment, empty).evidence_field_presence.added == ()


def test_a_record_passes_over_unknown_members_misses_known_ones_and_is_never_changed() -> None:
    record = read(Derivatives, {**BASE, "basisPct": 0.1, "lastPrice": 0, "fundingRatePct": None})
    assert (record.lastPrice, record.fundingRatePct, record.openInterestUsd) == (0.0, None, None)
    with pytest.raises(AttributeError):
        record.symbol = "ETH"
    with pytest.raises(ValueError, match="available"):
        read(Derivatives, {name: value for name, value in BASE.items() if name != "available"})


def test_a_whole_price_stays_whole() -> None:
    body = {"slug": "s", "title": "t", "description": "d", "tags": [], "pages": 3, "url": "u"}
    assert repr(read(Guide, {**body, "price": 10}).price) == "10"
    assert repr(read(Guide, {**body, "price": 9.5}).price) == "9.5"


@pytest.mark.parametrize(
    "changes",
    [
        {"leg_id": ""},
        {"leg_id": "x" * 201},
        {"revision": 0},
        {"revision": 2_147_483_648},
        {"revision": 1.5},
        {"history_digest": "A" * 64},
        {"history_digest": "a" * 63},
        {"history_digest": "a" * 64 + "\n"},
        {"history_digest": None},
    ],
)
def test_a_reference_is_exactly_what_may_be_sent(changes: dict[str, Any]) -> None:
    good = {"leg_id": "é" * 200, "revision": 2_147_483_647, "history_digest": "a" * 64}
    assert read(Reference, {**good, "issued_at": "2026"}).revision == 2_147_483_647
    with pytest.raises(ValueError, match=next(iter(changes))):
        read(Reference, {**good, "issued_at": "2026", **changes})


@pytest.mark.parametrize(
    ("answer", "name"), [(Comparison, "feed-material-change-v1"), (Stance, "stance-v1")]
)
def test_a_body_of_another_schema_is_not_read(answer: type[Any], name: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        read(answer, {"schema": name.replace("1", "2")})


@pytest.mark.parametrize(
    ("record", "body"),
    [
        (records.Derivatives, PerpetualRecord),
        (records.Status, StatusBody),
        (records.Comparison, ComparisonBody),
        (records.Perpetual, PerpetualBody),
        (records.Perpetuals, PerpetualList),
        (records.Venue, VenueEntry),
        (records.Venues, VenueList),
        (records.Cross, CrossList),
        (records.CrossCoin, CrossBody),
        (records.CrossVenue, CrossVenueBody),
        (records.Carry, CarryList),
        (records.CarryCoin, CarryCoin),
        (records.CarryVenue, CarryVenue),
        (records.LogEvent, EventRecord),
        (records.SeriesPage, MeasureSeries),
        (records.Liquidation, LiquidationRecord),
        (records.LiquidationPage, LiquidationList),
        (records.LiquidationFile, LiquidationFile),
        (records.LiquidationFiles, LiquidationFiles),
        (records.RevealedStance, RevealedStance),
        (records.RevealedPage, RevealedStances),
        (records.EventPage, EventList),
        (records.Incident, IncidentBody),
        (records.IncidentPage, IncidentList),
    ],
)
def test_records_have_the_members_of_the_bodies(record: type[Any], body: type[Any]) -> None:
    """The client imports nothing from the service, so here they are held together."""
    schema = body.model_json_schema(mode="serialization", by_alias=True)
    assert set(schema["properties"]) == {field.encode_name for field in fields(record)}


def test_a_point_has_the_members_of_every_measure() -> None:
    measures = [*MARKET_SERIES.values(), *macro_series(Settings()).values()]
    members = {name for rules in measures for name in rules.members}
    members |= {*TOTAL_MEMBERS, "low", "high", "price_venue", "completeness"}
    assert members == {field.name for field in fields(records.Point)}
