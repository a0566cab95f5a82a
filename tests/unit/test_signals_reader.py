"""The reader gives every signal, always: as judged while that is fresh, else as unknown."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from barograph.board.board import Board, publish
from barograph.board.feeds import Publication
from barograph.kit.documents import Document
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.signals.methods import MACRO_METHODS, MARKET_METHODS, METHODS
from barograph.signals.reader import FIGURES, MAX_AGE, UNKNOWN_MS, SignalsReader
from barograph.signals.records import SIGNALS, Signal, Signals
from barograph.venues.registry import source_of
from support.clock import START, HandClock
from support.databases import upgraded_database
from support.markets import SOURCE, reading

VENUES = ("bybit", "hyperliquid", "binance")
SETTINGS = Settings.model_validate({"exchange_source": SOURCE, "venues": ",".join(VENUES)})
BOUND = MAX_AGE
MARKET_BOUND = int(SETTINGS.feed_max_age_seconds * SECOND)
KEYS = [each.key for each in METHODS]
MARKET_KEYS = [each.key for each in MARKET_METHODS]
MACRO_KEYS = [each.key for each in MACRO_METHODS]


def judged(as_of: int = START, keys: list[str] = KEYS) -> Signals:
    signals = (Signal(key, f"name of {key}", "label", "1 %", as_of) for key in keys)
    return Signals(as_of, "the venue", tuple(signals))


class Shown:
    """A reader, and the board that it reads."""

    def __init__(self, folder: Path) -> None:
        clock = HandClock()
        self._database = upgraded_database(folder / "store.sqlite3")
        self._board = Board(
            self._database, [PERPETUALS, SIGNALS], clock=clock, render=lambda _board, _now: {}
        )
        self._reader = SignalsReader(SETTINGS)

    def publishes(self, signals: Signals) -> None:
        """Publish signals with the reading that they were judged by."""
        self._publish(
            Publication.of(SIGNALS, signals), Publication.of(PERPETUALS, reading(signals.as_of))
        )

    def judges(self, signals: Signals) -> None:
        """Publish signals without a reading."""
        self._publish(Publication.of(SIGNALS, signals))

    def reads_market(self, as_of: int, source: str = SOURCE) -> None:
        """Publish a reading by which nothing is judged."""
        self._publish(Publication.of(PERPETUALS, replace(reading(as_of), source=source)))

    def _publish(self, *publications: Publication) -> None:
        asyncio.run(self._database.write(lambda tx: publish(tx, publications)))
        asyncio.run(self._board.refresh())

    def known(self, now: int) -> tuple[Signals | None, int]:
        """What is fresh, and until when that is known."""
        return self._reader.fresh(self._board, now), self._reader.known_until(self._board, now)

    def ends(self, now: int) -> dict[str, int]:
        return self._reader.ends(self._board, now)

    def labels(self, now: int) -> dict[str, str]:
        return {each.key: each.label for each in self._reader.signals(self._board, now)}

    def document(self, now: int) -> Document:
        return self._reader.document(self._board, now)

    def sources(self) -> dict[str, str]:
        return self._reader.sources(self._board)

    def close(self) -> None:
        asyncio.run(self._database.close())


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    shown = Shown(tmp_path)
    yield shown
    shown.close()


def test_before_the_first_judgement_the_document_stays_the_same_on_every_worker(
    shown: Shown, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Shown(tmp_path_factory.mktemp("other"))
    first = shown.document(START)

    for document in (shown.document(START + DAY), other.document(START + 1)):
        assert document is not first
        assert (document.body, document.etag) == (first.body, first.etag)
    other.close()


@pytest.mark.parametrize(
    ("age", "label"),
    [
        *((0, "label"), (BOUND - 1, "label"), (BOUND, "unknown")),
        *((-BOUND, "label"), (-BOUND - 1, "unknown")),
    ],
)
def test_signals_are_shown_within_their_limit(shown: Shown, age: int, label: str) -> None:
    shown.publishes(judged(keys=KEYS[::-1]))
    shown.reads_market(START + age)

    assert shown.labels(START + age) == dict.fromkeys(KEYS, label)
    assert list(shown.labels(START + age)) == KEYS  # in the order of the catalog


@pytest.mark.parametrize(
    ("age", "label"),
    [
        *((MARKET_BOUND - 1, "label"), (MARKET_BOUND, "unknown")),
        *((-MARKET_BOUND, "label"), (-MARKET_BOUND - 1, "unknown"), (None, "unknown")),
    ],
)
def test_market_signals_need_a_fresh_reading(shown: Shown, age: int | None, label: str) -> None:
    shown.judges(judged())
    if age is not None:
        shown.reads_market(START)

    assert shown.labels(START + (age or 0)) == {
        **dict.fromkeys(MARKET_KEYS, label),
        **dict.fromkeys(MACRO_KEYS, "label"),
    }


def test_other_signals_are_shown_while_the_market_is_stale(shown: Shown) -> None:
    shown.publishes(judged())

    for now in (START + MARKET_BOUND, START + BOUND - UNKNOWN_MS):
        fresh, until = shown.known(now)
        assert fresh is not None
        assert [each.key for each in fresh.signals] == MACRO_KEYS
        assert until == now + UNKNOWN_MS
    assert shown.known(START + BOUND - 1)[1] == START + BOUND
    assert shown.known(START + BOUND) == (None, START + BOUND + UNKNOWN_MS)


def test_signals_of_daily_figures_last_longer_than_market_signals(shown: Shown) -> None:
    shown.publishes(judged())
    later = START + BOUND
    carried = tuple(
        replace(each, as_of=later) if each.key in MACRO_KEYS else each for each in judged().signals
    )
    shown.judges(Signals(later, "the venue", carried))
    # Also while the market itself is fresh again: it is the judgement that is old.
    shown.reads_market(later)

    assert shown.labels(later) == {
        **dict.fromkeys(MARKET_KEYS, "unknown"),
        **dict.fromkeys(MACRO_KEYS, "label"),
    }
    assert shown.known(later)[1] == later + UNKNOWN_MS


def test_fresh_signals_are_known_until_the_first_limit(shown: Shown) -> None:
    assert shown.known(START) == (None, START + UNKNOWN_MS)
    shown.publishes(judged())
    assert shown.known(START) == (judged(), START + MARKET_BOUND)
    shown.reads_market(START + BOUND - 1)
    assert shown.known(START + BOUND - 1) == (judged(), START + BOUND)
    assert shown.known(START + BOUND) == (None, START + BOUND + UNKNOWN_MS)


def test_signals_name_the_venue_in_use_and_those_that_are_compared(shown: Shown) -> None:
    _, in_use, other = (source_of(venue, SOURCE) for venue in VENUES)
    shown.judges(replace(judged(), source=f"{in_use}; {other}; figures"))
    shown.reads_market(START, in_use)
    market, macro = dict.fromkeys(MARKET_KEYS, in_use), dict.fromkeys(MACRO_KEYS, FIGURES)
    assert shown.sources() == market | macro | {"cross-venue-funding": f"{in_use}; {other}"}


def test_each_signal_that_is_fresh_has_its_own_end(shown: Shown) -> None:
    assert shown.ends(START) == {}
    shown.publishes(judged())
    assert shown.ends(START) == {
        **dict.fromkeys(MARKET_KEYS, START + MARKET_BOUND),
        **dict.fromkeys(MACRO_KEYS, START + BOUND),
    }
    assert shown.ends(START + MARKET_BOUND) == dict.fromkeys(MACRO_KEYS, START + BOUND)


@pytest.mark.parametrize("limit", ["signals", "market", "nothing known"])
def test_a_document_may_be_given_exactly_until_its_first_bound(shown: Shown, limit: str) -> None:
    now, until = START + 7, START + 7 + UNKNOWN_MS
    if limit != "nothing known":
        shown.publishes(judged())
        until = START + MARKET_BOUND
    if limit == "signals":
        now, until = START + BOUND - 10_000, START + BOUND
        shown.reads_market(now)

    document = shown.document(now)

    assert (document.since, document.until) == (now, until)
    assert shown.document(until - 1) is document
    assert json.loads(shown.document(until).body)["signals"][0]["label"] == "unknown"
    assert shown.document(START).since == START  # after the clock was set back
