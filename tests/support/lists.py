"""Reads lists as a program does: page after page, or as a table."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from support.service import BASE_URL, Service


def pages(service: Service, target: str) -> Iterator[dict[str, Any]]:
    """Every page, by following `next`."""
    following: str | None = target
    while following is not None:
        answer = service.ask(following.removeprefix(BASE_URL))
        assert answer.status == 200, answer.body
        page = answer.json()
        assert page["next"] != following
        yield page
        following = page["next"]


def table(body: bytes) -> list[dict[str, str]]:
    """The rows of a table by column."""
    return list(csv.DictReader(io.StringIO(body.decode(), newline=""), strict=True))
