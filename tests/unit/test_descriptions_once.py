"""The descriptions are rendered once, however many requests come first."""

import asyncio
import threading

import pytest
from fastapi import FastAPI

from barograph.discovery.endpoints import Descriptions, Documents
from barograph.kit.documents import Document

MADE = {"/openapi.json": Document(b"{}")}


class Maker:
    """Renders descriptions when the test allows it."""

    def __init__(self) -> None:
        self.apps: list[FastAPI] = []
        self.threads: set[int] = set()
        self.may_go_on = threading.Event()
        self.fails = False

    def __call__(self, app: FastAPI) -> Documents:
        self.apps.append(app)
        self.threads.add(threading.get_ident())
        assert self.may_go_on.wait(30)
        if self.fails:
            raise RuntimeError("cannot be described")
        return MADE


def test_first_requests_share_one_render_in_a_thread() -> None:
    maker, app = Maker(), FastAPI()
    described = Descriptions(maker)

    async def ask_at_once() -> list[Documents]:
        asked = [asyncio.create_task(described.of(app)) for _ in range(8)]
        await asyncio.sleep(0)  # all of them have asked
        maker.may_go_on.set()
        return await asyncio.gather(*asked, described.of(app))

    assert asyncio.run(ask_at_once()) == [MADE] * 9
    assert asyncio.run(described.of(app)) is MADE
    assert maker.apps == [app]
    assert threading.get_ident() not in maker.threads


def test_a_cancelled_request_does_not_cancel_the_render() -> None:
    maker, app = Maker(), FastAPI()
    described = Descriptions(maker)

    async def ask_and_give_up() -> Documents:
        first, second = (asyncio.create_task(described.of(app)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        maker.may_go_on.set()
        return await second

    assert asyncio.run(ask_and_give_up()) is MADE
    assert maker.apps == [app]


def test_a_failed_render_is_tried_again() -> None:
    maker, app = Maker(), FastAPI()
    maker.may_go_on.set()
    described = Descriptions(maker)
    maker.fails = True
    with pytest.raises(RuntimeError):
        asyncio.run(described.of(app))
    maker.fails = False

    assert asyncio.run(described.of(app)) is MADE
    assert len(maker.apps) == 2
