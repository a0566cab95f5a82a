"""Who presents a bearer token, as the identity provider vouches for it.

BarographError
├── IdentityRefused       the token, or the user behind it, is not accepted
└── IdentityUnavailable   whether it is cannot be told now

No text of these errors holds a token, an address or anything else that the caller sent.
"""

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
