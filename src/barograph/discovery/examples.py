"""Real answers of the demo, as examples.

`python docs/examples.py` takes them anew; a test holds each to its schema.
"""

import json
from importlib.resources import files
from typing import Any, NamedTuple

from barograph.briefs.documents import PAGE_FOLDER as BRIEFS_FOLDER
from barograph.guides.documents import PAGES_PATH as GUIDES_PAGE

BASE_ADDRESS = "{base_url}"
"""What stands for the base address in the file."""

ELSEWHERE = "https://demo.example"
"""Whose briefs and guides the examples name: those of an instance are its own."""


class Examples(NamedTuple):
    """What is shown."""

    answers: dict[str, dict[str, Any]]
    """Bodies by the name of the operation and by status."""

    parameters: dict[str, dict[str, Any]]
    """Values by the name of the operation and of the parameter."""

    requests: dict[str, Any]
    """Bodies of requests by the name of the operation."""


def load_examples(base_url: str) -> Examples:
    """The examples as the instance at `base_url` would give them.

    What begins with its address is there; pages that only the demo had are those of `ELSEWHERE`.
    """
    text = (files("barograph.discovery") / "examples.json").read_text("utf-8")
    for folder in (BRIEFS_FOLDER, f"{GUIDES_PAGE}/"):
        text = text.replace(f"{BASE_ADDRESS}{folder}", f"{ELSEWHERE}{folder}")
    return Examples(**json.loads(text.replace(BASE_ADDRESS, base_url)))
