"""What is sold by x402, and how it is paid."""

import re
from decimal import Decimal
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from barograph.settings.values import HTTP_ADDRESS, Contact, Group, matching, require_safe

_WALLET = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
Wallet = Annotated[str, matching(_WALLET, "0x and 40 hexadecimal digits are needed")]


USDC_DECIMALS = 6


class Payments(Group):
    """Sales by x402. Without a facilitator, nothing is for sale."""

    x402_facilitator_url: str = Field(
        "",
        description="URL of the x402 v2 facilitator that verifies and settles payments. If "
        "empty, nothing is for sale and the paid endpoints return `not_found`.",
    )
    x402_facilitator_token: SecretStr = Field(
        SecretStr(""), description="Bearer token for the facilitator, if it needs one."
    )
    x402_cdp_key_id: str = Field(
        "",
        description="Id of a secret API key of the Coinbase Developer Platform, for [Coinbase's "
        "facilitator](subscribing.md#for-operators-the-facilitator). The service "
        "signs each request with the key instead of sending a bearer token.",
    )
    x402_cdp_key_secret: SecretStr = Field(
        SecretStr(""),
        description="Secret of the key in `BAROGRAPH_X402_CDP_KEY_ID`: the base64 text of an "
        "Ed25519 key, or the PEM text of an ECDSA key, whose line breaks may be written as `\\n`.",
    )
    x402_network: str = Field(
        "eip155:8453",
        pattern="^eip155:[1-9][0-9]{0,17}$",
        description="Chain for payments, as a CAIP-2 id.",
    )
    x402_asset: Wallet = Field(
        "", description="Token for payments: the address of USDC's contract on that chain."
    )
    x402_pay_to: Wallet = Field(
        "",
        description="Address that receives payments. If you change it, earlier payments to the "
        "old address still count.",
    )
    x402_chain_url: str = Field(
        "",
        description="JSON-RPC URL of a node of that chain, by which the collector resolves "
        "payments whose result the facilitator didn't report. If empty, the operator "
        "must resolve them.",
    )
    feed_price_usd: Decimal = Field(
        Decimal(25), gt=0, le=100_000, description="Price of one period of Feed by x402, in USD."
    )
    feed_period_days: int = Field(
        30, ge=1, le=366, description="Length of one period of Feed, in days."
    )
    stance_price_usd: Decimal = Field(
        Decimal("0.25"),
        gt=0,
        le=100_000,
        description="Price of one stance read by x402 without Feed, in USD.",
    )
    sales_contact: Contact = Field(
        "",
        description="Contact for Feed and Reserve on `/pricing`, such as "
        "`mailto:sales@example.com` or an https address.",
    )

    @field_validator("x402_facilitator_url", "x402_chain_url")
    @classmethod
    def _money_address(cls, value: str) -> str:
        """Require TLS: an attacker who can change the replies decides who has paid."""
        if value and HTTP_ADDRESS.fullmatch(value) is None:
            raise ValueError("an https:// address without a trailing slash is needed")
        return require_safe(value, "its replies decide about money")

    @model_validator(mode="after")
    def _payments_are_complete(self) -> Self:
        needed = (self.x402_facilitator_url, self.x402_asset, self.x402_pay_to)
        if any(needed) and not all(needed):
            raise ValueError(
                "BAROGRAPH_X402_FACILITATOR_URL, BAROGRAPH_X402_ASSET and BAROGRAPH_X402_PAY_TO "
                "are needed together"
            )
        key = bool(self.x402_cdp_key_id), bool(self.x402_cdp_key_secret.get_secret_value())
        if any(key) and not all(key):
            raise ValueError(
                "BAROGRAPH_X402_CDP_KEY_ID and BAROGRAPH_X402_CDP_KEY_SECRET are needed together"
            )
        if any(key) and self.x402_facilitator_token.get_secret_value():
            raise ValueError(
                "BAROGRAPH_X402_FACILITATOR_TOKEN and BAROGRAPH_X402_CDP_KEY_ID can't both be set: "
                "a facilitator takes either a fixed token or signed requests"
            )
        for price in (self.feed_price_usd, self.stance_price_usd):
            if price.scaleb(USDC_DECIMALS) % 1:
                raise ValueError("a price must be a whole number of the token's smallest unit")
        if self.feed_price_usd == self.stance_price_usd:
            raise ValueError("Feed and a stance must differ in price, or a proof would fit both")
        return self

    @property
    def stop_seconds(self) -> int:
        """How long a web worker may take to stop.

        A worker that takes payments may finish a settlement first, or its payer would not know
        the result.
        """
        return 40 if self.takes_payments else 6

    @property
    def takes_payments(self) -> bool:
        """Whether Feed and single stances are sold by x402."""
        return bool(self.x402_facilitator_url)
