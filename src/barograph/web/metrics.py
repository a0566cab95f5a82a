"""What a web worker measures besides its requests: the age of its data, and the limits store."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import BaseRoute, Route

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.kit.metrics import FEED_AGE, LIMITS_FAILING, Gauges
from barograph.macro.records import MACRO_HEALTH
from barograph.markets.view import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
)
from barograph.settings import Settings
from barograph.signals.records import SIGNALS
from barograph.stances.reader import STANCES
from barograph.status.reader import LimitsFailing

DATED: tuple[Feed[Any], ...] = (PERPETUALS, LIQUIDATIONS, REGIME, EXCHANGE_HEALTH, SIGNALS, STANCES)
OTHER = "other"
"""The route of every path that no route matches."""


def route_finder(routes: Sequence[BaseRoute]) -> Callable[[str], str]:
    """Finds the template of the route of a path, such as `/guides/{slug}`."""
    known = [(each.path_regex, each.path) for each in routes if isinstance(each, Route)]

    return lambda path: next((template for regex, template in known if regex.match(path)), OTHER)


async def web_gauges(
    board: Board, settings: Settings, limits_failing: LimitsFailing, found: Gauges
) -> None:
    """Add the times of the newest data of each feed, and whether the limits store fails."""
    dated = [(feed.name, board.latest(feed)) for feed in DATED]
    times = {name: record.as_of for name, record in dated if record is not None}
    if (long := board.latest(LONG_ACCOUNTS)) is not None and long.shares:
        times[LONG_ACCOUNTS.name] = max(each.sampled_at for each in long.shares.values())
    if (macro := board.latest(MACRO_HEALTH)) is not None and macro.sources:
        times[MACRO_HEALTH.name] = min(each.as_of for each in macro.sources.values())
    found |= {(FEED_AGE.name, name): at for name, at in times.items()}
    found[LIMITS_FAILING.name, _store(settings)] = float(limits_failing() is not None)


def _store(settings: Settings) -> str:
    if settings.limits_url.get_secret_value():
        return "valkey"
    return "sqlite" if settings.limits_use_file else "memory"
