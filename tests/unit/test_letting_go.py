"""Waiting only so long, and what becomes of what is left."""

import asyncio

import pytest

from barograph.kit.timeouts import within


def test_what_is_done_in_time_is_given() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(within(60, work())) == "done"


def test_its_error_is_given_too() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(within(60, work()))


@pytest.mark.parametrize("fails", [False, True])
def test_what_takes_longer_is_left_to_end_and_not_broken_off(fails: bool) -> None:
    seen = []

    async def main() -> None:
        go = asyncio.Event()

        async def work() -> None:
            await go.wait()
            seen.append("ended")
            if fails:
                raise KeyError("x")

        with pytest.raises(TimeoutError):
            await within(0, work())
        go.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == ["ended"]


def test_a_caller_that_goes_away_breaks_nothing_off() -> None:
    seen = []

    async def main() -> None:
        go = asyncio.Event()

        async def work() -> None:
            await go.wait()
            seen.append("ended")

        caller = asyncio.ensure_future(within(60, work()))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == ["ended"]
