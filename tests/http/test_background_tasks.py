"""Background tasks of a worker run until it stops; one that ends early is logged."""

import asyncio
import logging

import pytest

from barograph.web.lifespan import Task, lifespan
from support.service import Service


async def dies() -> None:
    raise RuntimeError("out of luck")


async def returns() -> None:
    return


async def stays() -> None:
    await asyncio.Event().wait()


@pytest.mark.outcome(
    "A background task of a web worker dies",
    "The worker logs it with the traceback, keeps answering and stops cleanly.",
)
@pytest.mark.parametrize(
    ("task", "logged"), [(dies, "RuntimeError: out of luck"), (returns, ""), (stays, None)]
)
async def test_a_task_that_dies_is_logged_with_its_traceback(
    service: Service, caplog: pytest.LogCaptureFixture, task: Task, logged: str | None
) -> None:
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    async with lifespan(service.board, [stays, task, service.board.follow], [close]):
        for _ in range(3):
            await asyncio.sleep(0)

    assert closed.is_set()
    ends = [record for record in caplog.records if record.message == "background task ended"]
    assert [record.levelno for record in ends] == ([] if logged is None else [logging.CRITICAL])
    assert logged is None or logged in caplog.text
