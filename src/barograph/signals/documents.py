"""Renders the signals (pure)."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from barograph import NOTICE
from barograph.kit.documents import Document
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel
from barograph.signals.methods import METHODS
from barograph.signals.records import NOT_KNOWN, Signal


class SignalBody(WireModel):
    """One regime signal."""

    key: Annotated[str, Field(description="Stable name of the signal.")]
    name: str
    label: Annotated[
        str,
        Field(
            description="The regime in one word; `unknown` when its input is stale. It leaves its "
            "middle (normal, typical, flat, balanced) at once and returns only after 60 minutes."
        ),
    ]
    value: Annotated[
        str,
        Field(
            description="The measured value, in words. If the label is still an earlier one, it "
            "ends in `not yet back to` and the label that the value alone would have."
        ),
    ]
    url: Annotated[str, Field(description="Page of the signal and its method.")]


class PublicSignals(WireModel):
    """All signals; the list always has every one."""

    ok: bool
    version: Literal["v1"]
    source: Annotated[str, Field(description="The venue and the publishers of the data.")]
    updatedAt: Annotated[
        str,
        Field(
            description="When the signals were last evaluated; 1970-01-01T00:00:00.000Z if never."
        ),
    ]
    signals: list[SignalBody]
    attribution: Annotated[str, Field(description="Terms of use and the notice.")]
    docs: Annotated[str, Field(description="Address of the developer page.")]


SIGNALS_PATH = "/api/v1/signals"
SIGNAL_PAGES = "/signals/"
DOCS_PATH = "/developers"
ENDPOINT_DOCS = f"{DOCS_PATH}/endpoints"
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
    """Render signals that are valid from `since` until `until`."""
    body = PublicSignals(
        ok=True,
        version="v1",
        source=source,
        updatedAt=iso_timestamp(updated_at),
        signals=[
            SignalBody(
                key=signal.key,
                name=signal.name,
                label=signal.label,
                value=signal.value,
                url=f"{base_url}{SIGNAL_PAGES}{signal.key}",
            )
            for signal in signals
        ],
        attribution=f"Barograph, {base_url}. Free for non-commercial use; attribution is "
        f"appreciated but not required. {NOTICE}",
        docs=base_url + DOCS_PATH,
    )
    return Document(
        body.encode(), since=since, until=until, modified=updated_at, cache_control=CACHE_CONTROL
    )


def unknown_signals(as_of: int) -> tuple[Signal, ...]:
    """Every signal as `unknown`."""
    return tuple(
        Signal(method.key, method.name, NOT_KNOWN.label, NOT_KNOWN.value, as_of)
        for method in METHODS
    )
