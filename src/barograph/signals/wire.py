"""The body of `/api/v1/signals`, in the contract's names and order."""

from typing import Annotated, Literal

from pydantic import Field

from barograph.kit.wire import WireModel


class SignalBody(WireModel):
    """One regime signal."""

    key: Annotated[str, Field(description="Stable name of the signal.")]
    name: str
    label: Annotated[
        str, Field(description="The regime in one word; `unknown` when its input is stale.")
    ]
    value: Annotated[str, Field(description="The number behind the label, in words.")]
    url: Annotated[str, Field(description="Page of the signal, with its method.")]


class PublicSignals(WireModel):
    """Every signal; none ever disappears."""

    ok: bool
    version: Literal["v1"]
    source: Annotated[
        str,
        Field(description="The venue that the data was taken from, and who published the figures."),
    ]
    updatedAt: Annotated[
        str,
        Field(
            description="When the signals were last judged; 1970-01-01T00:00:00.000Z before that."
        ),
    ]
    signals: list[SignalBody]
    attribution: Annotated[
        str,
        Field(
            description="Attribution text: free for non-commercial use, attribution appreciated "
            "but not required."
        ),
    ]
    docs: Annotated[str, Field(description="Address of the developer page.")]
