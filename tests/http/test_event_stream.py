"""`/api/v1/events/stream`: every event once, from any place of the log."""

import pytest

from barograph import NOTICE
from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.events.records import EVENTS, MAX_PER_CALLER, RECENT, RecentEvents
from barograph.events.stream import LIFE_BEATS, SPREAD_BEATS
from barograph.kit.database import DatabaseUnavailable
from support.databases import bring_back, take_away
from support.events import STREAM, StreamReader, add_events, change, ids
from support.service import Service, asked

OPENING = "retry: 3000\n: connected\n"
HEARTBEAT = ": heartbeat\n"


@pytest.fixture
def service(empty_service: Service) -> Service:
    """A service whose log is empty."""
    empty_service.refresh()
    return empty_service


async def happen(service: Service, *numbers: int) -> None:
    """Record events, and let the worker see them."""
    await add_events(service.database, [change(number) for number in numbers])
    await service.board.refresh()


async def test_a_reader_gets_each_new_event_and_resumes_at_another_worker(service: Service) -> None:
    await happen(service, 1)
    reader = StreamReader(service.app)
    assert await reader.opened() == OPENING
    await happen(service, 2)
    assert await reader.text() == (
        'id: 2\nevent: regime.changed\ndata: {"at":"2026-11-06T21:20:00.002Z","id":2,'
        f'"notice":"{NOTICE}","symbol":"BTC","type":"regime.changed"}}\n\n'
    )
    await reader.leave()
    await happen(service, 3, 4)
    other = service.new_worker()
    await other.board.refresh()
    resumed = StreamReader(other.app, "after=1", last="2")
    assert ids(await resumed.opened()) == [3, 4]
    # The first worker has not seen this event when the reader comes back to it.
    await add_events(service.database, [change(5)])
    await other.board.refresh()
    assert ids(await resumed.text()) == [5]
    await resumed.leave()
    again = StreamReader(service.app, last="5")
    assert await again.opened() == OPENING
    await happen(service, 6)
    assert ids(await again.text()) == [6]
    await again.leave()


@pytest.mark.outcome(
    "A client was away for longer than the events in memory reach back",
    "Its stream continues from the database, without a gap or a repeat.",
)
async def test_a_long_absence_is_read_from_the_database(service: Service) -> None:
    await happen(service, *range(1, 3 * RECENT))
    reader = StreamReader(service.app, "after=7")
    seen = ids(await reader.opened())
    while len(seen) < 3 * RECENT - 8:
        seen += ids(await reader.text())
    await happen(service, *range(3 * RECENT, 5 * RECENT))  # more than memory holds, at once
    while len(seen) < 5 * RECENT - 8:
        seen += ids(await reader.text())
    assert seen == list(range(8, 5 * RECENT))
    assert reader.is_silent
    await reader.leave()


async def test_filters_leave_out_other_types_and_symbols(service: Service) -> None:
    reader = StreamReader(service.app, "type=brief.published,regime.changed&symbol=eth")
    assert await reader.opened() == OPENING
    wanted = change(3, "brief.published", symbols=["ETH", "SOL"])
    others = [change(1), change(2, "signal.changed", symbol="ETH")]
    await add_events(service.database, [*others, wanted])
    await service.board.refresh()
    assert ids(await reader.text()) == [3]
    assert reader.is_silent
    await reader.leave()
    await happen(service, *range(4, RECENT + 4))  # of BTC; memory forgets the first ones
    resumed = StreamReader(service.app, "symbol=sol", last="1")
    assert ids(await resumed.opened()) == [3]
    await resumed.leave()


async def test_without_names_a_reader_gets_every_event_as_a_message(service: Service) -> None:
    await happen(service, 1)
    reader = StreamReader(service.app, "after=0&names=off")
    text = await reader.opened()
    assert text.startswith(f'{OPENING}id: 1\ndata: {{"at":')
    assert '"type":"regime.changed"' in text
    await reader.leave()
    refused = await asked(service.app, f"{STREAM}?names=none")
    assert refused.json() == {"error": "unknown names; choose one of on, off"}
    assert refused.status == 400


async def test_heartbeats_need_no_database_and_end_within_an_hour(service: Service) -> None:
    reader = StreamReader(service.app)
    assert await reader.opened() == OPENING
    take_away(service.settings.database_path)
    for _ in range(2):
        service.clock.pass_seconds(15)
        with pytest.raises(DatabaseUnavailable):
            await service.board.refresh()
        assert await reader.text() == HEARTBEAT
    bring_back(service.settings.database_path)
    service.clock.pass_seconds(-3_600)  # the clock is set back
    beats = 0
    while True:
        await service.board.refresh()
        beats += 1
        if not await reader.text():
            break
        service.clock.pass_seconds(15)
    assert LIFE_BEATS <= beats + 2 <= LIFE_BEATS + SPREAD_BEATS


async def test_each_caller_has_a_limited_number_of_streams(service: Service) -> None:
    opened = [StreamReader(service.app) for _ in range(MAX_PER_CALLER)]
    for each in opened:
        await each.opened()
    refused = await StreamReader(service.app).start()
    assert refused["status"] == 429
    assert (b"retry-after", b"5") in refused["headers"]
    other = StreamReader(service.app, peer="203.0.113.8")
    assert await other.opened() == OPENING
    await opened.pop().leave()
    opened += [other, StreamReader(service.app)]
    assert await opened[-1].opened() == OPENING
    for each in opened:
        await each.leave()


async def test_an_id_that_the_log_does_not_have_is_named(service: Service) -> None:
    await happen(service, 1, 2)
    for unknown, query in (("7", ""), ("elsewhere", "names=on"), ("7", "names=off")):
        reader = StreamReader(service.app, query, last=unknown)
        name = "" if query == "names=off" else "event: log.reset\n"
        reset = f'id: 2\n{name}data: {{"last_id":2,"type":"log.reset"}}\n\n'
        assert await reader.opened() == OPENING + reset
        await reader.leave()
    answer = await asked(service.app, f"{STREAM}?after=7")
    assert (answer.status, answer.json()) == (
        400,
        {"error": "after is beyond the newest event, which has the id 2"},
    )


@pytest.mark.outcome(
    "You restore a backup whose event log ends earlier",
    "Open streams end, and clients that reconnect start with the next event.",
)
async def test_a_log_that_goes_back_ends_the_streams(service: Service) -> None:
    await happen(service, 1)
    reader = StreamReader(service.app)
    await reader.opened()
    await service.database.write(
        lambda tx: publish(tx, [Publication.of(EVENTS, RecentEvents(events=()))])
    )
    await service.board.refresh()
    assert await reader.text() == ""


def test_head_sends_the_fields_of_a_stream_and_ends(service: Service) -> None:
    answer = service.ask(STREAM, "HEAD")

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
