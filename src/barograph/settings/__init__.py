"""All settings in one frozen object, read from `BAROGRAPH_<NAME>` environment variables.

Each group is a file. `make docs` writes the descriptions of all settings to `docs/settings.md`.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Self

from pydantic import SecretStr, ValidationError

from barograph.errors import ConfigurationError
from barograph.settings.identity import Identity
from barograph.settings.must_set import MustSet, is_same_database
from barograph.settings.payments import Payments
from barograph.settings.tuning import IBIT_URL, Tuning
from barograph.settings.values import Group, is_safe_address, reachable

__all__ = ["IBIT_URL", "Settings", "is_safe_address", "is_same_database", "reachable"]

PREFIX = "BAROGRAPH_"

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
        """Read the settings.

        Raises:
            ConfigurationError: a name is unknown, or a value is invalid.
        """
        values = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environment.items()
            if is_setting(name)
        }
        for name in values.keys() - cls.model_fields.keys():
            raise ConfigurationError(_unknown_setting(name, list(cls.model_fields)))
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
