"""The shape of JSON: its fields and their types."""

from typing import Any

NAMES = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    dict: "object",
    list: "list",
}


def fields_of(value: Any, path: str = "") -> dict[str, set[str]]:
    """The types of every field by its dotted path; `[]` means any row of a list."""
    found: dict[str, set[str]] = {path: {NAMES[type(value)]}} if path else {}
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(f"{path}.{name}".lstrip("."), each) for name, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[]", each) for each in value]
    for name, each in inner:
        for field, types in fields_of(each, name).items():
            found.setdefault(field, set()).update(types)
    return found


def differences(sample: Any, simulated: Any) -> list[str]:
    """How a simulated reply differs from the sample: missing fields, extra fields, other types."""
    expected, found = fields_of(sample), fields_of(simulated)
    return [
        *(f"missing: {field}" for field in expected.keys() - found.keys()),
        *(f"extra: {field}" for field in found.keys() - expected.keys()),
        *(
            f"{field}: {', '.join(sorted(found[field] - expected[field]))}"
            for field in expected.keys() & found.keys()
            if not found[field] <= expected[field]
        ),
    ]
