"""The bodies of `/api/feed/now` and of a purchase of Feed."""

from typing import Annotated, Literal

from pydantic import Field

from barograph.briefs.documents import BriefBody
from barograph.errors import PrivateUnavailable
from barograph.kit.wire import Notice, WireModel
from barograph.markets.documents import MarketState
from barograph.stances.documents import State


class FeedUnavailable(PrivateUnavailable):
    """Identity, entitlement or the stances cannot be looked up now."""

    code = "feed_unavailable"

    def __init__(self) -> None:
        super().__init__("the feed cannot be read right now; try again shortly")


class TapeEntry(WireModel):
    """The newest stance of a kind."""

    kind: Literal["btc-etf-stance", "rates-desk", "funding-regime-stance"]
    href: Annotated[str, Field(description="Address of the full stance.")]
    leg_id: str
    revision: int
    history_digest: Annotated[str | None, Field(description="Null if the stance is not durable.")]
    issued_at: str
    history_durable: bool
    state: State


class Tape(WireModel):
    """The newest stances."""

    stance_tape: Annotated[
        list[TapeEntry], Field(description="One entry per kind that was ever issued.")
    ]


class FeedNow(WireModel):
    """The newest stances, the market state and the newest briefs."""

    as_of: Annotated[str, Field(description="Time of this response.")]
    tape: Tape
    market_state: Annotated[
        MarketState | None, Field(description="Null while market data is not fresh.")
    ]
    briefs: Annotated[
        list[BriefBody] | None, Field(description="The newest; null while they cannot be read.")
    ]
    notice: Notice


class FeedBought(WireModel):
    """A period of Feed that a wallet has paid for."""

    tier: Literal["feed"]
    wallet: Annotated[str, Field(description="The wallet that paid and now has Feed.")]
    starts_at: str
    ends_at: str
    transaction: Annotated[
        str | None,
        Field(description="Hash of the transaction; null if the payment was confirmed later."),
    ]
    notice: Notice
