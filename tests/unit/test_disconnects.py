"""Client disconnects, as a server reports them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barograph.kit.http import watch_disconnect

REQUEST = {"type": "http.request", "body": b"", "more_body": False}
PART = {"type": "http.request", "body": b"x", "more_body": True}
GONE = {"type": "http.disconnect"}


class Wire:
    """Sends its messages in order, and then nothing."""

    def __init__(self, *messages: dict[str, Any] | Exception) -> None:
        self.messages = [*messages]
        self.heard = 0

    async def receive(self) -> dict[str, Any]:
        if self.heard == len(self.messages):
            await asyncio.Event().wait()
        message = self.messages[self.heard]
        self.heard += 1
        if isinstance(message, Exception):
            raise message
        return message


async def look(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bool:
    async with watch_disconnect(receive) as is_disconnected:
        assert not is_disconnected()
        for _ in range(5):
            await asyncio.sleep(0)
        return is_disconnected()


@pytest.mark.parametrize(
    ("messages", "is_disconnected"),
    [
        ([], False),
        ([REQUEST], False),
        ([PART, PART], False),
        ([PART, REQUEST], False),
        ([GONE], True),
        ([REQUEST, GONE], True),
        ([PART, GONE], True),
        ([PART, PART, REQUEST, GONE], True),
        ([RuntimeError("the connection broke")], True),
        ([REQUEST, RuntimeError("the connection broke")], True),
    ],
)
async def test_a_disconnect_is_known_once_the_server_reports_it(
    messages: list[Any], is_disconnected: bool
) -> None:
    assert await look(Wire(*messages).receive) is is_disconnected


async def test_a_server_that_repeats_the_request_is_not_listened_to_for_ever() -> None:
    async def receive() -> dict[str, Any]:
        return REQUEST

    assert await look(receive) is False


async def test_nobody_listens_any_more_once_the_request_is_served() -> None:
    async with watch_disconnect(Wire(REQUEST).receive):
        await asyncio.sleep(0)

    assert len(asyncio.all_tasks()) == 1
