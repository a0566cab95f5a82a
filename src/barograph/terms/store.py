"""Stores what a database was created for, and which terms the operator has confirmed."""

from collections.abc import Iterable

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.kit.database import Transaction
from barograph.settings import Settings
from barograph.terms.sources import (
    GRACE_MS,
    SELLING,
    SOURCES,
    TERMS,
    Confirmation,
    Instance,
    Kind,
    Unconfirmed,
    parse_names,
)

_ADDRESSES = {"treasury": "treasury_url", "nyfed": "nyfed_url", "ishares": "etf_url"}
"""The setting that names each source of daily figures."""


async def mark_instance(tx: Transaction, kind: Kind, now: int) -> None:
    """Mark a database that has no mark.

    A live one that already has readings is from a version without confirmations. Its operator gets
    time to confirm.
    """
    has_readings = bool(await tx.fetch("SELECT 1 FROM readings LIMIT 1"))
    grace = now + GRACE_MS if kind == "live" and has_readings else None
    await tx.execute(_MARK, kind, now, grace)


async def read_instance(tx: Transaction) -> Instance | None:
    """The mark of a database; None if it has none yet."""
    rows = await tx.fetch("SELECT kind, created_at, grace_until FROM instance")
    return Instance(*rows[0]) if rows else None


async def read_confirmations(tx: Transaction) -> dict[str, Confirmation]:
    """The confirmations in force, by source."""
    return {name: Confirmation(*row) for name, *row in await tx.fetch(_CONFIRMED)}


async def confirm(tx: Transaction, names: Iterable[str], now: int) -> None:
    """Store confirmations of the terms that this version knows; repeating one changes nothing."""
    held = await read_confirmations(tx)
    for name in dict.fromkeys(names):
        terms_date = SOURCES[name].terms_date
        if name in held and held[name].terms_date == terms_date:
            continue
        await revoke(tx, [name], now)
        await tx.execute(_CONFIRM, name, terms_date, SOURCES[name].statement, now)


async def revoke(tx: Transaction, names: Iterable[str], now: int) -> None:
    """Revoke confirmations; their record is kept."""
    for name in names:
        await tx.execute(_REVOKE, now, name)


async def start_with_terms(tx: Transaction, settings: Settings, now: int) -> Unconfirmed:
    """Store what `BAROGRAPH_ACCEPT_TERMS` confirms, and publish the unconfirmed sources.

    Raises:
        ConfigurationError: the setting names an unknown source.
    """
    instance = await read_instance(tx)
    if instance is None or instance.kind == "live":
        await confirm(tx, parse_names(settings.accept_terms), now)
    unconfirmed = await read_unconfirmed(tx, settings, now)
    await publish(tx, [Publication.of(TERMS, unconfirmed)])
    return unconfirmed


async def read_unconfirmed(tx: Transaction, settings: Settings, now: int) -> Unconfirmed:
    """The configured sources that neither a stored confirmation nor the settings confirm."""
    return unconfirmed_sources(settings, await read_confirmations(tx), await read_instance(tx), now)


def unconfirmed_sources(
    settings: Settings, stored: Iterable[str], instance: Instance | None, now: int
) -> Unconfirmed:
    """The configured sources that are not confirmed; `instance` is None before the first start.

    Raises:
        ConfigurationError: `BAROGRAPH_ACCEPT_TERMS` names an unknown source.
    """
    if instance is not None and instance.kind == "demo":
        return Unconfirmed([])
    confirmed = {*stored, *parse_names(settings.accept_terms)}
    grace = None if instance is None else instance.grace_until
    return Unconfirmed(
        [name for name in configured_sources(settings) if name not in confirmed],
        grace if grace is not None and now < grace else None,
    )


def configured_sources(settings: Settings) -> list[str]:
    """The sources that the settings name; the operator's own ETF file needs no confirmation."""
    wanted = {name: bool(getattr(settings, field)) for name, field in _ADDRESSES.items()}
    wanted[SELLING] = settings.takes_payments
    return [name for name in SOURCES if wanted.get(name, True)]


def without_unconfirmed(settings: Settings, unconfirmed: Unconfirmed) -> Settings:
    """The settings without the sources of daily figures that may not be read."""
    fields = [_ADDRESSES[name] for name in unconfirmed.unused if name in _ADDRESSES]
    return settings.model_copy(update=dict.fromkeys(fields, ""))


def without_selling(settings: Settings) -> Settings:
    """The settings with x402 disabled; those with a default of their own stay as they are."""
    defaults = {
        name: field.default
        for name, field in Settings.model_fields.items()
        if name.startswith("x402_") and (field.default is None or not str(field.default))
    }
    return settings.model_copy(update=defaults)


_MARK = """
INSERT INTO instance (id, kind, created_at, grace_until) VALUES (1, $1, $2, $3)
ON CONFLICT (id) DO NOTHING
"""
_CONFIRMED = """
SELECT source, terms_date, confirmed_at FROM terms_confirmations WHERE revoked_at IS NULL
"""
_CONFIRM = """
INSERT INTO terms_confirmations (source, terms_date, statement, confirmed_at)
VALUES ($1, $2, $3, $4)
"""
_REVOKE = """
UPDATE terms_confirmations SET revoked_at = $1 WHERE source = $2 AND revoked_at IS NULL
"""
