"""Real answers of the demo, as examples.

`python docs/examples.py` takes them anew; a test holds each to its schema.
"""

import json
from importlib.resources import files
from typing import Any, NamedTuple

BASE_ADDRESS = "{base_url}"
"""What stands for the base address in the file."""


class Examples(NamedTuple):
    """What is shown."""

    answers: dict[str, dict[str, Any]]
    """Bodies by the name of the operation and by status."""

    parameters: dict[str, dict[str, Any]]
    """Values by the name of the operation and of the parameter."""

    requests: dict[str, Any]
    """Bodies of requests by the name of the operation."""


def load_examples(base_url: str) -> Examples:
    """The examples as the instance at `base_url` would give them."""
    text = (files("barograph.discovery") / "examples.json").read_text("utf-8")
    return Examples(**json.loads(text.replace(BASE_ADDRESS, base_url)))
