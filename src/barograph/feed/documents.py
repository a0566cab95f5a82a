"""The bodies of `/api/feed/now` and of a purchase of Feed, in their decided order."""

from typing import Annotated, Literal

from pydantic import Field

from barograph.briefs.documents import BriefBody
from barograph.errors import PrivateUnavailable
from barograph.kit.wire import WireModel
from barograph.markets.documents import MarketState
from barograph.stances.documents import State


class FeedUnavailable(PrivateUnavailable):
    """Identity, entitlement or the stances cannot be looked up now."""

    code = "feed_unavailable"

    def __init__(self) -> None:
        super().__init__("the feed cannot be read at the moment; try again shortly")


Notice = Annotated[str, Field(description="Information-only notice.")]


class TapeEntry(WireModel):
    """The newest stance of a kind, and where it is read."""

    kind: Literal["btc-etf-stance", "rates-desk", "funding-regime-stance"]
    href: Annotated[str, Field(description="Address of the direct read.")]
    leg_id: str
    revision: int
    history_digest: Annotated[str | None, Field(description="Null when the stance is not durable.")]
    issued_at: str
    history_durable: bool
    state: State


class Tape(WireModel):
    """What was issued."""

    stance_tape: Annotated[
        list[TapeEntry], Field(description="One entry a kind that was ever issued.")
    ]


class FeedNow(WireModel):
    """Everything that Feed opens, at a glance."""

    as_of: Annotated[str, Field(description="Timestamp of this answer.")]
    tape: Tape
    market_state: Annotated[
        MarketState | None, Field(description="Null while there is nothing fresh to show.")
    ]
    briefs: Annotated[
        list[BriefBody] | None,
        Field(description="The newest; null while they cannot be read."),
    ]
    notice: Notice


class FeedBought(WireModel):
    """A period of Feed that a wallet has paid for."""

    tier: Literal["feed"]
    wallet: Annotated[str, Field(description="Who paid, and who has it.")]
    starts_at: str
    ends_at: str
    transaction: Annotated[
        str | None,
        Field(description="On the chain; null when the payment was found there afterwards."),
    ]
    notice: Notice
