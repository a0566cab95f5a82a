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


async def test_those_who_ask_first_wait_for_the_same_work_also_if_one_of_them_gives_up() -> None:
    maker, app = Maker(), Starlette()
    described = Descriptions(maker)
    impatient, *patient = (asyncio.create_task(described.of(app)) for _ in range(9))
    await asyncio.sleep(0)  # all of them have asked
    impatient.cancel()
    maker.may_go_on.set()

    assert await asyncio.gather(*patient, described.of(app)) == [MADE] * 9
    assert await described.of(app) is MADE
    assert maker.apps == [app]
    assert threading.get_ident() not in maker.threads


async def test_what_could_not_be_made_is_tried_again() -> None:
    maker, app = Maker(), Starlette()
    maker.may_go_on.set()
    described = Descriptions(maker)
    maker.fails = True
    with pytest.raises(RuntimeError):
        await described.of(app)
    maker.fails = False

    assert await described.of(app) is MADE
    assert len(maker.apps) == 2
