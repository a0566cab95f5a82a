"""Asks witnesses to cosign a checkpoint: https://c2sp.org/tlog-witness."""

import re
from base64 import b64encode
from collections.abc import Sequence

import httpx2

from barograph.errors import Forbidden, InvalidReply, Throttled, UnknownToUpstream, Unreachable
from barograph.history.witnesses import OtherSize, TreeRefused
from barograph.kit.http_client import CONNECT_SECONDS, HttpReply, Transport, fetch, http_client

SECONDS = 10.0
MAX_REPLY_BYTES = 16_384
"""A signature line has about 150 bytes, and a witness may send several."""

_SIZE = re.compile(rb"(0|[1-9][0-9]{0,17})\n")
_PAUSE_SECONDS = 60.0
_REFUSED = "it says that it has cosigned another tree of this log"


class HttpWitnesses:
    """Sends checkpoints to witnesses. It follows no redirects, and no error contains a URL."""

    def __init__(self, *, user_agent: str, transport: Transport | None = None) -> None:
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._http = http_client(transport, headers)

    async def add_checkpoint(self, url: str, old: int, proof: Sequence[bytes], note: str) -> str:
        """Send a checkpoint, with the proof that it continues the tree of `old` entries.

        Returns signature lines, which the caller verifies.

        Raises:
            OtherSize: the witness last cosigned another size than `old`.
            TreeRefused: the witness has cosigned another tree.
            UnknownToUpstream: the witness doesn't know the log.
            Forbidden: the witness doesn't accept the key of the log.
            Unreachable: no answer in time, a broken connection, or the witness's own failure.
            Throttled: the witness asked us to slow down.
            InvalidReply: the reply can't be right.
        """
        lines = [f"old {old}", *(b64encode(node).decode() for node in proof)]
        body = ("\n".join(lines) + f"\n\n{note}").encode()
        reply = await self._post(f"{url.rstrip('/')}/add-checkpoint", body)
        _check(reply.status, reply.body)
        try:
            return reply.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidReply("its reply is not text") from error

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _post(self, address: str, body: bytes) -> HttpReply:
        timeout = httpx2.Timeout(SECONDS, connect=CONNECT_SECONDS)
        try:
            request = self._http.build_request("POST", address, content=body, timeout=timeout)
            return await fetch(self._http, request, SECONDS, MAX_REPLY_BYTES)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise Unreachable(f"no answer within {SECONDS:.0f} s") from error
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
            # Only the name: the text of some of these holds the address.
            raise Unreachable(f"it can't be reached ({type(error).__name__})") from error


def _check(status: int, reply: bytes) -> None:
    match status:
        case 200:
            return
        case 403:
            raise Forbidden("it does not accept the key of this log")
        case 404:
            raise UnknownToUpstream("it does not know this log")
        case 409 if size := _SIZE.fullmatch(reply):
            raise OtherSize(int(size[1]))
        case 409 | 422:
            raise TreeRefused(_REFUSED)
        case 429:
            raise Throttled("it asked us to slow down", _PAUSE_SECONDS)
        case status if status >= 500:  # noqa: PLR2004
            raise Unreachable(f"it failed (HTTP {status})")
        case _:
            raise InvalidReply(f"it answered HTTP {status}")
