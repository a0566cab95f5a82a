"""What a worker does beside answering: it runs for its life, and its end is told."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from barograph.site.templating import Templates
from barograph.web.errors import Task, routed_app
from support.service import BASE_URL, Service

CLOSED = "closed"


async def dies() -> None:
    raise RuntimeError("out of luck")


async def returns() -> None:
    return


async def stays() -> None:
    await asyncio.Event().wait()


def live(service: Service, tasks: Sequence[Task]) -> list[str]:
    """Start and stop a worker with these tasks; what was done at its end."""
    done: list[str] = []

    async def close() -> None:
        done.append(CLOSED)

    app = routed_app(service.board, tasks, [close], Templates(BASE_URL))

    async def run() -> None:
        async with app.router.lifespan_context(app):
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(run())
    return done


def ends(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.message == "background task ended"]


@pytest.mark.outcome(
    "A background task of a web worker dies",
    "The worker logs it as critical with the traceback, keeps answering and stops cleanly.",
)
def test_a_task_that_dies_is_told_with_its_cause(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [stays, dies]) == [CLOSED]

    [told] = ends(caplog)
    assert told.levelno == logging.CRITICAL
    assert "RuntimeError: out of luck" in caplog.text


def test_a_task_that_ends_by_itself_is_told_too(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [returns]) == [CLOSED]

    assert len(ends(caplog)) == 1


def test_the_end_of_the_worker_is_nothing_to_tell(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert live(service, [stays, service.board.follow]) == [CLOSED]

    assert ends(caplog) == []
