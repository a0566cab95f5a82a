"""The bodies of the log of what changed (pure)."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from barograph.events.records import EventType
from barograph.kit.lists import ListBody, Next
from barograph.kit.wire import Notice, WireModel


def _of(types: str, text: str = "") -> Any:  # noqa: ANN401
    """A member that only events of these types have."""
    return Field(default_factory=str, description=f"Of {types}.{text}")


class MergedLog(WireModel):
    """The last signed head of a log that each kind of stance had of its own."""

    kind: Annotated[str, Field(description="The kind of stance.")]
    origin: Annotated[str, Field(description="The name of the log.")]
    size: Annotated[int, Field(description="Number of entries.")]
    root: Annotated[str, Field(description="The root in hex.")]


class EventRecord(WireModel):
    """Something that changed. The members after `notice` depend on the type."""

    model_config = ConfigDict(extra="allow", json_schema_serialization_defaults_required=False)

    id: Annotated[int, Field(description="1, 2, 3 … without gaps, in recording order.")]
    type: EventType
    at: Annotated[
        str, Field(description="When it happened. Later events may have happened earlier.")
    ]
    notice: Notice
    venue: Annotated[str, _of("regime, contract, feed and venue events", " The exchange.")]
    symbol: Annotated[str, _of("regime and contract events", " The asset, such as `BTC`.")]
    label: Annotated[str, _of("regime.changed and signal.changed", " The new label.")]
    previous: Annotated[
        str | None,
        _of(
            "regime.changed, signal.changed and venue.switched",
            " The label or the venue before, or null.",
        ),
    ]
    fundingRatePct8h: Annotated[
        float | None, _of("regime.changed", " Funding per 8 hours, in percent.")
    ]
    key: Annotated[str, _of("signal.changed")]
    name: Annotated[str, _of("signal.changed")]
    value: Annotated[str, _of("signal.changed", " The measured value in words.")]
    slug: Annotated[str, _of("brief events", " The page is /briefs/{slug}.")]
    headline: Annotated[str, _of("brief events")]
    category: Annotated[str, _of("brief events")]
    symbols: Annotated[list[str], _of("brief events", " The assets that it is about.")]
    version: Annotated[int, _of("brief.updated", " The version, from 2 on.")]
    contract: Annotated[str, _of("contract events", " Full name, such as `BTCUSDT`.")]
    missing_since: Annotated[str, _of("contract.delisted", " When it was first missing.")]
    feed: Annotated[str, _of("feed events", " The name of its check in /api/status.")]
    stale_since: Annotated[str, _of("feed.down", " When its data passed the freshness limit.")]
    reason: Annotated[str, _of("venue.switched", " Why the venue before was left.")]
    kind: Annotated[str, _of("stance events")]
    sequence: Annotated[
        int, _of("stance events", " Position in the list of versions, or of withdrawals.")
    ]
    history_digest: Annotated[str, _of("stance.recorded", " SHA-256 of the version.")]
    event_digest: Annotated[str, _of("stance.withdrawn", " SHA-256 of the withdrawal.")]
    text_sha256: Annotated[str, _of("brief events", " SHA-256 of the text.")]
    day: Annotated[str, _of("liquidations.filed", " The UTC day of the daily file.")]
    rows: Annotated[int, _of("liquidations.filed", " The liquidations in the file.")]
    sha256: Annotated[str, _of("liquidations.filed", " SHA-256 of the compressed file.")]
    after_days: Annotated[
        int, _of("reveal.announced", " Days until new versions become public; 0: never.")
    ]
    logs: Annotated[
        list[MergedLog], _of("history.merged", " The ends of logs that this one replaced.")
    ]
    removed: Annotated[str, _of("events without their text", " Why it was removed.")]


class EventList(ListBody):
    """Events, oldest first."""

    as_of: Annotated[
        str,
        Field(description="The minute in which we last read the log, or its newest event's time."),
    ]
    last_id: Annotated[int, Field(description="Id of the newest event in the log; 0 if empty.")]
    events: list[EventRecord]
    next: Next
