"""Stores what a database was created for, and which terms the operator has confirmed."""

from collections.abc import Iterable

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.kit.database import Transaction
from barograph.settings import Settings
from barograph.terms.sources import (
    BYBIT,
    GRACE_MS,
    SELLING,
    SOURCES,
    TERMS,
    VENUES,
    Confirmation,
    Instance,
    Kind,
    Unconfirmed,
    parse_names,
    usable_venues,
)

_ADDRESSES = {"treasury": "treasury_url", "nyfed": "nyfed_url", "ishares": "etf_url"}
"""The setting that names each source of daily figures."""


async def mark_instance(tx: Transaction, kind: Kind, now: int) -> None:
    """Mark a database that has no mark, and note which sources it has used so far."""
    if not await tx.fetch("SELECT 1 FROM instance"):
        await tx.execute(_MARK, kind, now, await used_sources(tx))


async def used_sources(tx: Transaction) -> str:
    """The sources that left something in a database, separated by commas."""
    return ",".join([name for name, rows in _TRACES.items() if await tx.fetch(rows)])


async def read_terms(tx: Transaction) -> tuple[Instance | None, dict[str, Confirmation]]:
    """The mark of a database, if it has one yet, and the confirmations by source."""
    rows = await tx.fetch("SELECT kind, marked_at, used_before FROM instance")
    held = {name: Confirmation(*row) for name, *row in await tx.fetch(_CONFIRMED)}
    return Instance(*rows[0]) if rows else None, held


async def confirm(tx: Transaction, names: Iterable[str], now: int) -> None:
    """Store confirmations of the terms that this version knows; repeating one changes nothing."""
    for name in names:
        await tx.execute(_CONFIRM, name, SOURCES[name].terms_date, SOURCES[name].statement, now)


async def revoke(tx: Transaction, names: Iterable[str]) -> list[str]:
    """Delete confirmations; return the sources that had one."""
    sql = "DELETE FROM terms_confirmations WHERE source = $1 RETURNING source"
    return [name for name in names if await tx.fetch(sql, name)]


async def start_with_terms(tx: Transaction, settings: Settings, now: int) -> Unconfirmed:
    """Store what `BAROGRAPH_ACCEPT_TERMS` confirms, and publish the unconfirmed sources.

    Raises:
        ConfigurationError: the setting names an unknown source.
    """
    instance, held = await read_terms(tx)
    if instance is None or instance.kind == "live":
        await confirm(tx, parse_names(settings.accept_terms), now)
    unconfirmed = unconfirmed_sources(settings, instance, held, now)
    await publish(tx, [Publication.of(TERMS, unconfirmed)])
    return unconfirmed


def unconfirmed_sources(
    settings: Settings, instance: Instance | None, held: Iterable[str], now: int
) -> Unconfirmed:
    """The configured sources that are not confirmed; `instance` is None before the first start.

    Raises:
        ConfigurationError: `BAROGRAPH_ACCEPT_TERMS` names an unknown source.
    """
    instance = instance or Instance("live", now)
    if instance.kind == "demo":
        return Unconfirmed({})
    confirmed = {*held, *parse_names(settings.accept_terms)}
    until = instance.marked_at + GRACE_MS
    used = instance.used_before.split(",") if now < until else []
    return Unconfirmed(
        {
            name: until if name in used else None
            for name in configured_sources(settings)
            if name not in confirmed
        }
    )


def configured_sources(settings: Settings) -> list[str]:
    """The sources that the settings name."""
    unwanted = {name for name, field in _ADDRESSES.items() if not getattr(settings, field)}
    unwanted |= set(VENUES) - set(settings.venue_names)
    if settings.etf_file is not None:  # it replaces the issuer's, and is the operator's own
        unwanted.add("ishares")
    if not settings.takes_payments:
        unwanted.add(SELLING)
    return [name for name in SOURCES if name not in unwanted]


def without_unconfirmed(settings: Settings, unconfirmed: Unconfirmed) -> Settings:
    """The settings without the venues and the sources of daily figures that may not be read.

    If no venue may be read, all stay: the collector doesn't start, and a web host has no data.
    """
    fields = [_ADDRESSES[name] for name in unconfirmed.unused if name in _ADDRESSES]
    venues = usable_venues(settings.venue_names, unconfirmed) or settings.venue_names
    update = {**dict.fromkeys(fields, ""), "venues": ",".join(venues)}
    return settings.model_copy(update=update)


def without_selling(settings: Settings) -> Settings:
    """The settings with x402 disabled; those with a default of their own stay as they are."""
    defaults = {
        name: field.default
        for name, field in Settings.model_fields.items()
        if name.startswith("x402_") and (field.default is None or not str(field.default))
    }
    return settings.model_copy(update=defaults)


_MARK = """
INSERT INTO instance (id, kind, marked_at, used_before) VALUES (1, $1, $2, $3)
ON CONFLICT (id) DO NOTHING
"""
_CONFIRMED = "SELECT source, terms_date, confirmed_at FROM terms_confirmations"
_CONFIRM = """
INSERT INTO terms_confirmations AS held (source, terms_date, statement, confirmed_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (source) DO UPDATE SET
    terms_date = excluded.terms_date,
    statement = excluded.statement,
    confirmed_at = excluded.confirmed_at
WHERE held.terms_date <> excluded.terms_date
"""
_FIGURES = "SELECT 1 FROM observations WHERE {} LIMIT 1"
_TRACES = {
    BYBIT: "SELECT 1 FROM readings LIMIT 1",
    "treasury": _FIGURES.format("series IN ('us3m', 'us2y', 'us10y')"),
    "nyfed": _FIGURES.format("series IN ('sofr', 'effr')"),
    "ishares": _FIGURES.format("series LIKE 'etf-%' AND series NOT LIKE 'etf-operator-%'"),
    SELLING: "SELECT 1 FROM payments UNION ALL SELECT 1 FROM entitlements LIMIT 1",
}
"""What each source leaves in a database that uses it."""
