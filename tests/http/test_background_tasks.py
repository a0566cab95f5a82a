"""Background tasks of a worker run until it stops; one that ends early is logged."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from barograph.web.lifespan import Task, lifespan
from support.service import Service

CLOSED = "closed"


async def dies() -> None:
    raise RuntimeError("out of luck")


async def returns() -> None:
    return


async def stays() -> None:
    await asyncio.Event().wait()


def live(service: Service, tasks: Sequence[Task]) -> list[str]:
    """Start and stop a worker with these tasks; what was closed at its end."""
    done: list[str] = []

    async def close() -> None:
        done.append(CLOSED)

    async def run() -> None:
        async with lifespan(service.board, tasks, [close]):
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(run())
    return done


def ends(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.message == "background task ended"]


@pytest.mark.outcome(
    "A background task of a web worker dies",
    "The worker logs it with the traceback, keeps answering and stops cleanly.",
)
def test_a_task_that_dies_is_logged_with_its_traceback(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [stays, dies]) == [CLOSED]

    [logged] = ends(caplog)
    assert logged.levelno == logging.CRITICAL
    assert "RuntimeError: out of luck" in caplog.text


def test_a_task_that_ends_by_itself_is_logged_too(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [returns]) == [CLOSED]

    assert len(ends(caplog)) == 1


def test_the_end_of_the_worker_is_not_logged(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [stays, service.board.follow]) == [CLOSED]

    assert ends(caplog) == []
