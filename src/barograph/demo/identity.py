"""The users of the demo, one for each way in which a bearer token can end, and their tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from barograph.demo.files import write_once
from barograph.demo.paths import HOUR
from barograph.errors import ConfigurationError

KEY_FILE: Final = "identity-key.pem"
ALGORITHM: Final = "ES256"
AUDIENCE: Final = "authenticated"
API_KEY: Final = "demo-publishable-key"
"""What the simulated provider wants with each question; it is not a secret, there or anywhere."""

TOKEN_LIFE: Final = HOUR

_SECOND: Final = 1_000
_DOMAIN: Final = "demo.example"
_LONG_AGO: Final = "2026-01-05T09:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class DemoUser:
    """Somebody with an account at the simulated provider."""

    tier: str
    is_anonymous: bool = False
    is_confirmed: bool = True

    @property
    def id(self) -> str:
        """Always the same for the same tier."""
        return str(uuid5(NAMESPACE_DNS, f"{self.tier}.{_DOMAIN}"))

    @property
    def email(self) -> str:
        """Nobody's real address; an anonymous user has none."""
        return "" if self.is_anonymous else f"{self.tier}@{_DOMAIN}"


USERS: Final = (
    DemoUser("feed"),
    DemoUser("reserve"),
    DemoUser("none"),
    DemoUser("anonymous", is_anonymous=True, is_confirmed=False),
    DemoUser("unconfirmed", is_confirmed=False),
)
BY_ID: Final = {user.id: user for user in USERS}
DEMO_USERS: Final = {user.tier: user.id for user in USERS}
"""The id of each tier's user."""


def issuer(base_url: str) -> str:
    """What the provider at an address calls itself in tokens."""
    return f"{base_url}/auth/v1"


def user_record(user: DemoUser) -> dict[str, Any]:
    """What the provider knows about somebody."""
    confirmed = {"email_confirmed_at": _LONG_AGO, "confirmed_at": _LONG_AGO}
    return {
        "id": user.id,
        "aud": AUDIENCE,
        "role": AUDIENCE,
        "email": user.email,
        **(confirmed if user.is_confirmed else {}),
        "phone": "",
        "app_metadata": _app_metadata(user),
        "user_metadata": {},
        "identities": [],
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "is_anonymous": user.is_anonymous,
    }


def demo_token(data: Path, tier: str, now: int, base_url: str) -> str:
    """A token of one hour for a tier's user, as the provider at that address issues them.

    Raises:
        ConfigurationError: there is no such tier, or the folder holds no key.
    """
    if tier not in DEMO_USERS:
        raise ConfigurationError(f"there is no tier {tier!r}; there are {', '.join(DEMO_USERS)}")
    file = data / KEY_FILE
    if not file.exists():
        raise ConfigurationError(f"{file} is missing: start a demo there first")
    return sign_token(load_or_create_key(data), BY_ID[DEMO_USERS[tier]], now, base_url)


def sign_token(key: ECKey, user: DemoUser, now: int, base_url: str) -> str:
    """A token for one hour; `now` is in milliseconds."""
    issued = now // _SECOND
    claims = {
        "iss": issuer(base_url),
        "sub": user.id,
        "aud": AUDIENCE,
        "exp": issued + TOKEN_LIFE // _SECOND,
        "iat": issued,
        "email": user.email,
        "phone": "",
        "role": AUDIENCE,
        "aal": "aal1",
        "session_id": str(uuid5(NAMESPACE_DNS, f"{now}.{user.tier}.{_DOMAIN}")),
        "app_metadata": _app_metadata(user),
        # Users write this themselves, so it proves nothing, whatever it says.
        "user_metadata": {"email_verified": True},
        "is_anonymous": user.is_anonymous,
    }
    return jwt.encode({"alg": ALGORITHM, "kid": key.thumbprint()}, claims, key, [ALGORITHM])


def load_or_create_key(data: Path) -> ECKey:
    """The provider's own key, kept in the folder; it is made once, whoever comes first.

    Raises:
        ConfigurationError: the file holds something else.
    """
    file = data / KEY_FILE
    if not file.exists():
        write_once(file, ECKey.generate_key("P-256").as_pem(private=True))
    try:
        return ECKey.import_key(file.read_bytes())
    except (JoseError, ValueError) as error:
        raise ConfigurationError(
            f"{file} is not a key: delete it, and the demo makes a new one"
        ) from error


def _app_metadata(user: DemoUser) -> dict[str, Any]:
    return {} if user.is_anonymous else {"provider": "email", "providers": ["email"]}
