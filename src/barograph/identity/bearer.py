"""The bearer token of a request (pure)."""

import re
from dataclasses import dataclass
from typing import Protocol

from barograph.errors import BarographError


class IdentityRefused(BarographError):
    """The token does not verify, or its user is anonymous, unconfirmed or banned."""


class IdentityUnavailable(BarographError):
    """The identity provider cannot be asked, or cannot tell, in time."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with a confirmed e-mail address, named by the provider's own id."""

    user_id: str


class IdentityProvider(Protocol):
    """Vouches for bearer tokens."""

    async def identify(self, token: str) -> Identity:
        """Tell whose token it is.

        Raises:
            IdentityRefused: nobody's who is accepted.
            IdentityUnavailable: that cannot be told now.
        """

    async def close(self) -> None:
        """Release every connection."""


class NoIdentityProvider:
    """Stands where none is configured: no token is anybody's."""

    async def identify(self, token: str) -> Identity:  # noqa: ARG002
        """Refuse.

        Raises:
            IdentityRefused: always.
        """
        raise IdentityRefused("no identity provider is configured")

    async def close(self) -> None:
        """Nothing to release."""


MAX_TOKEN = 8 * 1024
"""So many characters a token may have; those of real providers have about one thousand."""

_SCHEME = b"bearer"
_VISIBLE = re.compile(rb"[!-~]+")


def bearer_token(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The token of the `Authorization` header; None when the request presents none.

    Another scheme and an empty bearer are no credential, so they are as good as absent.

    Raises:
        IdentityRefused: there are two such headers, or what it holds cannot be a token.
    """
    found = [value for name, value in headers if name.lower() == b"authorization"]
    if not found:
        return None
    if len(found) > 1:
        raise IdentityRefused("the request has more than one Authorization header")
    scheme, _, rest = found[0].strip(b" \t").partition(b" ")
    if scheme.lower() != _SCHEME:
        return None
    token = rest.strip(b" \t")
    if not token:
        return None
    if len(token) > MAX_TOKEN:
        raise IdentityRefused(f"the token has more than {MAX_TOKEN} characters")
    if _VISIBLE.fullmatch(token) is None:
        raise IdentityRefused("the token has characters that no token has")
    return token.decode("ascii")
