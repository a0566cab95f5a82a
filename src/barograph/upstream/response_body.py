"""Read the body of a reply within a size limit and a deadline, with at most one layer of gzip.

httpx decodes any stack of encodings without a limit: 5 kB of `gzip, gzip` become 3 GB of memory.
Every upstream client reads its replies here instead.
"""

import asyncio
import zlib

import httpx

from barograph.errors import InvalidReply

_GZIP_ONLY = zlib.MAX_WBITS | 16


async def read_body(response: httpx.Response, longest: int, deadline: float | None) -> bytes:
    """Read a whole body; `deadline` is a time on the event loop's clock.

    Raises:
        InvalidReply: it has more than `longest` bytes, or an encoding other than one whole gzip.
        TimeoutError: the deadline passed.
    """
    unpack = _Unpacker(response.headers.get_list("content-encoding", split_commas=True))
    body, received = bytearray(), 0
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async for chunk in response.stream:
        received += len(chunk)
        body += unpack.take(chunk, longest + 1 - len(body))
        # Both are counted: gzip can also hold any number of blocks without content.
        if max(received, len(body)) > longest:
            raise InvalidReply(f"the reply is larger than {longest} bytes")
        # httpx limits the time of each read, not of a body that comes byte by byte.
        if deadline is not None and asyncio.get_running_loop().time() > deadline:
            raise TimeoutError
    if received:
        unpack.end()
    return bytes(body)


class _Unpacker:
    def __init__(self, encodings: list[str]) -> None:
        names = [name.lower() for name in encodings]
        if names not in ([], ["identity"], ["gzip"]):
            raise InvalidReply(f"the reply is encoded as {', '.join(names)[:40]}")
        self._gzip = zlib.decompressobj(_GZIP_ONLY) if names == ["gzip"] else None

    def take(self, chunk: bytes, most: int) -> bytes:
        """Unpack the next part of the body, to at most `most` bytes."""
        if self._gzip is None:
            return chunk
        try:
            found = self._gzip.decompress(chunk, most)
        except zlib.error as error:
            raise InvalidReply("the reply's gzip is damaged") from error
        # Once the stream has ended, zlib collects further chunks here without checking them.
        if self._gzip.unused_data:
            raise InvalidReply("the reply has data after the end of its gzip")
        return found

    def end(self) -> None:
        if self._gzip is not None and not self._gzip.eof:
            raise InvalidReply("the reply's gzip is cut off")
