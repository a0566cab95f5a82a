"""Time out without cancelling."""

import asyncio

import pytest

from barograph.kit.timeouts import within


def test_work_that_ends_in_time_returns_its_result() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(within(60, work())) == "done"


def test_the_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(within(60, work()))


@pytest.mark.parametrize("fails", [False, True])
def test_work_that_times_out_goes_on_and_is_not_cancelled(fails: bool) -> None:
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


def test_a_cancelled_caller_does_not_cancel_the_work() -> None:
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
