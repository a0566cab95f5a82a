"""How the sources of daily figures are, as frozen records."""

from msgspec import Struct


class SourceHealth(Struct, frozen=True):
    """How the last attempt to read a source went."""

    as_of: int
    failure: str | None = None
    """The kind of failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    newest_day: str | None = None
    """The newest day that it ever gave."""


class MacroHealth(Struct, frozen=True):
    """Every source that is configured, by its name."""

    sources: dict[str, SourceHealth]
