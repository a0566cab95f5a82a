"""The described interface, and a service with every endpoint enabled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openapi_schema_validator import OAS31Validator

from support.payments import PAYMENTS, HandFacilitator
from support.subscribers import SubscriberService

OPEN = {"EventRecord", "MeasurePoint"}
"""Bodies whose further members depend on the kind of entry."""


def operations(description: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every operation with its path."""
    paths = description["paths"].items()
    return [(path, operation) for path, item in paths for operation in item.values()]


def parts(part: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from parts(each)


def closed(description: dict[str, Any]) -> dict[str, Any]:
    """A description whose bodies allow no other members, so that tests notice every new one."""
    for name, schema in description["components"]["schemas"].items():
        if "properties" in schema and not name.startswith("JsonRpc") and name not in OPEN:
            schema.setdefault("additionalProperties", False)
    return description


def validator(
    description: dict[str, Any], path: str, status: str = "200", method: str = "get"
) -> OAS31Validator:
    """A validator for bodies of the described schema."""
    response = description["paths"][path][method]["responses"][status]
    schema = response["content"]["application/json"]["schema"]
    return OAS31Validator({**schema, "components": description["components"]})


def shop(folder: Path) -> SubscriberService:
    """A service with subscribers that takes payments."""
    return SubscriberService(folder, facilitator=HandFacilitator(), **PAYMENTS)
