"""Stances to record, and a database to record them in."""

from collections.abc import Mapping

from barograph.history.records import Decision, Leg, LegEvidence, Proposal
from barograph.kit.database import Database
from barograph.kit.json import Json
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.timestamps import HOUR, iso_timestamp
from support.clock import START, HandClock

FUNDING = "funding-regime-stance"
RATES = "rates-desk"
STANCE_MEMBERS = (
    *("schema", "kind", "leg_id", "revision", "issued_at", "expires_at", "state"),
    *("history_durable", "history_digest", "leg", "events", "salt", "notice"),
)
"""The members of a delivered stance, in order."""
PERIOD = 8 * HOUR
INPUTS: Mapping[str, Json] = {"levels": {"score": 0.5, "score24hAgo": 0, "delta24h": 0.5}}


def proposal(
    number: int = 0,
    *,
    kind: str = FUNDING,
    label: str = "neutral",
    inputs: Mapping[str, Json] = INPUTS,
    issued_at: int | None = None,
    by: str = "rules",
) -> Proposal:
    """The stance of the period that begins `number` periods after `START`."""
    start = START + number * PERIOD
    leg = Leg(
        period={"start": iso_timestamp(start), "end": iso_timestamp(start + PERIOD)},
        levels={"fundingPct": 0.01, "coins": ["BTC", "ETH"]},
        decision=Decision(label, "medium", "funding is where it mostly is", by),
        conditions=["levels.fundingPct >= 0.03: longs pay heavily"],
        method="funding-v1",
        evidence=LegEvidence("Bybit", iso_timestamp(start), dict(inputs)),
    )
    return Proposal(
        kind=kind,
        leg_id=f"{kind}:{iso_timestamp(start)}",
        issued_at=start if issued_at is None else issued_at,
        expires_at=start + PERIOD,
        leg=leg,
    )


async def make_history(database: Database) -> None:
    """Give an empty database the schema of the record."""
    await upgrade(database, packaged_migrations("history", database.engine), HandClock())
