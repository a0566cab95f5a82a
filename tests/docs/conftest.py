"""The service whose pages are checked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.markets import reading, shares
from support.subscribers import SubscriberService


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SubscriberService]:
    """A service with subscribers and a fresh market."""
    service = SubscriberService(tmp_path)
    service.watch_day()
    service.publish(reading(), shares())
    yield service
    service.close()
