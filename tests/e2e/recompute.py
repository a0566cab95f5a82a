"""Recomputes the numbers that a running demo publishes, from its simulated exchanges' own answers.

    python tests/e2e/recompute.py http://127.0.0.1:8080 --data DIR

The simulated exchanges are pure functions of seed and time, so their answers at the time of any
reading can be had again. Nothing of the service is imported: every rule is written down once more.
"""

import argparse
import csv
import io
import json
import math
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from barograph_demo.servers import binance_rest, macro_files, rest
from barograph_demo.servers.aster import AsterFaults, AsterServer
from barograph_demo.servers.faults import BinanceFaults, HyperliquidFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.gate import GateFaults, GateServer
from barograph_demo.servers.hyperliquid import Info, InfoRequest
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.venues import BINANCE, VenueMarket
from barograph_demo.world.world import World

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NEAR = 5 * MINUTE
"""How far a value may be from exactly 24 hours or 7 days ago."""

LAG = 3 * SECOND
"""A venue without times in its reply answers at most this long after the time of the reading."""

WINDOWS = {"8h": DAY // 3, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
MAJORS = ("BTC", "ETH", "SOL")
Row = dict[str, Any]
Reply = Any
"""Decoded JSON."""


def stamp(text: str) -> int:
    """Milliseconds since the Unix epoch of an ISO timestamp."""
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


def text_of(at: int) -> str:
    """The ISO timestamp of a time."""
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class Quote(NamedTuple):
    """One contract as its exchange states it, in percent, USD and coins; one side counted."""

    contract: str
    price: float
    mark: float
    rate: float
    hours: float
    next_funding: int
    coins: float | None
    usd: float | None

    @property
    def rate_8h(self) -> float:
        """The rate per eight hours."""
        return self.rate * 8 / self.hours


def percent(fraction: str) -> float:
    """A fraction in percent, without the rounding of binary arithmetic."""
    return float(Decimal(fraction) * 100)


class Exchanges:
    """The simulated exchanges, which can be asked as of any time."""

    def __init__(self, data: Path) -> None:
        anchor = json.loads((data / "world.json").read_text())
        self.world = World(anchor["seed"], anchor["epoch"])
        self._kept: dict[int, dict[str, float]] = {}  # listings change at midnight
        self._info = Info(self.world, HyperliquidFaults())
        self._binance = FaultyMarket(VenueMarket(self.world, BINANCE), BinanceFaults())
        self._at = 0
        self._aster = AsterServer(self.world, lambda: self._at, AsterFaults())
        self._gate = GateServer(self.world, lambda: self._at, GateFaults())

    def bybit(self, path: str, at: int, **query: str) -> Reply:
        """The result of a request to Bybit."""
        query = {"category": "linear", **query}
        return json.loads(rest.answer(self.world, f"/v5/market/{path}", query, at)[1])["result"]

    def hyperliquid(
        self, kind: str, at: int, coin: str = "", span: tuple[int, int] = (0, 0)
    ) -> Reply:
        """The answer of Hyperliquid."""
        return self._info.answer(InfoRequest(kind, coin, *span), at)

    def binance(self, path: str, at: int, **query: str) -> Reply:
        """The answer of Binance."""
        return json.loads(binance_rest.answer(self._binance, path, query, at)[1])

    def aster(self, path: str, at: int, **query: str) -> Reply:
        """The answer of Aster."""
        self._at = at
        return json.loads(self._aster.result(path, query)[1])

    def gate(self, path: str, at: int, **query: str) -> Reply:
        """The answer of Gate."""
        self._at = at
        return json.loads(self._gate.answer(f"/api/v4/futures/usdt/{path}", query).body)

    def quotes(self, venue: str, at: int) -> dict[str, Quote]:
        """All crypto perpetuals of a venue, by contract."""
        return {quote.contract: quote for quote in getattr(self, f"_{venue}_quotes")(at)}

    def kept(self, at: int) -> dict[str, float]:
        """The crypto perpetuals of Bybit against USDT, with their funding intervals in hours."""
        day = at // DAY
        if day not in self._kept:
            listed = self.bybit("instruments-info", at, limit="1000")["list"]
            self._kept[day] = {
                row["symbol"]: row["fundingInterval"] / 60
                for row in listed
                if (row["contractType"], row["quoteCoin"], row["status"])
                == ("LinearPerpetual", "USDT", "Trading")
                and row["symbolType"] in ("", "innovation")
            }
        return self._kept[day]

    def _bybit_quotes(self, at: int) -> Iterator[Quote]:
        kept = self.kept(at)
        for row in self.bybit("tickers", at)["list"]:
            name = row["symbol"]
            if name in kept:
                price, mark = float(row["lastPrice"]), float(row["markPrice"])
                rate, following = percent(row["fundingRate"]), int(row["nextFundingTime"])
                coins, usd = (float(row[f"singleOpenInterest{each}"]) for each in ("", "Value"))
                yield Quote(name, price, mark, rate, kept[name], following, coins, usd)

    def _hyperliquid_quotes(self, at: int) -> Iterator[Quote]:
        meta, contexts = self.hyperliquid("metaAndAssetCtxs", at)
        for asset, state in zip(meta["universe"], contexts, strict=True):
            if not asset.get("isDelisted"):
                mark, coins = float(state["markPx"]), float(state["openInterest"]) / 2
                following = at // HOUR * HOUR + HOUR
                rate = percent(state["funding"])
                yield Quote(asset["name"], mark, mark, rate, 1, following, coins, coins * mark)

    def _binance_quotes(self, at: int) -> Iterator[Quote]:
        return self._quotes(self.binance, "/fapi/v2/ticker/price", "COIN", at)

    def _aster_quotes(self, at: int) -> Iterator[Quote]:
        """The demo's crypto contracts have no class."""
        return self._quotes(self.aster, "/fapi/v1/ticker/price", None, at)

    def _quotes(
        self, ask: Callable[..., Reply], prices_at: str, word: str | None, at: int
    ) -> Iterator[Quote]:
        kept = {
            row["symbol"]
            for row in ask("/fapi/v1/exchangeInfo", at)["symbols"]
            if (row["contractType"], row.get("underlyingType"), row["quoteAsset"], row["status"])
            == ("PERPETUAL", word, "USDT", "TRADING")
        }
        hours = {
            row["symbol"]: row["fundingIntervalHours"] for row in ask("/fapi/v1/fundingInfo", at)
        }
        prices = {row["symbol"]: row["price"] for row in ask(prices_at, at)}
        for row in ask("/fapi/v1/premiumIndex", at):
            name = row["symbol"]
            if name in kept:
                price, mark = float(prices[name]), float(row["markPrice"])
                rate, following = percent(row["lastFundingRate"]), row["nextFundingTime"]
                yield Quote(name, price, mark, rate, hours[name], following, None, None)

    def _gate_quotes(self, at: int) -> Iterator[Quote]:
        for row in self.gate("contracts", at):
            if row["contract_type"] == "":
                price, mark = float(row["last_price"]), float(row["mark_price"])
                coins = row["position_size"] * float(row["quanto_multiplier"])
                rate, hours = percent(row["funding_rate"]), row["funding_interval"] / 3600
                following = row["funding_next_apply"] * SECOND
                yield Quote(row["name"], price, mark, rate, hours, following, coins, coins * mark)

    def yields(self, column: str, at: int) -> dict[str, float]:
        """The yields of a maturity in this year's file and the one before, by ISO day."""
        figures, known = MacroWorld(self.world), {}
        year = datetime.fromtimestamp(at / SECOND, UTC).year
        for each in (year - 1, year):
            path = f"{macro_files.TREASURY_PATH}/{each}/all"
            query = {"type": "daily_treasury_yield_curve"}
            body = macro_files.answer(figures, path, query, at).body.decode()
            for row in csv.DictReader(io.StringIO(body)):
                day = datetime.strptime(row["Date"], "%m/%d/%Y").date().isoformat()  # noqa: DTZ007
                known[day] = float(row[column])
        return known

    def overnight(self, path: str, member: str, at: int) -> dict[str, float]:
        """A member of the overnight rates of the last 200 days, by ISO day."""
        path = f"/api/rates/{path}/last/200.json"
        rows = json.loads(macro_files.answer(MacroWorld(self.world), path, {}, at).body)["refRates"]
        return {row["effectiveDate"]: row[member] for row in rows}

    def fund(self, column: str, at: int) -> dict[str, float]:
        """A column of the fund's file, by ISO day."""
        history = macro_files.fund_history(MacroWorld(self.world), at, 100).decode()
        return {row["date"]: float(row[column]) for row in csv.DictReader(io.StringIO(history))}

    def settled(self, venue: str, contract: str, start: int, end: int) -> dict[int, float]:
        """The settled rates from `start` to before `end`, in percent, by their full hour."""
        now = end + HOUR
        if venue == "bybit":
            span = {"startTime": str(start), "endTime": str(end - 1)}
            rows = self.bybit("funding/history", now, symbol=contract, **span)["list"]
            pairs = [(row["fundingRateTimestamp"], row["fundingRate"]) for row in rows]
        elif venue == "gate":
            span = {"from": str(start // SECOND), "to": str(end // SECOND), "limit": "1000"}
            rows = self.gate("funding_rate", now, contract=contract, **span)
            pairs = [(row["t"] * SECOND, row["r"]) for row in rows]
        elif venue in {"binance", "aster"}:
            span = {"startTime": str(start), "limit": "1000"}
            ask = self.binance if venue == "binance" else self.aster
            rows = ask("/fapi/v1/fundingRate", now, symbol=contract, **span)
            pairs = [(row["fundingTime"], row["fundingRate"]) for row in rows]
        else:
            pairs = []
            for first in range(start, end, 400 * HOUR):
                last = min(end, first + 400 * HOUR)
                rows = self.hyperliquid("fundingHistory", now, contract, (first, last - 1))
                pairs += [(row["time"], row["fundingRate"]) for row in rows]
        rates = {round(int(at) / HOUR) * HOUR: percent(rate) for at, rate in pairs}
        return {at: rate for at, rate in rates.items() if start <= at < end}

    def long_share(self, venue: str, contract: str, at: int) -> float:
        """The share of the accounts that were long, in percent."""
        if venue == "bybit":
            query = {"symbol": contract, "period": "5min", "limit": "1"}
            return percent(self.bybit("account-ratio", at, **query)["list"][0]["buyRatio"])
        if venue == "gate":
            query = {"contract": contract, "interval": "5m", "limit": "1"}
            row = self.gate("contract_stats", at, **query)[0]
            longs, shorts = float(row["long_users"]), float(row["short_users"])
            return 100 * longs / (longs + shorts)
        path, query = "/futures/data/globalLongShortAccountRatio", {"period": "5m", "limit": "1"}
        return percent(self.binance(path, at, symbol=contract, **query)[0]["longAccount"])

    def liquidated(self, start: int, end: int) -> float:
        """The liquidations of crypto perpetuals in a span, in USD."""
        kept = self.kept(start)
        return sum(
            float(size) * float(price)
            for _, symbol, _, size, price in self.world.liquidations(start, end)
            if symbol in kept
        )


class Checker:
    """Reads the doors of a demo, compares each number and keeps the differences."""

    def __init__(self, base_url: str, data: Path) -> None:
        self._base_url = base_url.rstrip("/")
        self._exchanges = Exchanges(data)
        self._contracts: dict[tuple[str, str], str] = {}
        self._door = ""
        self.compared: Counter[str] = Counter()
        self.differences: list[str] = []

    def check(self) -> None:
        """Compare every door once."""
        self._market()
        self._liquidations()
        self._series()
        self._settled()
        self._cross()
        self._daily()
        self._signals()
        self._briefs()

    def _equal(self, what: str, published: object, expected: object, places: int = 9) -> None:
        """Compare a published value; numbers agree if they differ by less than a rounding."""
        if isinstance(published, float | int) and isinstance(expected, float | int):
            is_equal = abs(published - expected) <= 10.0**-places * max(1.0, abs(expected) * 1e-3)
            is_equal |= math.isclose(published, expected, rel_tol=1e-9)
        else:
            is_equal = published == expected
        self._holds(f"{what}: {published!r}, expected {expected!r}", is_equal)

    def _members(self, what: str, published: Row, expected: Row, places: int = 9) -> None:
        """Compare members of a document."""
        for name, value in expected.items():
            self._equal(f"{what} {name}", published[name], value, places)

    def _holds(self, what: str, is_true: bool) -> None:
        """Note whether a statement is true."""
        self.compared[self._door] += 1
        if not is_true:
            self.differences.append(f"{self._door} {what}")

    def _get(self, path: str) -> Reply:
        """A JSON document, or the rows of a CSV table."""
        with urllib.request.urlopen(self._base_url + path, timeout=30) as reply:
            text = reply.read().decode()
        return [*csv.DictReader(io.StringIO(text))] if ".csv" in path else json.loads(text)

    def _same(self, *paths: str) -> list[Reply]:
        """Documents of one reading: read again until the first one stays as it is."""
        while True:
            documents = [self._get(path) for path in paths]
            times = {document["as_of"] for document in documents if "as_of" in document}
            if len(times) <= 1 and self._get(paths[0]) == documents[0]:
                return documents

    def _pages(self, path: str, member: str) -> Iterator[Row]:
        """The pages of a list, following `next`."""
        page = self._get(path)
        yield page
        while page["next"] is not None and page[member]:
            page = self._get(page["next"].removeprefix(self._base_url))
            yield page

    def _market(self) -> None:
        """The free market documents, all of one reading."""
        symbols = [entry["symbol"] for entry in self._get("/api/v1/perpetuals")["perpetuals"]]
        listed, table, state, market, *records = self._same(
            "/api/v1/perpetuals",
            "/api/v1/perpetuals.csv",
            "/api/agent/market-state",
            "/api/agent/market",
            *(f"/api/agent/derivatives?symbol={symbol}" for symbol in symbols),
        )
        venue, as_of = listed["venue"], stamp(listed["as_of"])
        quotes = self._reading(venue, as_of, listed["perpetuals"])
        self._door = "/api/v1/perpetuals"
        names = {entry["contract"] for entry in listed["perpetuals"]}
        self._equal("contracts", names, set(quotes))
        for entry in listed["perpetuals"]:
            self._entry(venue, as_of, entry, quotes[entry["contract"]])
        self._door = "/api/v1/perpetuals.csv"
        for row, entry in zip(table, listed["perpetuals"], strict=True):
            self._cells(entry["symbol"], row, entry, entry.keys() - {"liquidations24h"})
        entries = {entry["symbol"]: entry for entry in listed["perpetuals"]}
        for door, assets in (
            ("derivatives", records),
            ("market", market["assets"]),
            ("market-state", state["assets"]),
        ):
            self._door = f"/api/agent/{door}"
            for asset in assets:
                entry = entries[asset["symbol"]]
                quote = quotes[entry["contract"]]
                expected = {
                    "lastPrice": quote.price,
                    "fundingRatePct": quote.rate_8h,  # always per 8 hours
                    "openInterestUsd": entry["openInterestUsd"],
                    "longAccountPct": entry["longAccountPct"],
                    "nextFundingTime": quote.next_funding,
                }
                told = {name: value for name, value in expected.items() if name in asset}
                self._members(asset["symbol"], asset, told)
        note = f"BTC funding is {entries['BTC']['fundingRatePct8h']:+.4f} % per 8 hours"
        self._holds(f"regime: {state['regime']}", state["regime"]["note"].startswith(note))

    def _cells(self, what: str, cells: Row, row: Row, names: Collection[str]) -> None:
        """Compare cells of a CSV table with the members of the same document in JSON."""
        for name in names:
            self._equal(f"{what} {name} in CSV", _cell(cells[name], row[name]), row[name])

    def _reading(
        self, venue: str, as_of: int, entries: Sequence[Row], price: str = "lastPrice"
    ) -> dict[str, Quote]:
        """The exchange's own answer that a reading was made of.

        Only Bybit's has its time; another venue answered within `LAG` of it.
        """
        known = {
            row["contract"]: (row[price], row.get("pricePerCoin"), row["openInterestCoins"])
            for row in entries
            if row["symbol"] in MAJORS
        }
        for at in range(as_of, as_of + (1 if venue == "bybit" else LAG)):
            quotes = self._exchanges.quotes(venue, at)
            if all(_is_quoted(quotes[name], *values) for name, values in known.items()):
                return quotes
        raise SystemExit(f"{venue} never answered with the published {known} at {as_of}")

    def _entry(self, venue: str, as_of: int, entry: Row, quote: Quote) -> None:
        symbol, changes = entry["symbol"], ("priceChange24hPct", "openInterestChange24hPct")
        stated = {
            "lastPrice": quote.price,
            "fundingIntervalHours": quote.hours,
            "nextFundingTime": quote.next_funding,
        }
        self._members(symbol, entry, stated | self._own(venue, entry, quote))
        if entry["longAccountPct"] is not None:
            at = stamp(entry["long_accounts_as_of"])
            share = self._exchanges.long_share(venue, entry["contract"], at)
            self._members(symbol, entry, {"longAccountPct": share})
        if entry["changes_from"] is None:
            self._members(symbol, entry, dict.fromkeys(changes))
            return
        since = stamp(entry["changes_from"])
        is_near = abs(as_of - DAY - since) <= NEAR
        self._holds(f"{symbol} is compared with {entry['changes_from']}", is_near)
        if venue == "bybit":  # the others' instants are only known to some seconds
            before = self._exchanges.quotes(venue, since)[entry["contract"]]
            moved = {
                changes[0]: _change(quote.price, before.price),
                changes[1]: _change(quote.usd, before.usd),
                "openInterestCoinsChange24hPct": _change(quote.coins, before.coins),
            }
            self._members(symbol, entry, moved, 4)

    def _own(self, venue: str, row: Row, quote: Quote) -> Row:
        """The rates and the open interest of a venue's contract."""
        coins, usd = quote.coins, quote.usd
        if venue in {"binance", "aster"} and row["open_interest_as_of"] is not None:
            at = stamp(row["open_interest_as_of"])
            ask = self._exchanges.binance if venue == "binance" else self._exchanges.aster
            reply = ask("/fapi/v1/openInterest", at, symbol=quote.contract)
            coins = float(reply["openInterest"])
            usd = coins * quote.mark
        return {
            "fundingRatePct": quote.rate,
            "fundingRatePct8h": quote.rate_8h,
            "openInterestCoins": coins,
            "openInterestUsd": usd,
        }

    def _liquidations(self) -> None:
        """Each liquidation of the last day, and the totals that are made of them."""
        self._door = door = "/api/v1/liquidations"
        state, listed = self._same("/api/agent/market-state", "/api/v1/perpetuals")
        until = stamp(listed["as_of"])
        path = f"{door}?from={text_of(until - DAY)}&to={text_of(until)}&limit=1000"
        pages = [*self._pages(path, "liquidations")]
        seen = [row for page in pages for row in page["liquidations"]]
        spans = [
            (stamp(span["from"]), stamp(span["to"])) for page in pages for span in page["watched"]
        ]
        sent = {
            (time, symbol, "long" if side == "Buy" else "short", float(size), float(price))
            for time, symbol, side, size, price in self._exchanges.world.liquidations(
                until - DAY, until
            )
        }
        published = {
            (stamp(row["at"]), row["contract"], row["side"], row["size"], row["price"])
            for row in seen
        }
        contracts = {entry["contract"] for entry in listed["perpetuals"]}
        self._holds("has liquidations that the exchange never sent", published <= sent)
        missed = [
            event
            for event in sent - published
            if event[1] in contracts and any(start <= event[0] < end for start, end in spans)
        ]
        self._equal("missed although watched", missed, [])
        sums: dict[tuple[str, str], float] = defaultdict(float)
        for row in seen:
            usd = row["size"] * row["price"]
            sums[row["contract"], row["side"]] += usd
            self._holds(f"usd: {row['usd']}, not {usd}", abs(row["usd"] - usd) < 0.006)
        day = state["liq24h"]
        self._equal("liq24h is available", day["available"], listed["venue"] == "bybit")
        if not day["available"]:
            return
        totals = {}
        for entry in listed["perpetuals"]:
            sides = {f"{side}Usd": sums[entry["contract"], side] for side in ("long", "short")}
            self._members(f"{entry['symbol']} of 24 h", entry["liquidations24h"], sides, 1)
            totals[entry["symbol"]] = sum(sides.values())
        total = sum(sums.values())
        longs = sum(usd for (_, side), usd in sums.items() if side == "long")
        self._equal("totalNotional", day["totalNotional"], total, 1)
        self._equal("longPct", day["longPct"], 100 * longs / total, 2)
        self._equal("topAsset", day["topAsset"], max(totals, key=totals.__getitem__))

    def _series(self) -> None:
        """The hours of the majors that were replayed, whose readings are of the full hour."""
        exchanges = self._exchanges
        measures: dict[str, Callable[[str, int], float | None]] = {
            "long-accounts": lambda name, at: exchanges.long_share("bybit", name, at),
            "price": lambda name, at: exchanges.quotes("bybit", at)[name].price,
            "funding": lambda name, at: exchanges.quotes("bybit", at)[name].rate_8h,
            "open-interest": lambda name, at: exchanges.quotes("bybit", at)[name].usd,
        }
        for measure, value in measures.items():
            self._door = f"/api/v1/series/{measure}"
            for symbol in MAJORS:
                path = f"{self._door}?symbol={symbol}&venue=bybit&interval=hour"
                for point in self._get(path)["points"][:-4]:
                    if point["value"] is not None and point["origin"] == "measured":
                        expected = value(f"{symbol}USDT", stamp(point["at"]))
                        self._equal(f"{symbol} at {point['at']}", point["value"], expected)

    def _settled(self) -> None:
        """The settled rates of every venue, which are the exchanges' own."""
        self._door = "/api/v1/series/settled-funding"
        for coin in self._get("/api/v1/cross?limit=20")["cross"]:
            for row in coin["venues"]:
                if row["contract"] is not None:
                    self._settled_rates(row["venue"], row["contract"])

    def _settled_rates(self, venue: str, contract: str) -> None:
        path = f"{self._door}?symbol={contract}&venue={venue}&limit=1000"
        known = {stamp(point["at"]): point["value"] for point in self._get(path)["points"]}
        if known:
            rates = self._exchanges.settled(venue, contract, min(known), max(known) + 1)
            self._equal(f"{venue} {contract} times", set(known), set(rates))
            for at, rate in known.items():
                self._equal(f"{venue} {contract} at {text_of(at)}", rate, rates.get(at))

    def _cross(self) -> None:
        """Totals and spreads over the venues."""
        self._door = "/api/v1/cross"
        for symbol in MAJORS:
            coin, table = self._same(f"/api/v1/cross/{symbol}", "/api/v1/cross.csv")
            cells = {row["venue"]: row for row in table if row["coin"] == symbol}
            for row in coin["venues"]:
                venue = row["venue"]
                what = f"{symbol} {venue}"
                self._cells(what, cells[venue], row, cells[venue].keys() & row.keys())
                if row["state"] == "ok":
                    entries = [{**row, "symbol": symbol}]
                    quotes = self._reading(venue, stamp(row["as_of"]), entries, "price")
                    quote = quotes[row["contract"]]
                    own = {**self._own(venue, row, quote), "pricePerCoin": quote.mark}
                    self._members(what, row, own)
            self._settled_windows(symbol, coin)
            self._totals(symbol, coin)

    def _totals(self, symbol: str, coin: Row) -> None:
        """The sums over the venues, if no venue is missing."""
        rows = coin["venues"]
        change = coin["openInterestChange24h"]
        if change is not None and change["priceEffectUsd"] is not None:
            effects = change["priceEffectUsd"] + change["positionsEffectUsd"]
            self._equal(f"{symbol} effects", change["changeUsd"], effects, 2)
        if coin["openInterestComplete"] and not coin["fundingMissing"]:
            total = sum(row["openInterestUsd"] for row in rows)
            coins = sum(row["openInterestCoins"] for row in rows)
            rate = sum(row["fundingRatePct8h"] * row["openInterestUsd"] for row in rows) / total
            self._members(symbol, coin, {"totalOpenInterestUsd": total}, 2)
            self._members(symbol, coin, {"totalOpenInterestCoins": coins}, 6)
            self._members(symbol, coin, {"weightedFundingRatePct8h": rate}, 8)
            for row in rows:
                share = 100 * row["openInterestUsd"] / total
                self._equal(f"{symbol} weight", row["weightPct"], share, 2)
        sums = [row["liquidations24h"] for row in rows if row["liquidations24h"]["longUsd"]]
        least = sum(sides["longUsd"] + sides["shortUsd"] for sides in sums) if sums else None
        shown = coin["liquidations24hAtLeastUsd"]
        if all(row["state"] == "ok" for row in rows):
            self._equal(f"{symbol} at least", shown, least, 2)
        else:  # what we saw at a venue that is down still counts
            self._holds(f"{symbol} at least", (shown or 0.0) >= (least or 0.0) - 0.01)

    def _settled_windows(self, symbol: str, coin: Row) -> None:
        """What each venue settled over the same hours, and the widest difference."""
        settled = {}
        if coin["settledTo"] is None:  # no report was read yet
            known = [row for row in coin["venues"] if row["settledPct8h"] is not None]
            self._equal(f"{symbol} settled without an end", known, [])
            return
        until = stamp(coin["settledTo"])
        for row in coin["venues"]:
            for window, span in WINDOWS.items():
                total, what = row[f"settledPct{window}"], f"{symbol} {row['venue']} {window}"
                if total is None:
                    continue  # a settlement of the window is not known yet
                first = until - span + 1  # the settlement at its start paid for the time before
                name = row["contract"] or self._contracts[row["venue"], symbol]
                self._contracts[row["venue"], symbol] = name
                rates = self._exchanges.settled(row["venue"], name, first, until + 1)
                paid = sum(rates.values())
                self._equal(what, total, paid, 8)
                yearly = paid * 365 * DAY / span
                self._equal(f"{what} per year", row[f"settledYearlyPct{window}"], yearly, 6)
            # A venue that is down keeps what it settled.
            is_compared = row["state"] != "different asset" and "funding" not in row["disputed"]
            if row["settledPct8h"] is not None and is_compared:
                settled[row["venue"]] = row["settledPct8h"]
        spread = coin["fundingSpread"]
        self._equal(f"{symbol} has a spread", spread is not None, len(settled) > 1)
        if spread is None:
            return
        high, low = max(settled, key=settled.__getitem__), min(settled, key=settled.__getitem__)
        widest = round(settled[high] - settled[low], 8)
        ends = {"highest": high, "lowest": low} if widest else {"highest": None, "lowest": None}
        self._members(f"{symbol} spread", spread, {"pct8h": widest, **ends})

    def _signals(self) -> None:
        """The numbers in the signals' values, and the badges."""
        body = self._get("/api/v1/signals")
        self._door = "/api/v1/signals"
        at = stamp(body["updatedAt"])
        signals = {signal["key"]: signal for signal in body["signals"]}
        if "Hyperliquid" in body["source"].partition(";")[0]:
            for key in ("liquidation-pressure", "btc-long-accounts"):
                self._equal(key, signals[key]["label"], "unknown")
            return
        quotes = self._exchanges.quotes("bybit", at)
        btc, rates = quotes["BTCUSDT"], [quote.rate_8h for quote in quotes.values()]
        high = 100 * sum(rate >= 0.015 for rate in rates) / len(rates)
        low = 100 * sum(rate <= -0.005 for rate in rates) / len(rates)
        before = self._exchanges.quotes("bybit", round((at - DAY) / NEAR) * NEAR)["BTCUSDT"]
        trend = _change(btc.coins, before.coins)
        shares = f"{high:.0f} % of {len(rates)} contracts have high funding, {low:.0f} % clearly"
        beginnings: dict[str, str | tuple[str, ...]] = {
            "btc-funding-regime": f"{btc.rate_8h:+.4f} % per 8 h",
            "funding-breadth": shares,
            "btc-open-interest-trend": f"{trend:+.1f} % in coins in 24 h",
            "btc-long-accounts": self._long_accounts(at),
            "liquidation-pressure": self._pressure(at),
            "btc-realised-volatility": self._volatility(at),
            "cross-venue-funding": self._widest(at),
            "btc-etf-flow": self._flow_text(at),
            "us-rates": self._rates_text(at),
        }
        for key, expected in beginnings.items():
            value = signals[key]["value"]
            self._holds(f"{key}: {value!r}, expected {expected!r}", value.startswith(expected))
        self._door = "/badge"
        funding = self._get("/badge/funding/BTC.json")["message"]
        self._equal("funding", funding, f"{btc.rate_8h:+.4f} % / 8h")
        for key, signal in signals.items():
            self._equal(key, self._get(f"/badge/signal/{key}.json")["message"], signal["label"])

    def _volatility(self, at: int) -> tuple[str, ...]:
        """BTC's volatility of 24 hours; a new hour counts from the second reading after it on.

        The prices as published, because those of live hours were read a little later; other checks
        compare them with the exchange.
        """
        points = self._get("/api/v1/series/price?symbol=BTC&venue=bybit&limit=1000")["points"]
        known = [(stamp(each["at"]), each["value"]) for each in points if each["value"] is not None]
        swings = (
            _swing([price for time, price in known if time <= end][-25:])
            for end in (at, at - MINUTE)
        )
        return tuple(f"{swing:.0f} % annualised, " for swing in swings)

    def _known(self, path: str) -> list[float]:
        """The values of a published series, without gaps."""
        values = [point["value"] for point in self._get(path)["points"]]
        return [value for value in values if value is not None]

    def _widest(self, at: int) -> tuple[str, ...]:
        """The widest difference of what the venues settled in eight hours, or in those before."""
        texts, step = [], WINDOWS["8h"]
        names = ("BTCUSDT", "BTC", "BTCUSDT", "BTC_USDT", "BTCUSDT")
        titles = ("Bybit", "Hyperliquid", "Binance", "Gate", "Aster")
        contracts = dict(zip(titles, names, strict=True))
        for end in (at // step * step, at // step * step - step):
            sums = {}
            for title, contract in contracts.items():
                rates = self._exchanges.settled(title.lower(), contract, end - step + 1, end + 1)
                sums[title] = sum(rates.values())
            low, high = min(sums, key=sums.__getitem__), max(sums, key=sums.__getitem__)
            text = f"{high} settled {sums[high] - sums[low]:.4f} percentage points more than {low}"
            if sums[high] == sums[low]:
                text = f"{', '.join(titles[:-1])} and {titles[-1]} settled the same over 8 h"
            texts.append(text)
        return tuple(texts)

    def _flow_text(self, at: int) -> str:
        """Five days of new shares at their value, in percent of the assets."""
        shares, assets = (
            [*self._exchanges.fund(column, at).items()][-6:]
            for column in ("shares_outstanding", "market_value_usd")
        )
        values = zip(shares, shares[1:], assets[1:], strict=False)
        flow = sum((now[1] - before[1]) * aum[1] / now[1] for before, now, aum in values)
        return f"{100 * flow / assets[-1][1]:+.2f} % of assets in 5 days to {assets[-1][0]} (IBIT"

    def _long_accounts(self, at: int) -> tuple[str, ...]:
        """The share of the last five minutes, or of those before until it is sampled again."""
        first = text_of(at // HOUR * HOUR - 30 * DAY + HOUR)
        path = f"/api/v1/series/long-accounts?symbol=BTC&venue=bybit&from={first}&limit=1000"
        # As published, because those of live hours were read before; other checks compare them.
        known = self._known(path)
        times = (at - 2 * MINUTE, at)
        shares = [self._exchanges.long_share("bybit", "BTCUSDT", time) for time in times]
        return tuple(f"{share:.1f} % of accounts, {_rank(share, known)}" for share in shares)

    def _pressure(self, at: int) -> tuple[str, ...]:
        """The last hour in whole minutes, compared with the hours that ended before.

        Both as published, because we may have missed some at a start; other checks compare them
        with what the exchange sent.
        """
        end, minute = at // HOUR * HOUR, at // MINUTE * MINUTE
        span = f"from={text_of(end - 30 * DAY)}&to={text_of(end)}&interval=hour&limit=1000"
        self._door = "/api/v1/series/liquidations"
        points = self._get(f"{self._door}?venue=bybit&{span}")["points"]
        known = [point["value"] for point in points if point["watched"] >= 0.95]
        for point in points:
            first = stamp(point["at"])
            if point["watched"] == 1:
                expected = self._exchanges.liquidated(first, first + HOUR)
                self._equal(point["at"], point["value"], expected, 1)
        self._door = "/api/v1/signals"
        texts = []
        for until in (minute, minute - MINUTE):  # the proof that nothing was missed may come later
            span = f"from={text_of(until - HOUR)}&to={text_of(until)}&limit=1000"
            pages = [*self._pages(f"/api/v1/liquidations?{span}", "liquidations")]
            total = sum(row["usd"] for page in pages for row in page["liquidations"])
            spans = {(span["from"], span["to"]) for page in pages for span in page["watched"]}
            watched = sum(stamp(end) - stamp(start) for start, end in spans)
            text = f"{_usd(total)} in an hour, {_rank(total, known)}"
            texts.append(text if watched >= 0.95 * HOUR else "n/a")
        return tuple(texts)

    def _rates_text(self, at: int) -> str:
        yields = dict(sorted(self._exchanges.yields("10 Yr", at).items()))
        bills = self._exchanges.yields("3 Mo", at)
        slopes = [each - bills[day] for day, each in yields.items()]
        parts = []
        for values in ([*yields.values()], slopes):
            change = 100 * (values[-1] - values[-21])
            moves = [abs(after - before) for before, after in pairwise(values[-61:])]
            usual = 100 * sum(moves) / len(moves) * math.sqrt(math.pi / 2 * 20)
            parts.append((f"{change:+.0f} bp in 20 days", f"{abs(change) / usual:.2f} times"))
        (change10y, moves10y), (change_slope, moves_slope) = parts
        return (
            f"10y {[*yields.values()][-1]:.2f} %, {change10y} ({moves10y} the usual move); slope "
            f"{100 * slopes[-1]:+.0f} bp, {change_slope} ({moves_slope}); as of {[*yields][-1]}"
        )

    def _daily(self) -> None:
        """Yields, overnight rates and the fund, as the newest files have them."""
        exchanges = self._exchanges
        sources: dict[str, tuple[Any, ...]] = {
            "us3m": (exchanges.yields, "3 Mo"),
            "us2y": (exchanges.yields, "2 Yr"),
            "us10y": (exchanges.yields, "10 Yr"),
            "sofr": (exchanges.overnight, "secured/sofr", "percentRate"),
            "effr": (exchanges.overnight, "unsecured/effr", "percentRate"),
            "effr-low": (exchanges.overnight, "unsecured/effr", "targetRateFrom"),
            "effr-high": (exchanges.overnight, "unsecured/effr", "targetRateTo"),
            "etf-ibit-shares": (exchanges.fund, "shares_outstanding"),
            "etf-ibit-btc": (exchanges.fund, "holdings_btc"),
            "etf-ibit-aum": (exchanges.fund, "market_value_usd"),
        }
        for series, (read, *what) in sources.items():
            self._door = f"/api/v1/series/{series}"
            page = self._get(f"{self._door}?limit=1000")
            figures = read(*what, stamp(page["as_of"]))
            for point in page["points"]:
                day = point["at"][:10]
                self._equal(day, point["value"], figures.get(day))

    def _briefs(self) -> None:
        """The figures that each brief was written from, as its rule and its window say."""
        self._door = "/api/v1/briefs"
        for brief in self._get("/api/agent/briefs?limit=50")["briefs"]:
            text = self._get(f"/api/v1/briefs/{brief['url'].rpartition('/')[2]}")["text"]
            figures, rule = json.loads(text["inputs"]), text["rule"]
            start, end = stamp(text["window_start"]), stamp(text["window_end"])
            coin = text["coins"][0] if text["coins"] else ""
            for name, expected in self._inputs(rule, coin, figures, start, end).items():
                what = f"{rule} until {text['window_end']}: {name}"
                self._equal(what, _at(figures, name), expected, 3)

    def _inputs(self, rule: str, coin: str, figures: Row, start: int, end: int) -> Row:
        exchanges = self._exchanges
        if rule == "funding-flip":
            rates = exchanges.settled("bybit", figures["contract"], start, end + 1)
            return {"before_funding_rate_pct": rates[start], "funding_rate_pct": rates[end]}
        if rule == "daily-wrap":
            inputs: Row = {"liquidated total_usd": exchanges.liquidated(start, end)}
            readings = [exchanges.quotes("bybit", at) for at in (start, end)]
            for symbol, number in product(MAJORS, (0, 1)):
                place, quote = f"{symbol} {number}", readings[number][f"{symbol}USDT"]
                inputs[f"{place} last_price"] = quote.price
                inputs[f"{place} funding_8h_pct"] = quote.rate_8h
                inputs[f"{place} open_interest_coins"] = quote.coins
                inputs[f"{place} open_interest_usd"] = quote.usd
            return inputs
        if rule == "open-interest-move":
            before, after = (
                exchanges.quotes("bybit", at)[figures["contract"]] for at in (start, end)
            )
            return {
                "coins_change_pct": round(_change(after.coins, before.coins) or 0.0, 2),
                "last_price": after.price,
                "last_price_before": before.price,
                "open_interest_usd": after.usd,
                "open_interest_usd_before": before.usd,
            }
        if rule == "positioning-extreme":
            return {"long_account_pct": exchanges.long_share("bybit", f"{coin}USDT", end)}
        if rule == "liquidation-burst":
            both = figures["long_usd"] + figures["short_usd"]
            self._equal("liquidation-burst", both, exchanges.liquidated(start, end), 1)
        if rule == "curve-turn":
            columns = {"us10y_pct": "10 Yr", "us3m_pct": "3 Mo"}
            day = figures["day"]
            return {name: exchanges.yields(each, end)[day] for name, each in columns.items()}
        return {}


def _at(figures: Any, path: str) -> object:
    """The figure at a path of names and places, separated by spaces."""
    for name in path.split():
        figures = figures[int(name) if name.isdigit() else name]
    return figures


def _is_quoted(quote: Quote, price: float, mark: float | None, coins: float) -> bool:
    """Binance tells open interest in other replies, and one list has no mark."""
    is_mark = mark is None or quote.mark == mark
    return quote.price == price and is_mark and (quote.coins is None or quote.coins == coins)


def _rank(value: float, known: Sequence[float]) -> str:
    """How a value compares with earlier ones."""
    lower, higher = sum(other < value for other in known), sum(other > value for other in known)
    for beyond, most, way in ((higher, "highest", "higher"), (lower, "lowest", "lower")):
        if not beyond:
            is_equal = lower + higher < len(known)
            start = f"the {most} of" if is_equal else f"{way} than in all of"
            return f"{start} the past 30 days"
    way = "higher" if lower >= higher else "lower"
    share = 100 * max(lower, higher) / len(known)
    shown = math.floor(share) if share < 99 else math.floor(10 * share) / 10
    return f"{way} than {shown} % of the past 30 days"


def _usd(amount: float) -> str:
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if amount >= unit:
            return f"${amount / unit:.2f}{name}"
    return f"${amount:.2f}"


def _swing(prices: Sequence[float]) -> float:
    """The root mean square of hourly returns, without one wrong price, per year."""
    moves = [math.log(after / before) for before, after in pairwise(prices)]
    limit = 4.45 * median(abs(move) for move in moves)
    back = [
        (min(abs(first), abs(second)), place)
        for place, (first, second) in enumerate(pairwise(moves))
        if abs(first + second) <= min(abs(first), abs(second))
    ]
    size, place = max(back, default=(0.0, 0))
    if size > limit:
        moves[place : place + 2] = [moves[place] + moves[place + 1]]
    for end in (0, -1):
        moves[end] = min(abs(moves[end]), limit)
    return 100 * math.sqrt(sum(move * move for move in moves) / 24 * 24 * 365)


def _change(now: float | None, before: float | None) -> float | None:
    return None if now is None or not before else 100 * (now - before) / before


def _cell(text: str, like: object) -> object:
    """A cell of a CSV table as the JSON value that it stands for."""
    if isinstance(like, list):
        return text.split()
    if not text:
        return None
    return float(text) if isinstance(like, float | int) else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a demo; exit with 1 if any number differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base_url", help="the demo's address")
    parser.add_argument("--data", type=Path, required=True, help="the demo's data folder")
    given = parser.parse_args(arguments)
    checker = Checker(given.base_url, given.data)
    checker.check()
    for door, count in checker.compared.items():
        print(f"{count:8,}  {door}")
    for difference in checker.differences[:40]:
        print(difference)
    print(f"{len(checker.differences)} differences")
    return 1 if checker.differences else 0


if __name__ == "__main__":
    sys.exit(main())
