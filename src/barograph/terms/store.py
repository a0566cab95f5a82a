"""Which sources the settings name and confirm, and what a database was created for."""

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.errors import ConfigurationError
from barograph.kit.database import Transaction
from barograph.settings import Settings
from barograph.terms.sources import (
    SELLING,
    SOURCES,
    TERMS,
    Kind,
    Unconfirmed,
    parse_names,
    setting_line,
    usable_venues,
)
from barograph.venue_names import VENUE_NAMES

_ADDRESSES = {"treasury": "treasury_url", "nyfed": "nyfed_url", "ishares": "etf_url"}
"""The attribute of the settings that names each source of daily figures."""


async def mark_instance(tx: Transaction, kind: Kind, now: int) -> None:
    """Mark a database that has no mark."""
    await tx.execute(_MARK, kind, now)


async def start_with_terms(tx: Transaction, settings: Settings) -> Unconfirmed:
    """Publish the unconfirmed sources.

    Raises:
        ConfigurationError: the setting names an unknown source, or is missing although an earlier
            version stored confirmations.
    """
    if await tx.fetch("SELECT 1 FROM instance WHERE kind = 'demo'"):
        unconfirmed = Unconfirmed()
    else:
        line = await missing_line(tx, settings)
        if line is not None and not settings.accept_terms:
            raise ConfigurationError(
                f"confirmations of terms are no longer stored: set {line}, which names what you "
                "have confirmed so far, or nothing would be collected and sold any more"
            )
        unconfirmed = unconfirmed_sources(settings)
    await publish(tx, [Publication.of(TERMS, unconfirmed)])
    return unconfirmed


async def missing_line(tx: Transaction, settings: Settings) -> str | None:
    """The line to set if an earlier version stored confirmations that the setting lacks."""
    stored = {source for (source,) in await tx.fetch("SELECT source FROM terms_confirmations")}
    confirmed = set(parse_names(settings.accept_terms))
    return None if stored & SOURCES.keys() <= confirmed else setting_line(stored | confirmed)


def unconfirmed_sources(settings: Settings) -> Unconfirmed:
    """The sources that the settings name and don't confirm.

    Raises:
        ConfigurationError: `BAROGRAPH_ACCEPT_TERMS` names an unknown source.
    """
    confirmed = parse_names(settings.accept_terms)
    names = configured_sources(settings)
    return Unconfirmed(tuple(name for name in names if name not in confirmed))


def configured_sources(settings: Settings) -> list[str]:
    """The sources that the settings name."""
    unwanted = {name for name, field in _ADDRESSES.items() if not getattr(settings, field)}
    unwanted |= set(VENUE_NAMES) - set(settings.venue_names)
    if settings.etf_file is not None:  # it replaces the issuer's, and is the operator's own
        unwanted.add("ishares")
    if not settings.takes_payments:
        unwanted.add(SELLING)
    return [name for name in SOURCES if name not in unwanted]


def without_unconfirmed(settings: Settings, unconfirmed: Unconfirmed) -> Settings:
    """The settings without the venues and the sources of daily figures that may not be read.

    If no venue may be read, all stay: the collector doesn't start, and a web host has no data.
    """
    treasury, nyfed, etf_file = (
        "" if source in unconfirmed.names else getattr(settings, field)
        for source, field in _ADDRESSES.items()
    )
    venues = usable_venues(settings.venue_names, unconfirmed) or settings.venue_names
    used = {"rates_url": f"{treasury},{nyfed}", "etf_url": etf_file, "venues": ",".join(venues)}
    return settings.model_copy(update=used)


def without_selling(settings: Settings) -> Settings:
    """The settings with x402 disabled; those with a default of their own stay as they are."""
    defaults = {
        name: field.default
        for name, field in Settings.model_fields.items()
        if name.startswith("x402_") and (field.default is None or not str(field.default))
    }
    return settings.model_copy(update=defaults)


_MARK = """
INSERT INTO instance (id, kind, marked_at, used_before) VALUES (1, $1, $2, '')
ON CONFLICT (id) DO NOTHING
"""
