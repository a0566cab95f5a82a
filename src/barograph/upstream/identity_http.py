"""How identity providers are asked: briefly, without redirects, and never with a memory."""

import asyncio
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from barograph.access.identity import IdentityRefused, IdentityUnavailable

MAX_REPLY_BYTES = 64 * 1024

_OK = 200
_NO = (401, 403, 404)


class IdentityHttp:
    """Asks an identity provider; every error is one of the two that callers know."""

    def __init__(self, seconds: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.seconds = seconds
        self._http = httpx.AsyncClient(
            transport=transport,
            timeout=seconds,
            # Packed replies could grow without bound, and nothing here is large.
            headers={"User-Agent": "barograph", "Accept-Encoding": "identity"},
            # A cookie that came with one user's answer must not go out with another's question.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            trust_env=False,
        )

    async def read(self, address: str) -> bytes:
        """Read something that the provider publishes.

        Raises:
            IdentityUnavailable: it does not come, in time and as it should.
        """
        status, body = await self._get(address, {})
        if status != _OK:
            raise IdentityUnavailable(f"the identity provider answers with HTTP {status}")
        return body

    async def ask(self, address: str, headers: Mapping[str, str]) -> bytes:
        """Ask about the user of a token.

        Raises:
            IdentityRefused: the provider does not know the token or its user.
            IdentityUnavailable: no answer comes, in time and as it should.
        """
        status, body = await self._get(address, headers)
        if status in _NO:
            raise IdentityRefused(f"the identity provider refuses the token (HTTP {status})")
        if status != _OK:
            raise IdentityUnavailable(f"the identity provider answers with HTTP {status}")
        return body

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _get(self, address: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            # httpx bounds each read; a reply that comes by the byte is bounded only from here.
            async with (
                asyncio.timeout(self.seconds),
                self._http.stream("GET", address, headers=headers) as response,
            ):
                return response.status_code, await _body(response)
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error
        except (httpx.RequestError, httpx.InvalidURL, OSError) as error:
            # Only the name: the text of some of these holds the address.
            name = type(error).__name__
            raise IdentityUnavailable(f"the identity provider is unreachable ({name})") from error


async def _body(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise IdentityUnavailable("the identity provider packs its replies")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise IdentityUnavailable("the identity provider's reply is too large")
    return bytes(body)
