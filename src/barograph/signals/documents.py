"""Where the signals' bytes are rendered (pure)."""

from collections.abc import Iterable

from barograph.kit.documents import Document
from barograph.kit.timestamps import iso_timestamp
from barograph.notice import NOTICE
from barograph.signals.catalog import METHODS
from barograph.signals.records import NOT_KNOWN, Signal
from barograph.signals.wire import PublicSignals, SignalBody

SIGNALS_PATH = "/api/v1/signals"
PAGE_FOLDER = "/signals/"
DOCS_PATH = "/developers"
CACHE_CONTROL = b"private, no-cache"
"""A shared cache would replay one caller's allowance to another."""


def signals_document(
    signals: Iterable[Signal],
    *,
    source: str,
    updated_at: int,
    since: int,
    until: int,
    base_url: str,
) -> Document:
    """Render signals as they may be shown from `since` until `until`."""
    body = PublicSignals(
        ok=True,
        version="v1",
        source=source,
        updatedAt=iso_timestamp(updated_at),
        signals=[
            SignalBody(
                key=each.key,
                name=each.name,
                label=each.label,
                value=each.value,
                url=f"{base_url}{PAGE_FOLDER}{each.key}",
            )
            for each in signals
        ],
        attribution=f"Barograph, {base_url}. Free for non-commercial use; attribution is "
        f"appreciated but not required. {NOTICE}",
        docs=base_url + DOCS_PATH,
    )
    return Document(
        body.encode(),
        since=since,
        until=until,
        modified=updated_at,
        cache_control=CACHE_CONTROL,
    )


def unknown_signals(as_of: int) -> tuple[Signal, ...]:
    """Every signal, when nothing may be said about any."""
    return tuple(Signal(each.key, each.name, *NOT_KNOWN, as_of) for each in METHODS)
