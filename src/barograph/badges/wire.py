"""The body of a badge's twin in JSON: what Shields asks of an endpoint, and nothing else.

https://shields.io/badges/endpoint-badge
"""

from typing import Annotated, Literal

from pydantic import Field

from barograph.kit.wire import WireModel


class EndpointBadge(WireModel):
    """A badge that Shields can draw. It refuses members that it does not know."""

    schemaVersion: Literal[1] = 1
    label: Annotated[str, Field(description="The text on the left.")]
    message: Annotated[str, Field(description="The text on the right.")]
    color: Annotated[str, Field(description="Colour of the right side.")]
    isError: Annotated[bool, Field(description="Whether there is nothing to say.")]
    style: Literal["flat", "flat-square"]
    cacheSeconds: Annotated[int, Field(description="How long the badge may be kept.")]
