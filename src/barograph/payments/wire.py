"""The x402 v2 payment-required object, which a 402 carries as its body and in its header."""

from typing import Annotated, Any, Literal

from pydantic import Field

from barograph.kit.wire import WireModel


class PaidResource(WireModel):
    """What is paid for."""

    url: str
    description: str
    mimeType: str


class PaymentDomain(WireModel):
    """The token's EIP-712 domain."""

    name: str
    version: str


class PaymentTermsBody(WireModel):
    """One way to pay."""

    scheme: Literal["exact"]
    network: Annotated[str, Field(description="CAIP-2, such as eip155:8453.")]
    amount: Annotated[
        str, Field(description="In the token's smallest unit.", pattern="^[1-9][0-9]*$")
    ]
    asset: Annotated[str, Field(description="The token's contract.")]
    payTo: str
    maxTimeoutSeconds: int
    extra: PaymentDomain


class PaymentRequiredBody(WireModel):
    """What is asked for. Nothing was charged, and nobody pays again automatically."""

    x402Version: Literal[2]
    error: str
    resource: PaidResource
    accepts: Annotated[
        list[PaymentTermsBody], Field(description="Empty where nothing can be paid by x402.")
    ]
    extensions: dict[str, Any]
