"""Many questions at once to a provider that is slow, and one when it is well again."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from barograph.identity.provider import IdentityUnavailable
from barograph.upstream.identity_http import MAX_REQUESTS, IdentityHttp

QUESTIONS = 5 * MAX_REQUESTS
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@pytest.mark.thorough
@pytest.mark.outcome(
    "Hundreds of subscribers send tokens while the identity provider is slow",
    "Requests that time out get 503, later ones succeed.",
)
def test_requests_succeed_again_after_a_burst_that_timed_out() -> None:
    async def ask(http: IdentityHttp, address: str) -> str:
        try:
            await http.read(address)
        except IdentityUnavailable:
            return "late"
        return "answered"

    async def main() -> None:
        is_slow = asyncio.Event()
        one_by_one = asyncio.Lock()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                if is_slow.is_set():
                    async with one_by_one:
                        await asyncio.sleep(0.02)
                writer.write(ANSWER)
                await writer.drain()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=QUESTIONS)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        http = IdentityHttp(0.2)
        for _ in range(2):
            is_slow.set()
            said = await asyncio.gather(*(ask(http, address) for _ in range(QUESTIONS)))
            assert Counter(said)["late"] > QUESTIONS / 2
            is_slow.clear()
            assert await ask(http, address) == "answered"
        await http.close()
        server.close()
        async with one_by_one:
            await asyncio.sleep(0)
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=5)

    asyncio.run(main())
