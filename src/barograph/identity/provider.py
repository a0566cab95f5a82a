"""The bearer token of a request, and the identity behind it (pure)."""

import re
from typing import NamedTuple, Protocol

from barograph.errors import BarographError


class IdentityRefused(BarographError):
    """The token does not verify, or its user is anonymous, unconfirmed or banned."""


class IdentityUnavailable(BarographError):
    """The identity provider is unavailable, or does not answer in time."""


class IdentityMisconfigured(IdentityUnavailable):
    """The provider answers but is set up wrongly; the message may be published."""


class Identity(NamedTuple):
    """A user with a confirmed e-mail address; the id is the provider's."""

    user_id: str


class IdentityProvider(Protocol):
    """Identifies the users of bearer tokens."""

    async def identify(self, token: str) -> Identity:
        """The user of a token.

        Raises:
            IdentityRefused: the token or its user is not accepted.
            IdentityUnavailable: the provider is unavailable.
        """

    async def close(self) -> None:
        """Release every connection."""


class NoIdentityProvider:
    """Refuses every token, where no provider is configured."""

    async def identify(self, token: str) -> Identity:  # noqa: ARG002
        """Refuse.

        Raises:
            IdentityRefused: always.
        """
        raise IdentityRefused("no identity provider is configured")

    async def close(self) -> None:
        """Nothing to release."""


MAX_TOKEN = 8 * 1024
"""The longest token in characters; those of real providers have about one thousand."""

_SCHEME = b"bearer"
_VISIBLE = re.compile(rb"[!-~]+")


def bearer_token(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The token of the `Authorization` header; None without one.

    Another scheme and an empty bearer count as absent.

    Raises:
        IdentityRefused: there are two such headers, or the token is malformed.
    """
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if not values:
        return None
    if len(values) > 1:
        raise IdentityRefused("the request has more than one Authorization header")
    scheme, _, rest = values[0].strip(b" \t").partition(b" ")
    if scheme.lower() != _SCHEME:
        return None
    token = rest.strip(b" \t")
    if not token:
        return None
    if len(token) > MAX_TOKEN:
        raise IdentityRefused(f"the token has more than {MAX_TOKEN} characters")
    if _VISIBLE.fullmatch(token) is None:
        raise IdentityRefused("the token has invalid characters")
    return token.decode("ascii")
