"""All settings in one frozen object, read from `BAROGRAPH_<NAME>` environment variables.

Each group is a file. `make docs` writes the descriptions of all settings to `docs/settings.md`.
"""

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Self

from pydantic import SecretStr, ValidationError

from barograph.errors import ConfigurationError
from barograph.settings.identity import Identity
from barograph.settings.must_set import PHONE_FILE, WORLD_FILE, MustSet, is_same_database
from barograph.settings.payments import USDC_DECIMALS, Payments
from barograph.settings.tuning import IBIT_URL, REQUEST_SECONDS, VENUE_SETTINGS, Tuning
from barograph.settings.values import Group, is_safe_address, reachable

__all__ = [
    "IBIT_URL",
    "PHONE_FILE",
    "REQUEST_SECONDS",
    "USDC_DECIMALS",
    "VENUE_SETTINGS",
    "WORLD_FILE",
    "Settings",
    "is_safe_address",
    "is_same_database",
    "reachable",
]

log = logging.getLogger(__name__)

PREFIX = "BAROGRAPH_"

REMOVED: Final[Mapping[str, str]] = {
    "binance_stream_url": "the one of the host in BAROGRAPH_BINANCE_REST_URL",
    "breaker_seconds": "5",
    "briefs_max_age_seconds": "60",
    "comparison_seconds": "5",
    "exchange_stream_url": "the one of the host in BAROGRAPH_EXCHANGE_REST_URL",
    "hour_history_days": "730",
    "identity_cache_seconds": "60",
    "identity_email_text": "true with BAROGRAPH_IDENTITY_CLAIMS=userinfo-text",
    "identity_seconds": "3",
    "lease_seconds": "15",
    "limits": "a file that all workers of the host share, or memory for one without a proxy",
    "liquidation_history_days": "90",
    "liquidations_max_age_seconds": "90",
    "long_accounts_calls_per_second": "4",
    "long_accounts_max_age_seconds": "1800",
    "macro_seconds": "1800",
    "macro_source": "the publisher's name",
    "minute_history_days": "30",
    "nyfed_url": "the second address in BAROGRAPH_RATES_URL",
    "request_body_seconds": "10",
    "request_seconds": "4",
    "signals_max_age_seconds": "150",
    "stream_ping_seconds": "20",
    "treasury_url": "the first address in BAROGRAPH_RATES_URL",
    "webhooks_allow_local": "true for a demo only",
    "worker_memory_mb": "1024",
    "x402_asset_decimals": "6, those of USDC",
    "x402_asset_name": "the name of USDC on BAROGRAPH_X402_NETWORK",
    "x402_asset_version": "2, the one of USDC",
}
"""What earlier versions let you set, and what it is fixed at."""

GROUPS: Final[Mapping[str, type[Group]]] = {
    "must set": MustSet,
    "identity": Identity,
    "payments": Payments,
    "tuning": Tuning,
}
"""The groups in the order in which they are listed."""


class Settings(Tuning, Payments, Identity, MustSet):
    """How this instance runs."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; log a warning for each that earlier versions had.

        Raises:
            ConfigurationError: a name is unknown, or a value is invalid.
        """
        values = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environment.items()
            if is_setting(name)
        }
        for name in sorted(values.keys() - cls.model_fields.keys()):
            if name not in REMOVED:
                raise ConfigurationError(_unknown_setting(name, list(cls.model_fields)))
            del values[name]
            text = "%s is no longer a setting: it is fixed at %s; remove it"
            log.warning(text, PREFIX + name.upper(), REMOVED[name])
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(_explain(error)) from error

    def to_environment(self) -> dict[str, str]:
        """The variables from which `from_environment` reads the same settings."""
        return {PREFIX + name.upper(): _text(value) for name, value in self.model_dump().items()}


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return "" if value is None else str(value)


def is_setting(name: str) -> bool:
    """Whether an environment variable is meant for Barograph."""
    return name.startswith(PREFIX)


def _unknown_setting(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {PREFIX}{near[0].upper()}?" if near else ""
    return f"{PREFIX}{name.upper()} is not a setting{hint} (`barograph settings` lists them all)"


def _explain(error: ValidationError) -> str:
    return "; ".join(
        "".join(f"{PREFIX}{str(name).upper()}: " for name in problem["loc"][:1])
        + problem["msg"].removeprefix("Value error, ")
        for problem in error.errors()
    )
