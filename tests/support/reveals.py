"""Announces when stances become public, as the collector does."""

import asyncio

from barograph.stances.announce import announce_reveals
from support.service import Service


def announce(service: Service, after_days: int, at: int) -> None:
    asyncio.run(announce_reveals(service.database, service.lease, after_days, at))
    service.refresh()
