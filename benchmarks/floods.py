"""Hot reads during a flood of requests for uncached pages and downloads."""

from contextlib import closing
from pathlib import Path

import apsw

from barograph.kit.clock import system_clock
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.markets.samples import DAYS, MEASURES
from benchmarks import bench, load, series
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Hot reads beside 64 connections on uncached pages: p99, as a multiple of the quiet p99"
BOUND = 5
COINS = ("BTC", "ETH", "SOL", "XRP", "DOGE", "ADA", "AVAX", "LINK", "DOT", "LTC")
RECORDED_DAYS = 60
ROUND_SECONDS, QUICK_SECONDS = 4, 1
PAUSE_SECONDS = 0.002

SCRIPT = """
local targets = {{{targets}}}
local count = 0
request = function()
  count = count + 1
  local target = targets[count % #targets + 1]
  if count % 3 == 0 then target = "/markets?q=" .. count end
  local from = "198.18." .. math.random(0, 255) .. "." .. math.random(0, 255)
  return wrk.format("GET", target, {{["X-Forwarded-For"] = from}})
end
"""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """A flood from one address, which soon gets 429, and from many, which never does."""
    script = folder / "flood.lua"
    script.write_text(SCRIPT.format(targets=", ".join(f'"{each}"' for each in _targets())))
    figures = []
    for name, proxies in (("one address", ""), ("many addresses", "127.0.0.0/8")):
        place = folder / name.replace(" ", "-")
        place.mkdir()
        settings = benchmark_settings(place)
        settings = settings.model_copy(update={"trusted_proxies": proxies})
        publish_market(settings)
        with closing(apsw.Connection(str(settings.database_path))) as connection:
            for coin in COINS:
                series.fill(connection, RECORDED_DAYS * 24, 1, system_clock(), coin)
        with bench.web_service(settings):
            seconds = plan.size(ROUND_SECONDS, QUICK_SECONDS)
            rounds = [_ratio(settings.port, script, seconds) for _ in range(plan.rounds)]
        figures.append(bench.at_most(f"from {name}", rounds, BOUND))
    return bench.Section(TITLE, figures)


def _ratio(port: int, script: Path, seconds: int) -> float:
    quiet = _p99(port, seconds)
    with load.readers(port, "", script, connections=load.FLOOD_CONNECTIONS):
        return _p99(port, seconds) / quiet


def _p99(port: int, seconds: int) -> float:
    """One hot reader that pauses between reads: at full speed it would be a flood itself."""
    took = bench.read_times(port, MARKET_STATE_PATH, bench.during(seconds), PAUSE_SECONDS)
    return sorted(took)[len(took) * 99 // 100]


def _targets() -> list[str]:
    return [
        *(f"/markets/{coin}?days={days}" for coin in COINS for days in DAYS),
        *(f"/api/v1/series/{each}?symbol={coin}" for coin in COINS for each in MEASURES),
    ]
