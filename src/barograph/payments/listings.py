"""Paid endpoints as x402 describes them to payers and to catalogs of facilitators (pure)."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Listing(Struct, frozen=True):
    """What a paid endpoint is, in words and by example."""

    url: str
    description: str
    mime_type: str = "application/json"
    output_example: dict[str, Any] | None = None
    """A part of the paid body; without one, no catalog lists the endpoint."""

    def saying(self, terms: str) -> "Listing":
        """The same with one more sentence, unless that is empty."""
        return replace(self, description=f"{self.description} {terms}".rstrip())

    @property
    def resource(self) -> dict[str, Any]:
        """The x402 resource object."""
        return {"url": self.url, "description": self.description, "mimeType": self.mime_type}

    @property
    def discovery(self) -> dict[str, Any]:
        """The `bazaar` extension of an endpoint that is read with a plain GET.

        https://github.com/coinbase/x402/blob/main/specs/extensions/bazaar.md
        """
        if self.output_example is None:
            return {}
        info = {
            "input": {"type": "http", "method": "GET"},
            "output": {"type": "json", "example": self.output_example},
        }
        return {"bazaar": {"info": info, "schema": _SCHEMA}}


_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "input": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "const": "http"},
                "method": {"type": "string", "enum": ["GET"]},
            },
            "required": ["type", "method"],
            "additionalProperties": False,
        },
        "output": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "example": {"type": "object"}},
            "required": ["type"],
        },
    },
    "required": ["input"],
}
