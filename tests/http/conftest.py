"""The whole application in process."""

import asyncio
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import fastapi.routing
import pytest
import starlette.routing

from support.history import PublicHistory
from support.loops import OneLoopPolicy
from support.markets import reading, shares
from support.pages import FOUND, NOTE, SiteService
from support.service import Service, fresh_service
from support.subscribers import SubscriberService


@pytest.fixture(scope="session", autouse=True)
def without_power_cuts() -> Iterator[None]:
    """Nothing outlives its test here, so nothing needs to wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_applications() -> Iterator[None]:
    """Tests create thousands of applications with the same paths, and call each a few times."""
    compiled = cache(starlette.routing.compile_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starlette.routing, "compile_path", compiled)
        patch.setattr(fastapi.routing, "compile_path", compiled)
        asyncio.set_event_loop_policy(OneLoopPolicy())
        yield


@pytest.fixture
def empty_service(tmp_path: Path) -> Iterator[Service]:
    """A service to which nothing was published yet."""
    service = Service(tmp_path)
    yield service
    service.close()


@pytest.fixture
def service(empty_service: Service) -> Service:
    """A service with a fresh market of four contracts and a wholly watched day."""
    empty_service.watch_day()
    empty_service.publish(reading(), shares())
    return empty_service


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same, which the tests of a module only read."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        yield service


@pytest.fixture(params=["whole", "routes"])
def side(request: pytest.FixtureRequest, service: Service) -> Service:
    """A service that is asked with the doors in front of its routes, and without them."""
    if request.param == "routes":
        service.app = service.routes
    return service


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SiteService]:
    """Every page, with signals and two briefs."""
    found = SiteService(tmp_path)
    found.judged()
    found.service.keep_briefs(NOTE, FOUND)
    yield found
    found.close()


@pytest.fixture
def subscribed(tmp_path: Path) -> Iterator[SubscriberService]:
    """A service with subscribers and a fresh market."""
    service = SubscriberService(tmp_path)
    service.watch_day()
    service.publish(reading(), shares())
    yield service
    service.close()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[PublicHistory]:
    """An empty record."""
    history = PublicHistory(tmp_path)
    yield history
    history.close()
