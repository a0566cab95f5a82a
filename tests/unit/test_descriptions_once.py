"""The descriptions are rendered once, however many requests come first."""

import asyncio
import threading

import pytest
from starlette.applications import Starlette

from barograph.discovery.endpoints import Descriptions, Documents
from barograph.kit.documents import Document

MADE = {"/openapi.json": Document(b"{}")}


class Maker:
    """Renders descriptions when the test allows it."""

    def __init__(self) -> None:
        self.apps: list[Starlette] = []
        self.threads: set[int] = set()
        self.may_go_on = threading.Event()
        self.fails = False

    def __call__(self, app: Starlette) -> Documents:
        self.apps.append(app)
        self.threads.add(threading.get_ident())
        assert self.may_go_on.wait(30)
        if self.fails:
            raise RuntimeError("cannot be described")
        return MADE


def test_those_who_ask_first_wait_for_the_same_work_in_another_thread() -> None:
    maker, app = Maker(), Starlette()
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


def test_one_who_gives_up_does_not_end_the_work_of_the_others() -> None:
    maker, app = Maker(), Starlette()
    described = Descriptions(maker)

    async def ask_and_give_up() -> Documents:
        first, second = (asyncio.create_task(described.of(app)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        maker.may_go_on.set()
        return await second

    assert asyncio.run(ask_and_give_up()) is MADE
    assert maker.apps == [app]


def test_what_could_not_be_made_is_tried_again() -> None:
    maker, app = Maker(), Starlette()
    maker.may_go_on.set()
    described = Descriptions(maker)
    maker.fails = True
    with pytest.raises(RuntimeError):
        asyncio.run(described.of(app))
    maker.fails = False

    assert asyncio.run(described.of(app)) is MADE
    assert len(maker.apps) == 2
