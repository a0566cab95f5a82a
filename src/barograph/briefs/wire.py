"""The body of `/api/agent/briefs`, in the contract's names and order."""

from typing import Annotated

from pydantic import Field

from barograph.kit.wire import WireModel


class BriefBody(WireModel):
    """One brief."""

    headline: str
    category: Annotated[
        str,
        Field(
            description="funding, positioning, liquidations, open-interest, etf-flows, rates, "
            "market, data-quality or note."
        ),
    ]
    coins: Annotated[list[str], Field(description="Asset symbols it is about; may be empty.")]
    summary: str
    url: Annotated[str, Field(description="Address of the brief.")]
    publishedAt: Annotated[str, Field(description="When it was published.")]


class BriefList(WireModel):
    """The newest briefs, newest first."""

    source: Annotated[str, Field(description="Where the briefs come from.")]
    notice: Annotated[str, Field(description="Information-only notice.")]
    count: Annotated[int, Field(description="How many briefs follow.")]
    briefs: list[BriefBody]
